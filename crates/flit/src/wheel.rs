//! What arrives in which cycle.
//!
//! A wheel has a column for each router of the shard. The ports of its nodes follow
//! the router's own. *Ghost* columns stand for routers of other shards. A column has
//! a cell for each of the next cycles. In a cell, each port has room for what a link
//! can bring in one cycle: one flit, and as many credits as the switch has steps. So
//! a link is a column, a port and two delays ([`Peer`]), wherever it leads.

use crate::packet::Flit;
use crate::peer::Peer;

/// Credits that return by a link in one cycle: up to three channels, five bits
/// each (present, channel), the newest lowest.
pub(crate) type Credits = u16;

/// Most credits of one cycle.
pub(crate) const CREDITS_MAX: u32 = 3;

/// The channels of some credits.
#[inline(always)]
pub(crate) fn channels(mut credits: Credits) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (credits != 0).then(|| {
            let vc = usize::from(credits & 15);
            credits >>= 5;
            vc
        })
    })
}

/// What comes by the ports of a column in a cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell<const P: usize> {
    /// Ports that a flit comes by.
    pub flits_due: u64,
    /// Ports that credits come by.
    pub credits_due: u64,
    pub flits: [Flit; P],
    pub credits: [Credits; P],
}

impl<const P: usize> Cell<P> {
    const EMPTY: Cell<P> = Cell { flits_due: 0, credits_due: 0, flits: [0; P], credits: [0; P] };
}

/// What will arrive in a shard in the cycles to come, for routers of `P` ports.
#[derive(Debug)]
pub(crate) struct Wheel<const P: usize> {
    /// Cells of a column, a power of two, less one.
    row_mask: usize,
    /// Column by column.
    cells: Vec<Cell<P>>,
}

impl<const P: usize> Wheel<P> {
    /// A wheel that reaches `horizon` cycles ahead.
    pub fn new(horizon: u32, columns: usize) -> Wheel<P> {
        let rows = Wheel::<P>::rows_of(horizon);
        Wheel { row_mask: rows - 1, cells: vec![Cell::EMPTY; columns * rows] }
    }

    /// Cells of a column of a wheel that reaches `horizon` cycles ahead.
    pub fn rows_of(horizon: u32) -> usize {
        (horizon as usize + 1).next_power_of_two()
    }

    /// The first cell of a column.
    pub fn base(&self, column: usize) -> usize {
        column * (self.row_mask + 1)
    }

    /// A cell of the column with this first cell.
    #[inline(always)]
    fn cell_from(&mut self, cycle: u32, base: usize) -> &mut Cell<P> {
        &mut self.cells[base + (cycle as usize & self.row_mask)]
    }

    #[inline(always)]
    pub fn cell(&mut self, cycle: u32, column: usize) -> &mut Cell<P> {
        self.cell_from(cycle, self.base(column))
    }

    /// A flit leaves for the other end of a link.
    #[inline(always)]
    pub fn send(&mut self, now: u32, to: Peer, flit: Flit) {
        let cell = self.cell_from(now + u32::from(to.flit_delay), to.base as usize);
        put_flit(cell, to.port, flit);
    }

    /// A flit comes by a port in a cycle.
    pub fn put_flit(&mut self, cycle: u32, column: usize, port: u8, flit: Flit) {
        put_flit(self.cell(cycle, column), port, flit);
    }

    /// A credit leaves for the other end of a link.
    #[inline(always)]
    pub fn give_back(&mut self, now: u32, to: Peer, vc: usize) {
        let cell = self.cell_from(now + u32::from(to.credit_delay), to.base as usize);
        put_credit(cell, to.port, vc);
    }

    /// A credit comes by a port in a cycle.
    #[inline(always)]
    pub fn put_credit(&mut self, cycle: u32, column: usize, port: u8, vc: usize) {
        put_credit(self.cell(cycle, column), port, vc);
    }

    /// All credits that come by a port in a cycle.
    pub fn put_credits(&mut self, cycle: u32, column: usize, port: u8, credits: Credits) {
        let cell = self.cell(cycle, column);
        cell.credits_due |= 1 << port;
        cell.credits[usize::from(port) & (P - 1)] = credits;
    }

    /// Reads a value of each cell, for [`Shard::touch`](crate::shard::Shard::touch).
    pub fn touch(&self) -> u64 {
        self.cells
            .iter()
            .map(|cell| cell.flits_due + u64::from(cell.credits[P - 1]))
            .fold(0, u64::wrapping_add)
    }

    /// Every flit on its way to this port.
    pub fn flits_to(&self, column: usize, port: usize) -> impl Iterator<Item = Flit> + '_ {
        self.column(column)
            .iter()
            .filter(move |cell| cell.flits_due >> port & 1 != 0)
            .map(move |cell| cell.flits[port])
    }

    /// The channels of all credits on their way to this port.
    pub fn credits_to(&self, column: usize, port: usize) -> impl Iterator<Item = usize> + '_ {
        self.column(column).iter().flat_map(move |cell| channels(cell.credits[port]))
    }

    fn column(&self, column: usize) -> &[Cell<P>] {
        &self.cells[self.base(column)..self.base(column + 1)]
    }

    /// Cycles that a column reaches ahead.
    pub fn rows(&self) -> u32 {
        self.row_mask as u32 + 1
    }
}

#[inline(always)]
fn put_flit<const P: usize>(cell: &mut Cell<P>, port: u8, flit: Flit) {
    debug_assert_eq!(cell.flits_due >> port & 1, 0, "a link carries one flit a cycle");
    cell.flits_due |= 1 << port;
    cell.flits[usize::from(port) & (P - 1)] = flit;
}

#[inline(always)]
fn put_credit<const P: usize>(cell: &mut Cell<P>, port: u8, vc: usize) {
    cell.credits_due |= 1 << port;
    let credits = &mut cell.credits[usize::from(port) & (P - 1)];
    debug_assert!(
        *credits < 1 << (5 * (CREDITS_MAX - 1)),
        "the switch has at most three steps a cycle"
    );
    *credits = *credits << 5 | 16 | vc as Credits;
}

/// The members of a set, in order.
#[inline(always)]
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let bit = set.trailing_zeros() as usize;
            set &= set - 1;
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_there_in_its_cycle() {
        let mut wheel = Wheel::<16>::new(5, 2);
        let peer = Peer {
            column: 1,
            base: wheel.base(1) as u32,
            port: 9,
            flit_delay: 3,
            credit_delay: 5,
            ..Peer::NONE
        };
        wheel.send(4, peer, 77);
        wheel.give_back(2, peer, 4);
        wheel.give_back(2, peer, 0);
        assert_eq!(wheel.cell(7, 0).flits_due, 0);
        let cell = *wheel.cell(7, 1);
        assert_eq!((cell.flits_due, cell.flits[9]), (1 << 9, 77));
        assert_eq!(cell.credits_due, 1 << 9);
        assert_eq!(channels(cell.credits[9]).collect::<Vec<_>>(), [0, 4]);
        assert!(wheel.flits_to(1, 9).eq([77]) && wheel.credits_to(1, 9).eq([0, 4]));
    }
}
