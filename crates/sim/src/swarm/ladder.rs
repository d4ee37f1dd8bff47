//! What happened, as a ladder: a column for each process, time from top to bottom, an arrow
//! for each packet.

use super::trace::{Entry, What};
use sluice_proto::Send;
use sluice_wire::{Packet, Parsed};
use std::fmt;

/// The width of a column.
const WIDTH: usize = 8;

/// What happened to so many processes, in order.
#[derive(Debug)]
pub struct Ladder<'a> {
    pub(super) count: usize,
    pub(super) entries: &'a [&'a Entry],
}

impl fmt::Display for Ladder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: String = (0..self.count).map(|who| format!("{who:^WIDTH$}")).collect();
        writeln!(f, "{:>14}  {names}", "time")?;
        for entry in self.entries {
            let Entry { at_ns, who, what } = entry;
            let rungs = match what {
                What::Transmits(to, ..) => self.arrow(*who, *to),
                What::Phase(_) => "─".repeat(WIDTH * self.count),
                What::Rails(note) if note.is_fault() => self.marks(*who, '╳'),
                What::Dies => self.marks(*who, '╳'),
                What::Reads(..) | What::Meets(..) => self.marks(*who, '▶'),
                _ => self.marks(*who, '●'),
            };
            writeln!(f, "{:>14}  {rungs}  {}", time(*at_ns), text(what))?;
        }
        Ok(())
    }
}

impl Ladder<'_> {
    /// A mark in one column, a line in the others.
    fn marks(&self, who: usize, mark: char) -> String {
        let column = |at| if at == who { mark } else { '│' };
        (0..self.count).map(|at| format!("{:^WIDTH$}", column(at))).collect()
    }

    /// From one column to another.
    fn arrow(&self, from: usize, to: usize) -> String {
        if from == to {
            return self.marks(from, '↺');
        }
        let middle = |at: usize| at * WIDTH + (WIDTH - 1) / 2;
        let (low, high) = (middle(from.min(to)), middle(from.max(to)));
        let mut line: Vec<char> = self.marks(self.count, ' ').chars().collect();
        line[low..high].fill('─');
        line[middle(from)] = if from < to { '├' } else { '┤' };
        line[middle(to)] = if from < to { '►' } else { '◄' };
        line.into_iter().collect()
    }
}

/// With a comma between thousands.
fn time(ns: u64) -> String {
    let digits = ns.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + " ns"
}

fn text(what: &What) -> String {
    match what {
        What::Transmits(_, packet, 1) => format!("{} (1 slot)", packet_text(packet)),
        What::Transmits(_, packet, slots) => format!("{} ({slots} slots)", packet_text(packet)),
        What::Reads(from, packet) => format!("reads number {} of {from}", packet.seq.0),
        What::Sends(Send { context, peer, buf, tag, .. }, Ok(())) => {
            format!("send #{context} to {}: {} bytes, tag {tag:#x}", peer.0, buf.len)
        }
        other => other.to_string(),
    }
}

/// What a packet is for, its protocol and sizes.
fn packet_text(parsed: &Parsed) -> String {
    let len = parsed.payload_len;
    let what = match &parsed.packet {
        Packet::Put(put) => match put.rts {
            Some(rts) if rts.claims.is_some() => {
                format!("RTS over announced receive: {} bytes", rts.total_len)
            }
            Some(rts) => format!("RTS: {} bytes", rts.total_len),
            None => format!("eager: {len} bytes"),
        },
        Packet::Rtr(_) => "RTR: announces a receive".to_owned(),
        Packet::Cts(_) => "CTS: says where the bytes are wanted".to_owned(),
        Packet::Written(_) => "written".to_owned(),
        Packet::Get(_) => "get: asks for a chunk".to_owned(),
        Packet::Reply(_) => format!("reply: {len} bytes of a chunk"),
        Packet::GetDone(_) => "FIN (get-done)".to_owned(),
        Packet::Ack(_) => "acknowledgement".to_owned(),
        Packet::Credit => "credits".to_owned(),
        Packet::Search(_) => "asks for a message that waits for credits".to_owned(),
        Packet::Watch(_) => "asks to be told of one that will wait".to_owned(),
        Packet::Waiting(waiting) if waiting.found.is_some() => "offers one that waits".to_owned(),
        Packet::Waiting(_) => "has none that waits".to_owned(),
        Packet::Decline(_) => "does not want it".to_owned(),
        Packet::ReturnRequest => "asks credits back".to_owned(),
        Packet::ReturnResponse(back) => format!("gives {} credits back", back.slots),
        other => format!("{other:?}"),
    };
    let credits = parsed.credits;
    if credits.data == 0 && credits.control == 0 {
        return format!("{what}; number {}", parsed.seq.0);
    }
    format!("{what}; number {}, brings credits {}/{}", parsed.seq.0, credits.data, credits.control)
}
