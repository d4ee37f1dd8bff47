//! The programs that the lab uses, and errors that say which package they are in.

use anyhow::{Context, Result, bail, ensure};
use std::io::{ErrorKind, Write as _};
use std::process::{Command, Output, Stdio};

/// A program, and the Debian package that has it.
const PACKAGES: [(&str, &str); 4] =
    [("ip", "iproute2"), ("tc", "iproute2"), ("setsid", "util-linux"), ("unshare", "util-linux")];

/// A command of one of the programs.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    // Messages are read.
    command.env("LC_ALL", "C");
    command
}

/// The error of a program that did not start.
pub fn not_started(program: &str, error: &std::io::Error) -> anyhow::Error {
    let package = PACKAGES.iter().find(|(name, _)| *name == program);
    match (error.kind(), package) {
        (ErrorKind::NotFound, Some((_, package))) => {
            anyhow::anyhow!("the program {program} is missing; install the package {package}")
        }
        _ => anyhow::anyhow!("{program} cannot be started: {error}"),
    }
}

/// Fails if a program is missing.
pub fn check_all() -> Result<()> {
    for (program, _) in PACKAGES {
        // All take it.
        let version = "-V";
        let mut command = command(program);
        let output = command.arg(version).output().map_err(|error| not_started(program, &error))?;
        ensure!(output.status.success(), "{program} {version} failed: {}", said(&output));
    }
    Ok(())
}

/// Runs a batch of commands of `ip` or `tc`.
pub fn batch(program: &str, lines: &str) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut child = command(program)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| not_started(program, &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // It ends early at the first line that fails, and says which.
        let _ = stdin.write_all(lines.as_bytes());
    }
    let output = child.wait_with_output().with_context(|| format!("{program} was lost"))?;
    if !output.status.success() {
        bail!("{}", batch_error(program, lines, &said(&output)));
    }
    Ok(())
}

/// What a program of the lab prints.
pub fn output(program: &str, args: &[&str]) -> Result<String> {
    let mut command = command(program);
    let output = command.args(args).output().map_err(|error| not_started(program, &error))?;
    ensure!(output.status.success(), "{program} {} failed: {}", args.join(" "), said(&output));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Names the line that failed: the programs tell its number alone.
fn batch_error(program: &str, lines: &str, said: &str) -> String {
    let number = said.split("Command failed -:").nth(1);
    let number = number.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    let line = number.and_then(|number| lines.lines().nth(number.checked_sub(1)?));
    match line {
        Some(line) => format!("{program} {line}: {said}"),
        None => format!("{program}: {said}"),
    }
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { output.status.to_string() } else { lines.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_batch_names_its_line() {
        let said = "Cannot find device \"r9\"; Command failed -:2";
        let error = batch_error("ip", "link set lo up\nlink set r9 up\n", said);
        assert!(error.starts_with("ip link set r9 up: Cannot find"), "{error}");
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let error = not_started("tc", &std::io::Error::from(ErrorKind::NotFound));
        assert_eq!(error.to_string(), "the program tc is missing; install the package iproute2");
    }
}
