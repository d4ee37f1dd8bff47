//! What happened, as a ladder: a column for each process, time from top to bottom, an arrow
//! for each packet.

use super::trace::{Entry, What};
use sluice_proto::Send;
use sluice_text::{Columns, nanoseconds};
use std::fmt;

/// What happened to so many processes, in order.
#[derive(Debug)]
pub struct Ladder<'a> {
    pub(super) count: usize,
    pub(super) entries: &'a [&'a Entry],
}

impl fmt::Display for Ladder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = Columns(self.count);
        let names = columns.heads((0..self.count).map(|who| who.to_string()));
        writeln!(f, "{:>14}  {names}", "time")?;
        for entry in self.entries {
            let Entry { at_ns, who, what } = entry;
            let rungs = match what {
                What::Transmits(to, ..) => columns.arrow(*who, *to),
                What::Phase(_) => columns.rule(),
                What::Rails(note) if note.is_fault() => columns.mark(*who, '╳'),
                What::Dies => columns.mark(*who, '╳'),
                What::Reads(..) | What::Meets(..) => columns.mark(*who, '▶'),
                _ => columns.mark(*who, '●'),
            };
            writeln!(f, "{:>14}  {rungs}  {}", nanoseconds(*at_ns), text(what))?;
        }
        Ok(())
    }
}

fn text(what: &What) -> String {
    match what {
        What::Transmits(_, packet, 1) => format!("{packet} (1 slot)"),
        What::Transmits(_, packet, slots) => format!("{packet} ({slots} slots)"),
        What::Reads(from, packet) => format!("reads number {} of {from}", packet.seq.0),
        What::Sends(Send { context, peer, buf, tag, .. }, Ok(())) => {
            format!("send #{context} to {}: {} bytes, tag {tag:#x}", peer.0, buf.len)
        }
        other => other.to_string(),
    }
}
