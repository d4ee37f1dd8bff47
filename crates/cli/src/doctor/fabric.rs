//! libfabric and the provider: whether the one finds the other.

use super::Finding;
use crate::mpi::{launcher, library};
use crate::provider::{self, Provider};
use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

const PROVIDER: &str = "provider";
const LOADING: &str = "loading of the provider";
/// How many letters may be wrong in what was meant to be `sluice`.
const MISSPELT_LETTERS_MAX: usize = 3;

/// All checks.
pub fn check() -> Vec<Finding> {
    let lookup = |name: &str| {
        let value = env::var_os(name)?.to_string_lossy().into_owned();
        (!value.is_empty()).then_some(value)
    };
    let path = lookup("FI_PROVIDER_PATH");
    let mut findings =
        vec![chosen(lookup("FI_PROVIDER").as_deref()), named(path.as_deref(), Path::exists)];
    match provider::find(&provider::directories(path.as_deref())) {
        Ok(provider) => {
            findings.push(found(&provider));
            findings.push(loads(&provider));
        }
        Err(why) => findings.push(Finding::fault(PROVIDER, why.to_string(), why.remedy())),
    }
    findings
}

/// Where the provider is, and which libfabric programs load it with.
fn found(provider: &Provider) -> Finding {
    let file = provider.dir.join(provider::FILE);
    let file = file.display();
    match &provider.libfabric {
        Some(libfabric) => Finding::ok(PROVIDER, format!("{file}, with {}", libfabric.display())),
        None => Finding::warning(
            PROVIDER,
            format!(
                "{file}; {} is not found: only an MPI that brings its own, as those of PyPI do, \
                 loads it",
                library::LIBFABRIC
            ),
            provider::LACKING,
        ),
    }
}

/// What FI_PROVIDER lets libfabric use.
fn chosen(value: Option<&str>) -> Finding {
    const TOPIC: &str = "FI_PROVIDER";
    const REMEDY: &str =
        "unset FI_PROVIDER, or set it to sluice; sluice run sets it for its program";
    let Some(value) = value else {
        return Finding::ok(TOPIC, "not set: libfabric uses all providers");
    };
    let (shut_out, list) = match value.strip_prefix('^') {
        Some(list) => (true, list),
        None => (false, value),
    };
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    let has = names.contains(&provider::NAME);
    if has != shut_out {
        return Finding::ok(TOPIC, value);
    }
    if shut_out {
        return Finding::fault(TOPIC, format!("{value} keeps libfabric from using sluice"), REMEDY);
    }
    let meant = names.iter().find(|name| {
        strsim::osa_distance(&name.to_ascii_lowercase(), provider::NAME) <= MISSPELT_LETTERS_MAX
    });
    let text = match meant {
        Some(name) => format!("{value}: was sluice meant by {name}?"),
        None => format!("{value} keeps libfabric from using sluice"),
    };
    Finding::fault(TOPIC, text, REMEDY)
}

/// Whether FI_PROVIDER_PATH leads to the provider.
fn named(value: Option<&str>, exists: impl Fn(&Path) -> bool) -> Finding {
    const TOPIC: &str = "FI_PROVIDER_PATH";
    let Some(value) = value else {
        return Finding::ok(TOPIC, "not set: sluice run sets it for its program");
    };
    let dirs = provider::named(Some(value));
    if dirs.iter().any(|dir| exists(&dir.join(provider::FILE))) {
        return Finding::ok(TOPIC, value);
    }
    let absent: Vec<String> =
        dirs.iter().filter(|dir| !exists(dir)).map(|dir| dir.display().to_string()).collect();
    let why = if absent.is_empty() {
        format!("{value} has no {}", provider::FILE)
    } else {
        format!("{} is not there", absent.join(", "))
    };
    Finding::fault(
        TOPIC,
        why,
        "set it to the directory of libsluice-fi.so, or unset it and use sluice run",
    )
}

