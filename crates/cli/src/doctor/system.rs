//! The machine: what `sluice info` finds, limits of a process, cores, leftovers.

use super::Finding;
use crate::info::Info;
use rustix::process::{Resource, getrlimit};
use sluice_rail::shm::probe::{Probe, ProbeReport, Status};
use sluice_rail::shm::{Config, stale_cards};
use sluice_runtime::Settings;
use std::fs;
use std::path::Path;
use std::thread;

/// What is free for mailbox files to have room.
const SHM_FREE_BYTES_MIN: u64 = 64 << 20;
/// What a process opens besides its peers.
const FILES_BASE: u64 = 64;
/// What it may hold open for a peer.
const FILES_PER_PEER: u64 = 2;

/// All checks.
pub fn check(ranks: u32) -> Vec<Finding> {
    let settings = Settings::of_environment();
    let shm_dir = &settings.rail.shm_dir;
    // First: the rail that is opened next removes what it finds.
    let leftovers = leftovers(shm_dir, rustix::process::geteuid().as_raw());
    let info = Info::collect(&settings);
    let mut findings = vec![kernel(), rail(&info)];
    findings.extend(info.report.probes.iter().map(|probe| judge(probe, &info.report)));
    findings.push(shm_room(shm_dir));
    findings.extend(limits(ranks));
    findings
        .push(cores(ranks, thread::available_parallelism().map_or(1, |cores| cores.get() as u32)));
    findings.push(leftovers);
    findings.extend(settings.warnings.into_iter().map(|warning| {
        Finding::warning("settings", warning, "unset it, or see docs/configuration.md")
    }));
    findings
}

fn kernel() -> Finding {
    let name = rustix::system::uname();
    let [system, release] = [name.sysname(), name.release()].map(|text| text.to_string_lossy());
    Finding::ok("kernel", format!("{system} {release}"))
}

/// Whether a mailbox opens, as a program's would.
fn rail(info: &Info) -> Finding {
    const TOPIC: &str = "shared-memory rail";
    let detail = info.report.rails.iter().map(|rail| rail.detail.as_str()).collect::<Vec<_>>();
    match &info.memory {
        Ok(_) => Finding::ok(TOPIC, detail.join("; ")),
        Err(why) => Finding::fault(TOPIC, why, "see the warnings; sluice info shows each probe"),
    }
}

/// A probe that was refused matters unless something else does its work.
fn judge(probe: &Probe, report: &ProbeReport) -> Finding {
    let Probe { name, status, detail, remedy } = probe;
    let remedy = remedy.as_deref().unwrap_or("none");
    let replaced = remedy.starts_with("not needed");
    // What would forbid direct reads does not, for some processes.
    let harmless = *name == "yama ptrace scope" && report.reads_work();
    if *status == Status::Ok || replaced || harmless {
        let note = if replaced { format!(" ({remedy})") } else { String::new() };
        return Finding::ok(name, format!("{detail}{note}"));
    }
    let effect = if *name == "direct reads" { "; large messages are copied twice" } else { "" };
    Finding::warning(name, format!("refused: {detail}{effect}"), remedy)
}

fn shm_room(dir: &Path) -> Finding {
    const TOPIC: &str = "room for mailbox files";
    let shown = dir.display();
    let remedy = format!(
        "mount -o remount,size=1G {shown}, in a container docker run --shm-size=1g; or \
         FI_SLUICE_SEGMENT=memfd"
    );
    match rustix::fs::statvfs(dir) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let all = stat.f_blocks.saturating_mul(stat.f_frsize);
            let said = format!("{shown}: {} of {} MiB free", free >> 20, all >> 20);
            if free < SHM_FREE_BYTES_MIN {
                Finding::warning(TOPIC, said, remedy)
            } else {
                Finding::ok(TOPIC, said)
            }
        }
        Err(errno) => Finding::warning(TOPIC, format!("{shown}: {errno}"), remedy),
    }
}

/// Limits of a process that its mailbox and its peers come up to.
fn limits(ranks: u32) -> Vec<Finding> {
    let files = FILES_BASE + FILES_PER_PEER * u64::from(ranks);
    let mailbox = Config::default().slots_max as u64 * 64 * 2;
    vec![
        limit("open files", "-n", getrlimit(Resource::Nofile).current, files),
        limit("size of a file", "-f", getrlimit(Resource::Fsize).current, mailbox),
        limit(
            "address space",
            "-v",
            getrlimit(Resource::As).current,
            mailbox.saturating_mul(u64::from(ranks) + 1),
        ),
    ]
}

fn limit(topic: &'static str, option: &str, current: Option<u64>, wanted: u64) -> Finding {
    match current {
        Some(current) if current < wanted => Finding::warning(
            topic,
            format!("limited to {current}; {wanted} may be needed"),
            format!("ulimit {option} unlimited, or higher in /etc/security/limits.conf"),
        ),
        Some(current) => Finding::ok(topic, format!("limited to {current}")),
        None => Finding::ok(topic, "not limited"),
    }
}

fn cores(ranks: u32, cores: u32) -> Finding {
    let said = format!("{cores} may be used, for {ranks} ranks");
    if ranks > cores {
        let remedy = "fewer ranks, or mpirun --oversubscribe --bind-to none: ranks then take turns, \
                      which costs microseconds each";
        return Finding::warning("cores", said, remedy);
    }
    Finding::ok("cores", said)
}

