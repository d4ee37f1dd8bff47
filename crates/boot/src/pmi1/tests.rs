//! PMI-1 against managers that are played by threads.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use super::*;
use crate::fuzzing;
use proptest::prelude::*;

const LONG: Waits = Waits { timeout: Duration::from_secs(60), poll: None };

/// What the ranks of one played job share.
struct Manager {
    values: Mutex<HashMap<String, String>>,
    barrier: Barrier,
    value_max: usize,
}

impl Manager {
    fn of(size: usize, value_max: usize) -> Arc<Manager> {
        Arc::new(Manager { values: Mutex::default(), barrier: Barrier::new(size), value_max })
    }

    fn answer(&self, line: &str) -> String {
        let words: HashMap<&str, &str> =
            line.split(' ').map(|word| word.split_once('=').expect("key=value")).collect();
        match words["cmd"] {
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into(),
            "get_maxes" => {
                format!("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max={}", self.value_max)
            }
            "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_1_0".into(),
            "put" => {
                assert_eq!(words["kvsname"], "kvs_1_0");
                assert!(words["value"].len() < self.value_max && line.len() <= LINE_MAX);
                let before =
                    self.values.lock().unwrap().insert(words["key"].into(), words["value"].into());
                assert_eq!(before, None, "the key {} is used twice", words["key"]);
                "cmd=put_result rc=0 msg=success".into()
            }
            "barrier_in" => {
                self.barrier.wait();
                "cmd=barrier_out".into()
            }
            "get" => match self.values.lock().unwrap().get(words["key"]) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".into(),
            },
            "finalize" => "cmd=finalize_ack".into(),
            other => panic!("no such command: {other}"),
        }
    }

    /// Serves one rank until it hangs up; `byte_by_byte` gives the reader every chance to see
    /// half a line.
    fn serve(&self, mut socket: UnixStream, byte_by_byte: bool) -> Vec<String> {
        let mut seen = Vec::new();
        for line in BufReader::new(socket.try_clone().unwrap()).lines() {
            let line = line.unwrap();
            let answer = self.answer(&line) + "\n";
            for piece in answer.as_bytes().chunks(if byte_by_byte { 1 } else { 4096 }) {
                socket.write_all(piece).unwrap();
                thread::yield_now();
            }
            seen.push(line);
        }
        seen
    }
}

fn bytes_of(rank: u32, round: u32) -> Vec<u8> {
    let len = [0, 1, 700, 5000][((rank + round) % 4) as usize];
    (0..len).map(|i| (i * 7 + rank + round) as u8).collect()
}

fn whole_job(size: u32, value_max: usize, byte_by_byte: bool) {
    let manager = Manager::of(size as usize, value_max);
    thread::scope(|scope| {
        for rank in 0..size {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let manager = &manager;
            scope.spawn(move || manager.serve(theirs, byte_by_byte));
            scope.spawn(move || {
                let mut pmi = Pmi1::greet(ours.into(), rank, size, LONG).unwrap();
                for round in 0..3 {
                    let all = pmi.exchange(&bytes_of(rank, round)).unwrap();
                    let expected: Vec<_> = (0..size).map(|rank| bytes_of(rank, round)).collect();
                    assert_eq!(all, expected);
                    pmi.barrier().unwrap();
                }
                pmi.finish().unwrap();
            });
        }
    });
}

#[test]
fn ranks_exchange_values_of_different_lengths() {
    whole_job(1, 1024, false);
    whole_job(4, 1024, false);
}

#[test]
fn answers_that_come_byte_by_byte_are_whole_answers() {
    whole_job(2, 1024, true);
}

#[test]
fn long_values_are_split_to_the_managers_limit() {
    whole_job(3, 40, false);
    // Beyond what a line takes, the line is the limit.
    whole_job(2, 65_536, false);
}

/// Answers each command with the next of `script`, then keeps the socket open until the rank is
/// done, or closes it at once.
fn scripted(script: &[&str], stay: bool, waits: Waits) -> JobError {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        let manager = scope.spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            for answer in script {
                lines.next().expect("a command").unwrap();
                theirs.write_all(answer.as_bytes()).unwrap();
            }
            if stay {
                lines.by_ref().for_each(drop);
            }
        });
        let error = Pmi1::greet(ours.into(), 1, 2, waits)
            .and_then(|mut pmi| pmi.exchange(b"mine"))
            .expect_err("a failure");
        manager.join().unwrap();
        error
    })
}

const INIT: &str = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
const MAXES: &str = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
const NAME: &str = "cmd=my_kvsname kvsname=kvs\n";
const PUT: &str = "cmd=put_result rc=0 msg=success\n";
const OUT: &str = "cmd=barrier_out\n";

