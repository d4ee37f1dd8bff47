//! Whose move of memory a token of this layer names.

use crate::request::{RecvOp, SendOp};
use sluice_link::Token;
use sluice_portals::Handle;

/// Whose move it is. The interface below has tokens too: handles, whose indexes
/// stay below [`MOVE_RECV`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moved {
    /// A receive's.
    Recv(Handle<RecvOp>),
    /// A send's.
    Send(Handle<SendOp>),
}

const MOVE_RECV: u64 = 1 << 31;
const MOVE_SEND: u64 = 1 << 30 | MOVE_RECV;

impl Moved {
    pub fn token(self) -> Token {
        match self {
            Moved::Recv(handle) => Token(handle.to_u64() | MOVE_RECV),
            Moved::Send(handle) => Token(handle.to_u64() | MOVE_SEND),
        }
    }

    /// `None`: it is the interface's.
    pub fn of(token: Token) -> Option<Moved> {
        let number = token.0 & !MOVE_SEND;
        match token.0 & MOVE_SEND {
            MOVE_SEND => Some(Moved::Send(Handle::from_u64(number))),
            MOVE_RECV => Some(Moved::Recv(Handle::from_u64(number))),
            _ => None,
        }
    }
}
