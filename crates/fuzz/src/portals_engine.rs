//! Calls of [`sluice_portals::Ni`]: two interfaces with everything that Portals has, and small
//! tables; or the first says what it likes to the second.

use crate::Input;
use crate::pair::net::{Event, Mode, Read, dynamic_layout};
use crate::pair::{PT, Pair, Side};
use sluice_link::{Grant, Layout, PeerError};
use sluice_portals::{
    Arithmetic, Command, CtEvent, Handle, Limits, List, Local, Md, MdOptions, Me, MeOptions,
    MeSpec, PtOptions, Scheme, SearchOp, Taken, Target,
};
use sluice_wire::{
    AckKind, AtomicOp, Credits, Datatype, ITEM_BYTES_MAX, MatchBits, Packet, PacketSeq, PeerId,
    PtIndex, Region,
};

const CALLS_MAX: usize = 300;
const BYTES: u64 = 4096;
/// Far more than there can be on its way after so many calls.
const EVENTS_MAX: u32 = 20_000;

struct Run {
    pair: Pair,
    /// Of each side.
    memory: Vec<Region>,
    entries: [Vec<Handle<Me>>; 2],
    is_hostile: bool,
}

/// The books of both are in order after each call.
pub fn engine_calls(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let is_hostile = input.flag();
    let limits = Limits {
        entries_max: input.pick(&[2, 16, 1000]),
        unexpected_headers_max: input.pick(&[1, 4, 1000]),
        operations_max: input.pick(&[2, 16, 1000]),
        triggered_ops_max: input.pick(&[1, 16]),
        list_size_max: input.pick(&[2, 1000]),
        eager_bytes_max: input.pick(&[16, 64, 1000]),
        credits_until_matched: input.flag(),
        recovery: input.pick(&[None, None, Some(Scheme::Resume), Some(Scheme::Pause)]),
        ..Limits::default()
    };
    let layouts: [Layout; 2] = std::array::from_fn(|_| mailbox(&mut input));
    let mode = Mode {
        pending_percent: input.pick(&[0, 0, 50]),
        can_read: input.flag(),
        placing_percent: input.pick(&[0, 100]),
        ..Mode::default()
    };
    let pair = Pair::with_limits(&layouts, mode, MdOptions::default(), limits);
    let memory = (0..2).map(|who| pair.alloc(who, &vec![who as u8; BYTES as usize])).collect();
    let mut run = Run { pair, memory, entries: [Vec::new(), Vec::new()], is_hostile };
    // The entry that the pair has is without flow control, and its queue is long.
    for who in 0..2 {
        let ni = &mut run.pair.sides[who].ni;
        let events_max = 2 + input.below(16);
        let eq = ni.eq_alloc(events_max).expect("the first ones fit");
        let options = PtOptions { flow_control: true, ..PtOptions::default() };
        ni.pt_alloc(PtIndex(PT.0 + 1), options, Some(eq)).expect("it is free");
    }
    for _ in 0..CALLS_MAX {
        if input.is_empty() {
            break;
        }
        run.call(&mut input);
        run.pair.sides.iter().skip(usize::from(is_hostile)).for_each(|side| {
            side.ni.check_invariants();
        });
    }
    if !is_hostile {
        run.settle();
    }
}

fn mailbox(input: &mut Input<'_>) -> Layout {
    let data_slots = 20 + u16::from(input.byte() % 64);
    dynamic_layout(2, Grant { data_slots, control_slots: 16, credit_slots: 4 }, 0, 64)
}

