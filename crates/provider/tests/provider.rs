//! The provider behind the real libfabric: C programs, as users write them, and
//! libfabric's own tools.

mod support;

use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use support::{compile, provider_dir, succeed, with_provider};

/// How long anything may take. Far more than needed.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn getinfo() {
    let dir = provider_dir("getinfo");
    let (out, _) = succeed(&mut with_provider(compile(&dir, "getinfo"), &dir));
    assert!(out.contains("all as it should be"));
    for progress in ["poll", "thread", "auto"] {
        let mut getinfo = with_provider(dir.join("getinfo"), &dir);
        succeed(getinfo.env("FI_SLUICE_PROGRESS", progress));
    }
}

#[test]
fn messages() {
    let dir = provider_dir("messages");
    let program = compile(&dir, "messages");
    succeed(&mut with_provider(&program, &dir));
    // The same through the mailbox alone, and from files.
    succeed(with_provider(&program, &dir).env("FI_SLUICE_BULK", "ring"));
    succeed(with_provider(&program, &dir).env("FI_SLUICE_SEGMENT", "file"));
    succeed(with_provider(&program, &dir).env("FI_SLUICE_EAGER_SIZE", "256"));
    // And with a thread that may be faster than the program.
    succeed(with_provider(&program, &dir).env("FI_SLUICE_PROGRESS", "thread"));
    let mut ring = with_provider(&program, &dir);
    succeed(ring.env("FI_SLUICE_PROGRESS", "thread").env("FI_SLUICE_BULK", "ring"));
}

/// Compiles a program and runs it over every way that bytes go.
fn succeed_in_every_way(name: &str) {
    let dir = provider_dir(name);
    let program = compile(&dir, name);
    for (name, value) in [
        ("FI_SLUICE_BULK", "auto"),
        ("FI_SLUICE_BULK", "ring"),
        ("FI_SLUICE_RAILS", "tcp"),
        ("FI_SLUICE_PROGRESS", "thread"),
    ] {
        succeed(with_provider(&program, &dir).env(name, value));
    }
}

#[test]
fn messages_in_pieces() {
    succeed_in_every_way("pieces");
}

#[test]
fn remote_memory() {
    succeed_in_every_way("remote");
}

#[test]
fn each_data_call() {
    let dir = provider_dir("calls");
    let program = compile(&dir, "calls");
    succeed(&mut with_provider(&program, &dir));
    succeed(with_provider(&program, &dir).env("FI_SLUICE_PROGRESS", "thread"));
}

#[test]
fn counters_count_what_no_queue_is_told_of() {
    let dir = provider_dir("counted");
    succeed(&mut with_provider(compile(&dir, "counted"), &dir));
}

#[test]
fn what_is_complete_over_tcp_has_gone_to_the_kernel() {
    let dir = provider_dir("sent");
    let mut sent = with_provider(compile(&dir, "sent"), &dir);
    succeed(sent.env("FI_SLUICE_RAILS", "tcp").env("FI_SLUICE_DEVICES", "lo"));
}

#[test]
fn a_program_waits_by_descriptors() {
    let dir = provider_dir("waiting");
    let program = compile(&dir, "waiting");
    succeed(&mut with_provider(&program, &dir));
    succeed(with_provider(&program, &dir).env("FI_SLUICE_RAILS", "tcp"));
    let mut poll = with_provider(&program, &dir);
    succeed(poll.arg("without").env("FI_SLUICE_PROGRESS", "poll"));
}

#[test]
fn what_is_not_there_says_so() {
    let dir = provider_dir("codes");
    succeed(&mut with_provider(compile(&dir, "codes"), &dir));
}

/// All that the manual allows is taken.
#[test]
fn the_longest_eager_messages() {
    let dir = provider_dir("longest_eager");
    let mut messages = with_provider(compile(&dir, "messages"), &dir);
    let (_, log) = succeed(messages.env("FI_SLUICE_EAGER_SIZE", "8192"));
    assert!(!log.contains("is ignored"), "{log}");
}

