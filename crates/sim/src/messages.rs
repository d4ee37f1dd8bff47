//! The message layer: the stack as it ships, an endpoint with its matching,
//! its eager and announced messages and its credits, unchanged.

use crate::config::{Config, Cost, FEW_SENDERS, Pattern};
use crate::flight::{Flight, Store};
use crate::library::{Library, Local, Until};
use crate::port::SimPort;
use crate::program::Op;
use sluice_link::{Layout, Links, Machine as _, RailError, Token};
use sluice_proto::{self as proto, Endpoint, Kind, Pending, Recv, Send, Space};
use sluice_wire::{Nanos, Parsed, PeerId, Region};
use std::collections::BTreeMap;

/// A send or a receive that has not ended.
#[derive(Clone, Copy, Debug)]
struct Request {
    buffer: Region,
    other: u32,
    /// Of its pair, counted from zero.
    number: u32,
    is_receive: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Messages {
    endpoint: Endpoint,
    cost: Cost,
    me: u32,
    payload: bool,
    /// Longest message that may come.
    buffer_bytes: u64,
    requests: BTreeMap<u64, Request>,
    next_request: u64,
    /// Messages sent to and asked of each process.
    sent: Vec<u32>,
    asked: Vec<u32>,
    /// Receives from each process that follow those which end.
    to_follow: Vec<u32>,
    /// Messages received from each process.
    received: Vec<u32>,
    receives: u32,
    /// What the operation waits for.
    until: Until,
    messages: u64,
    delayed: u64,
    /// Who has sent something, and how many they are.
    known: Vec<bool>,
    senders: u32,
}

impl Messages {
    pub fn new(config: &Config, me: u32, layout: Layout) -> Messages {
        let limits = &config.endpoint;
        let endpoint = proto::Config {
            eager_bytes_max: limits.eager_bytes_max,
            network_eager_bytes_max: limits.eager_bytes_max,
            announce_bytes_min: limits.announce_bytes_min,
            share_bytes_min: limits.share_bytes_min,
            ..proto::Config::default()
        };
        let program = &config.program;
        let parts = match program.pattern {
            Pattern::Allgather | Pattern::Allgatherv => 2,
            Pattern::Gather | Pattern::Scatter => u64::from(config.processes),
            _ => 1,
        };
        Messages {
            endpoint: Endpoint::new(endpoint, layout),
            cost: config.cost.clone(),
            me,
            payload: config.payload,
            buffer_bytes: u64::from(program.bytes) * parts,
            requests: BTreeMap::new(),
            next_request: 0,
            sent: vec![0; config.processes as usize],
            asked: vec![0; config.processes as usize],
            to_follow: vec![0; config.processes as usize],
            received: vec![0; config.processes as usize],
            receives: 0,
            until: Until::Begun,
            messages: 0,
            delayed: 0,
            known: vec![false; config.processes as usize],
            senders: 0,
        }
    }

    fn begin_send(&mut self, now: Nanos, port: &mut SimPort<'_>, to: u32, bytes: u32) {
        let number = self.sent[to as usize];
        self.sent[to as usize] += 1;
        let buffer = port.memory.alloc(u64::from(bytes));
        if self.payload {
            port.memory.write(buffer.addr, &content(self.me, to, number, bytes));
        }
        let context = self.keep(Request { buffer, other: to, number, is_receive: false });
        let send = Send {
            space: Space::Tagged,
            peer: PeerId(to),
            buf: buffer,
            tag: 0,
            data: None,
            context,
            report: true,
            inject: false,
            delivery: None,
        };
        self.messages += 1;
        let waited = self.endpoint.stats().stalled_now;
        self.endpoint.send(now, port, &send).expect("there is room for a request");
        self.delayed += u64::from(self.endpoint.stats().stalled_now > waited);
    }

    fn begin_receive(&mut self, now: Nanos, port: &mut SimPort<'_>, from: u32) {
        let number = self.asked[from as usize];
        self.asked[from as usize] += 1;
        let buffer = port.memory.alloc(self.buffer_bytes);
        let context = self.keep(Request { buffer, other: from, number, is_receive: true });
        let recv = Recv {
            space: Space::Tagged,
            source: Some(PeerId(from)),
            buf: buffer,
            tag: 0,
            ignore: 0,
            context,
            report: true,
        };
        self.receives += 1;
        self.endpoint.recv(now, port, &recv).expect("there is room for a request");
    }

    /// On average half of what has arrived is looked through.
    fn search_ns(&self) -> u64 {
        self.cost.search_ns * self.endpoint.stats().unexpected_now / 2
    }

    fn keep(&mut self, request: Request) -> u64 {
        let context = self.next_request;
        self.next_request += 1;
        self.requests.insert(context, request);
        context
    }

