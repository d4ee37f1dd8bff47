//! What a rail is made with.

use crate::address::Address;
use crate::observer::Observed;
use sluice_link::{Layout, LayoutError};
use std::io::Write as _;
use std::path::PathBuf;

/// Where a process's own mailbox lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentKind {
    /// [`SegmentKind::Memfd`], unless it cannot be made or peers could not open it:
    /// in a user namespace of its own or in a process that is not dumpable.
    #[default]
    Auto,
    /// A sealed `memfd` that peers open as `/proc/<pid>/fd/<n>`. It does not outlive
    /// the process.
    Memfd,
    /// A file below [`Config::shm_dir`], reclaimed by the next process that
    /// starts if its owner was killed.
    File,
}

/// How large data is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BulkKind {
    /// Directly (`process_vm_readv` and `process_vm_writev`) with each peer that
    /// allows it.
    #[default]
    Auto,
    /// As [`BulkKind::Auto`], and this process tells the Yama security module
    /// that any process of the same user may read and write it. That is what mends
    /// `kernel.yama.ptrace_scope=1` without privilege.
    Direct,
    /// Everything through the mailboxes.
    Ring,
}

/// How the mailbox's data region is shared among its senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreditKind {
    /// Equal fixed quotas (EXTOLL paper, section 5).
    #[default]
    Static,
    /// Each sender owns a few slots; the rest goes to who spends it (section 6).
    Dynamic,
}

/// Whether memory of the client is looked at before it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// The client vouches for it.
    #[default]
    Trust,
    /// One byte of each page is touched first; memory that is not mapped is
    /// then an answer and not a signal. It takes a handler of `SIGSEGV` and
    /// `SIGBUS`, which stays until the process ends: code that holds it must
    /// not be unloaded.
    Check,
}

/// Where a line goes that a person should see.
#[derive(Clone, Copy, Debug)]
pub struct Warn(pub fn(&str));

impl Default for Warn {
    /// Standard error.
    fn default() -> Warn {
        Warn(|line| {
            // One write for the whole line: processes of a job share it. There is
            // nowhere to report that a report failed.
            let _ = std::io::stderr().write_all(format!("sluice: warning: {line}\n").as_bytes());
        })
    }
}

/// What a rail is made with.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many processes may write into this one's mailbox, itself included.
    pub senders_max: u16,
    /// Most slots that the mailbox may have.
    pub slots_max: u32,
    /// Most of them that may be data slots, which bounds what is kept of messages
    /// not matched yet.
    pub data_slots_max: u32,
    /// How these are shared among the senders.
    pub credits: CreditKind,
    /// Where the mailbox lives.
    pub segment: SegmentKind,
    /// How large data is moved.
    pub bulk: BulkKind,
    /// Whether memory of the client is looked at before it is used.
    pub guard: Guard,
    /// Whether a thread of this process may sleep until somebody writes into its
    /// mailbox ([`Shm::doorbell`](super::Shm::doorbell)). If not, nobody ever
    /// rings, and writing costs nothing for it.
    pub sleeps: bool,
    /// Who is told, in one line, of what a person should see: what was overwritten,
    /// what is not there and would have to be, and the remedy.
    pub warn: Warn,
    /// What the layer above calls this process. Its card says it.
    pub label: u64,
    /// Where the files lie by which processes find each other, and mailboxes that are
    /// files. All processes of a job must agree.
    pub shm_dir: PathBuf,
    /// The address of this process, made elsewhere
    /// ([`Identity`](crate::net::handshake::Identity)) because processes of other hosts
    /// are to reach it. Without one it gets an address with a random key.
    pub address: Option<Address>,
    /// What is to be noted of packets and requests.
    pub observed: Observed,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            senders_max: 64,
            slots_max: 65_536,
            data_slots_max: u32::MAX,
            credits: CreditKind::Static,
            segment: SegmentKind::Auto,
            bulk: BulkKind::Auto,
            guard: Guard::Trust,
            sleeps: false,
            warn: Warn::default(),
            label: 0,
            shm_dir: PathBuf::from("/dev/shm"),
            address: None,
            observed: Observed::default(),
        }
    }
}

impl Config {
    /// How the mailbox is divided.
    ///
    /// # Errors
    /// [`LayoutError`] if the limits leave too little.
    pub fn layout(&self) -> Result<Layout, LayoutError> {
        let layout = match self.credits {
            CreditKind::Dynamic => Layout::divide_dynamic(self.senders_max, self.slots_max)?,
            CreditKind::Static => Layout::divide(self.senders_max, self.slots_max)?,
        };
        layout.within(self.data_slots_max)
    }
}