#[test]
fn protocols_are_chosen_by_what_moves_cost_here_unless_lengths_are_set() {
    let dir = provider_dir("tune");
    let figures = dir.join("figures");
    // Of a machine where a call is dear and packets are quick.
    let stated = "sluice-tune 4\nmachine one that is stated\npacket_ns 80\npacket_byte_ps 150\n\
                  read_start_ns_byte_ps 5000 75\nwrite_start_ns_byte_ps 5000 75\n\
                  claim_ns 60\nend\n";
    std::fs::write(&figures, stated).expect("written");
    let mut messages = with_provider(compile(&dir, "messages"), &dir);
    messages
        .env("FI_SLUICE_TUNE", &figures)
        .env("FI_SLUICE_SHARE_SIZE", "100000")
        .env("FI_LOG_LEVEL", "info")
        .env("FI_LOG_PROV", "sluice");
    let (_, log) = succeed(&mut messages);
    for said in [
        "eager_bytes_max is 49152 (calibrated)",
        "announce_bytes_min is 32768 (calibrated)",
        "share_bytes_min is 100000 (environment)",
    ] {
        assert!(log.contains(said), "{said}\n{log}");
    }
    // Measured where there are none.
    std::fs::remove_file(&figures).expect("it was there");
    succeed(&mut messages);
    assert!(figures.is_file());
    // Damaged: a warning, once in a process.
    std::fs::write(&figures, &stated[..50]).expect("written");
    let (_, log) = succeed(messages.env_remove("FI_LOG_LEVEL"));
    assert_eq!(log.matches("figures is not used: it is damaged").count(), 1, "{log}");
}

#[test]
fn threads() {
    let dir = provider_dir("threads");
    let program = compile(&dir, "threads");
    succeed(&mut with_provider(&program, &dir));
    succeed(with_provider(&program, &dir).env("FI_SLUICE_PROGRESS", "thread"));
}

/// A scene of `tests/c/progress.c`, with this in the environment; its log.
fn progress(scene: &str, env: &[(&str, &str)]) -> String {
    static PROGRAM: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    let (dir, program) = PROGRAM.get_or_init(|| {
        let dir = provider_dir("progress");
        let program = compile(&dir, "progress");
        (dir, program)
    });
    let mut run = with_provider(program, dir);
    succeed(run.arg(scene).envs(env.iter().copied())).1
}

#[test]
fn progress_without_a_call_of_the_receiver() {
    progress("away", &[]);
    progress("away", &[("FI_SLUICE_BULK", "ring")]);
}

#[test]
fn progress_of_an_idle_thread_costs_nothing() {
    progress("idle", &[]);
}

#[test]
fn progress_by_a_thread_keeps_back_from_a_program_that_polls() {
    progress("attentive", &[]);
}

#[test]
fn progress_by_a_thread_wakes_who_waits() {
    progress("sread", &[]);
}

#[test]
fn progress_by_a_thread_ends_with_its_endpoint() {
    progress("closing", &[]);
    progress("closing", &[("FI_SLUICE_BULK", "ring")]);
    progress("ending", &[]);
}

#[test]
fn progress_of_one_sided_operations_by_a_thread_that_begins_with_their_use() {
    progress("one-sided", &[]);
    progress("one-sided", &[("FI_SLUICE_RAILS", "tcp")]);
}

#[test]
fn progress_by_a_thread_is_not_for_a_fork() {
    progress("forked", &[]);
}

#[test]
fn progress_by_a_thread_on_a_core_of_its_own_or_not() {
    let loud = [("FI_LOG_LEVEL", "info"), ("FI_LOG_PROV", "sluice")];
    let log = progress("one-core", &loud);
    let refused = "not bound to a core: the process may use one core only";
    assert_eq!(log.matches(refused).count(), 1, "{log}");
    let log = progress("cores", &loud);
    let told = ["the progress thread runs on core ", "the progress thread is not bound to a core"];
    let count: usize = told.iter().map(|told| log.matches(told).count()).sum();
    assert_eq!(count, 1, "{log}");
}

/// A loop around a call that never blocks must not keep a core from the process
/// that it waits for.
#[test]
fn whoever_asks_in_vain_again_and_again_gives_the_core_away() {
    let dir = provider_dir("spin");
    let mut spin = with_provider(compile(&dir, "spin"), &dir);
    // So few that sends are refused soon.
    succeed(spin.env("FI_SLUICE_INJECT_BYTES", "100000"));
}

