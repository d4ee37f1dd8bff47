//! A triggered get that goes where a message came from: an extension, not in
//! Portals 4 (`docs/offload.md`).
//!
//! The arguments of a triggered operation are fixed when it is posted, so a
//! receive from any source cannot prepare its get: it does not know whom to ask.
//! [`crate::Command::GetFromHeader`] leaves two of them open, the process and
//! the match bits. They are those of the message that its counter counted last;
//! so a counter is to be fed by one entry that is used once.
//!
//! Nobody gains a right by it: the get asks the process that sent the message
//! for what that process exposes.

use crate::engine::initiate::Target;
use crate::engine::issue::Command;
use crate::engine::ni::Ni;
use crate::objects::ct::Ct;
use crate::objects::event::Event;
use crate::objects::limits::PtlError;
use crate::table::Handle;
use sluice_wire::{MatchBits, PeerId};

/// Whether there is [`Command::GetFromHeader`]. Without it the engine is Portals
/// and nothing else.
pub const GET_FROM_HEADER: bool = true;

/// What a counter keeps of a message that an entry counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderNote {
    peer: PeerId,
    match_bits: MatchBits,
}

impl Ni {
    /// An entry counts a message: its counter keeps from whom it is.
    #[inline]
    pub(crate) fn note_header(&mut self, ct: Option<Handle<Ct>>, event: &Event) {
        if GET_FROM_HEADER && let Some(counter) = ct.and_then(|ct| self.cts.get_mut(ct)) {
            let Event { peer, match_bits, .. } = *event;
            counter.header = Some(HeaderNote { peer, match_bits });
        }
    }

    /// Such a command waits for a counter, if there is such a command.
    pub(crate) fn check_from_header(command: &Command, waits: bool) -> Result<(), PtlError> {
        match command {
            Command::GetFromHeader { .. } if !GET_FROM_HEADER => {
                Err(PtlError::ArgInvalid("gets from headers are not built in"))
            }
            Command::GetFromHeader { .. } if !waits => {
                Err(PtlError::ArgInvalid("only a counter knows a header"))
            }
            _ => Ok(()),
        }
    }
}

impl Ct {
    /// A command as it is done when this counter sets it off. One that wants a
    /// header stays what it is if no message was counted.
    pub(crate) fn resolve(&self, command: &Command) -> Command {
        match (*command, self.header) {
            (Command::GetFromHeader { into, pt_index, remote_offset, user_ptr }, Some(note)) => {
                let HeaderNote { peer, match_bits } = note;
                let target = Target { peer, pt_index, match_bits, remote_offset };
                Command::Get { into, target, user_ptr }
            }
            (command, _) => command,
        }
    }
}
