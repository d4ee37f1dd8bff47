//! The operations of one repetition, by pattern: each pattern's own, then
//! [`Op::Settle`], then none.

use super::collectives::{barrier, block, drawn, reduce_scatter};
use super::op::Op;
use super::{Cursor, Program};
use crate::config::Pattern;

impl Program {
    /// The operation at `step` of a rank's repetition; none when it is over.
    pub(super) fn step(&self, rank: u32, ranks: u32, cursor: &Cursor, step: u32) -> Option<Op> {
        match self.pattern {
            Pattern::PingPong | Pattern::MultiPingPong => self.ping_pong(rank, step),
            Pattern::PingPing | Pattern::Sendrecv | Pattern::Exchange => {
                self.neighbours(rank, ranks, step)
            }
            Pattern::Allreduce => {
                let levels = levels(ranks);
                if step < levels {
                    return Some(both(rank ^ (1 << step), self.bytes));
                }
                settle_at(levels, step)
            }
            Pattern::Barrier => barrier(rank, ranks, step).or(settle_at(levels(ranks), step)),
            Pattern::Alltoall | Pattern::AlltoallPosted | Pattern::Alltoallv => {
                self.all_to_all(rank, ranks, cursor, step)
            }
            Pattern::Allgather | Pattern::Allgatherv => self.all_gather(rank, ranks, step),
            Pattern::ReduceScatter => {
                let mut ops = reduce_scatter(rank, ranks, self.bytes).chain([Op::Settle]);
                ops.nth(step as usize)
            }
            Pattern::Reduce | Pattern::Gather => {
                self.tree_to_root(&self.rooted(rank, ranks, cursor), step)
            }
            Pattern::Bcast | Pattern::Scatter => {
                self.tree_from_root(&self.rooted(rank, ranks, cursor), step)
            }
            Pattern::Gatherv | Pattern::Scatterv => {
                self.flat(&self.rooted(rank, ranks, cursor), step)
            }
            Pattern::Overlap => self.overlap.as_ref()?.step(rank, cursor.repetition, step),
            Pattern::Pace => self.pace.as_ref()?.step(rank, cursor.repetition, step),
        }
    }

    fn ping_pong(&self, rank: u32, step: u32) -> Option<Op> {
        let (is_first, other) = if rank < self.side {
            (true, rank + self.partner)
        } else {
            (false, rank - self.partner)
        };
        match (step, is_first) {
            (0, true) | (1, false) => Some(Op::Send { to: other, bytes: self.bytes }),
            (0, false) | (1, true) => Some(Op::Recv { from: other }),
            _ => settle_at(2, step),
        }
    }

    /// Both at once with the ranks beside this one.
    fn neighbours(&self, rank: u32, ranks: u32, step: u32) -> Option<Op> {
        let bytes = self.bytes;
        let (up, down) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        match (self.pattern, step) {
            (Pattern::PingPing, _) => {
                let other = rank ^ 1;
                if step == 0 && other < ranks {
                    return Some(both(other, bytes));
                }
                settle_at(u32::from(other < ranks), step)
            }
            (_, 0) => Some(Op::Both { to: up, bytes, from: down }),
            (Pattern::Exchange, 1) => Some(Op::Both { to: down, bytes, from: up }),
            (Pattern::Exchange, _) => settle_at(2, step),
            _ => settle_at(1, step),
        }
    }

    fn all_to_all(&self, rank: u32, ranks: u32, cursor: &Cursor, step: u32) -> Option<Op> {
        let others = ranks - 1;
        let above = |distance: u32| (rank + distance) % ranks;
        let below = |distance: u32| (rank + ranks - distance) % ranks;
        let bytes_to = |to: u32| self.bytes_of_pair(rank, to, cursor);
        match self.pattern {
            Pattern::Alltoall if step < others => {
                let to = above(step + 1);
                Some(Op::Send { to, bytes: bytes_to(to) })
            }
            Pattern::Alltoall if step < 2 * others => {
                Some(Op::Recv { from: above(step - others + 1) })
            }
            Pattern::Alltoall => settle_at(2 * others, step),
            _ if step >= others => settle_at(others, step),
            // Receives go upwards and sends downwards, so that messages come in
            // the order in which they are asked for.
            Pattern::AlltoallPosted => {
                let (to, from) = (below(step + 1), above(step + 1));
                Some(Op::Post { to, bytes: bytes_to(to), from })
            }
            _ => {
                let (to, from) = (above(step + 1), below(step + 1));
                Some(Op::Both { to, bytes: bytes_to(to), from })
            }
        }
    }