#[test]
fn malformed_answers_are_errors_that_show_them() {
    let long = format!("{}\n", "x".repeat(ANSWER_MAX + 5000));
    for script in [
        vec!["\n"],
        vec!["hello\n"],
        vec!["\u{0}\u{1}\n"],
        vec!["cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n"],
        vec!["cmd=response_to_init rc=0\n"],
        vec![&long],
        vec![INIT, "cmd=maxes kvsname_max=256 keylen_max=64\n"],
        vec![INIT, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=-1\n"],
        vec![INIT, MAXES, "cmd=my_kvsname kvsname=\n"],
        vec![INIT, MAXES, NAME, "cmd=barrier_out\n"],
        vec![INIT, MAXES, NAME, PUT, OUT, "cmd=get_result rc=0\n"],
        vec![INIT, MAXES, NAME, PUT, OUT, "cmd=get_result rc=0 value=00\n"],
        vec![INIT, MAXES, NAME, PUT, OUT, "cmd=get_result rc=0 value=x.00\n"],
        vec![INIT, MAXES, NAME, PUT, OUT, "cmd=get_result rc=0 value=1.0\n"],
        vec![INIT, MAXES, NAME, PUT, OUT, "cmd=get_result rc=0 value=1.0g\n"],
        vec![INIT, MAXES, NAME, PUT, OUT, "cmd=get_result rc=0 value=1.\n"],
        vec![INIT, MAXES, NAME, PUT, OUT, "cmd=get_result rc=0 value=1.0000\n"],
        vec![INIT, MAXES, NAME, PUT, OUT, "cmd=get_result rc=0 value=99999999.00\n"],
    ] {
        let error = scripted(&script, true, LONG);
        assert!(matches!(error, JobError::Malformed { .. }), "{script:?}: {error}");
    }
}

#[test]
fn a_refusal_is_told_with_its_reason() {
    let none = "cmd=get_result rc=-1 msg=key_not_found value=unknown\n";
    let text = scripted(&[INIT, MAXES, NAME, PUT, OUT, none], true, LONG).to_string();
    assert!(text.contains("refused get") && text.contains("key_not_found"), "{text}");
    let small = "cmd=maxes kvsname_max=256 keylen_max=16 vallen_max=1024\n";
    let text = scripted(&[INIT, small, NAME], true, LONG).to_string();
    assert!(text.contains("its limits are 16 and 1024"), "{text}");
}

#[test]
fn a_manager_that_hangs_up_midway_is_an_error() {
    for script in [vec![], vec![INIT], vec![INIT, MAXES, NAME, PUT], vec!["cmd=response_to_i"]] {
        let error = scripted(&script, false, LONG);
        assert!(matches!(error, JobError::Closed { .. }), "{script:?}: {error}");
    }
}

#[test]
fn a_manager_that_falls_silent_does_not_hold_us_for_ever() {
    let error = scripted(
        &[INIT, MAXES, NAME, PUT],
        true,
        Waits { timeout: Duration::from_millis(100), ..LONG },
    );
    let text = error.to_string();
    assert!(matches!(error, JobError::Late { .. }), "{text}");
    assert!(text.contains("barrier_in") && text.contains("a rank that it waits for"), "{text}");
}

#[test]
fn the_inherited_socket_is_taken_once_and_not_inherited_further() {
    use std::os::fd::AsRawFd;
    let manager = Manager::of(1, 1024);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let number = ours.as_raw_fd();
    thread::scope(|scope| {
        scope.spawn(|| manager.serve(theirs, false));
        rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::empty()).unwrap();
        let mut pmi = Pmi1::take(number, 0, 1, LONG).unwrap();
        for fd in [ours.as_fd(), pmi.socket.as_fd()] {
            let flags = rustix::io::fcntl_getfd(fd).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
        assert!(matches!(Pmi1::take(number, 0, 1, LONG), Err(JobError::AlreadyTaken)));
        pmi.finish().unwrap();
    });
    let error = copy_of(1 << 30).expect_err("no such descriptor");
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
}

/// What a manager might say in one line: what it should, or what looks like it.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let get = prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| {
        format!("cmd=get_result rc=0 value={}.{}\n", bytes.len(), to_hex(&bytes)).into_bytes()
    });
    let right = prop::sample::select(vec![INIT, MAXES, NAME, PUT, OUT, "cmd=finalize_ack\n"]);
    prop_oneof![
        right.prop_map(|line| line.as_bytes().to_vec()),
        get,
        "cmd=[a-z_]{0,12}( [a-z_]{1,8}=[0-9a-f.]{0,12}){0,3}\n".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..60),
    ]
}

proptest! {
    #[test]
    fn digits_are_the_bytes_that_they_were_made_of(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
    }

    #[test]
    fn digits_are_read_or_refused(text in ".{0,20}") {
        if let Some(bytes) = from_hex(&text) {
            prop_assert_eq!(to_hex(&bytes), text.to_ascii_lowercase());
        }
    }

    /// Whatever a manager's limit, and whatever is exchanged.
    #[test]
    fn what_is_put_in_parts_is_fetched(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        value_max in VALUE_MIN..200,
    ) {
        let parts = parts(&bytes, value_max);
        prop_assert!(parts.iter().all(|part| part.len() <= value_max));
        let values = parts.iter().map(|part| format!("cmd=get_result value={part}\n"));
        let answers: Vec<String> =
            [INIT, MAXES, NAME, PUT, OUT].map(String::from).into_iter().chain(values).collect();
        let answers = answers.concat() + OUT + "cmd=finalize_ack\n";
        prop_assert_eq!(fuzzing::exchange(answers.as_bytes(), b"mine").unwrap(), bytes);
    }

    /// It hangs up afterwards, so the last word is an error that names what it was about.
    #[test]
    fn a_manager_that_says_anything_is_an_error(
        depth in 0..6_usize,
        lines in prop::collection::vec(line(), 0..8),
    ) {
        let right = [INIT, MAXES, NAME, PUT, OUT].map(str::as_bytes);
        let begin = right[..depth.min(right.len())].concat();
        let said = [begin, lines.concat()].concat();
        match fuzzing::exchange(&said, b"mine") {
            Ok(bytes) => prop_assert!(bytes.len() <= said.len() / 2),
            Err(JobError::Closed { .. } | JobError::Malformed { .. } | JobError::Refused { .. }) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
