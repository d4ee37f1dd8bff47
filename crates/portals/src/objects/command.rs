//! What a program asks of the interface, as data: sent at once, kept until
//! credits come, or kept until a counter reaches a threshold (Portals 4,
//! sections 3.15 and 3.16).

use crate::objects::ct::{Ct, CtEvent, HeaderNote};
use crate::objects::md::Md;
use crate::table::Handle;
use sluice_wire::{
    AckKind, AtomicOp, Datatype, ITEM_BYTES_MAX, MatchBits, PeerId, PtIndex, Region, Rts,
};

/// A part of a memory descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// The descriptor.
    pub md: Handle<Md>,
    /// Where the part begins in it, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// What an atomic operation does.
#[derive(Clone, Copy, Debug)]
pub struct Arithmetic {
    /// The operation.
    pub op: AtomicOp,
    /// The type of the items.
    pub datatype: Datatype,
    /// The operand of conditional and masked swaps.
    pub operand: [u8; ITEM_BYTES_MAX],
}

/// Where an operation aims.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The process.
    pub peer: PeerId,
    /// Its portal table entry.
    pub pt_index: PtIndex,
    /// Bits that select the entry.
    pub match_bits: MatchBits,
    /// Offset in the entry in bytes.
    pub remote_offset: u64,
}

/// What a put carries besides its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutExtras {
    /// The acknowledgement wanted.
    pub ack: Option<AckKind>,
    /// Out-of-band data.
    pub hdr_data: u64,
    /// A byte for the layer above.
    pub user: u8,
    /// Announces data instead of carrying it.
    pub rts: Option<Rts>,
    /// It goes by control credits.
    pub by_control: bool,
}

/// An operation of the initiator, or on a counter.
#[derive(Clone, Copy, Debug)]
pub enum Command {
    /// `PtlPut`.
    Put {
        /// The bytes.
        from: Local,
        /// The acknowledgement wanted.
        ack: Option<AckKind>,
        /// Where they go.
        target: Target,
        /// Out-of-band data.
        hdr_data: u64,
        /// Returned in events.
        user_ptr: u64,
    },
    /// `PtlGet`.
    Get {
        /// Where the bytes go.
        into: Local,
        /// Where they come from.
        target: Target,
        /// Returned in events.
        user_ptr: u64,
    },
    /// `PtlGet` to the process, and with the match bits, of the message that the
    /// counter which sets it off counted last; so that counter is to be fed by one
    /// entry that is used once. Only triggered. An extension, not in Portals 4
    /// (`docs/offload.md`): the arguments of a triggered operation are fixed when it
    /// is posted, so a receive from any source does not know whom to ask. Nobody gains
    /// a right by it: the get asks the process that sent the message for what that
    /// process exposes.
    GetFromHeader {
        /// Where the bytes go.
        into: Local,
        /// The portal table entry that they come from.
        pt_index: PtIndex,
        /// Offset in the entry in bytes.
        remote_offset: u64,
        /// Returned in events.
        user_ptr: u64,
    },
    /// `PtlAtomic`.
    Atomic {
        /// The values.
        from: Local,
        /// The acknowledgement wanted.
        ack: Option<AckKind>,
        /// What they are combined with.
        target: Target,
        /// Out-of-band data.
        hdr_data: u64,
        /// Returned in events.
        user_ptr: u64,
        /// How.
        arithmetic: Arithmetic,
    },
    /// `PtlFetchAtomic` and `PtlSwap`.
    Fetch {
        /// Where the values from before go.
        into: Local,
        /// The values.
        from: Local,
        /// What they are combined with.
        target: Target,
        /// Out-of-band data.
        hdr_data: u64,
        /// Returned in events.
        user_ptr: u64,
        /// How.
        arithmetic: Arithmetic,
    },
    /// `PtlCTInc`.
    CtInc {
        /// The counter.
        ct: Handle<Ct>,
        /// What is added.
        by: CtEvent,
    },
    /// `PtlCTSet`.
    CtSet {
        /// The counter.
        ct: Handle<Ct>,
        /// Its new value.
        to: CtEvent,
    },
}

impl Command {
    /// As it is done when a counter sets it off that keeps this note. One that wants a
    /// header stays what it is if no message was counted.
    pub(crate) fn resolved(self, header: Option<HeaderNote>) -> Command {
        match (self, header) {
            (Command::GetFromHeader { into, pt_index, remote_offset, user_ptr }, Some(note)) => {
                let HeaderNote { peer, match_bits } = note;
                let target = Target { peer, pt_index, match_bits, remote_offset };
                Command::Get { into, target, user_ptr }
            }
            (command, _) => command,
        }
    }
}

/// What waits for credits toward a peer.
#[derive(Debug)]
pub(crate) enum WaitingCommand {
    /// A command.
    Command {
        command: Command,
        /// A copy of bytes that the client may have changed since.
        staged: Option<Region>,
    },
    /// What a flow holds back, and may go on with.
    Flow(u32),
}
