//! Every pair of operation and type: what it computes, or that it is refused.

mod floats;
mod long_double;
mod quad_vectors;
mod short_floats;
mod signed;
mod unsigned;
mod wide;
mod x87_vectors;

use super::{combine, is_defined};
use sluice_wire::{AtomicOp, Datatype};

/// Section 3.15 as a table: integers, real floating point, complex.
const DEFINED: [(AtomicOp, [bool; 3]); 19] = [
    (AtomicOp::Min, [true, true, false]),
    (AtomicOp::Max, [true, true, false]),
    (AtomicOp::Sum, [true, true, true]),
    (AtomicOp::Prod, [true, true, true]),
    (AtomicOp::Lor, [true, false, false]),
    (AtomicOp::Land, [true, false, false]),
    (AtomicOp::Bor, [true, false, false]),
    (AtomicOp::Band, [true, false, false]),
    (AtomicOp::Lxor, [true, false, false]),
    (AtomicOp::Bxor, [true, false, false]),
    (AtomicOp::Swap, [true, true, true]),
    (AtomicOp::Cswap, [true, true, true]),
    (AtomicOp::CswapNe, [true, true, true]),
    (AtomicOp::CswapLe, [true, true, false]),
    (AtomicOp::CswapLt, [true, true, false]),
    (AtomicOp::CswapGe, [true, true, false]),
    (AtomicOp::CswapGt, [true, true, false]),
    (AtomicOp::Mswap, [true, false, false]),
    (AtomicOp::Diff, [true, true, true]),
];

const CLASSES: [&[Datatype]; 3] = [
    &[
        Datatype::Int8,
        Datatype::Uint8,
        Datatype::Int16,
        Datatype::Uint16,
        Datatype::Int32,
        Datatype::Uint32,
        Datatype::Int64,
        Datatype::Uint64,
        Datatype::Int128,
        Datatype::Uint128,
    ],
    &[
        Datatype::Float,
        Datatype::Double,
        Datatype::LongDouble,
        Datatype::Float16,
        Datatype::Bfloat16,
        Datatype::Float8E4m3,
        Datatype::Float8E5m2,
    ],
    &[Datatype::FloatComplex, Datatype::DoubleComplex, Datatype::LongDoubleComplex],
];

#[test]
fn defined_is_what_the_specification_says() {
    let mut defined_count = 0;
    for (op, per_class) in DEFINED {
        for (class, expected) in CLASSES.iter().zip(per_class) {
            for &datatype in *class {
                assert_eq!(is_defined(op, datatype), expected, "{op:?} {datatype:?}");
                defined_count += usize::from(expected);
            }
        }
    }
    assert_eq!(defined_count, 10 * 19 + 7 * 12 + 3 * 6);
    assert_eq!(CLASSES.concat().len(), Datatype::ALL.len());
}

#[test]
fn what_is_not_defined_is_refused_and_the_rest_is_computed() {
    for &op in AtomicOp::ALL {
        for &datatype in Datatype::ALL {
            let zero = &[0; sluice_wire::ITEM_BYTES_MAX][..datatype.bytes()];
            let computed = std::panic::catch_unwind(|| {
                combine(op, datatype, zero, zero, zero, &mut zero.to_vec());
            });
            assert_eq!(computed.is_ok(), is_defined(op, datatype), "{op:?} {datatype:?}");
        }
    }
}

#[test]
fn an_operand_is_read_only_by_operations_that_have_one() {
    for &op in AtomicOp::ALL {
        let computed = std::panic::catch_unwind(|| {
            combine(op, Datatype::Int32, &[0; 4], &[0; 4], &[], &mut [0; 4]);
        });
        assert_eq!(computed.is_err(), op.has_operand(), "{op:?}");
    }
}

/// One new value, from and to addresses that are multiples of nothing.
fn combined(op: AtomicOp, datatype: Datatype, [target, value, operand]: [&[u8]; 3]) -> Vec<u8> {
    let shifted = |item: &[u8]| [&[0xa5], item].concat();
    let (target, value, operand) = (shifted(target), shifted(value), shifted(operand));
    let mut out = vec![0xa5; 1 + datatype.bytes()];
    combine(op, datatype, &target[1..], &value[1..], &operand[1..], &mut out[1..]);
    out.split_off(1)
}

