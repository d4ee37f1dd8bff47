//! What the library exports, imports and needs.

mod support;

use std::process::Command;

fn run(program: &str, option: &str) -> String {
    let out = Command::new(program).arg(option).arg(support::artifact()).output();
    let out = out.expect("binutils are installed");
    assert!(out.status.success());
    String::from_utf8(out.stdout).expect("text")
}

#[test]
fn only_the_entry_is_exported() {
    let defined: Vec<String> = run("objdump", "-T")
        .lines()
        .filter(|line| line.contains(" g ") || line.contains(" w "))
        .filter(|line| !line.contains("*UND*"))
        .filter_map(|line| line.split_whitespace().last().map(str::to_owned))
        .collect();
    assert_eq!(defined, ["fi_prov_ini"]);
}

#[test]
fn imports_are_of_the_oldest_version() {
    let allowed = ["fi_log", "fi_log_enabled", "fi_param_define", "fi_param_get", "fi_strerror"];
    let mut count = 0;
    for line in run("objdump", "-T").lines() {
        let Some(name) = line.split_whitespace().last() else { continue };
        if line.contains("*UND*") && name.starts_with("fi_") {
            assert!(line.contains("FABRIC_1.0"), "{line}");
            assert!(allowed.contains(&name), "{line}");
            count += 1;
        }
    }
    assert_eq!(count, allowed.len());
}

#[test]
fn libfabric_is_needed() {
    let needed = run("objdump", "-p");
    assert!(
        needed.lines().any(|line| line.contains("NEEDED") && line.contains("libfabric.so.1")),
        "{needed}"
    );
}

#[test]
fn the_link_is_beside_the_library() {
    let link = support::artifact().with_file_name("libsluice-fi.so");
    let to = std::fs::read_link(link).expect("the build script made it");
    assert_eq!(to.to_str(), Some("libsluice_provider.so"));
}