impl Run {
    fn call(&mut self, input: &mut Input<'_>) {
        let who = if self.is_hostile { 1 } else { input.below(2) };
        match input.byte() % 12 {
            0 | 1 => self.append(who, input),
            2 => {
                let count = self.entries[who].len();
                if count > 0 {
                    let handle = self.entries[who][input.below(count)];
                    let _ = self.pair.sides[who].ni.me_unlink(handle);
                }
            }
            3 => {
                let spec = self.spec(who, input);
                let op = if input.flag() { SearchOp::Delete } else { SearchOp::Only };
                let Side { ni, port, .. } = &mut self.pair.sides[who];
                let _ = ni.me_search(port, pt(input), op, &spec);
            }
            4 | 5 => {
                let command = self.command(who, input);
                let Side { ni, port, .. } = &mut self.pair.sides[who];
                let _ = ni.issue(port, &command);
            }
            6 => {
                let command = self.command(who, input);
                let Side { ni, port, ct, .. } = &mut self.pair.sides[who];
                let _ = ni.trigger(port, command, *ct, u64::from(input.byte() % 8));
            }
            7 => {
                let Side { ni, port, .. } = &mut self.pair.sides[who];
                let index = pt(input);
                let _ = if input.flag() { ni.pt_disable(index) } else { ni.pt_enable(port, index) };
            }
            8 => self.pair.events(who).clear(),
            9 if self.is_hostile => self.lie(input),
            9 => {
                let Side { ni, port, .. } = &mut self.pair.sides[who];
                ni.on_idle(port);
            }
            _ => self.happen(input),
        }
    }

    fn happen(&mut self, input: &mut Input<'_>) {
        let events = self.pair.sides[0].port.net().events();
        // The liar is no machine.
        let is_liars = |event: &Event| match *event {
            Event::Deliver(_, to) => to == 0,
            Event::Transmitted(who, _) | Event::Connected(who, _) => who == 0,
            _ => false,
        };
        let events: Vec<Event> =
            events.into_iter().filter(|event| !(self.is_hostile && is_liars(event))).collect();
        if !events.is_empty() {
            self.pair.happen(events[input.below(events.len())]);
            self.end_liar();
        }
    }

    /// Everything arrives, and what idle moments are for is done. That has an end.
    fn settle(&mut self) {
        for _ in 0..EVENTS_MAX {
            let event = self.pair.sides[0].port.net().events().first().copied();
            if let Some(event) = event {
                self.pair.happen(event);
                continue;
            }
            for who in 0..2 {
                self.pair.events(who).clear();
                let Side { ni, port, .. } = &mut self.pair.sides[who];
                ni.on_idle(port);
            }
            if self.pair.sides[0].port.net().events().is_empty() {
                return;
            }
        }
        panic!("two interfaces do not come to rest");
    }

    /// What a world does about a peer that broke the protocol.
    fn end_liar(&mut self) {
        if !matches!(self.pair.taken.take(), Some(Taken::Violation)) {
            return;
        }
        assert!(self.is_hostile, "an honest interface broke the protocol");
        let net = self.pair.sides[1].port.clone();
        loop {
            let reads = |read: &Read| read.reader == 1 && read.peer == 0;
            let Some(at) = net.net().reads.iter().position(reads) else { break };
            self.pair.happen(Event::Read(at));
        }
        net.net_mut().lose(0, 1);
        net.net_mut().lose(1, 0);
        let Side { ni, port, .. } = &mut self.pair.sides[1];
        ni.on_peer_gone(port, PeerId(0), PeerError::Protocol);
    }

    fn append(&mut self, who: usize, input: &mut Input<'_>) {
        let spec = self.spec(who, input);
        let list = if input.flag() { List::Priority } else { List::Overflow };
        let Side { ni, port, .. } = &mut self.pair.sides[who];
        if let Ok(Some(handle)) = ni.me_append(port, pt(input), list, spec) {
            self.entries[who].push(handle);
        }
    }

