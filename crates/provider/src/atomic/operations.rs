//! Which atomic operations there are: what libfabric's numbers of types and operations ask the
//! engine for, and how many items one can have.
//!
//! What libfabric names and Portals does not is a number of its own to the engine, or made of what
//! Portals has: a read is a fetching "or" with zeros on integers of the same size, a write is a
//! write, and one that fetches is a swap.

use crate::errno::Errno;
use sluice_proto::{Deed, is_defined};
use sluice_wire::{AtomicOp, Datatype};

/// Most bytes of values of an operation.
pub const BYTES_MAX: usize = sluice_proto::COMBINED_BYTES_MAX as usize;

/// The three kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Write,
    Fetch,
    Compare,
}

/// What a call does: with which bytes if not with the program's.
#[derive(Clone, Copy, Debug)]
pub(super) struct What {
    pub(super) deed: Deed,
    pub(super) item_bytes: usize,
    pub(super) is_read: bool,
}

impl What {
    pub(super) fn of(call: Call, datatype: u32, op: u32) -> Result<What, Errno> {
        let none = Errno::NOT_SUPPORTED;
        let datatype = *DATATYPES.get(datatype as usize).ok_or(none)?;
        let portals = match call {
            Call::Write | Call::Fetch if op == DIFF => Some(&AtomicOp::Diff),
            Call::Write | Call::Fetch => COMBINING.get(op as usize),
            Call::Compare => op.checked_sub(CSWAP).and_then(|op| COMPARING.get(op as usize)),
        };
        let is_read = call == Call::Fetch && op == ATOMIC_READ;
        let deed = match (call, portals) {
            (Call::Write, Some(op)) => Deed::Combine(*op, datatype),
            (Call::Fetch | Call::Compare, Some(op)) => Deed::Fetch(*op, datatype),
            (Call::Write, None) if op == ATOMIC_WRITE => Deed::Write,
            (Call::Fetch, None) if op == ATOMIC_WRITE => Deed::Fetch(AtomicOp::Swap, datatype),
            (Call::Fetch, None) if is_read => Deed::Fetch(AtomicOp::Bor, integer_of(datatype)),
            _ => return Err(none),
        };
        match deed {
            Deed::Combine(op, datatype) | Deed::Fetch(op, datatype)
                if !is_defined(op, datatype) =>
            {
                Err(none)
            }
            deed => Ok(What { deed, item_bytes: datatype.bytes(), is_read }),
        }
    }

    /// Items that one operation can have.
    pub(super) fn count_max(&self) -> usize {
        match self.deed {
            Deed::Fetch(op, _) if op.has_operand() => 1,
            _ => BYTES_MAX / self.item_bytes,
        }
    }
}

/// An integer type that an item of this type is one or some of.
fn integer_of(datatype: Datatype) -> Datatype {
    match datatype.bytes() {
        1 => Datatype::Uint8,
        2 => Datatype::Uint16,
        4 => Datatype::Uint32,
        _ => Datatype::Uint64,
    }
}

/// `enum fi_datatype`, in its order.
const DATATYPES: [Datatype; 20] = [
    Datatype::Int8,
    Datatype::Uint8,
    Datatype::Int16,
    Datatype::Uint16,
    Datatype::Int32,
    Datatype::Uint32,
    Datatype::Int64,
    Datatype::Uint64,
    Datatype::Float,
    Datatype::Double,
    Datatype::FloatComplex,
    Datatype::DoubleComplex,
    Datatype::LongDouble,
    Datatype::LongDoubleComplex,
    Datatype::Int128,
    Datatype::Uint128,
    Datatype::Float16,
    Datatype::Bfloat16,
    Datatype::Float8E4m3,
    Datatype::Float8E5m2,
];

/// The first operations of `enum fi_op`, in its order, and those from [`CSWAP`] on.
const COMBINING: [AtomicOp; 10] = [
    AtomicOp::Min,
    AtomicOp::Max,
    AtomicOp::Sum,
    AtomicOp::Prod,
    AtomicOp::Lor,
    AtomicOp::Land,
    AtomicOp::Bor,
    AtomicOp::Band,
    AtomicOp::Lxor,
    AtomicOp::Bxor,
];
const COMPARING: [AtomicOp; 7] = [
    AtomicOp::Cswap,
    AtomicOp::CswapNe,
    AtomicOp::CswapLe,
    AtomicOp::CswapLt,
    AtomicOp::CswapGe,
    AtomicOp::CswapGt,
    AtomicOp::Mswap,
];
const ATOMIC_READ: u32 = 10;
const ATOMIC_WRITE: u32 = 11;
const CSWAP: u32 = 12;
const DIFF: u32 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    const INT32: u32 = 4;
    const DOUBLE: u32 = 9;
    const DOUBLE_COMPLEX: u32 = 11;
    const INT128: u32 = 14;
    const FLOAT8_E5M2: u32 = 19;

    #[test]
    fn operations_are_those_of_the_standard() {
        let deed = |call, datatype, op| What::of(call, datatype, op).map(|what| what.deed);
        let none = Err(Errno::NOT_SUPPORTED);
        assert_eq!(
            deed(Call::Write, DOUBLE, 2),
            Ok(Deed::Combine(AtomicOp::Sum, Datatype::Double))
        );
        assert_eq!(deed(Call::Write, DOUBLE, ATOMIC_WRITE), Ok(Deed::Write));
        assert_eq!(deed(Call::Write, INT32, ATOMIC_READ), none);
        assert_eq!(deed(Call::Write, INT32, CSWAP), none);
        let read = Deed::Fetch(AtomicOp::Bor, Datatype::Uint64);
        assert_eq!(deed(Call::Fetch, DOUBLE_COMPLEX, ATOMIC_READ), Ok(read));
        assert_eq!(deed(Call::Fetch, DOUBLE, 6), none);
        assert_eq!(deed(Call::Compare, DOUBLE_COMPLEX, CSWAP + 2), none);
        assert_eq!(
            deed(Call::Compare, INT32, CSWAP + 6),
            Ok(Deed::Fetch(AtomicOp::Mswap, Datatype::Int32))
        );
        assert_eq!(deed(Call::Compare, INT32, DIFF), none);
        for (call, op) in
            [(Call::Write, Deed::Combine as fn(_, _) -> _), (Call::Fetch, Deed::Fetch)]
        {
            assert_eq!(
                deed(call, DOUBLE_COMPLEX, DIFF),
                Ok(op(AtomicOp::Diff, Datatype::DoubleComplex))
            );
        }
        let wide = Deed::Fetch(AtomicOp::Bxor, Datatype::Uint128);
        assert_eq!(deed(Call::Fetch, INT128 + 1, 9), Ok(wide));
        let read = Deed::Fetch(AtomicOp::Bor, Datatype::Uint8);
        assert_eq!(deed(Call::Fetch, FLOAT8_E5M2, ATOMIC_READ), Ok(read));
        assert_eq!(deed(Call::Write, FLOAT8_E5M2, 6), none);
        assert_eq!(deed(Call::Write, FLOAT8_E5M2 + 1, 0), none);
    }

    #[test]
    fn one_operation_has_so_many_items() {
        let count = |call, datatype, op| What::of(call, datatype, op).unwrap().count_max();
        assert_eq!(count(Call::Write, DOUBLE, 2), 120);
        assert_eq!(count(Call::Fetch, INT32, ATOMIC_READ), 240);
        assert_eq!(count(Call::Compare, DOUBLE, CSWAP), 1);
    }
}