/// Has libfabric's own tool load it.
fn loads(provider: &Provider) -> Finding {
    let Some(tool) = launcher::find(OsStr::new("fi_info")) else {
        let remedy = "install fi_info (Debian: libfabric-bin)";
        return Finding::warning(LOADING, "not tried: fi_info is not installed", remedy);
    };
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(&tool);
        command.args(arguments).env("FI_PROVIDER", provider::NAME);
        command.env("FI_PROVIDER_PATH", &provider.dir).env("FI_LOG_LEVEL", "warn").output()
    };
    let version =
        ask(&["--version"]).map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = version.unwrap_or_default();
    match ask(&["-p", provider::NAME]) {
        Ok(output) => judge(
            &version,
            &String::from_utf8_lossy(&output.stdout),
            &String::from_utf8_lossy(&output.stderr),
        ),
        Err(error) => Finding::warning(
            LOADING,
            format!("fi_info does not start: {error}"),
            "run fi_info by hand",
        ),
    }
}

/// From what `fi_info` said of its version, and of the provider.
fn judge(version: &str, out: &str, errors: &str) -> Finding {
    let said = errors.lines().rev().find(|line| !line.trim().is_empty());
    let said = said.map(|line| format!(": {}", line.trim())).unwrap_or_default();
    let Some(version) = version.lines().find_map(|line| line.strip_prefix("libfabric: ")) else {
        // Intel MPI of PyPI has a script of that name that leads nowhere.
        let remedy = "put the fi_info of libfabric (Debian: libfabric-bin) first in PATH";
        return Finding::warning(LOADING, format!("not tried: fi_info does not run{said}"), remedy);
    };
    let libfabric = format!("libfabric {version}");
    if out.lines().any(|line| line.trim() == "provider: sluice") {
        return Finding::ok(LOADING, format!("{libfabric} loads it"));
    }
    let remedy =
        "FI_LOG_LEVEL=info fi_info -p sluice tells more; libfabric 1.17 or later is wanted";
    Finding::fault(LOADING, format!("{libfabric} does not load it{said}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn a_provider_that_is_misspelt_is_recognised() {
        for (value, state) in [
            (None, State::Ok),
            (Some("sluice"), State::Ok),
            (Some("tcp,sluice"), State::Ok),
            (Some("^tcp"), State::Ok),
            (Some("^sluice"), State::Fault),
            (Some("slucie"), State::Fault),
            (Some("tcp"), State::Fault),
        ] {
            assert_eq!(chosen(value).state, state, "{value:?}");
        }
        assert!(chosen(Some("slucie")).detail.contains("was sluice meant"));
        assert!(!chosen(Some("verbs")).detail.contains("meant"));
    }

    #[test]
    fn a_path_without_the_provider_is_a_fault() {
        assert_eq!(named(None, |_| false).state, State::Ok);
        assert_eq!(named(Some("/a:/b"), |path| path.starts_with("/b")).state, State::Ok);
        let empty = named(Some("/a"), |path| path == Path::new("/a"));
        assert_eq!(
            (empty.state, empty.detail.as_str()),
            (State::Fault, "/a has no libsluice-fi.so")
        );
        assert!(named(Some("/a"), |_| false).detail.contains("/a is not there"));
    }

    #[test]
    fn a_system_without_libfabric_is_for_mpis_that_bring_one() {
        let mut provider = Provider { dir: "/a".into(), libfabric: Some("/b".into()) };
        assert_eq!(found(&provider).detail, "/a/libsluice-fi.so, with /b");
        provider.libfabric = None;
        assert_eq!(found(&provider).state, State::Warning);
    }

    #[test]
    fn what_fi_info_says_is_judged() {
        let version = "fi_info: 1.17.0\nlibfabric: 1.17.0\nlibfabric api: 1.17\n";
        let loaded = judge(version, "provider: sluice\n    fabric: sluice\n", "");
        assert_eq!(
            (loaded.state, loaded.detail.as_str()),
            (State::Ok, "libfabric 1.17.0 loads it")
        );
        let refused = judge(version, "", "fi_getinfo: -61\n\n");
        assert_eq!(refused.state, State::Fault);
        assert!(refused.detail.contains("1.17.0 does not") && refused.detail.contains("-61"));
        let absent = judge("", "", "fi_info: line 34: No such file or directory\n");
        assert_eq!(absent.state, State::Warning);
        assert!(absent.detail.contains("line 34"), "{}", absent.detail);
    }
}
