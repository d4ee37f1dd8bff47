//! The variables: their names, what they may say, and how they are explained.

use std::ffi::CStr;

/// What a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Size,
    /// A word or a path.
    Text,
}

/// A variable of the environment.
#[derive(Debug)]
pub struct Variable {
    /// Its name as libfabric has it: without `FI_SLUICE_`, in small letters.
    pub name: &'static CStr,
    /// What it is.
    pub kind: Kind,
    /// What it sets, to which values, and the default, in brackets at the end.
    pub help: &'static CStr,
}

impl Variable {
    /// Its name in the environment.
    #[must_use]
    pub fn env(&self) -> String {
        format!("FI_SLUICE_{}", self.name.to_string_lossy().to_ascii_uppercase())
    }

    /// The default, as the help has it.
    pub(super) fn default_words(&self) -> &'static str {
        let help = self.help.to_str().unwrap_or_default();
        help.rsplit_once("(default: ").map_or("", |(_, words)| words.trim_end_matches(')'))
    }
}

pub(super) static EAGER: Variable = Variable {
    name: c"eager_size",
    kind: Kind::Size,
    help: c"Longest message in bytes that is sent eagerly; longer ones are fetched by the receiver. 0 to 49152 (default: from FI_SLUICE_TUNE; 49152 where that is off)",
};
pub(super) static LOOKING: Variable = Variable {
    name: c"looking_size",
    kind: Kind::Size,
    help: c"The same for messages in shared memory whose receiver takes in what it is sent at that moment; no effect below FI_SLUICE_EAGER_SIZE. 0 to 262144 (default: 262144; 0 if FI_SLUICE_EAGER_SIZE is set)",
};
pub(super) static NETWORK_EAGER: Variable = Variable {
    name: c"network_eager_size",
    kind: Kind::Size,
    help: c"The same for messages to processes that are reached over a network. 0 to 65536 (default: 65536)",
};
pub(super) static ANNOUNCE: Variable = Variable {
    name: c"announce_size",
    kind: Kind::Size,
    help: c"Shortest receive in bytes that is announced to its source. 0 to 2^40 (default: from FI_SLUICE_TUNE; 32768 where that is off)",
};
pub(super) static SHARE: Variable = Variable {
    name: c"share_size",
    kind: Kind::Size,
    help: c"Shortest message in bytes that both sides copy. 0 to 2^40 (default: from FI_SLUICE_TUNE; 65536 where that is off)",
};
pub(super) static TUNE: Variable = Variable {
    name: c"tune",
    kind: Kind::Text,
    help: c"Where the lengths by which protocols are chosen come from: auto (measured at first use, kept in the user's cache), off (stated ones), or the path of a file to keep the figures in (default: auto)",
};
pub(super) static INJECT: Variable = Variable {
    name: c"inject_size",
    kind: Kind::Size,
    help:
        c"Longest message in bytes that can be injected; 0 turns injection off. 0 to FI_SLUICE_EAGER_SIZE, or to 4096 if that is not set (default: 4096)",
};
pub(super) static INJECT_KEPT: Variable = Variable {
    name: c"inject_bytes",
    kind: Kind::Size,
    help: c"Most memory in bytes for copies of injected messages whose receiver has no room yet; beyond it injecting says -FI_EAGAIN. 0 to 2^40 (default: 67108864)",
};
pub(super) static LINGER: Variable = Variable {
    name: c"linger",
    kind: Kind::Size,
    help: c"For how many seconds an endpoint that closes waits for receivers that take none of the messages injected before. 0 to 2^20 (default: 600)",
};
pub(super) static UNEXPECTED: Variable = Variable {
    name: c"unexpected_bytes",
    kind: Kind::Size,
    help: c"Most memory in bytes for messages that arrive before their receives; others wait at their senders. 1 to 2^40 (default: 4194304)",
};
pub(super) static CREDITS: Variable = Variable {
    name: c"credits",
    kind: Kind::Text,
    help: c"How the room for these is shared among the senders: dynamic (who spends it gets it) or static (equal shares) (default: dynamic)",
};
pub(super) static PEERS: Variable = Variable {
    name: c"peers_max",
    kind: Kind::Size,
    help: c"How many processes may send to one endpoint. 1 to 65535 (default: count of the address vector and a margin, at least 64)",
};
pub(super) static SLOTS: Variable = Variable {
    name: c"mailbox_slots",
    kind: Kind::Size,
    help: c"Most 64-byte slots that the mailbox of one endpoint may have. 1024 to 67108864 (default: 65536, or more if the senders need it)",
};
pub(super) static SEGMENT: Variable = Variable {
    name: c"segment",
    kind: Kind::Text,
    help: c"What a mailbox is made of: auto, memfd, or file (in FI_SLUICE_SHM_DIR) (default: auto)",
};
pub(super) static SHM_DIR: Variable = Variable {
    name: c"shm_dir",
    kind: Kind::Text,
    help: c"Directory, as an absolute path, in which the processes of a job find each other by small files, and where mailboxes that are files lie; the same for all of them (default: /dev/shm)",
};
pub(super) static DEVICES: Variable = Variable {
    name: c"devices",
    kind: Kind::Text,
    help: c"Network devices by which peers on other hosts are reached, with commas between, in the order of their rails: names, patterns (eth*), networks (10.1.0.0/16, fd00::/8); ^ in front excludes (default: those that are up and lead to a network; sluice info shows them)",
};
pub(super) static RAILS: Variable = Variable {
    name: c"rails",
    kind: Kind::Text,
    help: c"By what peers are reached, with commas between: shm (shared memory, to peers on this host), tcp (TCP, to all others), ofi:PROVIDER (the same by a provider of libfabric, such as verbs); without shm they reach all; the same in all processes of a job (default: shm,tcp)",
};
pub(super) static CONGESTION: Variable = Variable {
    name: c"tcp_congestion",
    kind: Kind::Text,
    help: c"What sets the pace of TCP connections: reno, cubic, bbr or what else the system allows (default: the system's)",
};
pub(super) static SECURITY: Variable = Variable {
    name: c"security",
    kind: Kind::Text,
    help: c"How connections to other hosts are protected: auth (both ends prove who they are), encrypt (and all that they send is encrypted), none (for closed networks); the same in all processes of a job (default: auth)",
};
pub(super) static MATCHING: Variable = Variable {
    name: c"matching",
    kind: Kind::Text,
    help: c"Who matches messages with receives: process (this one), rail (the first ofi:PROVIDER of FI_SLUICE_RAILS, without shm there and with FI_SLUICE_SECURITY=none); the same in all processes of a job (default: process)",
};
pub(super) static BULK: Variable = Variable {
    name: c"bulk",
    kind: Kind::Text,
    help: c"How long messages travel: ring (through the mailboxes), auto (read from the sender's memory where the system allows it), or direct (as auto, and other processes of the user are allowed to read this one) (default: auto)",
};
pub(super) static PROGRESS: Variable = Variable {
    name: c"progress",
    kind: Kind::Text,
    help: c"Who makes progress: poll (the program's calls), thread (a thread per endpoint as well), or auto (a thread if the program asks for FI_PROGRESS_AUTO, or for one-sided operations alone and no progress) (default: auto)",
};
pub(super) static STATS: Variable = Variable {
    name: c"stats",
    kind: Kind::Text,
    help: c"What is said when an endpoint is closed: text or yes (a line of counters), json (a line), openmetrics; to standard error, or appended to a file after a colon, as in json:/tmp/stats, where %p is the process (default: no)",
};
pub(super) static TRACE: Variable = Variable {
    name: c"trace",
    kind: Kind::Text,
    help: c"Path of a directory, which begins with a slash, that gets a file of the last things that happened to an endpoint when it is closed; sluice trace shows them (default: none)",
};
pub(super) static REPORT: Variable = Variable {
    name: c"report",
    kind: Kind::Text,
    help: c"Path of a file, which has a slash, that gets a line of JSON when an endpoint opens and when it closes; sluice run sets it (default: none)",
};

