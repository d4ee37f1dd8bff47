//! What a rail is made with.

use std::path::PathBuf;

/// Where a process's own mailbox lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentKind {
    /// [`SegmentKind::Memfd`], unless peers could not open it: in a user
    /// namespace of its own or in a process that is not dumpable.
    #[default]
    Auto,
    /// A sealed `memfd` that peers open as `/proc/<pid>/fd/<n>`. Nothing
    /// outlives the process.
    Memfd,
    /// A file below [`Config::shm_dir`], reclaimed by the next process that
    /// starts if its owner was killed.
    File,
}

/// How large data is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BulkKind {
    /// Direct reads (`process_vm_readv`) from each peer that allows them.
    #[default]
    Auto,
    /// As [`BulkKind::Auto`], and this process tells the Yama security module
    /// that any process of the same user may read it. That is what mends
    /// `kernel.yama.ptrace_scope=1` without privilege.
    Direct,
    /// Everything through the mailboxes.
    Ring,
}

/// What a rail is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How many processes may write into this one's mailbox, itself included.
    pub senders_max: u16,
    /// Most slots that the mailbox may have.
    pub slots_max: u32,
    /// Where the mailbox lives.
    pub segment: SegmentKind,
    /// How large data is moved.
    pub bulk: BulkKind,
    /// Where mailboxes that are files live. All processes of a job must agree.
    pub shm_dir: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            senders_max: 64,
            slots_max: 65_536,
            segment: SegmentKind::Auto,
            bulk: BulkKind::Auto,
            shm_dir: PathBuf::from("/dev/shm"),
        }
    }
}
