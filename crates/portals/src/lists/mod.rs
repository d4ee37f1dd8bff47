//! The match lists of a portal table entry: posted entries, and the headers of
//! messages that came before theirs.
//!
//! The elements of all lists of an interface stand in two slabs (`slab`), the
//! entries and the headers. A list threads its own in order of arrival, and is
//! walked as long as walking is cheap. When walks grow long, it is indexed
//! instead: chains of the elements that one look-up key cannot tell apart,
//! found by a hash of the key (`index`). What makes a key is the *shape* of
//! the criteria (`Shape`): which bits count, and whether the source does.
//! Programs use few shapes.
//!
//! Invariants, which the tests hold against a plain list after each step:
//! - the answer is that of a walk from the oldest element, and `accept` is
//!   asked about the same elements in the same order;
//! - an index holds exactly the elements of its list, and only a list longer
//!   than `SHORT` has one, built when it was longer than `LONG`;
//! - nothing depends on the order of a hash table, on time or on chance.
//!
//! Why an indexed list is not threaded: an element that leaves from somewhere
//! would touch both its neighbours, two cache misses of five. Its order is in
//! the sequence numbers, and is made from these when somebody asks.
//!
//! Why an index waits for long walks and not for a long list: most long lists
//! are used in order, where a walk ends at its first step and an index would
//! cost two cache misses for each element that enters or leaves. A walk pays
//! into `Toil`; the index is built from what is saved there, so that walking
//! never costs more than a constant times what building did.

mod criteria;
mod index;
mod posted;
mod shapes;
mod slab;
#[cfg(test)]
mod tests;
mod unexpected;

pub use criteria::{Criteria, Waiting};
pub use posted::Posted;
pub use slab::{Age, Record, Slab};
pub use unexpected::{Arrived, Unexpected, record_bytes};

/// A list of at most so many elements loses its indexes.
const SHORT: u32 = 16;

/// A list of more elements than these may get an index. Measured: where any
/// element may be the one, a walk costs what an index does from some forty
/// elements on. Twice [`SHORT`], so that a
/// list about as long as either does not build and drop in turns.
const LONG: u32 = 32;

/// The steps that walks have taken beyond what a walk may. It leaks: a list
/// whose walks are short on average never fills it.
#[derive(Clone, Copy, Debug, Default)]
struct Toil(u64);

impl Toil {
    /// Steps that any walk may take.
    const FREE: u64 = 8;

    #[inline]
    fn add(&mut self, steps: u64) {
        self.0 = (self.0 + steps).saturating_sub(Self::FREE);
    }

    /// Whether as much was walked as indexing `len` elements costs. An element
    /// costs a few steps to index.
    #[inline]
    fn pays_for(self, len: u32) -> bool {
        self.0 >= 2 * u64::from(len)
    }
}