/// All of them.
pub static VARIABLES: [&Variable; 25] = [
    &EAGER,
    &LOOKING,
    &ANNOUNCE,
    &SHARE,
    &NETWORK_EAGER,
    &TUNE,
    &INJECT,
    &INJECT_KEPT,
    &LINGER,
    &UNEXPECTED,
    &CREDITS,
    &PEERS,
    &SLOTS,
    &SEGMENT,
    &SHM_DIR,
    &BULK,
    &RAILS,
    &DEVICES,
    &CONGESTION,
    &SECURITY,
    &MATCHING,
    &PROGRESS,
    &STATS,
    &TRACE,
    &REPORT,
];

/// What is wrong with the names of variables that look like these and are none.
pub(super) fn unknown(names: impl Iterator<Item = String>) -> Vec<String> {
    let known = VARIABLES.map(Variable::env);
    let is_for_tests = |name: &String| sluice_rail::HAS_FAULTS && name == "FI_SLUICE_FAULTS";
    let is_known = |name: &String| known.contains(name) || is_for_tests(name);
    let stray = names.filter(|name| name.starts_with("FI_SLUICE_") && !is_known(name));
    let say = |name: String| {
        let nearest = known.iter().min_by_key(|k| distance(k, &name)).map_or("", String::as_str);
        format!(
            "{name} is not a variable of Sluice and has no effect; did you mean {nearest}? \
             (fi_info -e lists all)"
        )
    };
    stray.map(say).collect()
}

/// How many letters must be changed, put in or taken out to make `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name() {
        assert_eq!(distance("FI_SLUICE_EAGER", "FI_SLUICE_EAGER_SIZE"), 5);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("abc", "axc"), 1);
    }

    #[test]
    fn a_name_that_is_none_is_told_the_nearest() {
        let names = ["FI_SLUICE_EAGERSIZE", "FI_SLUICE_BULK", "PATH"].map(String::from);
        let said = unknown(names.into_iter());
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("FI_SLUICE_EAGERSIZE is not"), "{said:?}");
        assert!(said[0].contains("did you mean FI_SLUICE_EAGER_SIZE?"), "{said:?}");
    }

    #[test]
    fn every_variable_says_its_default() {
        for variable in VARIABLES {
            assert!(!variable.default_words().is_empty(), "{}", variable.env());
        }
    }
}
