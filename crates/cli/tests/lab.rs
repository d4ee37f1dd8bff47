//! What `sluice lab` says without any lab. Labs themselves need root, and are tried by
//! `tests/run_lab.py`.

use std::process::{Command, Output};

fn sluice(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.arg("lab").args(args).env_remove("SLUICE_LAB").output().expect("the command starts")
}

fn refusal(args: &[&str], code: i32) -> String {
    let output = sluice(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?} printed something all the same");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_lab_that_is_not_there_is_named_with_the_command_that_starts_it() {
    for (args, code) in [
        (&["exec", "--name", "no-such", "h0", "true"][..], 125),
        (&["agent", "--name", "no-such", "-x", "h0", "true"], 125),
        (&["link", "h0", "r0", "down", "--name", "no-such"], 1),
        (&["status", "--name", "no-such"], 1),
    ] {
        let said = refusal(args, code);
        assert!(said.contains("there is no lab no-such"), "{args:?}: {said}");
        assert!(said.contains("sluice lab up --name no-such"), "{args:?}: {said}");
    }
}

#[test]
fn wrong_words_are_refused_before_anything_is_done() {
    let cases: [(&[&str], &str); 7] = [
        (&["up", "--rate", "1g"], "'1g' is not a rate"),
        (&["up", "--hosts", "65"], "65 is not in 1..=64"),
        (&["up", "--name", "a/b"], "'a/b' is not a name"),
        (&["exec", "localhost", "true"], "'localhost' is not a host"),
        (&["link", "h0", "lo", "down"], "'lo' is not a rail"),
        (&["link", "h0", "r0", "loss", "101%"], "'101%' is not a share"),
        (&["exec", "h0"], "<COMMAND>..."),
    ];
    for (args, said) in cases {
        let error = refusal(args, 2);
        assert!(error.contains(said), "{args:?}: {error}");
    }
    let error = refusal(&["up", "--rails", "3", "--rate", "1gbit,2gbit"], 1);
    assert!(error.contains("2 rates for 3 rails"), "{error}");
}

#[test]
fn every_command_has_examples() {
    for command in ["up", "exec", "link", "status", "down", "agent"] {
        let help = sluice(&[command, "--help"]);
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(help.contains(&format!("\n  sluice lab {command}")), "{help}");
    }
}