/// Panics unless the rows of a table have all operations defined for the type.
fn assert_covers(datatype: Datatype, rows: impl Iterator<Item = AtomicOp> + Clone) {
    for &op in AtomicOp::ALL {
        let covered = rows.clone().any(|row| row == op);
        assert_eq!(covered, is_defined(op, datatype), "rows for {op:?} of {datatype:?}");
    }
}

/// Checks a table of integers: operation, target, value, operand, new value.
fn integers(datatype: Datatype, rows: &[(AtomicOp, i128, i128, i128, i128)]) {
    assert_covers(datatype, rows.iter().map(|row| row.0));
    for &(op, target, value, operand, expected) in rows {
        let [t, v, o, e] = [target, value, operand, expected].map(i128::to_le_bytes);
        let bytes = datatype.bytes();
        let new = combined(op, datatype, [&t[..bytes], &v[..bytes], &o[..bytes]]);
        assert_eq!(new, e[..bytes], "{datatype:?} {op:?} {target} {value} {operand}");
    }
}

/// Numbers that repeat, from a seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Sixteen bytes; one time in two of few bits, of either sign, so that
    /// values meet.
    fn bits(&mut self) -> i128 {
        let kind = self.next();
        let number = i128::from(self.next());
        match kind % 4 {
            0 => number % 4,
            1 => -(number % 4),
            2 => i128::from(i64::MIN) >> (number % 64),
            _ => number,
        }
    }
}

/// What a number is after it has gone through a type of that width.
fn wrapped(number: i128, bits: u32, signed: bool) -> i128 {
    let unsigned = number & ((1 << bits) - 1);
    if signed && unsigned >> (bits - 1) == 1 { unsigned - (1 << bits) } else { unsigned }
}

/// The new value, computed in 128 bits. A product's low 64 bits are right in
/// them even if it overflows.
fn wide(op: AtomicOp, target: i128, value: i128, operand: i128) -> i128 {
    let swap = |condition: bool| if condition { value } else { target };
    match op {
        AtomicOp::Min => target.min(value),
        AtomicOp::Max => target.max(value),
        AtomicOp::Sum => target + value,
        AtomicOp::Diff => target - value,
        AtomicOp::Prod => target.wrapping_mul(value),
        AtomicOp::Lor => i128::from(target != 0 || value != 0),
        AtomicOp::Land => i128::from(target != 0 && value != 0),
        AtomicOp::Lxor => i128::from((target != 0) != (value != 0)),
        AtomicOp::Bor => target | value,
        AtomicOp::Band => target & value,
        AtomicOp::Bxor => target ^ value,
        AtomicOp::Swap => value,
        AtomicOp::Cswap => swap(operand == target),
        AtomicOp::CswapNe => swap(operand != target),
        AtomicOp::CswapLe => swap(operand <= target),
        AtomicOp::CswapLt => swap(operand < target),
        AtomicOp::CswapGe => swap(operand >= target),
        AtomicOp::CswapGt => swap(operand > target),
        AtomicOp::Mswap => (operand & value) | (!operand & target),
    }
}

#[test]
fn integers_agree_with_arithmetic_in_128_bits() {
    let mut numbers = Numbers(0x5107);
    for &datatype in CLASSES[0].iter().filter(|datatype| datatype.bytes() <= 8) {
        let bits = 8 * datatype.bytes() as u32;
        let signed = matches!(
            datatype,
            Datatype::Int8 | Datatype::Int16 | Datatype::Int32 | Datatype::Int64
        );
        for &op in AtomicOp::ALL {
            for _ in 0..2_000 {
                let [t, v, o] = [(); 3].map(|()| wrapped(numbers.bits(), bits, signed));
                let expected = wrapped(wide(op, t, v, o), bits, signed).to_le_bytes();
                let [target, value, operand] = [t, v, o].map(i128::to_le_bytes);
                let item = [&target, &value, &operand].map(|bytes| &bytes[..datatype.bytes()]);
                let new = combined(op, datatype, item);
                assert_eq!(new, expected[..datatype.bytes()], "{datatype:?} {op:?} {t} {v} {o}");
            }
        }
    }
}