    /// Takes in what has ended. What it costs.
    fn end_requests(&mut self, now: Nanos, port: &mut SimPort<'_>) -> u64 {
        let mut cost_ns = 0;
        while let Some(end) = self.endpoint.pop() {
            assert!(end.outcome.is_ok(), "nothing fails here: {:?}", end.outcome);
            let request = self.requests.remove(&end.context).expect("a request ends once");
            assert!((end.kind == Kind::Recv) == request.is_receive);
            if request.is_receive {
                self.receives -= 1;
                self.received[request.other as usize] += 1;
                let to_follow = &mut self.to_follow[request.other as usize];
                if *to_follow > 0 {
                    *to_follow -= 1;
                    cost_ns += self.search_ns();
                    self.begin_receive(now, port, request.other);
                }
                cost_ns += self.cost.receive_message_ns;
                if self.payload {
                    let wanted = content(request.other, self.me, request.number, end.len as u32);
                    let found = port.memory.read(request.buffer.truncated(end.len));
                    assert!(found == wanted, "a message has arrived altered");
                }
            }
            port.memory.release(request.buffer);
        }
        cost_ns
    }
}

impl Library for Messages {
    const SENDS_ARE_PREPAID: bool = false;
    const ENDS_ARE_READ: bool = true;
    const EXPOSES: bool = true;

    fn start(&mut self, now: Nanos, port: &mut SimPort<'_>, op: Op) -> (u64, Option<Local>) {
        self.until = Until::of(op);
        let mut cost_ns = 0;
        if let Op::Recv { from }
        | Op::Both { from, .. }
        | Op::Post { from, .. }
        | Op::PostRecv { from } = op
        {
            cost_ns += self.search_ns();
            self.begin_receive(now, port, from);
        }
        if let Op::Stream { from, count, window } = op {
            self.to_follow[from as usize] = count.saturating_sub(window);
            for _ in 0..count.min(window) {
                cost_ns += self.search_ns();
                self.begin_receive(now, port, from);
            }
        }
        if let Op::Send { to, bytes }
        | Op::Both { to, bytes, .. }
        | Op::Post { to, bytes, .. }
        | Op::PostSend { to, bytes } = op
        {
            cost_ns += self.cost.send_message_ns;
            self.begin_send(now, port, to, bytes);
        }
        (cost_ns + self.end_requests(now, port), None)
    }

    fn should_poll_first(&self, op: Op) -> bool {
        match op {
            Op::Send { bytes, .. }
            | Op::Both { bytes, .. }
            | Op::Post { bytes, .. }
            | Op::PostSend { bytes, .. } => self.endpoint.should_poll_first(u64::from(bytes)),
            Op::Recv { .. } | Op::PostRecv { .. } => {
                self.endpoint.should_poll_first(self.buffer_bytes)
            }
            Op::Stream { .. }
            | Op::Await { .. }
            | Op::Settle
            | Op::Away { .. }
            | Op::Rest { .. } => false,
        }
    }

    fn is_done(&self) -> bool {
        match self.until {
            Until::Begun => true,
            Until::Received(from, number) => self.received[from as usize] >= number,
            Until::Own => self.receives == 0,
            Until::All => self.requests.is_empty(),
        }
    }

    fn next_send(&mut self) -> Option<u64> {
        None
    }

    fn send(&mut self, _port: &mut SimPort<'_>) {
        unreachable!("the endpoint sends by itself")
    }

    fn is_blocked(&self) -> bool {
        self.endpoint.stats().stalled_now > 0
    }

    fn receive_cost(&self, flight: Flight, store: &Store) -> u64 {
        if flight.is_of_credits() {
            return self.cost.credit_receive_ns;
        }
        let crowd_ns = if self.senders > FEW_SENDERS { self.cost.crowd_packet_ns } else { 0 };
        let packet_ns = self.cost.receive_packet_ns + crowd_ns;
        packet_ns * u64::from(flight.message_slots(store))
    }

    fn receive(
        &mut self,
        now: Nanos,
        port: &mut SimPort<'_>,
        from: PeerId,
        packet: &Parsed,
    ) -> u64 {
        self.endpoint.on_any(now, port, from, packet);
        let known = &mut self.known[from.index()];
        self.senders += u32::from(!std::mem::replace(known, true));
        self.end_requests(now, port)
    }

    fn receive_local(&mut self, _from: u32) {
        unreachable!("this layer has one way")
    }

    fn moved(
        &mut self,
        now: Nanos,
        port: &mut SimPort<'_>,
        token: Token,
        outcome: Result<(), RailError>,
    ) -> (Option<u32>, u64) {
        self.endpoint.on_moved(now, port, token, outcome);
        (None, self.end_requests(now, port))
    }

    fn fetched(&mut self) {
        unreachable!("the endpoint tells its peers by itself")
    }

    fn idle(&mut self, now: Nanos, port: &mut SimPort<'_>) -> Option<Nanos> {
        self.endpoint.on_idle(now, port);
        self.end_requests(now, port);
        self.endpoint.deadline().filter(|&deadline| deadline > now)
    }

    fn messages(&self) -> (u64, u64) {
        (self.messages, self.delayed)
    }

    fn has_pending(&self) -> bool {
        self.endpoint.pending() != Pending::default()
    }

    fn links(&self) -> &Links {
        self.endpoint.links()
    }

    fn credits_toward(&self, process: u32) -> u32 {
        self.endpoint.links().data_credits(PeerId(process))
    }

    fn check_invariants(&self) {
        self.endpoint.check_invariants();
    }
}

/// The bytes of a message: no two messages of a run are alike.
fn content(from: u32, to: u32, number: u32, bytes: u32) -> Vec<u8> {
    let mut state = u64::from(from) << 40 ^ u64::from(to) << 20 ^ u64::from(number);
    (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 56) as u8
        })
        .collect()
}
