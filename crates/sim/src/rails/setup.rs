//! What a seed draws of hosts, rails and their faults.

use super::faults::Fault;
use super::kinds::Kind;
use crate::swarm::Draw;
use sluice_multirail::{RailSpec, Striping, Timing};

/// By how much a rail is slower while it is slow.
pub(super) const SLOW: u64 = 10;
/// Least bytes of a chunk that are given to a socket at once.
const PIECE_BYTES_MIN: u64 = 60;

/// What the asks for all fragments take that are ever under way at once, 256 of them.
const ASKS_BYTES: u64 = 256 * 48;

/// One rail between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RailSetup {
    pub bytes_per_s: u64,
    /// One way.
    pub latency_ns: u64,
    /// What both sides think of it before they use it.
    pub spec: RailSpec,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct RailsSetup {
    /// The host of each process.
    pub host: Vec<u32>,
    /// Between each two hosts, the lower first.
    pub rails: Vec<Vec<RailSetup>>,
    /// Between each two hosts: the rail that is opened first, if others are only opened when
    /// they are needed.
    pub first: Vec<Option<usize>>,
    pub timing: Timing,
    pub striping: Striping,
    /// Bytes of a direction of a connection that a socket takes.
    pub socket_bytes: u64,
    /// The same of chunks.
    pub bulk_bytes: u64,
    /// Bytes that are given to a socket at once, of a chunk.
    pub piece_bytes: u64,
    /// Most that an acknowledgement waits for a frame that it could ride on.
    pub ack_delay_ns: u64,
    /// In the order in which they begin.
    pub faults: Vec<Fault>,
    /// Whether processes read each other's memory across hosts. They may write it.
    pub reads: bool,
    /// Whether a host tells that it takes what is sent to a process that computes.
    pub hosts_answer: bool,
    /// Of a hundred keys that were revoked, how many are used once more.
    pub stale_key_percent: u64,
}

impl RailsSetup {
    /// Everything on one host: no rails.
    pub fn one_host(processes: usize) -> RailsSetup {
        RailsSetup {
            host: vec![0; processes],
            rails: Vec::new(),
            first: Vec::new(),
            timing: Timing::default(),
            striping: Striping::default(),
            socket_bytes: 0,
            bulk_bytes: 0,
            piece_bytes: 0,
            ack_delay_ns: 0,
            faults: Vec::new(),
            reads: true,
            hosts_answer: false,
            stale_key_percent: 0,
        }
    }

    /// What a seed draws for so many processes.
    pub fn draw(seed: u64, processes: usize) -> RailsSetup {
        let mut draw = Draw::stream(seed, 20);
        if processes < 2 || !draw.percent(50) {
            return RailsSetup::one_host(processes);
        }
        let hosts = draw.between(2, processes.min(4) as u64) as u32;
        let host = (0..processes as u32).map(|process| {
            if process < hosts { process } else { draw.below(u64::from(hosts)) as u32 }
        });
        let host: Vec<u32> = host.collect();
        let pairs = hosts * (hosts - 1) / 2;
        let rails: Vec<Vec<RailSetup>> = (0..pairs).map(|_| rails_of_pair(&mut draw)).collect();
        let rates = rails.iter().flatten().map(|rail| rail.bytes_per_s);
        let slowest = rates.min().expect("each pair has a rail") / SLOW;
        let mut timing = timing(&mut draw);
        if patient_bytes(slowest, &timing) < PIECE_BYTES_MIN {
            timing = Timing::default();
        }
        let piece_bytes_max = patient_bytes(slowest, &timing).max(PIECE_BYTES_MIN);
        let chunk_bytes_max = draw.pick(&[64, 500, 4_096, 128 << 10]);
        let striping = if draw.percent(80) {
            let chunk_bytes_min = draw.pick(&[1, 30, 16 << 10]).min(chunk_bytes_max / 2);
            Striping::Pull { chunk_bytes_max, chunk_bytes_min, window: draw.pick(&[1, 2, 3]) }
        } else {
            Striping::Fragments { bytes: chunk_bytes_max.max(200) }
        };
        let mut socket_bytes = draw.pick(&[1, 600, 5_000, 1 << 20]);
        if matches!(striping, Striping::Fragments { .. }) {
            // Fragments have no window: all are asked for at once, and those of a rail that is
            // suspect again elsewhere. Sockets that take less, over rails whose latency is near
            // the time after which they are suspect, would only ever pass asks.
            socket_bytes = socket_bytes.max(ASKS_BYTES);
        }
        let mut spares = Draw::stream(seed, 40);
        let first = rails.iter().map(|pair| {
            let first = spares.below(pair.len() as u64) as usize;
            spares.percent(50).then_some(first)
        });
        let first = first.collect();
        let hosts_answer = Draw::stream(seed, 24).percent(50);
        RailsSetup {
            host,
            rails,
            first,
            timing,
            striping,
            socket_bytes,
            bulk_bytes: socket_bytes.min(draw.pick(&[1, 2_000, 64 << 10])),
            piece_bytes: draw.pick(&[60, 400, 1_500, 16 << 10]).min(piece_bytes_max),
            ack_delay_ns: draw.pick(&[0, 1_000, 50_000]).min(timing.suspect_ns / 8),
            stale_key_percent: draw.pick(&[0, 20]),
            reads: draw.percent(70),
            hosts_answer,
            faults: faults(seed, &timing, hosts_answer),
        }
    }

