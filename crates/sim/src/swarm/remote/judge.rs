//! Whether operations on remote memory end as they must, and what must have ended at rest.

use super::super::judge::{GUARD_BYTES, UNTOUCHED, names_lost, reuse};
use super::super::world::World;
use super::books::{Op, Piece, Remote, State};
use sluice_proto::{Completion, Deed, Failure, Kind, Space};
use sluice_wire::{PeerId, Region};
use std::ops::Range;

impl Remote {
    /// A request has ended that is about remote memory.
    pub(in super::super) fn ended(&mut self, world: &mut World<'_>, who: usize, end: &Completion) {
        match end.kind {
            kind if kind.is_of_region() => self.told(world, who, end),
            _ => self.operation_ended(world, who, end),
        }
    }

    fn operation_ended(&mut self, world: &mut World<'_>, who: usize, end: &Completion) {
        let context = end.context;
        let op = self.ops.get_mut(&context).expect("it was begun");
        assert!(!op.is_done, "operation {context} has ended twice");
        let told = (who, end.kind, end.len, end.buf, end.peer, end.quiet);
        let (buf, peer) = (op.parts[0].local.addr, PeerId(op.peer as u32));
        let wanted = (op.who, op.kind(), op.len(), buf, Some(peer), !op.report);
        assert_eq!(told, wanted, "operation {context}");
        let rest = (end.space, end.tag, end.data);
        assert_eq!(rest, (Space::Untagged, 0, None), "operation {context}");
        op.is_done = true;
        // Of several parts, some may have been refused before the others were lost.
        op.is_lost = end.outcome.is_err() && world.is_cut(who, op.peer);
        let op = op.clone();
        if !op.is_lost
            && let Some(way) = self.ways.get_mut(&(who, op.peer))
        {
            way.ended(context);
        }
        self.met.remote_targets_lost |= u64::from(op.is_lost);
        check_outcome(world, &op, end);
        for part in &op.parts {
            self.check_part(world, &op, part, end);
        }
        if op.inject {
            world.returned(who, op.len());
        }
        release(world, &op);
        if !op.is_lost {
            self.regions.iter_mut().for_each(|region| region.end(context));
        }
    }

    /// What is here and there when an operation has ended.
    fn check_part(&self, world: &mut World<'_>, op: &Op, part: &Piece, end: &Completion) {
        let what = format!("operation {} of {} on {}", end.context, op.who, op.peer);
        if let (Deed::Write, State::Taken { region, bytes, .. }, false) =
            (op.deed, &part.state, op.is_lost)
        {
            let found = self.regions[*region].found(world, bytes);
            assert!(found == part.bytes, "{what} has ended and is not in its place");
        }
        let back = match op.deed {
            Deed::Write | Deed::Combine(..) => return,
            Deed::Read => part.local,
            Deed::Fetch(..) => part.result,
        };
        let whole = Region { addr: back.addr, len: back.len + GUARD_BYTES };
        let found = world.memory(op.who).read(whole).to_vec();
        let (found, beyond) = found.split_at(back.len as usize);
        assert!(beyond.iter().all(|byte| *byte == UNTOUCHED), "{what} wrote beyond its place");
        match &part.state {
            State::Taken { before, .. } if op.is_lost => {
                let mut pairs = found.iter().zip(before);
                let is_its = pairs.all(|(found, sent)| found == sent || *found == UNTOUCHED);
                assert!(is_its, "{what} has brought other bytes");
            }
            State::Taken { before, .. } => {
                assert!(found == before, "{what} has brought other bytes than were there");
            }
            State::OnItsWay | State::Refused(_) => {
                let is_untouched = found.iter().all(|byte| *byte == UNTOUCHED);
                assert!(is_untouched, "{what} was not done and has brought bytes");
            }
        }
    }

    /// A process is told what a peer has done with a region.
    fn told(&mut self, world: &mut World<'_>, who: usize, end: &Completion) {
        let at = self.dues.iter().position(|due| {
            let is_its = (due.who, due.kind, due.context) == (who, end.kind, end.context);
            let len = (due.bytes.end - due.bytes.start) as u64;
            is_its
                && Some(PeerId(due.from as u32)) == end.peer
                && (len, due.start, due.data) == (end.len, end.buf, end.data)
        });
        let at = at.unwrap_or_else(|| panic!("{who} is told what nobody has done: {end:?}"));
        let due = self.dues.swap_remove(at);
        let told = (end.quiet, end.outcome, end.space, end.tag);
        assert_eq!(told, (due.data.is_none(), Ok(()), Space::Untagged, 0), "{end:?}");
        match due.data {
            Some(_) => self.met.remote_told = 1,
            None => self.met.remote_counted = 1,
        }
        let op = self.ops[&due.of].clone();
        let is_whole = matches!(due.kind, Kind::PeerWrite | Kind::PeerRead);
        for part in &op.parts {
            match &part.state {
                State::Taken { region, bytes, .. } if is_whole || *region == due.region => {
                    let is_done = self.is_done_there(world, &op, part, *region, bytes);
                    assert!(is_done, "{who} is told of what is not done: {end:?}, {part:?}");
                }
                State::Taken { .. } => {}
                State::OnItsWay | State::Refused(_) => {
                    assert!(due.data.is_none(), "{who} is told the data of a part: {end:?}");
                }
            }
        }
    }

