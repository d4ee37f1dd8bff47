//! The processes that are watched, and what each shows.

use super::document::{Document, Rates};
use serde_json::Value;
use sluice_rail::shm::{Watchable, Watcher};
use sluice_rail::snapshot::RANK_VARIABLES;
use std::fs;
use std::time::Duration;

/// A process that has shown nothing for longer is silent.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// What is to be said of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It shows what it does.
    Shown,
    /// It has not shown anything for a while: its process is not in the library.
    Silent,
    /// What it shows is not read, and why.
    Refused(String),
}

/// An endpoint, and what it shows.
#[derive(Clone, Debug)]
pub struct Seen {
    pub pid: u32,
    /// Its file, by which it is known again.
    pub name: String,
    pub rank: Option<u32>,
    pub command: String,
    pub state: State,
    /// What it has shown last.
    pub document: Option<Document>,
    /// The same, whole.
    pub value: Value,
    pub rates: Option<Rates>,
}

impl Seen {
    fn of(watcher: &Watcher, endpoint: &Watchable) -> Seen {
        let (rank, command) = match endpoint.is_elsewhere {
            true => (None, "of another pid namespace".to_owned()),
            false => (rank_of(endpoint.pid), command_of(endpoint.pid)),
        };
        let (state, document, value) = match watcher.read(endpoint) {
            None => (State::Silent, None, Value::Null),
            Some((bytes, age)) => match Document::parse(&bytes, endpoint.pid) {
                Ok((document, value)) => {
                    let state = if age < FRESH_FOR { State::Shown } else { State::Silent };
                    (state, Some(document), value)
                }
                Err(why) => (State::Refused(why), None, Value::Null),
            },
        };
        let (pid, name) = (endpoint.pid, endpoint.name());
        Seen { pid, name, rank, command, state, document, value, rates: None }
    }

    /// Finds out what has happened since a look before.
    pub fn rate(&mut self, before: &[Seen]) {
        let before = before.iter().find(|seen| seen.name == self.name);
        let before = before.and_then(|seen| seen.document.as_ref());
        if let (Some(before), Some(now)) = (before, &self.document) {
            self.rates = Rates::between(before, now);
        }
    }
}

/// What the endpoints of these processes show, of all if there are none.
pub fn see(watcher: &Watcher, pids: &[u32]) -> Vec<Seen> {
    let all = watcher.endpoints();
    let wanted = all.iter().filter(|endpoint| pids.is_empty() || pids.contains(&endpoint.pid));
    wanted.map(|endpoint| Seen::of(watcher, endpoint)).collect()
}

/// What its launcher has said, if it may be read.
fn rank_of(pid: u32) -> Option<u32> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0).filter_map(|variable| {
        let (name, value) = std::str::from_utf8(variable).ok()?.split_once('=')?;
        RANK_VARIABLES.contains(&name).then(|| value.parse().ok())?
    });
    variables.next()
}

fn command_of(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).chars().filter(|c| !c.is_control()).collect()
}
