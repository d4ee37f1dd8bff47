//! What a simulation counts. Integers only, so that the sum over shards does
//! not depend on their number or order.

/// Bins of a latency histogram: exact below 64 cycles, then 32 a doubling.
pub const LATENCY_BINS: usize = 64 + 32 * 26;

/// Counts over an interval of cycles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// First cycle of the interval.
    pub from_cycle: u64,
    /// Its length.
    pub cycles: u64,
    /// Nodes of the network.
    pub nodes: u32,
    /// Nodes of them that are slow.
    pub slow_nodes: u32,
    /// Flits that left a node.
    pub injected_flits: u64,
    /// Flits that a node's memory took, credit packets not counted.
    pub accepted_flits: u64,
    /// Of these, by slow nodes.
    pub accepted_flits_slow: u64,
    /// Packets whose last flit was taken.
    pub packets: u64,
    /// Cycles from the making of a packet to its last flit's arrival, summed.
    pub packet_latency_sum: u64,
    /// Cycles from its first flit's departure to its last one's arrival.
    pub network_latency_sum: u64,
    /// Routers that those packets passed, summed.
    pub hops_sum: u64,
    /// Flits that left a router, over all routers.
    pub flit_hops: u64,
    /// Packets that got a congestion mark.
    pub marks: u64,
    /// Credit packets that had to be sent because no other packet could carry
    /// the credit.
    pub credit_packets: u64,
    /// Packets by latency; see [`Sample::latency_at`].
    pub latency_histogram: Vec<u64>,
}

impl Sample {
    /// No counts.
    pub fn new(nodes: u32) -> Sample {
        Sample {
            from_cycle: 0,
            cycles: 0,
            nodes,
            slow_nodes: 0,
            injected_flits: 0,
            accepted_flits: 0,
            accepted_flits_slow: 0,
            packets: 0,
            packet_latency_sum: 0,
            network_latency_sum: 0,
            hops_sum: 0,
            flit_hops: 0,
            marks: 0,
            credit_packets: 0,
            latency_histogram: vec![0; LATENCY_BINS],
        }
    }

    /// Adds the counts of another shard or of the following interval.
    pub fn add(&mut self, other: &Sample) {
        self.injected_flits += other.injected_flits;
        self.accepted_flits += other.accepted_flits;
        self.accepted_flits_slow += other.accepted_flits_slow;
        self.packets += other.packets;
        self.packet_latency_sum += other.packet_latency_sum;
        self.network_latency_sum += other.network_latency_sum;
        self.hops_sum += other.hops_sum;
        self.flit_hops += other.flit_hops;
        self.marks += other.marks;
        self.credit_packets += other.credit_packets;
        for (mine, theirs) in self.latency_histogram.iter_mut().zip(&other.latency_histogram) {
            *mine += theirs;
        }
    }

    /// Counts one packet's latency.
    #[inline]
    pub(crate) fn packet(&mut self, packet_cycles: u64, network_cycles: u64, hops: u64) {
        self.packets += 1;
        self.packet_latency_sum += packet_cycles;
        self.network_latency_sum += network_cycles;
        self.hops_sum += hops;
        self.latency_histogram[bin(packet_cycles)] += 1;
    }

    /// Flits taken, each node and cycle: the throughput.
    pub fn accepted_rate(&self) -> f64 {
        rate(self.accepted_flits, u64::from(self.nodes) * self.cycles)
    }

    /// Mean cycles of a packet from its making to its arrival.
    pub fn packet_latency(&self) -> f64 {
        rate(self.packet_latency_sum, self.packets)
    }

    /// Mean cycles of a packet in the network.
    pub fn network_latency(&self) -> f64 {
        rate(self.network_latency_sum, self.packets)
    }

    /// Mean routers that a packet passes.
    pub fn hops(&self) -> f64 {
        rate(self.hops_sum, self.packets)
    }

    /// The latency that a share of packets does not exceed, to 3 %; none
    /// without packets.
    pub fn latency_at(&self, share: f64) -> Option<u64> {
        let wanted = ((self.packets as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        self.latency_histogram.iter().enumerate().find_map(|(index, &count)| {
            seen += count;
            (seen >= wanted && self.packets > 0).then(|| bin_top(index))
        })
    }
}

fn rate(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

fn bin(cycles: u64) -> usize {
    if cycles < 64 {
        return cycles as usize;
    }
    let power = cycles.ilog2() as usize;
    let within = (cycles >> (power - 5)) as usize - 32;
    (64 + (power - 6) * 32 + within).min(LATENCY_BINS - 1)
}

fn bin_top(index: usize) -> u64 {
    if index < 64 {
        return index as u64;
    }
    let power = (index - 64) / 32 + 6;
    let within = ((index - 64) % 32) as u64;
    ((33 + within) << (power - 5)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_holds_what_is_put_into_it() {
        for cycles in (0..200_000).chain([1 << 30, (1 << 31) + 5]) {
            let index = bin(cycles);
            assert!(bin_top(index) >= cycles, "{cycles}");
            assert!(index == 0 || bin_top(index - 1) < cycles, "{cycles}");
            assert!(bin_top(index) as f64 <= cycles as f64 * 1.032 + 1.0);
        }
    }
}