    /// Whether a target has nothing more to do for a part, as far as it can be seen.
    fn is_done_there(
        &self,
        world: &mut World<'_>,
        op: &Op,
        part: &Piece,
        region: usize,
        bytes: &Range<usize>,
    ) -> bool {
        let region = &self.regions[region];
        match (op.deed, &part.state) {
            // The bytes of a short read are on their way in a packet.
            (Deed::Read, State::Taken { before, .. }) => {
                // When the operation has ended its memory is the program's again.
                !part.is_long
                    || op.is_done
                    || world.memory(op.who).read(part.local) == before.as_slice()
            }
            _ => region.found(world, bytes) == region.bytes[bytes.clone()],
        }
    }

    /// Panics unless everything that could end has, and each region is as it must be.
    ///
    /// `has_messages`: by process, whether it has not received all messages that there are.
    pub(in super::super) fn check_rest(&mut self, world: &mut World<'_>, has_messages: &[bool]) {
        for (context, op) in self.ops.iter().filter(|(_, op)| !op.is_done) {
            if world.is_dead(op.who) {
                continue;
            }
            let is_cut = world.is_cut(op.who, op.peer);
            assert!(!is_cut, "operation {context} of {} waits for {}", op.who, op.peer);
            let has_come = op.parts.iter().all(|part| part.state != State::OnItsWay);
            let never_waits = world.setup.remote.is_some_and(|remote| remote.never_waits);
            let waits = !never_waits && !has_come && has_messages[op.peer];
            assert!(waits, "operation {context} of {} on {} has not ended", op.who, op.peer);
            self.met.remote_behind_messages = 1;
        }
        self.settle(world);
        let is_left = |due: &super::books::Due| {
            !self.regions[due.region].is_hidden && !world.is_cut(due.who, due.from)
        };
        let left: Vec<_> = self.dues.iter().filter(|due| is_left(due)).collect();
        assert!(left.is_empty(), "a process was not told: {left:?}");
        self.dues.clear();
        for region in &self.regions {
            if !world.is_dead(region.owner) {
                region.compare(world);
            }
        }
    }

    /// What was cut short by the loss of a process has changed some of its bytes, or not.
    fn settle(&mut self, world: &mut World<'_>) {
        let Remote { ops, regions, met, .. } = self;
        for (context, op) in ops.iter_mut() {
            let by_death = !op.is_done && world.is_dead(op.who);
            if !by_death && !op.is_lost {
                continue;
            }
            met.remote_origins_lost |= u64::from(by_death);
            (op.is_done, op.is_lost) = (true, false);
            for part in &op.parts {
                let State::Taken { region, bytes, before } = &part.state else { continue };
                let region = &mut regions[*region];
                let may_differ = op.deed == Deed::Write && part.is_long;
                if !may_differ || world.is_dead(region.owner) {
                    continue;
                }
                let found = region.found(world, bytes);
                let both = before.iter().zip(&part.bytes);
                let mut all = found.iter().zip(both);
                let is_its = all.all(|(found, (old, new))| found == old || found == new);
                assert!(is_its, "operation {context} has left bytes of neither");
                region.bytes[bytes.clone()].copy_from_slice(&found);
            }
            regions.iter_mut().for_each(|region| region.end(*context));
        }
    }

    /// Panics unless nothing is left.
    pub(in super::super) fn check_end(&self, world: &World<'_>) {
        for (context, op) in &self.ops {
            assert!(op.is_done || world.is_dead(op.who), "operation {context} has not ended");
        }
    }
}

/// Whether an operation may end so: as one of its parts did, or by the loss of its target.
fn check_outcome(world: &World<'_>, op: &Op, end: &Completion) {
    let context = end.context;
    match end.outcome {
        Ok(()) => {
            let is_taken = |part: &Piece| matches!(part.state, State::Taken { .. });
            assert!(op.parts.iter().all(is_taken), "operation {context} is well, and was not done");
        }
        Err(Failure::PeerGone { .. }) => {
            let lost = names_lost(world, op.who, end);
            assert_eq!(lost, Some(op.peer), "operation {context}: {:?}", end.outcome);
        }
        Err(why) => {
            let is_its = |part: &Piece| part.state == State::Refused(why);
            assert!(op.parts.iter().any(is_its), "operation {context} ends by {why}");
        }
    }
}

/// The memory of an operation is the program's again.
fn release(world: &mut World<'_>, op: &Op) {
    for part in &op.parts {
        let memory = world.memory(op.who);
        match op.deed {
            Deed::Read => memory.release(guarded(part.local)),
            Deed::Fetch(..) => memory.release(guarded(part.result)),
            Deed::Write | Deed::Combine(..) => {}
        }
        if op.deed != Deed::Read && !op.inject {
            reuse(world, op.who, part.local);
        }
    }
}

fn guarded(region: Region) -> Region {
    Region { addr: region.addr, len: region.len + GUARD_BYTES }
}
