//! What `FI_SLUICE_STATS` asks for: what an endpoint has done, said when it closes.

use crate::engine::Engine;
use crate::log::{self, About};
use crate::param;
use sluice_runtime::settings::{StatsForm, StatsOutput};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process;

/// Says it, if it is wanted.
pub fn say(engine: &Engine) {
    let Some(output) = &param::get().stats else { return };
    let pid = process::id();
    let text = text(output, engine, pid);
    let Some(path) = output.file_of(pid) else {
        // There is nowhere to report that a report failed.
        let _ = io::stderr().write_all(text.as_bytes());
        return;
    };
    if let Err(error) = write(&path, output.form, &text) {
        let path = path.display();
        log::warn(About::Endpoint, &format!("no statistics are written to {path}: {error}"));
    }
}

fn text(output: &StatsOutput, engine: &Engine, pid: u32) -> String {
    match output.form {
        StatsForm::Text => format!("sluice: pid {pid}: {}\n", engine.summary()),
        StatsForm::Json => format!("{}\n", engine.snapshot().to_json()),
        StatsForm::OpenMetrics => engine.snapshot().to_openmetrics(),
    }
}

/// One write, so lines of several processes do not mix. OpenMetrics text has an end, and a
/// file one of them.
fn write(path: &Path, form: StatsForm, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = match form {
        StatsForm::OpenMetrics => options.write(true).truncate(true),
        StatsForm::Text | StatsForm::Json => options.append(true),
    };
    options.create(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}
