//! What users write: the environment and experiment files.

use crate::Input;
use sluice_runtime::Settings;
use std::cell::RefCell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

/// Whatever variables say, settings come of them, or defaults and warnings of a line each. The
/// input has a line for each variable, in the order in which they are asked for. Where a line break is
/// to stand in one, the line has a carriage return.
pub fn settings_read(bytes: &[u8]) {
    let lines = RefCell::new(Input::new(bytes).rest().split(|&byte| byte == b'\n'));
    let settings = Settings::read(|_| {
        let line = lines.borrow_mut().next()?;
        let value = line.iter().map(|byte| if *byte == b'\r' { b'\n' } else { *byte }).collect();
        (!line.is_empty()).then(|| OsString::from_vec(value))
    });
    assert!(!settings.warnings.concat().contains(char::is_control));
}

/// A text is an experiment, or what is wrong with it is said with a line.
pub fn experiment_parse(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(said) = sluice_experiments::check_text(text) {
        assert!(said.starts_with("input:"), "no line is named: {said}");
    }
}
