//! The rail's direct reads without any protocol: the limit of what large
//! messages can reach.

use crate::node::Node;
use crate::stats::Samples;
use crate::step::Step;
use anyhow::Result;
use sluice_link::{Machine, PeerError, Port, RailError, Token};
use sluice_proto::Endpoint;
use sluice_wire::{Nanos, Parsed, PeerId};
use std::time::Instant;

/// The token of these reads, which no operation of an endpoint has: those name
/// entries of tables with a limit.
pub const TOKEN: Token = Token(u64::MAX);

const SIZES: [u64; 3] = [64 << 10, 1 << 20, 4 << 20];
/// Bytes read at each size.
const TOTAL: u64 = 256 << 20;

/// Bytes in a read, and MiB/s; nothing where the system does not allow
/// direct reads.
pub fn measure(node: &mut Node) -> Result<Vec<(u64, f64)>> {
    if !node.reads_directly() {
        return Ok(Vec::new());
    }
    let mut rates = Vec::with_capacity(SIZES.len());
    for size in SIZES {
        node.begin(&Step::Reserve { size })?;
        node.reserve(size);
        let from = node.ask(&Step::Expose)?;
        let mut samples = Samples::new();
        for _ in 0..(TOTAL / size).min(512) {
            let before = Instant::now();
            if !node.read_directly(from, size)? {
                return Ok(rates);
            }
            samples.record(before.elapsed().as_nanos() as u64);
        }
        let mib = size as f64 / f64::from(1 << 20);
        rates.push((size, mib / (samples.percentile_ns(50.0).max(1.0) / 1e9)));
    }
    Ok(rates)
}

/// An endpoint, and beside it the one read that is not its own.
pub struct Beside<'a> {
    pub endpoint: &'a mut Endpoint,
    pub outcome: Option<Result<(), RailError>>,
}

impl Machine for Beside<'_> {
    fn on_packet<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        self.endpoint.on_packet(now, port, from, packet);
    }

    fn on_transmitted<P: Port>(&mut self, now: Nanos, port: &mut P, token: Token) {
        self.endpoint.on_transmitted(now, port, token);
    }

    fn on_moved<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    ) {
        if token == TOKEN {
            self.outcome = Some(outcome);
        } else {
            self.endpoint.on_moved(now, port, token, outcome);
        }
    }

    fn on_peer_gone<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, why: PeerError) {
        self.endpoint.on_peer_gone(now, port, peer, why);
    }

    fn on_idle<P: Port>(&mut self, now: Nanos, port: &mut P) {
        self.endpoint.on_idle(now, port);
    }

    fn deadline(&self) -> Option<Nanos> {
        self.endpoint.deadline()
    }
}