    /// Around the ring with an odd count of ranks; else with both neighbours in
    /// turn.
    fn all_gather(&self, rank: u32, ranks: u32, step: u32) -> Option<Op> {
        let bytes = self.bytes;
        let (up, down) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let steps = if ranks % 2 == 1 { ranks - 1 } else { ranks / 2 };
        if step >= steps {
            return settle_at(steps, step);
        }
        if ranks % 2 == 1 {
            return Some(Op::Both { to: up, bytes, from: down });
        }
        let other = if (rank + step).is_multiple_of(2) { up } else { down };
        Some(both(other, if step == 0 { bytes } else { bytes.saturating_mul(2) }))
    }

    /// A reduction or a gather, along a binomial tree.
    fn tree_to_root(&self, rooted: &Rooted, step: u32) -> Option<Op> {
        let &Rooted { place, ranks, .. } = rooted;
        let by_subtree = self.pattern == Pattern::Gather;
        let (top, children) = (rooted.top(), rooted.children());
        match step {
            _ if step < children => Some(Op::Recv { from: rooted.rank_at(place + (1 << step)) }),
            _ if step == children && place != 0 => {
                let bytes = block(self.bytes, by_subtree, place, top, ranks);
                Some(Op::Send { to: rooted.rank_at(place - (1 << top)), bytes })
            }
            _ => settle_at(children + u32::from(place != 0), step),
        }
    }

    /// A broadcast or a scatter, along a binomial tree.
    fn tree_from_root(&self, rooted: &Rooted, step: u32) -> Option<Op> {
        let &Rooted { place, ranks, .. } = rooted;
        let by_subtree = self.pattern == Pattern::Scatter;
        let first = u32::from(place != 0);
        let children = rooted.children();
        match step {
            0 if place != 0 => Some(Op::Recv { from: rooted.rank_at(place - (1 << rooted.top())) }),
            _ if step < first + children => {
                // The largest subtree first.
                let child = place + (1 << (children - 1 - (step - first)));
                let level = child.trailing_zeros();
                let bytes = block(self.bytes, by_subtree, child, level, ranks);
                Some(Op::Send { to: rooted.rank_at(child), bytes })
            }
            _ => settle_at(first + children, step),
        }
    }

    /// Between the root and each other rank, without a tree.
    fn flat(&self, rooted: &Rooted, step: u32) -> Option<Op> {
        let is_root = rooted.place == 0;
        let root_sends = self.pattern == Pattern::Scatterv;
        let ops = if is_root { rooted.ranks - 1 } else { 1 };
        if step >= ops {
            return settle_at(ops, step);
        }
        let other = rooted.rank_at(if is_root { step + 1 } else { 0 });
        if root_sends == is_root {
            Some(Op::Send { to: other, bytes: self.bytes })
        } else {
            Some(Op::Recv { from: other })
        }
    }

    /// Where a rank is as seen from the root of this repetition.
    fn rooted(&self, rank: u32, ranks: u32, cursor: &Cursor) -> Rooted {
        let root = cursor.repetition / self.root_repetitions % ranks;
        Rooted { root, place: (rank + ranks - root) % ranks, ranks }
    }

    /// Length of an all-to-all's message from `rank` to another.
    fn bytes_of_pair(&self, rank: u32, to: u32, cursor: &Cursor) -> u32 {
        let is_counted = cursor.repeated >= self.warm_up;
        if is_counted { self.bytes } else { drawn(rank, to, self.bytes) }
    }
}

/// A rank of an operation with a root. Places are counted from the root.
#[derive(Clone, Copy, Debug)]
struct Rooted {
    root: u32,
    place: u32,
    ranks: u32,
}

impl Rooted {
    fn rank_at(&self, place: u32) -> u32 {
        (place + self.root) % self.ranks
    }

    /// The level of the tree at which this place meets its parent.
    fn top(&self) -> u32 {
        self.place.trailing_zeros().min(levels(self.ranks))
    }

    fn children(&self) -> u32 {
        let has_child = |level: &u32| self.place + (1 << level) < self.ranks;
        (0..self.top()).filter(has_child).count() as u32
    }
}

/// Levels of a binomial tree, and rounds of a recursive doubling.
fn levels(ranks: u32) -> u32 {
    u32::BITS - (ranks - 1).leading_zeros()
}

fn both(with: u32, bytes: u32) -> Op {
    Op::Both { to: with, bytes, from: with }
}

/// What comes after `ops` operations.
fn settle_at(ops: u32, step: u32) -> Option<Op> {
    (step == ops).then_some(Op::Settle)
}
