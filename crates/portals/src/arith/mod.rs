//! What atomic operations compute (Portals 4, section 3.15, and what libfabric has beyond
//! that): the new value of
//! one item, from the target's, the arriving one and the operand. No state.
//!
//! What holds:
//! * An operation that chooses (minimum, maximum, swaps) copies the chosen
//!   item byte by byte, so the padding of a `long double` and what a NaN
//!   carries survive.
//! * Integers wrap around. Logical operations give 1 or 0.
//! * Floating point is IEEE 754, rounded to nearest, ties to even. Comparisons
//!   are its comparisons: -0.0 equals 0.0, and a NaN neither equals anything
//!   nor is less or greater. A swap that waits for a NaN by `Cswap` therefore
//!   never happens, and by `CswapNe` always does.
//! * Minimum is `target < value ? target : value`, maximum the same with `>`,
//!   as plain C has it: what programs see where the C library's `fmin` is not
//!   called. So of two equal zeros, and whenever either is a NaN, the arriving
//!   one stays: a NaN comes in, and the next number removes it.
//! * A sum, difference or product that is no number is the one quiet NaN of its
//!   type, positive and empty. Which one IEEE leaves open, and machines differ.
//!   What is too great for a type without infinity is a NaN.
//! * A sum, difference or product of a `long double` has zeros for padding.
//! * A complex product is the plain formula, each step rounded. Infinities are
//!   not recovered from NaNs as C99's annex G does: (inf + inf i)(1 + 0i) is
//!   NaN + NaN i here, and likewise in C with `-fcx-limited-range`.

mod number;

use number::{Complex, Integer, LongDouble, Number};
use rustc_apfloat::ieee::{BFloat, Float8E4M3FN, Float8E5M2, Half};
use sluice_link::mutants::{self, Mutant};
use sluice_wire::{AtomicOp, Datatype};

/// The three that go into one new value.
#[derive(Clone, Copy)]
struct Item<'a> {
    target: &'a [u8],
    value: &'a [u8],
    operand: &'a [u8],
}

impl<'a> Item<'a> {
    /// What stays after a swap on that condition.
    fn value_if(self, swapped: bool) -> &'a [u8] {
        if swapped || mutants::is(Mutant::SwapsWithoutComparing) { self.value } else { self.target }
    }
}

/// Whether the specification defines the operation for the type: logical and
/// bitwise ones and the swap under a mask for integers, those that need an
/// order for what is not complex, the others for all.
#[must_use]
pub fn is_defined(op: AtomicOp, datatype: Datatype) -> bool {
    match op {
        AtomicOp::Sum
        | AtomicOp::Diff
        | AtomicOp::Prod
        | AtomicOp::Swap
        | AtomicOp::Cswap
        | AtomicOp::CswapNe => true,
        AtomicOp::Min
        | AtomicOp::Max
        | AtomicOp::CswapLe
        | AtomicOp::CswapLt
        | AtomicOp::CswapGe
        | AtomicOp::CswapGt => !datatype.is_complex(),
        AtomicOp::Lor
        | AtomicOp::Land
        | AtomicOp::Lxor
        | AtomicOp::Bor
        | AtomicOp::Band
        | AtomicOp::Bxor
        | AtomicOp::Mswap => datatype.is_integer(),
    }
}

