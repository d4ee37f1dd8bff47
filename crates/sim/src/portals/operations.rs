//! Operations as programs draw them: what they do, with which bytes, from which descriptor.

use super::bridge;
use super::calls::{CLASSES, NUMBERS};
use super::judge::BLANK;
use super::model::{AckReq, Bytes, Ends, Md, Op, Operation, Sum, Type, What};
use super::program::{Descriptor, ID_SHIFT, OpMemory, PTS, Program};
use sluice_portals::{Command, Local};
use sluice_wire::{Addr, Region};

/// What an operation is drawn as.
pub struct Drawn {
    pub id: usize,
    pub from: usize,
    pub command: Command,
    pub descriptor: Descriptor,
    /// A descriptor of this operation alone.
    pub is_own: bool,
}

impl Program<'_> {
    /// Draws an operation of `who`, and its memory. It is not started yet.
    pub fn operation(&mut self, who: usize, is_now: bool) -> Drawn {
        let to = self.draw.below(self.setup.layouts.len() as u64) as usize;
        self.coverage.to_self |= u64::from(to == who);
        let kind = self.kind_drawn();
        let len = self.len_drawn(kind);
        let draw = &mut self.draw;
        let pt = if draw.percent(2) { PTS } else { draw.below(PTS as u64) as usize };
        let remote_offset = draw.pick(&[0, 0, 8, 8, 24, 100, 1_000]);
        let id = self.model.ops.len();
        let bits = (id as u64) << ID_SHIFT | draw.below(CLASSES);
        let hdr_data = draw.bits();
        let (descriptor, is_own) = self.descriptor(who, len, is_now);
        let md = descriptor.model;
        let ack = self.ack_drawn(kind, &md);
        let sent = self.values(kind, len);
        let operand = match kind.sum() {
            Some(sum) if sum.op.has_operand() => self.values(kind, sum.of.bytes()),
            _ => Vec::new(),
        };
        let op = Op {
            kind,
            from: who,
            to,
            pt,
            bits,
            hdr_data,
            len,
            remote_offset,
            ack,
            user_ptr: id as u64,
            source_md: md,
            answer_md: md,
            sent,
            operand,
            started: None,
            arrived: None,
            answer: Bytes::default(),
            settled: false,
            is_unexpected: false,
            is_claimed: false,
            send_due: None,
            comm_due: None,
            ends: Ends::default(),
        };
        let memory = self.memory_for(&op);
        let local = |pieces: &[Region]| Local {
            md: descriptor.handle,
            offset: pieces.first().map_or(64, |piece| piece.addr.0),
            length: len,
        };
        let command = bridge::command(&op, local(&memory.source), local(&memory.answer));
        self.op_memory.push(memory);
        let added = self.model.add_op(op);
        assert_eq!(added, id, "operations are numbered as they come");
        Drawn { id, from: who, command, descriptor, is_own }
    }

    fn kind_drawn(&mut self) -> What {
        let draw = &mut self.draw;
        let fetches = match draw.below(100) {
            0..45 => return What::Put,
            45..65 => return What::Get,
            65..80 => false,
            _ => true,
        };
        let of = draw.pick(&Type::ALL);
        let op = loop {
            let op = draw.pick(&Operation::ALL);
            let is_defined = of.is_integer() || !op.needs_integers();
            // A swap answers.
            if is_defined && (fetches || !op.is_swap()) {
                break op;
            }
        };
        let sum = Sum { op, of };
        if fetches { What::Fetch(sum) } else { What::Atomic(sum) }
    }

    fn len_drawn(&mut self, kind: What) -> u64 {
        let most = match kind {
            What::Put | What::Get => self.setup.bytes_max,
            What::Atomic(_) | What::Fetch(_) => self.setup.atomic_bytes_max,
        };
        let len = self.draw.pick(&[0, 8, 8, 16, 40, 64, 100, 300, 1_000, 3_000]).min(most);
        let Some(sum) = kind.sum() else { return len };
        let whole = len - len % sum.of.bytes();
        let items = if sum.op.has_operand() { 1 } else { 8 };
        whole.min(items * sum.of.bytes())
    }

    /// An acknowledgement that has somewhere to go.
    fn ack_drawn(&mut self, kind: What, md: &Md) -> AckReq {
        let ack = match self.draw.below(5) {
            0 | 1 if md.has_queue => AckReq::Full,
            2 if md.ct.is_some() => AckReq::Count,
            3 => AckReq::Completed,
            _ => AckReq::None,
        };
        if matches!(kind, What::Put | What::Atomic(_)) { ack } else { AckReq::None }
    }

    fn memory_for(&mut self, op: &Op) -> OpMemory {
        let mut memory = OpMemory::default();
        if op.kind.writes() {
            memory.source = self.memory_of(op.from, &op.sent);
        }
        if op.kind.reads() {
            memory.answer = self.memory_of(op.from, &vec![BLANK; op.len as usize]);
        }
        memory
    }

    /// A descriptor for an operation of so many bytes; one of its own is released at once.
    fn descriptor(&mut self, who: usize, len: u64, is_now: bool) -> (Descriptor, bool) {
        let descriptors = self.actors[who].descriptors.clone();
        let found = self.draw.pick(&descriptors);
        let fits = !found.is_volatile || len <= u64::from(self.setup.eager_bytes_max);
        let found = if fits { found } else { descriptors[0] };
        if !is_now || found.is_volatile || !self.draw.percent(15) {
            return (found, false);
        }
        let queues = self.actors[who].queues;
        let ct = found.model.ct.map(|ct| self.actors[who].counters[ct]);
        let queue = found.model.has_queue.then_some(queues[0]);
        let whole = Region { addr: Addr(0), len: u64::MAX };
        let options = bridge::md_options(&found.model, false);
        let ni = self.world.ni_mut(who);
        let handle = ni.md_bind(whole, None, queue, ct, options).expect("there is room");
        (Descriptor { handle, ..found }, true)
    }

    fn memory_of(&mut self, who: usize, bytes: &[u8]) -> Vec<Region> {
        let region = self.world.memories[who].alloc(bytes.len() as u64);
        self.world.memories[who].write(region.addr, bytes);
        vec![region]
    }

    /// Bytes to be sent: any, or small whole numbers of the type.
    fn values(&mut self, kind: What, len: u64) -> Vec<u8> {
        let Some(sum) = kind.sum() else {
            return (0..len).map(|_| self.draw.bits() as u8).collect();
        };
        let item = |number: u64| match sum.of {
            Type::F32 => (number as f32).to_le_bytes().to_vec(),
            Type::F64 => (number as f64).to_le_bytes().to_vec(),
            _ => number.to_le_bytes()[..sum.of.bytes() as usize].to_vec(),
        };
        let count = len / sum.of.bytes();
        let sign = self.draw.percent(10);
        let numbers = (0..count).map(|_| self.draw.below(NUMBERS));
        let numbers: Vec<u64> = numbers
            .map(|number| if sign && sum.of.is_integer() { !number } else { number })
            .collect();
        numbers.into_iter().flat_map(item).collect()
    }
}
