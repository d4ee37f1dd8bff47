//! The flows themselves: windows of messages that are kept full for a while.
//!
//! Both processes know from when until when counts. The sender keeps a window of
//! sends under way until then, and ends each flow with a window of messages
//! without bytes, which use up the receives that are still posted.

use crate::compute::now_ns;
use crate::node::{Idle, Node};
use crate::pace::sink::{Sink, Slowed};
use crate::rail;
use crate::step::Span;
use anyhow::{Result, bail};
use serde::Serialize;
use sluice_proto::{Completion, Endpoint, Kind, Recv, Refused, Send, Space};
use sluice_runtime::{Context, POLL_BUDGET};
use sluice_wire::{Addr, PeerId, Region};

/// The two flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Flow {
    Fast = 0,
    Slow = 1,
}

/// Both, in the order of everything that is kept of each.
pub const FLOWS: [Flow; 2] = [Flow::Fast, Flow::Slow];

/// Something for each flow.
pub type Each<T> = [T; 2];

/// An endpoint with a mailbox of its own, and what its messages lie in.
#[derive(Debug)]
pub struct End {
    context: Context<Endpoint>,
    /// Whom it has met, in this order.
    peers: Vec<PeerId>,
    bufs: Each<Vec<u8>>,
    /// If the buffer of the slow flow is one.
    sink: Option<Sink>,
    /// What has ended and was not looked at; no more than is posted.
    ended: Vec<Completion>,
}

impl End {
    /// One for messages of so many bytes.
    pub fn open(size: u64) -> Result<End> {
        let context = rail::open_default()?;
        let bufs = FLOWS.map(|_| vec![1; size as usize]);
        Ok(End { context, peers: Vec::new(), bufs, sink: None, ended: Vec::new() })
    }

    /// From now on the buffer of the slow flow takes so many bytes in a second.
    pub fn slow_down(&mut self, bytes_per_s: f64) {
        let region = self.region(Flow::Slow);
        self.sink = Some(Sink::new(region, bytes_per_s));
    }

    /// Its address, for [`End::meet`] of another one.
    pub fn address(&self) -> Vec<u8> {
        rail::address(&self.context)
    }

    /// Takes the address of another one.
    pub fn meet(&mut self, address: &[u8]) -> Result<()> {
        self.peers.push(rail::meet(&mut self.context, address)?);
        Ok(())
    }

    /// Whether large messages move directly between the memory of this process
    /// and that of everybody it has met.
    pub fn moves_directly(&self) -> bool {
        self.peers.iter().all(|&peer| rail::reads_directly(&self.context, peer))
    }

    fn region(&mut self, flow: Flow) -> Region {
        let buf = &mut self.bufs[flow as usize];
        Region { addr: Addr(buf.as_mut_ptr().expose_provenance() as u64), len: buf.len() as u64 }
    }

    /// Lets the endpoint do what there is to do. Whether there was anything.
    fn poll(&mut self) -> bool {
        let mut any = match &mut self.sink {
            None => self.context.poll() > 0,
            Some(sink) => {
                let now_ns = now_ns();
                let (now, endpoint, port) = self.context.parts();
                let mut slowed = Slowed { endpoint, sink, now_ns };
                let polled = port.poll(now, &mut slowed, POLL_BUDGET);
                polled + slowed.release(now, port, now_ns) > 0
            }
        };
        while let Some(completion) = self.context.machine_mut().pop() {
            any = true;
            self.ended.push(completion);
        }
        any
    }

    /// Whether the slow buffer has taken what was copied into it.
    fn caught_up(&self) -> bool {
        self.sink.as_ref().is_none_or(|sink| sink.caught_up(now_ns()))
    }

    /// Posts a receive from the one that it has met.
    fn receive(&mut self, flow: Flow) -> Result<()> {
        let recv = Recv {
            space: Space::Tagged,
            source: self.peers.first().copied(),
            buf: self.region(flow),
            tag: flow as u64,
            ignore: 0,
            context: flow as u64,
            report: true,
        };
        loop {
            let (now, endpoint, port) = self.context.parts();
            let posted = match &mut self.sink {
                None => endpoint.recv(now, port, &recv),
                Some(sink) => {
                    let now_ns = now_ns();
                    let mut slowed = Slowed { endpoint, sink, now_ns };
                    let (endpoint, mut port) = slowed.with(port);
                    endpoint.recv(now, &mut port, &recv)
                }
            };
            match posted {
                Ok(()) => return Ok(()),
                Err(Refused::Again) => self.poll_or_yield(),
                Err(refused) => bail!("a receive was refused: {refused}"),
            };
        }
    }

    /// Sends the whole buffer of a flow, or nothing of it.
    fn send(&mut self, to: usize, flow: Flow, whole: bool) -> Result<()> {
        let region = self.region(flow);
        let send = Send {
            space: Space::Tagged,
            peer: self.peers[to],
            buf: if whole { region } else { Region { len: 0, ..region } },
            tag: flow as u64,
            data: None,
            context: flow as u64,
            report: true,
            inject: false,
            delivery: None,
        };
        loop {
            let (now, endpoint, port) = self.context.parts();
            match endpoint.send(now, port, &send) {
                Ok(()) => return Ok(()),
                Err(Refused::Again) => self.poll_or_yield(),
                Err(refused) => bail!("a send was refused: {refused}"),
            };
        }
    }