/// Mailbox files and cards whose process has ended: only one that was killed leaves any.
fn leftovers(shm_dir: &Path, uid: u32) -> Finding {
    const TOPIC: &str = "leftovers";
    let dir = shm_dir.join(format!("sluice-{uid}"));
    let names = fs::read_dir(&dir).into_iter().flatten().flatten();
    let mailboxes =
        names.filter(|entry| is_stale(&entry.file_name().to_string_lossy(), is_alive)).count();
    // A process that cannot be identified has a finding of its own: its rail does not open.
    let cards = stale_cards(shm_dir).unwrap_or(0);
    match (mailboxes, cards) {
        (0, 0) => Finding::ok(TOPIC, "none"),
        _ => Finding::warning(
            TOPIC,
            format!(
                "{mailboxes} mailbox files and {cards} cards of ended processes in {}",
                dir.display()
            ),
            "none is needed: the next program of this user removes them, as did this command",
        ),
    }
}

/// Whether a file of this name (`<pid>-<start time>-<number>.seg`) has lost its process.
fn is_stale(name: &str, is_alive: impl Fn(u32, u64) -> bool) -> bool {
    let parts = name.strip_suffix(".seg").map(|stem| stem.split('-').collect::<Vec<_>>());
    let Some([pid, start, _]) = parts.as_deref() else { return false };
    match (pid.parse(), start.parse()) {
        (Ok(pid), Ok(start)) => !is_alive(pid, start),
        _ => false,
    }
}

/// Whether the process that started then still runs.
fn is_alive(pid: u32, start_time: u64) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().nth(19).and_then(|field| field.parse().ok()) == Some(start_time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;
    use std::os::unix::fs::DirBuilderExt;

    fn probe(name: &'static str, status: Status, remedy: Option<&str>) -> Probe {
        Probe { name, status, detail: "detail".into(), remedy: remedy.map(str::to_owned) }
    }

    #[test]
    fn what_is_refused_and_not_replaced_is_a_warning() {
        let refused = |name, remedy| probe(name, Status::Refused, Some(remedy));
        let reads = refused("direct reads", "docker run --cap-add SYS_PTRACE");
        let yama = refused("yama ptrace scope", "sysctl");
        let mut report = ProbeReport { rails: vec![], probes: vec![reads.clone(), yama.clone()] };
        let found = judge(&reads, &report);
        assert_eq!(found.state, State::Warning);
        assert!(found.remedy.is_some_and(|remedy| remedy.contains("SYS_PTRACE")));
        assert_eq!(judge(&yama, &report).state, State::Warning);
        report.probes[0].status = Status::Ok;
        assert_eq!(judge(&yama, &report).state, State::Ok);
        let pidfd = refused("pidfd", "not needed: /proc is read instead");
        assert_eq!(judge(&pidfd, &report).state, State::Ok);
    }

    #[test]
    fn a_limit_that_is_too_low_says_how_to_raise_it() {
        assert_eq!(limit("open files", "-n", Some(100), 100).state, State::Ok);
        assert_eq!(limit("open files", "-n", None, 100).state, State::Ok);
        let low = limit("open files", "-n", Some(99), 100);
        assert_eq!(low.state, State::Warning);
        assert!(low.remedy.is_some_and(|remedy| remedy.contains("ulimit -n")));
    }

    #[test]
    fn more_ranks_than_cores_is_a_warning() {
        assert_eq!(cores(2, 2).state, State::Ok);
        assert_eq!(cores(3, 2).state, State::Warning);
    }

    #[test]
    fn cards_of_ended_processes_are_leftovers() {
        let dir = tempfile::tempdir().expect("a directory");
        let uid = rustix::process::geteuid().as_raw();
        let own = dir.path().join(format!("sluice-{uid}"));
        fs::DirBuilder::new().mode(0o700).create(&own).expect("made");
        // Nobody holds its lock, so its process has ended.
        fs::write(own.join("card-1"), "").expect("written");
        fs::write(own.join("other-1"), "").expect("written");
        let found = leftovers(dir.path(), uid);
        assert_eq!(found.state, State::Warning);
        assert!(found.detail.starts_with("0 mailbox files and 1 cards"), "{found:?}");
        // That of a process that lives is none.
        fs::remove_file(own.join("card-1")).expect("removed");
        let config = Config { shm_dir: dir.path().into(), ..Config::default() };
        let rail = sluice_rail::shm::Shm::open(config).expect("it opens");
        assert_eq!(leftovers(dir.path(), uid).state, State::Ok);
        drop(rail);
    }

    #[test]
    fn files_of_ended_processes_are_leftovers() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = dir.path().join("sluice-7");
        fs::create_dir(&own).expect("made");
        assert_eq!(leftovers(dir.path(), 7).state, State::Ok);
        // No process of this pid can have started then.
        let name = format!("{}-0-0000000000000001.seg", std::process::id());
        fs::write(own.join(name), "").expect("written");
        let found = leftovers(dir.path(), 7);
        assert!(
            found.state == State::Warning && found.detail.starts_with("1 mailbox"),
            "{found:?}"
        );
        assert!(!is_stale("1-2-3.seg", |pid, start| (pid, start) == (1, 2)));
        for other in ["portals-3", "1-2.seg", "a-b-c.seg", ""] {
            assert!(!is_stale(other, |_, _| false), "{other}");
        }
    }
}
