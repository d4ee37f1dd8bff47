//! Which processes share a host, and who knows a process elsewhere.

/// See the module. No hosts: everybody shares one.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    of: Vec<u32>,
    /// By process, then peer: whether the connection is open.
    open: Vec<bool>,
    /// Whether memory on another host can be read.
    pub reads: bool,
}

impl Hosts {
    /// The host of each process, and whether memory on another can be read.
    pub fn new(of: &[u32], reads: bool) -> Hosts {
        Hosts { of: of.to_vec(), open: vec![false; of.len() * of.len()], reads }
    }

    /// Whether two processes are on different hosts.
    pub fn are_apart(&self, one: u32, other: u32) -> bool {
        self.of.get(one as usize) != self.of.get(other as usize)
    }

    /// Whether a process knows that its connection to a peer elsewhere is open.
    pub fn is_open(&self, who: u32, peer: u32) -> bool {
        self.open[who as usize * self.of.len() + peer as usize]
    }

    /// A process is told that its connection to a peer elsewhere is open.
    pub fn opened(&mut self, who: usize, peer: usize) {
        self.open[who * self.of.len() + peer] = true;
    }
}
