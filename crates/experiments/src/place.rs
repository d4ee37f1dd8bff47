//! Where things stand in a TOML text, so that an error can name its line.
//!
//! A value is found by its path of keys and indices. If only a part of the path
//! exists, that part is found.

use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A text and the name that errors call it by.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file, as the user named it.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// One step into a TOML document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the value of a key of a table.
    Key(String),
    /// To an element of an array.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Step {
        Step::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Step {
        Step::Index(index)
    }
}

/// What is wrong with a file, and on which line.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {text}")]
pub struct Fault {
    place: String,
    text: String,
}

impl Source {
    /// A fault at a byte of the text.
    pub fn fault_at(&self, offset: usize, text: impl fmt::Display) -> Fault {
        let line = self.line_at(offset);
        Fault { place: format!("{}:{line}", self.name), text: text.to_string() }
    }

    /// A fault in the value at a path.
    pub fn fault(&self, path: &[Step], text: impl fmt::Display) -> Fault {
        self.fault_at(self.find(path).0, text)
    }

    /// Whether the whole path is there.
    pub fn has(&self, path: &[Step]) -> bool {
        self.find(path).1 == path.len()
    }

    /// The byte where the deepest part of a path begins that is there, and how
    /// many steps deep that is.
    fn find(&self, path: &[Step]) -> (usize, usize) {
        let Ok(document) = DeTable::parse(&self.text) else { return (0, 0) };
        let mut place = Place::Table(document.get_ref());
        let mut offset = 0;
        for (depth, step) in path.iter().enumerate() {
            let next = match (step, &place) {
                (Step::Key(key), Place::Table(table)) => {
                    table.iter().find(|(name, _)| name.get_ref().as_ref() == key).map(
                        |(name, value)| {
                            // An array of tables begins at its first head.
                            (name.span().start, value)
                        },
                    )
                }
                (Step::Index(index), Place::Value(value)) => value
                    .as_array()
                    .and_then(|array| array.get(*index))
                    .map(|value| (value.span().start, value)),
                _ => None,
            };
            let Some((start, value)) = next else { return (offset, depth) };
            offset = start;
            place = Place::of(value);
        }
        (offset, path.len())
    }

    /// The line of a byte, the first line being 1.
    fn line_at(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
    }
}

enum Place<'a> {
    Table(&'a DeTable<'a>),
    Value(&'a DeValue<'a>),
}

impl<'a> Place<'a> {
    fn of(value: &'a Spanned<DeValue<'a>>) -> Place<'a> {
        match value.get_ref() {
            DeValue::Table(table) => Place::Table(table),
            other => Place::Value(other),
        }
    }
}

/// The name that was most likely meant, if one is near.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR: f64 = 0.5;
    known
        .into_iter()
        .map(|name| (strsim::normalized_damerau_levenshtein(wrong, name), name))
        .filter(|&(likeness, _)| likeness >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// `; did you mean "x"?`, or all there is to choose from.
pub fn advice(wrong: &str, known: &[&str]) -> String {
    match nearest(wrong, known.iter().copied()) {
        Some(name) => format!("; did you mean \"{name}\"?"),
        None if known.is_empty() => String::new(),
        None => format!("; known are {}", listed(known)),
    }
}

/// `a, b and c`, each in quotes.
pub fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.join(""),
    }
}

/// A message of serde about a value, in the terms of a TOML file, and the path of the
/// value at fault.
pub fn explain(message: &str, path: &[Step]) -> (String, Vec<Step>) {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let within = |path: &[Step]| match dotted(path) {
        section if section.is_empty() => String::new(),
        section => format!(" in [{section}]"),
    };
    match names.split_first() {
        Some((&wrong, known)) if message.starts_with("unknown field") => {
            // The path ends at the key or at its table, as the type is read.
            let key = Step::from(wrong);
            let table = path.strip_suffix(std::slice::from_ref(&key)).unwrap_or(path);
            let text = format!("unknown key \"{wrong}\"{}{}", within(table), advice(wrong, known));
            (text, [table, &[key]].concat())
        }
        Some((&wrong, known)) if message.starts_with("unknown variant") => {
            let of = match path.split_last() {
                Some((Step::Key(key), table)) => format!(" of \"{key}\"{}", within(table)),
                _ => within(path),
            };
            (format!("unknown value \"{wrong}\"{of}{}", advice(wrong, known)), path.to_vec())
        }
        Some((&missing, _)) if message.starts_with("missing field") => {
            (format!("the key \"{missing}\" is missing{}", within(path)), path.to_vec())
        }
        _ => match path.split_last() {
            Some((Step::Key(key), table)) => {
                (format!("\"{key}\"{}: {message}", within(table)), path.to_vec())
            }
            _ => (format!("{message}{}", within(path)), path.to_vec()),
        },
    }
}

/// A path as TOML writes a table's head.
fn dotted(path: &[Step]) -> String {
    let keys: Vec<&str> = path
        .iter()
        .filter_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        })
        .collect();
    keys.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        Source {
            name: "x.toml".into(),
            text: "a = 1\n[b.c]\nd = 2\n[[e]]\nf = 3\n[[e]]\nf = { g = [4,\n 5] }\n".into(),
        }
    }

    #[test]
    fn a_path_has_a_line() {
        let rows: [(&[Step], usize); 6] = [
            (&["a".into()], 1),
            (&["b".into(), "c".into(), "d".into()], 3),
            (&["e".into(), 0.into(), "f".into()], 5),
            (&["e".into(), 1.into(), "f".into(), "g".into(), 1.into()], 8),
            // Only a part of each path exists.
            (&["b".into(), "c".into(), "x".into()], 2),
            (&["x".into()], 1),
        ];
        for (path, line) in rows {
            assert_eq!(
                source().fault(path, "no").to_string(),
                format!("x.toml:{line}: no"),
                "{path:?}"
            );
        }
    }

    #[test]
    fn the_nearest_name_is_near() {
        assert_eq!(nearest("buffer_flit", ["buffer_flits", "vcs"]), Some("buffer_flits"));
        assert_eq!(nearest("colour", ["buffer_flits", "vcs"]), None);
        assert_eq!(advice("colour", &["a", "b"]), "; known are \"a\" and \"b\"");
    }

    #[test]
    fn serde_is_explained() {
        let message = "unknown field `vc`, expected one of `vcs`, `speedup`";
        let path: [Step; 3] = ["base".into(), "router".into(), "vc".into()];
        let (text, at) = explain(message, &path);
        assert_eq!(text, "unknown key \"vc\" in [base.router]; did you mean \"vcs\"?");
        assert_eq!((at, explain(message, &path[..2]).1), (path.to_vec(), path.to_vec()));
        let (text, _) = explain("missing field `p`", &path[..2]);
        assert_eq!(text, "the key \"p\" is missing in [base.router]");
        let (text, _) = explain("it is wrong", &path);
        assert_eq!(text, "\"vc\" in [base.router]: it is wrong");
    }
}
