//! Places in event queues for operations that are on their way (`docs/recovery.md`). One
//! that is held back has none, so it keeps no other operation from going.

use crate::engine::ni::Ni;
use crate::objects::command::Command;
use crate::objects::eq::Eq;
use crate::objects::md::Md;
use crate::objects::recovery::Kept;
use crate::table::Handle;
use sluice_wire::AckKind;

impl Ni {
    /// Keeps places for the events of an operation, and says which. None if there are none
    /// now.
    #[inline]
    pub(crate) fn keep_places(&mut self, command: &Command) -> Option<u8> {
        let source = self.source_places(command);
        let reply = self.reply_places(command);
        let mut keep = |eq, count| {
            let queue: Option<&mut Eq> = self.eqs.get_mut(eq);
            queue.is_none_or(|queue| queue.keep_own(count))
        };
        let has_kept = match (source, reply) {
            (None, None) => true,
            (Some((eq, count)), None) | (None, Some((eq, count))) => keep(eq, count),
            // What needs more than a queue has gets all of it, but not twice.
            (Some((eq, sends)), Some((other, replies))) if eq == other => keep(eq, sends + replies),
            (Some((eq, sends)), Some((other, replies))) => {
                let has_first = keep(eq, sends);
                let has_both = has_first && keep(other, replies);
                if has_first && !has_both {
                    self.eqs.get_mut(eq)?.give_back_own(sends);
                }
                has_both
            }
        };
        let source = source.map_or(0, |_| Kept::SOURCE);
        let reply = reply.map_or(0, |_| Kept::REPLY);
        has_kept.then_some(source | reply)
    }

    /// Gives back those of these places that an operation has.
    #[inline]
    pub(crate) fn give_places_back(&mut self, at: u32, number: u32, which: u8) {
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        let Some(kept) = flow.and_then(|flow| flow.get_mut(number)) else { return };
        let had = kept.places & which;
        if had == 0 {
            return;
        }
        kept.places &= !which;
        let command = kept.command;
        self.return_places(&command, had);
    }

    /// Gives places back that were kept for the events of an operation.
    pub(crate) fn return_places(&mut self, command: &Command, which: u8) {
        let source = self.source_places(command).filter(|_| which & Kept::SOURCE != 0);
        let reply = self.reply_places(command).filter(|_| which & Kept::REPLY != 0);
        for (eq, count) in [source, reply].into_iter().flatten() {
            if let Some(queue) = self.eqs.get_mut(eq) {
                queue.give_back_own(count);
            }
        }
    }

    /// The queue of the descriptor that an operation sends from, and the events that it is
    /// told if all goes well.
    #[inline]
    fn source_places(&self, command: &Command) -> Option<(Handle<Eq>, usize)> {
        let (md, acks) = match command {
            Command::Put { from, ack, .. } | Command::Atomic { from, ack, .. } => {
                (from.md, *ack == Some(AckKind::Full))
            }
            Command::Fetch { from, .. } => (from.md, false),
            _ => return None,
        };
        self.places_in(md, true, acks)
    }

    /// The same of the descriptor that is replied to.
    #[inline]
    fn reply_places(&self, command: &Command) -> Option<(Handle<Eq>, usize)> {
        match command {
            Command::Get { into, .. } | Command::Fetch { into, .. } => {
                self.places_in(into.md, false, true)
            }
            _ => None,
        }
    }

    #[inline]
    fn places_in(&self, md: Handle<Md>, sends: bool, answers: bool) -> Option<(Handle<Eq>, usize)> {
        self.mds.get(md)?.own_events(sends, answers)
    }
}