#[test]
fn processes_find_each_other_in_the_directory_that_is_set() {
    let dir = provider_dir("shm_dir");
    let (two, one) = (compile(&dir, "death"), compile(&dir, "messages"));
    let run = |program: &PathBuf, shm_dir: &str| {
        let mut command = with_provider(program, &dir);
        command.env("FI_SLUICE_SHM_DIR", dir.join(shm_dir));
        command
    };
    // Who opens an endpoint there removes what an ended process has left.
    let uid = std::fs::metadata(&dir).expect("it is there").uid();
    let user_dir = dir.join(format!("here/sluice-{uid}"));
    let _ = std::fs::remove_dir_all(&user_dir);
    std::fs::create_dir_all(dir.join("here")).expect("made");
    std::fs::DirBuilder::new().mode(0o700).create(&user_dir).expect("made");
    let left = user_dir.join("1-1-0000000000000000.seg");
    std::fs::write(&left, "").expect("written");
    succeed(&mut run(&two, "here"));
    assert!(!left.exists());

    let failed = run(&one, "missing").output().expect("it runs");
    let log = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(!failed.status.success(), "{log}");
    for part in ["endpoint not opened: cannot use ", "missing/sluice-", "FI_SLUICE_SHM_DIR"] {
        assert!(log.contains(part), "{part} in {log}");
    }
    let (_, log) = succeed(run(&one, "here").env("FI_SLUICE_SHM_DIR", "here"));
    assert!(log.contains("FI_SLUICE_SHM_DIR=here is ignored"), "{log}");
}

#[test]
fn a_peer_that_dies_is_named() {
    let dir = provider_dir("death");
    let program = compile(&dir, "death");
    for progress in ["poll", "thread"] {
        let mut run = with_provider(&program, &dir);
        let (out, _) = succeed(run.env("FI_SLUICE_PROGRESS", progress));
        assert!(out.contains("has ended"), "{out}");
    }
}

#[test]
fn who_closes_waits_for_what_was_injected_to_be_received() {
    let dir = provider_dir("closing");
    let program = compile(&dir, "closing");
    for rails in ["shm", "tcp"] {
        for progress in ["poll", "thread"] {
            let mut run = with_provider(&program, &dir);
            run.env("FI_SLUICE_RAILS", rails).env("FI_SLUICE_PROGRESS", progress);
            succeed(run.arg("all"));
        }
        let mut run = with_provider(&program, &dir);
        run.env("FI_SLUICE_RAILS", rails).env("FI_SLUICE_LINGER", "0");
        let (_, log) = succeed(run.arg("vain"));
        assert!(log.contains("an endpoint closes without having delivered"), "{log}");
    }
}

#[test]
fn the_first_misfit_is_logged() {
    let dir = provider_dir("misfit");
    let mut getinfo = with_provider(compile(&dir, "getinfo"), &dir);
    let (_, log) = succeed(getinfo.env("FI_LOG_LEVEL", "info").env("FI_LOG_PROV", "sluice"));
    for misfit in
        ["ep_attr.type is not FI_EP_RDM", "caps: bits 0x800000000000", "tx_attr.iov_limit is 9"]
    {
        assert!(log.contains(&format!("no match: {misfit}")), "{misfit}\n{log}");
    }
}

#[test]
fn unknown_and_bad_variables_are_warned_of_once() {
    let dir = provider_dir("variables");
    let mut getinfo = with_provider(compile(&dir, "getinfo"), &dir);
    getinfo
        .env("FI_SLUICE_EAGER_SIZ", "1")
        .env("FI_SLUICE_BULK", "quick")
        .env("FI_SLUICE_PROGRESS", "manual")
        .env("FI_SLUICE_PEERS_MAX", "many");
    let (_, log) = succeed(&mut getinfo);
    assert_eq!(log.matches("FI_SLUICE_EAGER_SIZ is not a variable").count(), 1, "{log}");
    assert!(log.contains("did you mean FI_SLUICE_EAGER_SIZE?"), "{log}");
    assert_eq!(log.matches("FI_SLUICE_BULK=quick").count(), 1, "{log}");
    assert!(log.contains("auto, direct, ring"), "{log}");
    assert_eq!(log.matches("FI_SLUICE_PROGRESS=manual").count(), 1, "{log}");
    assert!(log.contains("auto, poll, thread"), "{log}");
    assert_eq!(log.matches("FI_SLUICE_PEERS_MAX=many").count(), 1, "{log}");
    // The same through libfabric's log, when that shows warnings.
    let (_, log) = succeed(getinfo.env("FI_LOG_LEVEL", "warn"));
    assert_eq!(log.matches("FI_SLUICE_BULK=quick").count(), 1, "{log}");
    assert!(log.contains("libfabric:"), "{log}");
}

