//! Parsers of short texts and messages, which share a target: the first byte says which of them gets
//! the rest. What has a writer is written anew, and is what it was.

use sluice_flit::traffic::Trace;
use std::cell::RefCell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

// They are the `sluice` command's, which is no library.
#[allow(dead_code)]
#[path = "../../cli/src/top/document.rs"]
mod document;
#[allow(dead_code)]
#[path = "../../cli/src/trace/file.rs"]
mod trace_file;

const PARSERS: [fn(&[u8]); 10] =
    [book, records, figures, messages, trace, shown, hello, manager, job, portals_settings];

/// See the module.
pub fn small_parsers(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else { return };
    PARSERS[usize::from(*which) % PARSERS.len()](rest);
}

/// What the processes of a Portals job tell each other.
fn book(bytes: &[u8]) {
    if let Some(again) = portals::fuzzing::told_again(bytes) {
        assert_eq!(again, bytes);
    }
}

/// What comes beside a lane over libfabric.
fn records(bytes: &[u8]) {
    assert!(bytes.starts_with(&sluice_rail::fuzzing::records_again(bytes)));
}

/// The file of transfer costs.
fn figures(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(again) = sluice_rail::fuzzing::figures_again(text) {
        assert_eq!(again, text.replace("\r\n", "\n"));
    }
}

/// The messages of a simulated network of so many nodes as the first byte says.
fn messages(bytes: &[u8]) {
    let Some((nodes, text)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match Trace::parse(text, u32::from(*nodes)) {
        Ok(trace) => {
            assert_eq!(trace.nodes(), u32::from(*nodes));
            assert_eq!(trace.total_flits() > 0, trace.last_cycle().is_some());
        }
        Err(error) => assert!(error.line >= 1 && error.line <= text.lines().count(), "{error}"),
    }
}

/// The file of a trace that a process leaves.
fn trace(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(traced) = trace_file::Traced::parse(text) {
        assert!(traced.events.len() < text.lines().count());
        assert!(traced.name.chars().all(|one| one.is_ascii() && !one.is_control()));
    }
}

/// What a process shows to `sluice top`.
fn shown(bytes: &[u8]) {
    if let Ok((document, _)) = document::Document::parse(bytes, 7) {
        assert_eq!(document.pid, 7);
        let names = document.peers.iter().flat_map(|peer| peer.peer.chars());
        assert!(names.into_iter().all(|one| !one.is_control()));
        let _ = (document.sent(), document.packets(), document.stalls(), document.waiting());
    }
}

/// The first words of a rank, and the answer to them.
fn hello(bytes: &[u8]) {
    const KEY: &[u8] = b"open sesame";
    let ours = [b"SluiceJ2", bytes].concat();
    for body in [bytes, &ours] {
        assert_eq!(sluice_boot::fuzzing::hear(KEY, body), None, "nobody guesses the secret");
    }
    assert!(!sluice_boot::fuzzing::takes_answer(KEY, bytes), "nobody guesses the secret");
}

/// A process manager that speaks PMI-1: an error, or what the other rank gave.
fn manager(bytes: &[u8]) {
    // The rest is reached behind a good beginning.
    const GOOD: [&str; 6] = [
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
        "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
        "cmd=my_kvsname kvsname=kvs\n",
        "cmd=put_result rc=0 msg=success\n",
        "cmd=barrier_out\n",
        "cmd=get_result rc=0 value=",
    ];
    let Some((depth, rest)) = bytes.split_first() else { return };
    let begin = GOOD[..usize::from(*depth) % (GOOD.len() + 1)].concat();
    let said = [begin.as_bytes(), rest].concat();
    if let Ok(theirs) = sluice_boot::fuzzing::exchange(&said, b"mine") {
        assert!(theirs.len() <= said.len());
    }
}

/// The environment by which a process joins a job.
fn job(bytes: &[u8]) {
    if let Err(error) = sluice_boot::fuzzing::plan(&lookup(bytes)) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

/// The environment of a Portals program.
fn portals_settings(bytes: &[u8]) {
    for line in portals::fuzzing::settings(lookup(bytes)) {
        assert!(line.contains("PTL_") && !line.chars().any(char::is_control), "{line:?}");
    }
}

/// An environment: a line for each variable, in the order in which they are asked for first. An
/// empty one is not set.
fn lookup(bytes: &[u8]) -> impl Fn(&str) -> Option<OsString> {
    let lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let asked = RefCell::new(Vec::<String>::new());
    move |name| {
        let mut asked = asked.borrow_mut();
        let known = asked.iter().position(|one| one == name);
        let at = known.unwrap_or_else(|| {
            asked.push(name.to_owned());
            asked.len() - 1
        });
        lines.get(at).filter(|line| !line.is_empty()).cloned().map(OsString::from_vec)
    }
}