    fn spec(&self, who: usize, input: &mut Input<'_>) -> MeSpec {
        let bits = input.word();
        let bit = |at: u32| bits >> at & 1 == 1;
        let options = MeOptions {
            op_put: bit(0) || bit(1),
            op_get: bit(2) || bit(3),
            use_once: bit(4),
            manage_local: bit(5),
            no_truncate: bit(6),
            event_link_disable: bit(7),
            event_comm_disable: bit(8),
            event_success_disable: bit(9),
            event_over_disable: bit(10),
            event_unlink_disable: bit(11),
            event_flowctrl_disable: bit(12),
            ct_comm: bit(13),
            ct_overflow: bit(14),
            ct_bytes: bit(15),
            unexpected_hdr_disable: bit(16),
            ..MeOptions::default()
        };
        MeSpec {
            region: part(self.memory[who], input),
            match_bits: MatchBits(bits >> 20 & 3),
            ignore_bits: [0, 0, 1, u64::MAX][(bits >> 22 & 3) as usize],
            source: bit(24).then_some(PeerId((bits >> 25 & 1) as u32)),
            uid: bit(26).then_some(0),
            min_free: bits >> 28 & 63,
            options,
            ct: bit(27).then_some(self.pair.sides[who].ct),
            user_ptr: 1,
            vector: None,
        }
    }

    fn command(&self, who: usize, input: &mut Input<'_>) -> Command {
        let side = &self.pair.sides[who];
        let local = |input: &mut Input<'_>| local(side.md, part(self.memory[who], input));
        let target = Target {
            peer: PeerId(input.below(2) as u32),
            pt_index: pt(input),
            match_bits: MatchBits(u64::from(input.byte() & 3)),
            remote_offset: input.pick(&[0, 0, 8, 100, u64::MAX]),
        };
        let ack = input.pick(&[None, Some(AckKind::Full), Some(AckKind::Count)]);
        let (hdr_data, user_ptr) = (3, 4);
        let arithmetic = Arithmetic {
            op: input.pick(AtomicOp::ALL),
            datatype: input.pick(Datatype::ALL),
            operand: [input.byte(); ITEM_BYTES_MAX],
        };
        match input.byte() % 7 {
            0 | 1 => Command::Put { from: local(input), ack, target, hdr_data, user_ptr },
            2 => Command::Get { into: local(input), target, user_ptr },
            3 => {
                Command::Atomic { from: local(input), ack, target, hdr_data, user_ptr, arithmetic }
            }
            4 => {
                let (into, from) = (local(input), local(input));
                Command::Fetch { into, from, target, hdr_data, user_ptr, arithmetic }
            }
            5 => {
                let by = CtEvent { success: u64::from(input.byte() & 3), failure: 0 };
                Command::CtInc { ct: side.ct, by }
            }
            _ => Command::CtSet { ct: side.ct, to: CtEvent { success: 0, failure: 0 } },
        }
    }

    /// The first side says something to the second, most often with the right number.
    fn lie(&mut self, input: &mut Input<'_>) {
        let liar = PeerId(0);
        let links = self.pair.sides[1].ni.links();
        if links.gone(liar).is_some() {
            return;
        }
        let seq = links.expected_seq(liar).0;
        let seq = PacketSeq(seq.wrapping_add(u32::from(input.pick(&[0_u8, 0, 0, 0, 0, 1, 255]))));
        let mut bytes = [0_u8; 128];
        let len = 1 + input.below(bytes.len());
        let drawn = input.take(len);
        bytes[..drawn.len()].copy_from_slice(drawn);
        let Ok(parsed) = Packet::parse(&bytes) else { return };
        let payload = vec![7; (parsed.payload_len % 256) as usize];
        let head = parsed.packet.emit(seq, Credits::default(), payload.len() as u32);
        let net = self.pair.sides[1].port.clone();
        net.net_mut().lose(0, 1);
        net.net_mut().forge(0, 1, &head, &payload);
        self.pair.happen(Event::Deliver(0, 1));
        self.end_liar();
    }
}

fn pt(input: &mut Input<'_>) -> PtIndex {
    PtIndex(input.pick(&[PT.0, PT.0, PT.0 + 1, PT.0 + 1, 9, 255]))
}

fn local(md: Handle<Md>, region: Region) -> Local {
    Local { md, offset: region.addr.0, length: region.len }
}

/// A part of memory, aligned for any value.
fn part(whole: Region, input: &mut Input<'_>) -> Region {
    let offset = u64::from(input.byte() % 32) * 64;
    let len = u64::from(input.byte()) * input.pick(&[0, 1, 8]);
    Region { addr: whole.addr.offset(offset), len: len.min(whole.len - offset) }
}
