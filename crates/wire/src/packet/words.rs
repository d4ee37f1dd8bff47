//! A packet in words, for people who look at what was exchanged.

use super::{Packet, Parsed};
use std::fmt;

/// What it is for, its protocol and sizes, its number, and the credits that it brings.
impl fmt::Display for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_purpose(f, self)?;
        write!(f, "; number {}", self.seq.0)?;
        let credits = self.credits;
        if credits.data == 0 && credits.control == 0 {
            return Ok(());
        }
        write!(f, ", brings credits {}/{}", credits.data, credits.control)
    }
}

fn write_purpose(f: &mut fmt::Formatter<'_>, parsed: &Parsed) -> fmt::Result {
    let len = parsed.payload_len;
    let words = match &parsed.packet {
        Packet::Put(put) => {
            return match put.rts {
                Some(rts) if rts.claims.is_some() => {
                    write!(f, "RTS over announced receive: {} bytes", rts.total_len)
                }
                Some(rts) => write!(f, "RTS: {} bytes", rts.total_len),
                None => write!(f, "eager: {len} bytes"),
            };
        }
        Packet::Reply(_) => return write!(f, "reply: {len} bytes of a chunk"),
        Packet::ReturnResponse(back) => return write!(f, "gives {} credits back", back.slots),
        Packet::Rtr(_) => "RTR: announces a receive",
        Packet::Cts(_) => "CTS: says where the bytes are wanted",
        Packet::Written(_) => "written",
        Packet::Get(_) => "get: asks for a chunk",
        Packet::GetDone(_) => "FIN (get-done)",
        Packet::Ack(_) => "acknowledgement",
        Packet::Credit => "credits",
        Packet::Search(_) => "asks for a message that waits for credits",
        Packet::Watch(_) => "asks to be told of one that will wait",
        Packet::Waiting(waiting) if waiting.found.is_some() => "offers one that waits",
        Packet::Waiting(_) => "has none that waits",
        Packet::Decline(_) => "does not want it",
        Packet::ReturnRequest => "asks credits back",
        other => return write!(f, "{other:?}"),
    };
    f.write_str(words)
}