#[test]
fn fi_info_lists_the_provider_and_its_variables() {
    let dir = provider_dir("fi_info");
    let Some(fi_info) = installed("fi_info") else { return };
    let (out, _) = succeed(with_provider(fi_info, &dir).args(["-p", "sluice"]));
    assert!(out.contains("provider: sluice") && out.contains("FI_EP_RDM"), "{out}");
    let (out, _) = succeed(with_provider(fi_info, &dir).arg("-e"));
    let manual = include_str!("../../../docs/configuration.md");
    let named = out.lines().filter_map(|line| line.strip_prefix("# FI_SLUICE_"));
    let names: Vec<_> = named.filter_map(|rest| rest.split(':').next()).collect();
    assert_eq!(names.len(), 25, "{out}");
    for name in names {
        assert!(manual.contains(&format!("`FI_SLUICE_{name}`")), "{name} is not in the manual");
    }
}

#[test]
fn fi_pingpong_runs() {
    let dir = provider_dir("pingpong");
    let Some(pingpong) = installed("fi_pingpong") else { return };
    for mode in ["msg", "tagged"] {
        let run = |port: &[&str]| {
            let mut command = with_provider(pingpong, &dir);
            command.args(["-p", "sluice", "-e", "rdm", "-c", "-m", mode]).args(port);
            command
        };
        let begin = Instant::now();
        // Anybody may take a port that is free, until the server has it: then it ends, and
        // another one is tried.
        while !ping_and_pong(&run) {
            assert!(begin.elapsed() < PATIENCE, "no server has had its port");
        }
    }
}

/// A server and its client at a port that was free. No if the server does not get it.
fn ping_and_pong(run: &impl Fn(&[&str]) -> Command) -> bool {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.expect("there are free ports").port().to_string();
    let mut server = run(&["-B", &port]).stdout(Stdio::piped()).spawn().expect("it starts");
    let begin = Instant::now();
    loop {
        let out = run(&["-P", &port, "127.0.0.1"]).output().expect("it runs");
        if out.status.success() {
            assert!(server.wait().expect("it ends").success());
            return true;
        }
        if server.try_wait().expect("it is ours").is_some() {
            return false;
        }
        // The server may not listen yet.
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        if !said.contains("refused") || begin.elapsed() > PATIENCE {
            let _ = server.kill();
            panic!("{said}");
        }
    }
}

/// The program, if it is installed.
fn installed(program: &'static str) -> Option<&'static str> {
    let found =
        Command::new(program).arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        eprintln!("{program} is not installed; not tested");
    }
    found.ok().map(|_| program)
}

#[test]
fn a_report_says_that_it_was_opened_and_what_was_sent() {
    let dir = provider_dir("report");
    let report = dir.join("lines");
    let _ = std::fs::remove_file(&report);
    let mut messages = with_provider(compile(&dir, "messages"), &dir);
    let (_, log) = succeed(messages.env("FI_SLUICE_REPORT", &report));
    assert!(!log.contains("FI_SLUICE_REPORT"), "{log}");
    let text = std::fs::read_to_string(&report).expect("a report was written");
    let of = |event: &str| text.lines().filter(|line| line.contains(event)).count();
    assert!(of(r#""event":"open""#) > 0, "{text}");
    assert_eq!(of(r#""event":"open""#), of(r#""event":"close""#), "{text}");
    assert!(text.lines().any(|line| line.contains("messages") && !line.contains(r#""bytes":0"#)));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("it can be read");
    let host = format!(r#""host":"{}""#, host.trim());
    assert!(text.lines().all(|line| line.contains(&host)), "{text}");
    // It is a file, and only a file, that is named.
    let mut elsewhere = with_provider(dir.join("messages"), &dir);
    let (_, log) = succeed(elsewhere.env("FI_SLUICE_REPORT", "nowhere"));
    assert!(log.contains("FI_SLUICE_REPORT=nowhere is ignored"), "{log}");
}
