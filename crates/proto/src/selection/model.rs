//! The lengths of a [`Table`] from what moves cost on the rail.
//!
//! The time of each protocol is a line: a start, and so much for each byte. Where two
//! lines cross, a threshold lies. What counts is the time until the receiver has the
//! bytes, with both sides in the library; a get-done is after that.
//!
//! | protocol | start | byte |
//! |---|---|---|
//! | eager | packet | packet's byte |
//! | get | RTS, start of a read | read's byte |
//! | put | RTS, CTS, start of a write, written | write's byte |
//! | pull | RTS, get, reply | packet's byte |
//! | cooperative | RTS, chunk claims, CTS, start of a read | half a read's byte |
//!
//! Each threshold is a power of two within bounds. The costs were measured on a machine
//! that does other things too, maybe while all ranks of a job started at once: a
//! figure that is wrong by half must not move a threshold far, and one that is wrong
//! altogether must not make a bad choice, only a worse one. The bounds hold the
//! thresholds that were good on every machine tried; the stated costs give the defaults.

use super::table::{NEVER, Table};
use sluice_link::{Costs, Direct};

/// The eager limits. None below what programs are told they can inject by default, nor
/// above what one packet may carry. A message of 64 KiB would hide less behind the work of a
/// receiver than one that its sender writes.
const EAGER_BYTES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 48 << 10];

/// The shortest receive announced. An announcement helps a receiver that computes,
/// whatever the costs, so they must not push it far up.
const ANNOUNCE_BYTES: (u64, u64) = (32 << 10, 64 << 10);
/// A receive is announced if that costs at most this part of its transfer.
const ANNOUNCE_PART: u64 = 10;

/// The shortest message that both copy. One that is shorter has one chunk, so there
/// is nothing to share; a longer one has gained on every machine with two cores.
const SHARE_BYTES: (u64, u64) = (64 << 10, 256 << 10);
/// Both copy if that is faster by this part.
const SHARE_PART: u64 = 8;

impl Table {
    /// The table of a rail where moves cost this much.
    #[must_use]
    pub fn of(costs: &Costs) -> Table {
        Table {
            eager_bytes_max: eager_bytes_max(costs) as u32,
            looking_bytes_max: Table::default().looking_bytes_max,
            announce_bytes_min: announce_bytes_min(costs),
            share_bytes_min: share_bytes_min(costs),
        }
    }
}

/// The longest message that is there sooner if its data travels with it.
fn eager_bytes_max(costs: &Costs) -> u64 {
    let is_sooner = |len: &u64| {
        let eager_ps = line(costs.packet_ns, costs.packet_byte_ps, *len);
        eager_ps <= announced(costs, *len)
    };
    EAGER_BYTES.into_iter().take_while(is_sooner).last().unwrap_or(EAGER_BYTES[0])
}

/// The shortest receive whose announcement costs little beside its transfer.
fn announce_bytes_min(costs: &Costs) -> u64 {
    let (Some(read), Some(claim_ns)) = (costs.read, costs.claim_ns) else { return NEVER };
    let (min, max) = ANNOUNCE_BYTES;
    let rtr_ps = (costs.packet_ns + claim_ns) * 1000;
    powers(min, max).find(|&len| rtr_ps * ANNOUNCE_PART <= get(costs, read, len)).unwrap_or(max)
}

/// The shortest message that two copy clearly faster than one.
fn share_bytes_min(costs: &Costs) -> u64 {
    let (Some(read), Some(claim_ns)) = (costs.read, costs.claim_ns) else { return NEVER };
    let (min, max) = SHARE_BYTES;
    let start_ns = 3 * costs.packet_ns + claim_ns + read.start_ns;
    let is_faster = |len: &u64| {
        let shared_ps = line(start_ns, read.byte_ps, *len / 2);
        shared_ps + shared_ps / SHARE_PART <= get(costs, read, *len)
    };
    powers(min, max).find(is_faster).unwrap_or(max)
}

/// A message that was announced, as the rail moves it best without chunk claims.
fn announced(costs: &Costs, len: u64) -> u64 {
    match (costs.read, costs.write) {
        (Some(read), _) => get(costs, read, len),
        (None, Some(write)) => line(3 * costs.packet_ns + write.start_ns, write.byte_ps, len),
        (None, None) => line(3 * costs.packet_ns, costs.packet_byte_ps, len),
    }
}

/// Two packets: the second gives the sender its buffer back.
fn get(costs: &Costs, read: Direct, len: u64) -> u64 {
    line(2 * costs.packet_ns + read.start_ns, read.byte_ps, len)
}

/// Picoseconds. At most 2⁴⁰ for what is plausible, within the bounds above.
fn line(start_ns: u64, byte_ps: u64, len: u64) -> u64 {
    start_ns * 1000 + byte_ps * len
}

