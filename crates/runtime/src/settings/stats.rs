//! What is said of an endpoint when it closes, and where.

use std::path::{Path, PathBuf};

/// The form of what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsForm {
    /// A line for people.
    Text,
    /// A line of JSON.
    Json,
    /// OpenMetrics text, for who collects metrics.
    OpenMetrics,
}

/// What is said of an endpoint when it closes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsOutput {
    /// In which form.
    pub form: StatsForm,
    /// Into which file; `None`: standard error.
    pub file: Option<PathBuf>,
}

/// What the setting may say, in words.
pub(super) const ALLOWED: &str = "yes, no, text, json, openmetrics, each of the last three with : \
                                  and the path of a file, which has a slash, behind it or not";

impl StatsOutput {
    /// Of a word, or a word and a path: `Some(None)` for no.
    pub(super) fn parse(text: &str) -> Option<Option<StatsOutput>> {
        let (word, path) = match text.split_once(':') {
            Some((word, path)) => (word, Some(path)),
            None => (text, None),
        };
        if path.is_some_and(|path| !path.contains('/')) {
            return None;
        }
        let form = match (word.to_ascii_lowercase().as_str(), path) {
            ("0" | "no" | "off" | "false", None) => return Some(None),
            ("1" | "yes" | "on" | "true", None) | ("text", _) => StatsForm::Text,
            ("json", _) => StatsForm::Json,
            ("openmetrics", _) => StatsForm::OpenMetrics,
            _ => return None,
        };
        Some(Some(StatsOutput { form, file: path.map(PathBuf::from) }))
    }

    /// The file for this process: `%p` in its path is the number of the process. OpenMetrics
    /// text has one end, so there it is appended if it is not named.
    #[must_use]
    pub fn file_of(&self, pid: u32) -> Option<PathBuf> {
        let path = self.file.as_deref().map(Path::to_string_lossy)?;
        let is_alone = self.form == StatsForm::OpenMetrics && !path.contains("%p");
        let end = if is_alone { ".%p" } else { "" };
        Some(PathBuf::from(format!("{path}{end}").replace("%p", &pid.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_files() {
        use StatsForm::{Json, OpenMetrics, Text};
        let to = |form, file: Option<&str>| {
            Some(Some(StatsOutput { form, file: file.map(PathBuf::from) }))
        };
        for (said, read) in [
            ("no", Some(None)),
            ("1", to(Text, None)),
            ("Text", to(Text, None)),
            ("json", to(Json, None)),
            ("JSON:/tmp/a:b", to(Json, Some("/tmp/a:b"))),
            ("openmetrics:./m", to(OpenMetrics, Some("./m"))),
            ("json:", None),
            ("json:stats", None),
            ("yes:/tmp/a", None),
            ("xml", None),
        ] {
            assert_eq!(StatsOutput::parse(said), read, "{said}");
        }
    }

    #[test]
    fn a_file_may_be_of_one_process() {
        for (said, file) in [
            ("json:/tmp/s", "/tmp/s"),
            ("json:/tmp/s.%p", "/tmp/s.7"),
            ("openmetrics:/tmp/s", "/tmp/s.7"),
            ("openmetrics:/tmp/%p/s", "/tmp/7/s"),
        ] {
            let output = StatsOutput::parse(said).flatten().expect("it is allowed");
            assert_eq!(output.file_of(7), Some(PathBuf::from(file)), "{said}");
        }
    }
}
