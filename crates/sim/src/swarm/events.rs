//! What happens in a world, and what that is for the program.

use crate::flight::Flight;
use crate::rails;
use sluice_link::TaggedMessage;
use sluice_wire::Parsed;

/// Something that happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A packet is in a mailbox.
    Arrive {
        to: u32,
        flight: Flight,
    },
    /// A process looks at what there is to do.
    Wake {
        process: u32,
    },
    /// The bytes of a read are there, or are refused.
    Moved {
        transfer: u32,
    },
    /// A side of a shared transfer takes a chunk, waits or ends; and has copied a
    /// chunk.
    Turn {
        part: u32,
    },
    Copied {
        part: u32,
    },
    /// The memory of a packet that was taken before is read, and that is reported.
    Write {
        late: u32,
    },
    Transmitted {
        late: u32,
    },
    /// A process is told that the connection to another is open.
    Connected {
        who: u32,
        peer: u32,
    },
    /// A process is told that another has ended.
    Lose {
        who: u32,
        peer: u32,
    },
    /// Something between hosts.
    Rails(rails::Event),
    /// A message comes to an interface that matches.
    Tagged {
        from: u32,
        to: u32,
    },
    /// Such an interface tells its process something.
    Word {
        process: u32,
    },
}

/// What the program is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This process has been woken.
    Woken(usize),
    /// A read or a transmission of this process has ended.
    Moved(usize),
    /// This process has ended.
    Died(usize),
    /// This process has been told that another one has, or that it will not answer.
    Lost(usize, usize),
    /// A message has come to an interface that matches.
    Tagged { from: usize, to: usize, message: TaggedMessage },
    /// A connection that this process has asked for is open.
    Connected(usize),
    /// Nothing is to come.
    Rest,
}

/// A packet that was read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub from: usize,
    pub packet: Parsed,
    /// A receive took the message that the packet tells of.
    pub taken: bool,
}
