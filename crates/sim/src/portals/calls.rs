//! The calls of a program: each is drawn, made to the engine, and told to the model.

use super::bridge;
use super::model::{Bytes, Count, Entry, List, Options, Shot, Unlinked};
use super::operations::Drawn;
use super::program::{COUNTERS, EntryMemory, ID_SHIFT, OWN_COUNTERS, PTS, Program};
use super::trace;
use sluice_portals::{Command, CtEvent, Handle, Me, MeSpec, PtlError, SearchOp, Vector};
use sluice_wire::{Addr, MatchBits, PeerId, PtIndex, Region};

/// User pointers of entries begin here; below are those of operations.
pub const ENTRIES: u64 = 1 << 32;
/// Kinds of match bits that programs use.
pub const CLASSES: u64 = 3;
/// Floating-point items begin as small whole numbers, so that sums are exact.
pub const NUMBERS: u64 = 8;

impl Program<'_> {
    /// A process calls something.
    pub fn act(&mut self) {
        let who = self.anybody();
        if self.world.is_dead(who) {
            return;
        }
        match self.draw.below(100) {
            0..26 => self.append(who),
            26..62 => self.issue(who),
            62..74 => self.arm(who),
            74..80 => {
                let at = COUNTERS + self.draw.below(OWN_COUNTERS as u64) as usize;
                let (sets, count) = (self.draw.percent(25), self.count_drawn());
                self.change(who, at, sets, count);
            }
            80..87 => self.search(who),
            87..92 if !self.model.entries.is_empty() => {
                let at = self.draw.below(self.model.entries.len() as u64) as usize;
                if !self.world.is_dead(self.model.entries[at].who) {
                    self.unlink(at);
                }
            }
            92..98 => self.switch(who),
            98 => {
                let at = self.draw.below((COUNTERS + OWN_COUNTERS) as u64) as usize;
                self.cancel(who, at);
            }
            _ => self.issue(who),
        }
    }

    fn anybody(&mut self) -> usize {
        self.draw.below(self.setup.layouts.len() as u64) as usize
    }

    /// Mostly successes, now and then failures.
    fn count_drawn(&mut self) -> Count {
        let many = self.draw.below(5);
        if self.draw.percent(85) { (many, 0) } else { (0, many) }
    }

    /// Memory of a process in one piece, or now and then in several, and what it holds.
    fn memory(&mut self, who: usize, bytes: &[u8]) -> Vec<Region> {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        let count = if self.draw.percent(20) { self.draw.between(2, 3) } else { 1 };
        for left in (0..count).rev() {
            let len =
                if left == 0 { rest.len() as u64 } else { self.draw.below(rest.len() as u64 + 1) };
            let (first, others) = rest.split_at(len as usize);
            let region = self.world.memories[who].alloc(len);
            self.world.memories[who].write(region.addr, first);
            pieces.push(region);
            rest = others;
        }
        self.coverage.vectors |= u64::from(count > 1);
        pieces
    }

    /// What an entry is drawn as; it has memory only if it is to be appended.
    pub fn entry(&mut self, who: usize, has_memory: bool) -> (Entry, Vec<Region>) {
        let draw = &mut self.draw;
        let list = if draw.percent(60) { List::Priority } else { List::Overflow };
        let matching = self.setup.matching;
        let counts = draw.percent(50);
        let is_overflow = list == List::Overflow;
        let flag = |draw: &mut crate::swarm::Draw, percent| draw.percent(percent);
        let mut options = Options {
            op_put: flag(draw, 92),
            op_get: flag(draw, 85),
            use_once: flag(draw, 40),
            manage_local: matching && flag(draw, 30),
            inc_by_rlength: matching && flag(draw, 30),
            no_truncate: matching && flag(draw, 20),
            event_link_disable: flag(draw, 40),
            event_comm_disable: flag(draw, 10),
            event_success_disable: flag(draw, 8),
            event_over_disable: flag(draw, 10),
            event_unlink_disable: flag(draw, 15),
            event_flowctrl_disable: flag(draw, 15),
            ct_comm: counts && flag(draw, 70),
            ct_overflow: counts && flag(draw, 60),
            ct_bytes: flag(draw, 40),
            unexpected_hdr_disable: flag(draw, 20),
        };
        // Of a header whose data moves silently, nobody knows when it is free again.
        if is_overflow && self.setup.has_few_headers() {
            (options.event_comm_disable, options.event_success_disable) = (false, false);
        }
        let len = draw.pick(&[16, 64, 200, 200, 600]).min(self.setup.bytes_max);
        let len = if draw.percent(4) { 0 } else { len };
        let min_free = if options.manage_local { draw.pick(&[0, 1, 30, 100]) } else { 0 };
        let (bits, source) = (draw.below(CLASSES), draw.percent(30).then(|| draw.below(4)));
        let ignore = draw.pick(&[0, 0, 1, 0xFF]);
        let pt = draw.below(PTS as u64) as usize;
        let is_foreign = draw.percent(4);
        let ct = counts.then(|| draw.below(COUNTERS as u64) as usize);
        let values: Vec<u8> =
            (0..len).flat_map(|_| self.draw.below(NUMBERS).to_le_bytes()).collect();
        let values = &values[..len as usize];
        let pieces = if has_memory { self.memory(who, values) } else { Vec::new() };
        let user_ptr = ENTRIES + self.model.entries.len() as u64;
        let entry = Entry {
            who,
            pt,
            list,
            bits,
            ignore: if matching { ignore | !0 << ID_SHIFT } else { !0 },
            source: source.filter(|_| matching).map(|source| source as usize % self.count()),
            is_foreign,
            min_free,
            options,
            ct,
            user_ptr,
            start: (pieces.len() == 1).then(|| pieces[0].addr.0),
            memory: Bytes::new(values.to_vec()),
            local_offset: 0,
            linked: false,
            auto_unlinked: false,
            headers: 0,
            moving: Vec::new(),
            unlink_due: None,
        };
        (entry, pieces)
    }

    fn spec(&mut self, entry: &Entry, pieces: &[Region]) -> MeSpec {
        let ct = entry.ct.map(|ct| self.actors[entry.who].counters[ct]);
        let (region, vector) = match pieces {
            [] => (Region { addr: Addr(64), len: entry.memory.len() }, None),
            [one] => (*one, None),
            several => {
                let vector = Vector::new(several.to_vec()).expect("they are short");
                let whole = Region { addr: Addr(0), len: vector.total_bytes() };
                let ni = self.world.ni_mut(entry.who);
                (whole, Some(ni.vector_bind(vector).expect("there is room")))
            }
        };
        MeSpec {
            region,
            vector,
            match_bits: MatchBits(entry.bits),
            ignore_bits: entry.ignore,
            source: entry.source.map(|source| PeerId(source as u32)),
            // Who is here is user 0.
            uid: if entry.is_foreign { Some(1) } else { None },
            min_free: entry.min_free,
            options: bridge::me_options(&entry.options),
            ct,
            user_ptr: entry.user_ptr,
        }
    }

    fn append(&mut self, who: usize) {
        let (entry, pieces) = self.entry(who, true);
        self.append_entry(entry, pieces);
    }

    pub fn append_entry(&mut self, entry: Entry, pieces: Vec<Region>) {
        let who = entry.who;
        self.take_events(who);
        let spec = self.spec(&entry, &pieces);
        let (pt, list) = (PtIndex(entry.pt as u8), bridge::list(entry.list));
        self.model.begin_step();
        let (id, linked) = self.model.append(entry.clone());
        self.world.note(who, trace::What::Appends(id, Box::new(entry), linked));
        let handle: Option<Handle<Me>> = self
            .world
            .call(who, |ni, port| ni.me_append(port, pt, list, spec))
            .expect("there is room");
        assert_eq!(handle.is_some(), linked, "whether entry {id} is linked");
        self.entry_memory.push(EntryMemory { pieces, handle });
        self.look(who);
    }

    fn search(&mut self, who: usize) {
        let (entry, _) = self.entry(who, false);
        self.take_events(who);
        let spec = self.spec(&entry, &[]);
        let deletes = self.draw.percent(40);
        let op = if deletes { SearchOp::Delete } else { SearchOp::Only };
        let pt = PtIndex(entry.pt as u8);
        self.model.begin_step();
        let found = self.model.search(&entry, deletes);
        self.world.note(who, trace::What::Searches(Box::new(entry), deletes, found));
        self.world.call(who, |ni, port| ni.me_search(port, pt, op, &spec)).expect("it is right");
        self.look(who);
    }

    pub fn unlink(&mut self, at: usize) {
        let who = self.model.entries[at].who;
        self.take_events(who);
        // What was used up when it was appended has no handle.
        let Some(handle) = self.entry_memory[at].handle else { return };
        self.model.begin_step();
        let wanted = self.model.may_unlink(at);
        let found = self.world.ni_mut(who).me_unlink(handle);
        self.world.note(who, trace::What::Unlinks(at, found.is_ok()));
        let agrees = match found {
            Ok(()) => matches!(wanted, Unlinked::Done | Unlinked::Either),
            Err(PtlError::InUse) => matches!(wanted, Unlinked::InUse | Unlinked::Either),
            Err(_) => wanted == Unlinked::Gone,
        };
        assert!(agrees, "unlinking entry {at} gives {found:?}, of {wanted:?}");
        self.coverage.unlinks_refused |= u64::from(found == Err(PtlError::InUse));
        if found.is_ok() {
            self.model.unlink(at);
        }
        self.look(who);
    }

    fn switch(&mut self, who: usize) {
        let is_off =
            |pt: &usize| self.model.processes[who].pts[*pt].as_ref().is_some_and(|pt| pt.disabled);
        let off: Vec<usize> = (0..PTS).filter(is_off).collect();
        let (pt, on) = match off.first() {
            Some(pt) if self.draw.percent(80) => (*pt, true),
            _ => (self.draw.below(PTS as u64) as usize, self.draw.percent(60)),
        };
        self.switch_to(who, pt, on);
    }

    pub fn switch_to(&mut self, who: usize, pt: usize, on: bool) {
        self.model.begin_step();
        self.world.note(who, trace::What::Switches(pt, on));
        let index = PtIndex(pt as u8);
        if on {
            self.world.call(who, |ni, port| ni.pt_enable(port, index)).expect("it is there");
        } else {
            self.world.ni_mut(who).pt_disable(index).expect("it is there");
        }
        self.model.pt_switch(who, pt, on);
        self.look(who);
    }

    pub fn cancel(&mut self, who: usize, at: usize) {
        self.model.begin_step();
        self.world.note(who, trace::What::Cancels(at));
        let ct = self.actors[who].counters[at];
        self.world.ni_mut(who).ct_cancel_triggered(ct).expect("it is there");
        self.model.ct_cancel(who, at);
    }

    /// A process changes one of its own counters.
    pub fn change(&mut self, who: usize, at: usize, sets: bool, count: Count) {
        self.model.begin_step();
        let ct = self.actors[who].counters[at];
        let by = CtEvent { success: count.0, failure: count.1 };
        let command = if sets { Command::CtSet { ct, to: by } } else { Command::CtInc { ct, by } };
        self.world.note(who, trace::What::Arms(None, Box::new(command), at, 0));
        self.world.call(who, |ni, port| ni.issue(port, &command)).expect("it is right");
        if sets {
            self.model.ct_set(who, at, count);
        } else {
            self.model.ct_inc(who, at, count);
        }
        self.look(who);
    }

    fn issue(&mut self, who: usize) {
        self.model.begin_step();
        let Drawn { id, from, command, descriptor, is_own } = self.operation(who, true);
        self.world.note(who, trace::What::Issues(id, Box::new(command)));
        self.world.call(who, |ni, port| ni.issue(port, &command)).expect("it is right");
        self.model.begin(id);
        if is_own {
            let ni = self.world.ni_mut(who);
            ni.md_release(descriptor.handle).expect("it is there");
            self.coverage.released_early |= u64::from(ni.operations_now() > 0);
        } else if descriptor.is_volatile
            && matches!(
                command,
                Command::Put { .. } | Command::Atomic { .. } | Command::Fetch { .. }
            )
        {
            self.coverage.volatile = 1;
            self.spoil(from, id);
        }
        self.look(who);
    }

    /// What a counter will set off: an operation, or a change of another counter.
    fn arm(&mut self, who: usize) {
        if self.draw.percent(10) {
            return self.arm_to_set_back(who);
        }
        self.model.begin_step();
        let first_own = COUNTERS;
        let kind = self.draw.below(4);
        let threshold = self.draw.below(8);
        let (at, shot, id, command) = if kind < 3 {
            let at = self.draw.below((COUNTERS + OWN_COUNTERS) as u64) as usize;
            let Drawn { id, command, .. } = self.operation(who, false);
            (at, Shot::Op(id), Some(id), command)
        } else {
            // Counters that the network changes raise the first of the program's own; that one
            // raises or sets the second. So no two orders have different results.
            let at = self.draw.below(first_own as u64 + 1) as usize;
            let count = self.count_drawn();
            let (target, sets) = (first_own + usize::from(at == first_own), self.draw.percent(50));
            let ct = self.actors[who].counters[target];
            let by = CtEvent { success: count.0, failure: count.1 };
            if at == first_own && sets {
                (at, Shot::Set(target, count), None, Command::CtSet { ct, to: by })
            } else {
                (at, Shot::Inc(target, count), None, Command::CtInc { ct, by })
            }
        };
        self.arm_with(who, (at, threshold), shot, id, command);
    }

    /// One counter takes the other over a threshold, and sets it back at once.
    fn arm_to_set_back(&mut self, who: usize) {
        let (first, second) = (COUNTERS, COUNTERS + 1);
        self.model.begin_step();
        let Drawn { id, command, .. } = self.operation(who, false);
        let waits_for = self.draw.between(1, 8);
        self.arm_with(who, (second, waits_for), Shot::Op(id), Some(id), command);
        let threshold = self.draw.below(8);
        let ct = self.actors[who].counters[second];
        self.model.begin_step();
        let (shot, by) = (Shot::Inc(second, (8, 0)), CtEvent { success: 8, failure: 0 });
        self.arm_with(who, (first, threshold), shot, None, Command::CtInc { ct, by });
        self.model.begin_step();
        let (shot, to) = (Shot::Set(second, (0, 0)), CtEvent::default());
        self.arm_with(who, (first, threshold), shot, None, Command::CtSet { ct, to });
    }

    fn arm_with(
        &mut self,
        who: usize,
        (at, threshold): (usize, u64),
        shot: Shot,
        id: Option<usize>,
        command: Command,
    ) {
        let ct = self.actors[who].counters[at];
        let armed = self.world.call(who, |ni, port| ni.trigger(port, command, ct, threshold));
        let has_room = self.model.armed(who) < self.setup.triggered_max as usize;
        assert_eq!(armed.is_ok(), has_room, "room for another triggered operation: {armed:?}");
        if !has_room {
            self.coverage.triggered_exhausted = 1;
            return;
        }
        self.world.note(who, trace::What::Arms(id, Box::new(command), at, threshold));
        self.model.arm(who, at, threshold, shot);
        self.look(who);
    }
}