    /// Whether somebody may be given up.
    pub fn has_lasting_partitions(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind == Kind::LastingPartition)
    }

    /// Nobody is given up.
    pub fn drop_lasting_partitions(&mut self) {
        self.faults.retain(|fault| fault.kind != Kind::LastingPartition);
    }

    /// The rails between the hosts of two processes; none on the same.
    pub fn between(&self, one: usize, other: usize) -> &[RailSetup] {
        let (low, high) =
            (self.host[one].min(self.host[other]), self.host[one].max(self.host[other]));
        if low == high { &[] } else { &self.rails[pair_index(low, high)] }
    }

    /// The rail between two processes that is opened first, if the others are spare.
    pub fn opened_first(&self, one: usize, other: usize) -> Option<usize> {
        self.first[self.host_pair(one, other)]
    }

    /// The pair of hosts of two processes that are apart.
    pub fn host_pair(&self, one: usize, other: usize) -> usize {
        let (one, other) = (self.host[one], self.host[other]);
        pair_index(one.min(other), one.max(other))
    }
}

/// What the slowest rail brings before anybody loses patience: a piece comes whole, where a
/// socket would show each part of it.
fn patient_bytes(bytes_per_s: u64, timing: &Timing) -> u64 {
    bytes_per_s * timing.suspect_ns / 4 / 1_000_000_000
}

/// Hosts in order: 0 and 1, 0 and 2, 1 and 2, 0 and 3, …
fn pair_index(low: u32, high: u32) -> usize {
    (high * (high - 1) / 2 + low) as usize
}

fn rails_of_pair(draw: &mut Draw) -> Vec<RailSetup> {
    let count = draw.between(1, 4);
    let are_equal = draw.percent(40);
    let bytes_per_s = draw.pick(&[2_000_000, 50_000_000, 1_000_000_000]);
    let latency_ns = draw.pick(&[500, 20_000, 100_000]);
    let claimed = draw.pick(&[1_000_000, 125_000_000]);
    let rail = |_| {
        let (slower, later) =
            if are_equal { (1, 1) } else { (draw.pick(&[1, 2, 4, 10]), draw.pick(&[1, 1, 3])) };
        let latency_ns = latency_ns * later;
        RailSetup {
            bytes_per_s: bytes_per_s / slower,
            latency_ns,
            spec: RailSpec { bytes_per_s: claimed, latency_ns: 2 * latency_ns },
        }
    };
    (0..count).map(rail).collect()
}

/// As it ships, or all of it faster by the same factor, so that more of it happens while
/// a program runs.
fn timing(draw: &mut Draw) -> Timing {
    let factor = draw.pick(&[1, 10, 10, 50]);
    let ships = Timing::default();
    Timing {
        suspect_ns: ships.suspect_ns / factor,
        suspect_alone_ns: ships.suspect_alone_ns / factor,
        down_ns: ships.down_ns / factor,
        open_ns: ships.open_ns / factor,
        retry_ns_min: ships.retry_ns_min / factor,
        retry_ns_max: ships.retry_ns_max / factor,
        gone_ns: ships.gone_ns / factor,
        idle_probe_ns: ships.idle_probe_ns / factor,
    }
}

fn faults(seed: u64, timing: &Timing, hosts_answer: bool) -> Vec<Fault> {
    let mut draw = Draw::stream(seed, 21);
    let count = draw.pick(&[0, 1, 1, 2, 3, 5]);
    let mut faults: Vec<Fault> = (0..count).map(|_| Fault::draw(&mut draw, timing)).collect();
    if draw.percent(8) {
        faults.push(Fault::lasting(Kind::LastingPartition, &mut draw, timing));
    }
    if hosts_answer && draw.percent(12) {
        faults.push(Fault::lasting(Kind::ComputesLong, &mut draw, timing));
    }
    faults.sort_by_key(|fault| fault.after_frames);
    faults
}
