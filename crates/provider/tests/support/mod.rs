//! What the tests share: the built provider, compiled C programs, runs of them.

#![allow(dead_code)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The built library, up to date. Cargo does not build a `cdylib` for tests, so
/// this does, in the profile and the directory of the tests.
pub fn artifact() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let dir = test.ancestors().nth(2).expect("a test is in <target>/<profile>/deps");
    let target = dir.parent().expect("a profile is in the target directory");
    let profile = match dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--offline", "--lib", "--profile", profile, "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .env("CARGO_TARGET_DIR", target);
    succeed(&mut cargo);
    dir.join("libsluice_provider.so")
}

/// A directory of this test's own.
pub fn scratch(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&dir).expect("cargo's test directory can be written");
    dir
}

/// A directory that holds the provider under the name that libfabric loads.
pub fn provider_dir(name: &str) -> PathBuf {
    let dir = scratch(name);
    let link = dir.join("libsluice-fi.so");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(artifact(), &link).expect("a link can be made");
    dir
}

/// Compiles `tests/c/<program>.c` and links it with libfabric.
pub fn compile(dir: &Path, program: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(program);
    let binary = dir.join(program);
    let out = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&binary)
        .arg(source.with_extension("c"))
        .args(["-lfabric", "-lpthread"])
        .output()
        .expect("cc runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    binary
}

/// A command with the provider in place and nothing else in the environment
/// that either reads.
pub fn with_provider(program: impl AsRef<std::ffi::OsStr>, dir: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("FI_") {
            command.env_remove(name);
        }
    }
    command.env("FI_PROVIDER_PATH", dir);
    // What is tested does not depend on how fast this machine is.
    command.env("FI_SLUICE_TUNE", "off");
    command
}

/// Runs to the end; what it wrote, if it succeeded.
pub fn succeed(command: &mut Command) -> (String, String) {
    let out: Output = command.output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{command:?}: {}\n{stdout}{stderr}", out.status);
    (stdout, stderr)
}
