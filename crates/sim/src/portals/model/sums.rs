//! What atomic operations compute, item by item (section 3.15): wide integers that are cut to
//! the item's width, and floating point as Rust has it.

use super::nouns::{Operation, Type};

/// The new value of one item, and whether a swap on a condition was refused.
pub fn combine(
    op: Operation,
    of: Type,
    target: &[u8],
    value: &[u8],
    operand: &[u8],
) -> (Vec<u8>, bool) {
    use Operation::{
        Band, Bor, Bxor, Cswap, CswapGe, CswapGt, CswapLe, CswapLt, CswapNe, Diff, Land, Lor, Lxor,
        Max, Min, Mswap, Prod, Sum, Swap,
    };
    if !of.is_integer() {
        return floating(op, of, target, value, operand);
    }
    let (t, v) = (integer(of, target), integer(of, value));
    let o = if op.has_operand() { integer(of, operand) } else { 0 };
    let swapped = match op {
        Cswap => Some(o == t),
        CswapNe => Some(o != t),
        CswapLe => Some(o <= t),
        CswapLt => Some(o < t),
        CswapGe => Some(o >= t),
        CswapGt => Some(o > t),
        _ => None,
    };
    if let Some(swapped) = swapped {
        return (if swapped { value } else { target }.to_vec(), !swapped);
    }
    let new = match op {
        Min => t.min(v),
        Max => t.max(v),
        Sum => t.wrapping_add(v),
        Diff => t.wrapping_sub(v),
        Prod => t.wrapping_mul(v),
        Lor => i128::from(t != 0 || v != 0),
        Land => i128::from(t != 0 && v != 0),
        Lxor => i128::from((t != 0) != (v != 0)),
        Bor => t | v,
        Band => t & v,
        Bxor => t ^ v,
        Swap => v,
        Mswap => (o & v) | (!o & t),
        _ => unreachable!("conditional swaps have returned"),
    };
    (new.to_le_bytes()[..of.bytes() as usize].to_vec(), false)
}

fn integer(of: Type, bytes: &[u8]) -> i128 {
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    let is_signed = matches!(of, Type::I8 | Type::I16 | Type::I32 | Type::I64);
    if is_signed && bytes[bytes.len() - 1] >> 7 == 1 {
        wide[bytes.len()..].fill(0xFF);
    }
    i128::from_le_bytes(wide)
}

/// All values that are drawn are small whole numbers, so a `f64` has all results of a `f32`.
fn floating(
    op: Operation,
    of: Type,
    target: &[u8],
    value: &[u8],
    operand: &[u8],
) -> (Vec<u8>, bool) {
    let read = |bytes: &[u8]| match of {
        Type::F32 => f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes"))),
        _ => f64::from_le_bytes(bytes.try_into().expect("eight bytes")),
    };
    // A result that is no number is the one quiet NaN, positive and empty.
    let quiet = |number: f64| if number.is_nan() { f64::NAN } else { number };
    let write = |number: f64| match (of, quiet(number)) {
        (Type::F32, number) => (number as f32).to_le_bytes().to_vec(),
        (_, number) => number.to_le_bytes().to_vec(),
    };
    let (t, v) = (read(target), read(value));
    let o = if op.has_operand() { read(operand) } else { 0.0 };
    let swapped = match op {
        Operation::Min => return (if t < v { target } else { value }.to_vec(), false),
        Operation::Max => return (if t > v { target } else { value }.to_vec(), false),
        Operation::Sum => return (write(t + v), false),
        Operation::Diff => return (write(t - v), false),
        Operation::Prod => return (write(t * v), false),
        Operation::Swap => true,
        Operation::Cswap => o == t,
        Operation::CswapNe => o != t,
        Operation::CswapLe => o <= t,
        Operation::CswapLt => o < t,
        Operation::CswapGe => o >= t,
        Operation::CswapGt => o > t,
        _ => unreachable!("for integers only"),
    };
    (if swapped { value } else { target }.to_vec(), !swapped && op != Operation::Swap)
}