/// The powers of two from `min` to `max`, which are powers too.
fn powers(min: u64, max: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(min), |len| Some(len * 2)).take_while(move |len| *len <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn table(costs: Costs) -> [u64; 3] {
        assert!(costs.are_plausible());
        let table = Table::of(&costs);
        [u64::from(table.eager_bytes_max), table.announce_bytes_min, table.share_bytes_min]
    }

    fn direct(start_ns: u64, byte_ps: u64) -> Option<Direct> {
        Some(Direct { start_ns, byte_ps })
    }

    #[test]
    fn the_stated_costs_give_the_defaults() {
        assert_eq!(Table::of(&Costs::default()), Table::default());
    }

    #[test]
    fn rails_of_stated_performance() {
        let stated = Costs::default();
        // The call is dear: data rather travels with the message, and what an
        // announcement costs is soon little.
        let slow_call = Costs { read: direct(5000, 75), ..stated };
        assert_eq!(table(slow_call), [48 * KIB, 32 * KIB, 64 * KIB]);
        // It is cheap and the bytes fly: only long transfers are worth a packet more.
        let fast = Costs { read: direct(100, 20), packet_ns: 400, ..stated };
        assert_eq!(table(fast), [4 * KIB, 64 * KIB, 128 * KIB]);
        // Packets from another socket: a round trip more pays later.
        let far = Costs { packet_ns: 600, ..stated };
        assert_eq!(table(far), [48 * KIB, 64 * KIB, 64 * KIB]);
        let near = Costs { packet_ns: 80, packet_byte_ps: 100, ..stated };
        assert_eq!(table(near), [48 * KIB, 32 * KIB, 64 * KIB]);
        // Slow copies into the mailbox: as little as may be goes that way.
        let thin = Costs { packet_byte_ps: 2000, ..stated };
        assert_eq!(table(thin), [4 * KIB, 32 * KIB, 64 * KIB]);
    }

    #[test]
    fn what_a_rail_cannot_do_is_never_chosen() {
        let stated = Costs::default();
        let no_read = Costs { read: None, ..stated };
        assert_eq!(table(no_read), [48 * KIB, NEVER, NEVER]);
        // A put needs a packet more than a get, so more goes eagerly.
        let thick = Costs { packet_byte_ps: 275, ..stated };
        assert_eq!(table(thick)[0], 4 * KIB);
        assert_eq!(table(Costs { read: None, ..thick }), [8 * KIB, NEVER, NEVER]);
        // A very fast write is worth them.
        let fast_write = Costs { write: direct(50, 10), packet_byte_ps: 900, ..no_read };
        assert_eq!(table(fast_write), [4 * KIB, NEVER, NEVER]);
        // Chunks cost what eager costs, and the asking besides.
        let only_packets = Costs { read: None, write: None, claim_ns: None, ..stated };
        assert_eq!(table(only_packets), [48 * KIB, NEVER, NEVER]);
        // Chunk claims are of no use to who can neither read nor write.
        let only_claims = Costs { claim_ns: Some(1), ..only_packets };
        assert_eq!(table(only_claims), [48 * KIB, NEVER, NEVER]);
        let no_claims = Costs { claim_ns: None, ..stated };
        assert_eq!(table(no_claims), [48 * KIB, NEVER, NEVER]);
    }

    /// All corners of what is plausible: nothing overflows, nothing leaves its bounds.
    #[test]
    fn no_calibration_leaves_the_bounds() {
        let (steps, bytes) = ([1, 1000, Costs::STEP_NS_MAX], [1, 100, Costs::BYTE_PS_MAX]);
        for packet_ns in steps {
            for packet_byte_ps in bytes {
                for start_ns in steps {
                    for byte_ps in bytes {
                        for claim_ns in steps {
                            let read = direct(start_ns, byte_ps);
                            let claim_ns = Some(claim_ns);
                            let costs =
                                Costs { packet_ns, packet_byte_ps, read, write: read, claim_ns };
                            let found = table(costs);
                            let [eager, found @ ..] = found;
                            assert!(EAGER_BYTES.contains(&eager));
                            let bounds = [ANNOUNCE_BYTES, SHARE_BYTES];
                            for (len, (min, max)) in found.into_iter().zip(bounds) {
                                assert!((min..=max).contains(&len) && len.is_power_of_two());
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_figure_that_is_a_third_off_moves_no_threshold_by_more_than_one_step() {
        let stated = Costs::default();
        let off = |value: u64, percent: u64| value * percent / 100;
        for percent in [67, 150] {
            let read =
                stated.read.map(|read| Direct { start_ns: off(read.start_ns, percent), ..read });
            let bytes =
                stated.read.map(|read| Direct { byte_ps: off(read.byte_ps, percent), ..read });
            for costs in [
                Costs { packet_ns: off(stated.packet_ns, percent), ..stated },
                Costs { packet_byte_ps: off(stated.packet_byte_ps, percent), ..stated },
                Costs { read, ..stated },
                Costs { read: bytes, ..stated },
            ] {
                for (found, default) in table(costs).into_iter().zip(table(stated)) {
                    let steps = found.ilog2().abs_diff(default.ilog2());
                    assert!(steps <= 1, "{costs:?}: {found} for {default}");
                }
            }
        }
    }
}
