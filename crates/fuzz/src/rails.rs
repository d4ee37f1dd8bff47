//! Calls of [`sluice_multirail::Peer`]: what happens to rails, and what a peer says on them,
//! whether that can be true or not.

use crate::Input;
use sluice_multirail::{
    Ask, Below, ChunkId, Landing, Number, Peer, RailId, RailSpec, ReadId, Striping, Timing,
};
use sluice_wire::Nanos;
use std::collections::BTreeSet;

const CALLS_MAX: usize = 400;
const READ_BYTES_MAX: u64 = 1 << 22;

/// What the machine has asked for.
#[derive(Debug, Default)]
struct Asked {
    asks: Vec<Ask>,
    opening: BTreeSet<u8>,
    released: u64,
    is_gone: bool,
}

impl Below for Asked {
    fn open(&mut self, rail: RailId) {
        assert!(!self.is_gone, "nothing is asked for after the end");
        self.opening.insert(rail.0);
    }

    fn close(&mut self, rail: RailId) {
        self.opening.remove(&rail.0);
    }

    fn probe(&mut self, _: RailId) {
        assert!(!self.is_gone, "nothing is asked for after the end");
    }

    fn resume(&mut self, _: RailId, first: Number) {
        assert_eq!(first.0, self.released, "the stream goes on with the first that is kept");
    }

    fn ask(&mut self, ask: Ask) {
        assert!(!self.is_gone, "nothing is asked for after the end");
        self.asks.push(ask);
    }

    fn release(&mut self, count: u64) {
        self.released += count;
    }

    fn gone(&mut self) {
        assert!(!std::mem::replace(&mut self.is_gone, true), "a peer is gone once");
    }
}

/// Each byte of a read comes once, and books are in order after each call.
pub fn multirail_calls(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let count = 1 + input.below(4);
    let specs: Vec<RailSpec> = (0..count)
        .map(|_| RailSpec {
            bytes_per_s: 1_000_000 * (1 + u64::from(input.byte())),
            latency_ns: 1000 * u64::from(input.byte()),
        })
        .collect();
    let mut now = Nanos(0);
    let mut below = Asked::default();
    let mut peer = Peer::new(&specs, Timing::default(), Striping::default(), now);
    let (mut sent, mut reads) = (0, 0);
    for _ in 0..CALLS_MAX {
        if input.is_empty() || below.is_gone {
            break;
        }
        now = now.saturating_add(Nanos(u64::from(input.byte()).pow(4)));
        let rail = RailId(input.below(count) as u8);
        match input.byte() % 12 {
            0 => {
                peer.send(now);
                sent += 1;
            }
            1 => {
                let len = 1 + input.word() % READ_BYTES_MAX;
                peer.read(now, &mut below, ReadId(reads), len);
                reads += 1;
            }
            2 if reads > 0 => {
                peer.cancel(now, &mut below, ReadId(u64::from(input.byte()) % reads));
            }
            3 if below.opening.remove(&rail.0) => {
                let _ = peer.opened(now, &mut below, rail);
            }
            4 => peer.broke(now, &mut below, rail),
            5 => {
                let said = input.pick(&[0, 0, 1, 2, u64::MAX]);
                let acknowledged = Number(below.released.wrapping_add(said));
                let taken = peer.heard(now, &mut below, rail, acknowledged);
                assert!(taken.is_err() || acknowledged.0 <= sent, "what was not sent is refused");
            }
            6 => {
                let _ = peer.receive(Number(u64::from(input.byte() % 32)));
            }
            7 => arrive(&mut peer, &mut below, now, rail, &mut input),
            8 => peer.alive(now, &mut below, rail),
            9 => peer.cut(now, &mut below, rail),
            10 => peer.mended(rail),
            _ => peer.advance(now, &mut below),
        }
        peer.check_invariants();
        if let Some(due) = peer.deadline(now) {
            assert!(!below.is_gone, "nobody waits for one that is gone until {due:?}");
        }
    }
}

/// Bytes of a chunk come, or its refusal: one that was asked for, or any.
fn arrive(peer: &mut Peer, below: &mut Asked, now: Nanos, rail: RailId, input: &mut Input<'_>) {
    let chunk = if below.asks.is_empty() || input.byte() > 240 {
        ChunkId::from_bits(input.word() as u32)
    } else {
        below.asks[input.below(below.asks.len())].chunk
    };
    if input.byte() > 230 {
        peer.failed(now, below, rail, chunk);
        return;
    }
    // Whoever receives looks first where the bytes go, and takes no more than that.
    if let Landing::Into { len, .. } = peer.landing(rail, chunk) {
        let bytes = if input.flag() { len } else { 1 + input.word() % len };
        peer.arrived(now, below, rail, chunk, bytes);
    }
}
