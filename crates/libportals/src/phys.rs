//! A process as Portals names it without ranks: its node and its process identifier.

/// A process as Portals names it physically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Phys {
    pub nid: u32,
    pub pid: u32,
}

impl Phys {
    /// As the rail's label of a process.
    pub fn label(self) -> u64 {
        u64::from(self.nid) << 32 | u64::from(self.pid)
    }

    /// Back from a label.
    pub fn from_label(label: u64) -> Phys {
        Phys { nid: (label >> 32) as u32, pid: label as u32 }
    }
}