    fn poll_or_yield(&mut self) {
        if !self.poll() {
            rustix::thread::sched_yield();
        }
    }
}

/// Which flow a completion is of.
fn flow_of(completion: &Completion) -> Result<Flow> {
    if let Err(failure) = &completion.outcome {
        bail!("a message failed: {failure}");
    }
    match completion.context {
        0 => Ok(Flow::Fast),
        1 => Ok(Flow::Slow),
        other => bail!("an operation ended that nobody began: {other}"),
    }
}

/// Keeps a window of sends of each flow under way until the span is over, and
/// ends the flows. `to` says which of those met a flow goes to, if it is wanted.
pub fn send(
    node: &mut Node,
    end: &mut End,
    to: Each<Option<usize>>,
    window: u32,
    span: Span,
) -> Result<()> {
    let mut under_way: Each<u32> = [0; 2];
    let mut idle = Idle::default();
    while now_ns() < span.until_ns {
        for (flow, to) in FLOWS.into_iter().zip(to) {
            let Some(to) = to else { continue };
            while under_way[flow as usize] < window {
                end.send(to, flow, true)?;
                under_way[flow as usize] += 1;
            }
        }
        take_sends(node, end, &mut under_way, &mut idle)?;
    }
    for (flow, to) in FLOWS.into_iter().zip(to) {
        let Some(to) = to else { continue };
        for _ in 0..window {
            end.send(to, flow, false)?;
            under_way[flow as usize] += 1;
        }
    }
    while under_way != [0; 2] {
        take_sends(node, end, &mut under_way, &mut idle)?;
    }
    Ok(())
}

fn take_sends(
    node: &mut Node,
    end: &mut End,
    under_way: &mut Each<u32>,
    idle: &mut Idle,
) -> Result<()> {
    if !end.poll() {
        return node.rest(idle);
    }
    *idle = Idle::default();
    for completion in end.ended.drain(..) {
        if completion.kind == Kind::Send {
            under_way[flow_of(&completion)? as usize] -= 1;
        }
    }
    Ok(())
}

/// The receiving end of one flow.
#[derive(Debug)]
struct Incoming {
    flow: Flow,
    /// Which of the ends it goes to.
    end: usize,
    /// Receives to be posted as soon as the sink has caught up.
    owed: u32,
    /// Messages without bytes that have come.
    last: u32,
    counted: u32,
}

/// The receives of a window of each flow, posted before the sender begins.
#[derive(Debug)]
pub struct Receives {
    incoming: Vec<Incoming>,
    window: u32,
}

impl Receives {
    /// Posts them; `at` is the end that a flow goes to, if it is wanted.
    pub fn post(ends: &mut [End], at: Each<Option<usize>>, window: u32) -> Result<Receives> {
        let mut incoming = Vec::with_capacity(FLOWS.len());
        for (flow, end) in FLOWS.into_iter().zip(at) {
            let Some(end) = end else { continue };
            for _ in 0..window {
                ends[end].receive(flow)?;
            }
            incoming.push(Incoming { flow, end, owed: 0, last: 0, counted: 0 });
        }
        Ok(Receives { incoming, window })
    }

    /// Takes everything until the flows end. How many messages of each came
    /// within the span.
    pub fn take(mut self, node: &mut Node, ends: &mut [End], span: Span) -> Result<Each<u32>> {
        let mut idle = Idle::default();
        while self.incoming.iter().any(|flow| flow.last < self.window) {
            // All ends, in every measurement: looking costs the same in each.
            let mut any = false;
            for index in 0..ends.len() {
                any |= ends[index].poll();
                self.note(ends, index, span)?;
            }
            for flow in self.incoming.iter_mut().filter(|flow| flow.owed > 0) {
                while flow.owed > 0 && ends[flow.end].caught_up() {
                    ends[flow.end].receive(flow.flow)?;
                    flow.owed -= 1;
                }
            }
            if any {
                idle = Idle::default();
            } else {
                node.rest(&mut idle)?;
            }
        }
        let mut counted = [0; 2];
        for flow in &self.incoming {
            counted[flow.flow as usize] = flow.counted;
        }
        Ok(counted)
    }

    fn note(&mut self, ends: &mut [End], index: usize, span: Span) -> Result<()> {
        for completion in ends[index].ended.drain(..) {
            let flow = flow_of(&completion)?;
            let known = self.incoming.iter_mut().find(|known| known.flow == flow);
            let Some(known) = known.filter(|known| known.end == index) else {
                bail!("a message came of a flow that is not there");
            };
            if completion.len == 0 {
                known.last += 1;
                continue;
            }
            known.owed += 1;
            known.counted += u32::from((span.from_ns..span.until_ns).contains(&now_ns()));
        }
        Ok(())
    }
}
