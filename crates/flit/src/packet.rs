//! Packets on their way, and the byte that stands for a flit.
//!
//! A flit is one byte: its virtual channel and whether it is the first or last
//! of its packet. What a packet carries is stored once, in a table of the shard that
//! has its first flit. A [`Line`] says which packet a first flit belongs to, since
//! first flits leave a link in the order in which they entered it. Body flits need no
//! such look-up.

use crate::routing::Route;

/// A flit: `PRESENT`, `TAIL`, `HEAD`, virtual channel. 0 is none.
pub(crate) type Flit = u8;
/// The first flit of its packet.
pub(crate) const HEAD: Flit = 1 << 4;
/// The last flit of its packet.
pub(crate) const TAIL: Flit = 1 << 5;
/// Every flit has this bit.
pub(crate) const PRESENT: Flit = 1 << 6;

/// The virtual channel of a flit.
#[inline]
pub(crate) fn vc_of(flit: Flit) -> usize {
    usize::from(flit & 15)
}

/// No packet.
pub(crate) const NO_PACKET: u32 = u32::MAX;

/// The packet met a full queue (FECN).
pub(crate) const FORWARD: u8 = 1;
/// A packet in the opposite direction met a full queue (BECN).
pub(crate) const BACKWARD: u8 = 2;
/// The packet has no payload; it only carries credits or a mark.
pub(crate) const CONTROL: u8 = 4;

/// What a packet carries. The fields of its [`Route`] are its own fields, so that all
/// of it fits into half a cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    source: u32,
    destination: u32,
    via: u32,
    /// The packet behind this one in a line, unless it is the last. The first flit of
    /// a packet is in one place, so a packet is in at most one line.
    next: u32,
    /// Cycle of its message.
    pub born: u32,
    /// Cycle in which its first flit left its source.
    pub entered: u32,
    pub flits: u16,
    /// Packets of the destination that have arrived at the source.
    pub credits: u16,
    /// Routers so far.
    pub hops: u8,
    /// `FORWARD`, `BACKWARD`, `CONTROL`.
    pub marks: u8,
    stage: u8,
}

const _: () = assert!(size_of::<Packet>() <= 32);

impl Packet {
    /// A packet that enters the network.
    pub fn new(route: Route, flits: u16, born: u32, entered: u32) -> Packet {
        let Route { source, destination, via, stage } = route;
        Packet {
            source,
            destination,
            via,
            next: NO_PACKET,
            born,
            entered,
            flits,
            credits: 0,
            hops: 0,
            marks: 0,
            stage,
        }
    }

    #[inline]
    pub fn route(&self) -> Route {
        Route {
            source: self.source,
            destination: self.destination,
            via: self.via,
            stage: self.stage,
        }
    }

    #[inline]
    pub fn set_route(&mut self, route: Route) {
        self.via = route.via;
        self.stage = route.stage;
    }
}

/// Packets in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    first: u32,
    last: u32,
}

impl Line {
    pub const EMPTY: Line = Line { first: NO_PACKET, last: NO_PACKET };

    /// The packet that leaves next; `NO_PACKET` if there is none.
    pub fn first(&self) -> u32 {
        self.first
    }
}

/// The packets of a shard.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    table: Vec<Packet>,
    free: Vec<u32>,
}

impl Packets {
    /// Adds a packet.
    ///
    /// # Panics
    /// With more packets than can be numbered.
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.table[slot as usize] = packet;
            return slot;
        }
        assert!(self.table.len() < NO_PACKET as usize, "too many packets in the network");
        self.table.push(packet);
        self.table.len() as u32 - 1
    }

    /// Removes a packet.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> Packet {
        self.free.push(slot);
        self.table[slot as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut Packet {
        &mut self.table[slot as usize]
    }

    /// A packet joins the end of a line.
    #[inline]
    pub fn join(&mut self, line: &mut Line, packet: u32) {
        let last = std::mem::replace(&mut line.last, packet);
        if last == NO_PACKET {
            line.first = packet;
        } else {
            self.table[last as usize].next = packet;
        }
    }

    /// Removes the first packet of a line; `NO_PACKET` if there is none. Does not read
    /// a packet that is alone in its line: it may not be in the cache.
    #[inline]
    pub fn leave(&mut self, line: &mut Line) -> u32 {
        let first = line.first;
        if first == line.last {
            *line = Line::EMPTY;
        } else {
            line.first = self.table[first as usize].next;
        }
        first
    }

    #[inline]
    pub fn get(&self, slot: u32) -> &Packet {
        &self.table[slot as usize]
    }

    /// Packets in the table.
    pub fn len(&self) -> usize {
        self.table.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_its_order() {
        let mut packets = Packets::default();
        let ids: Vec<u32> =
            (0..3).map(|n| packets.insert(Packet::new(Route::new(n, 0), 1, 0, 0))).collect();
        let mut line = Line::EMPTY;
        assert_eq!(packets.leave(&mut line), NO_PACKET);
        packets.join(&mut line, ids[0]);
        packets.join(&mut line, ids[1]);
        assert_eq!(packets.leave(&mut line), ids[0]);
        packets.join(&mut line, ids[2]);
        assert_eq!(packets.leave(&mut line), ids[1]);
        assert_eq!(packets.leave(&mut line), ids[2]);
        assert_eq!(packets.leave(&mut line), NO_PACKET);
        assert_eq!(packets.remove(ids[1]).route().source, 1);
        assert_eq!(packets.len(), 2);
    }
}