/// Writes the new value of one item at the target to `out`.
///
/// `target`, `value` and `out` have `datatype.bytes()` bytes each, in the
/// machine's order and of any alignment; so has `operand` if the operation
/// has one, and it is not read otherwise.
///
/// # Panics
/// If the operation is not defined for the type, or a length is not the type's.
pub(crate) fn combine(
    op: AtomicOp,
    datatype: Datatype,
    target: &[u8],
    value: &[u8],
    operand: &[u8],
    out: &mut [u8],
) {
    let bytes = datatype.bytes();
    assert!(is_defined(op, datatype), "{op:?} is not defined for {datatype:?}");
    assert_eq!([target.len(), value.len(), out.len()], [bytes; 3], "one item of {datatype:?}");
    assert!(!op.has_operand() || operand.len() == bytes, "one operand of {datatype:?}");
    let item = Item { target, value, operand };
    match datatype {
        Datatype::Int8 => integer::<i8>(op, item, out),
        Datatype::Uint8 => integer::<u8>(op, item, out),
        Datatype::Int16 => integer::<i16>(op, item, out),
        Datatype::Uint16 => integer::<u16>(op, item, out),
        Datatype::Int32 => integer::<i32>(op, item, out),
        Datatype::Uint32 => integer::<u32>(op, item, out),
        Datatype::Int64 => integer::<i64>(op, item, out),
        Datatype::Uint64 => integer::<u64>(op, item, out),
        Datatype::Int128 => integer::<i128>(op, item, out),
        Datatype::Uint128 => integer::<u128>(op, item, out),
        Datatype::Float => ordered::<f32>(op, item, out),
        Datatype::Double => ordered::<f64>(op, item, out),
        Datatype::LongDouble => ordered::<LongDouble>(op, item, out),
        Datatype::Float16 => ordered::<Half>(op, item, out),
        Datatype::Bfloat16 => ordered::<BFloat>(op, item, out),
        Datatype::Float8E4m3 => ordered::<Float8E4M3FN>(op, item, out),
        Datatype::Float8E5m2 => ordered::<Float8E5M2>(op, item, out),
        Datatype::FloatComplex => any::<Complex<f32>>(op, item, out),
        Datatype::DoubleComplex => any::<Complex<f64>>(op, item, out),
        Datatype::LongDoubleComplex => any::<Complex<LongDouble>>(op, item, out),
    }
}

/// All operations: those on bits and truth values are integers' only.
fn integer<N: Integer>(op: AtomicOp, item: Item<'_>, out: &mut [u8]) {
    let target = N::load(item.target);
    let value = N::load(item.value);
    let truth = |number: N| number != N::from(false);
    let new = match op {
        AtomicOp::Lor => N::from(truth(target) | truth(value)),
        AtomicOp::Land => N::from(truth(target) & truth(value)),
        AtomicOp::Lxor => N::from(truth(target) ^ truth(value)),
        AtomicOp::Bor => target | value,
        AtomicOp::Band => target & value,
        AtomicOp::Bxor => target ^ value,
        AtomicOp::Mswap => {
            let mask = N::load(item.operand);
            (mask & value) | (!mask & target)
        }
        _ => return ordered::<N>(op, item, out),
    };
    new.store(out);
}

/// The operations of a type whose values have an order.
fn ordered<N: Number + PartialOrd>(op: AtomicOp, item: Item<'_>, out: &mut [u8]) {
    let target = || N::load(item.target);
    let value = || N::load(item.value);
    let operand = || N::load(item.operand);
    // Of minimum and maximum, what is asked is whether the target's stays: a
    // NaN makes the difference.
    let chosen = match op {
        AtomicOp::Min if target() < value() => item.target,
        AtomicOp::Max if target() > value() => item.target,
        AtomicOp::Min | AtomicOp::Max => item.value,
        AtomicOp::CswapLe => item.value_if(operand() <= target()),
        AtomicOp::CswapLt => item.value_if(operand() < target()),
        AtomicOp::CswapGe => item.value_if(operand() >= target()),
        AtomicOp::CswapGt => item.value_if(operand() > target()),
        _ => return any::<N>(op, item, out),
    };
    out.copy_from_slice(chosen);
}

/// The operations that every type has.
fn any<N: Number>(op: AtomicOp, item: Item<'_>, out: &mut [u8]) {
    let target = || N::load(item.target);
    let value = || N::load(item.value);
    let operand = || N::load(item.operand);
    let chosen = match op {
        AtomicOp::Sum => return target().sum(value()).store(out),
        AtomicOp::Diff => return target().difference(value()).store(out),
        AtomicOp::Prod => return target().product(value()).store(out),
        AtomicOp::Swap => item.value,
        AtomicOp::Cswap => item.value_if(operand() == target()),
        AtomicOp::CswapNe => item.value_if(operand() != target()),
        other => unreachable!("{other:?}, which `is_defined` refuses for this type"),
    };
    out.copy_from_slice(chosen);
}

#[cfg(test)]
mod tests;
