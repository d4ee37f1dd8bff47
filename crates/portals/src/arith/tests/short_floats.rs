//! Floats of 16 and 8 bits against a decoder of their formats and arithmetic in `f64`, whose 53
//! bits are more than twice theirs and two, so that rounding twice rounds as once.

use super::{Numbers, assert_covers, combined};
use crate::arith::is_defined;
use sluice_wire::{AtomicOp, Datatype};
use std::cmp::Ordering;

/// A format, by its bits.
struct Format {
    datatype: Datatype,
    exponent_bits: u32,
    mantissa_bits: u32,
    /// All ones in the exponent are infinity and NaNs; else they are numbers, and all ones
    /// below the sign are the NaN.
    has_infinity: bool,
}

const FORMATS: [Format; 4] = [
    Format { datatype: Datatype::Float16, exponent_bits: 5, mantissa_bits: 10, has_infinity: true },
    Format { datatype: Datatype::Bfloat16, exponent_bits: 8, mantissa_bits: 7, has_infinity: true },
    Format {
        datatype: Datatype::Float8E4m3,
        exponent_bits: 4,
        mantissa_bits: 3,
        has_infinity: false,
    },
    Format {
        datatype: Datatype::Float8E5m2,
        exponent_bits: 5,
        mantissa_bits: 2,
        has_infinity: true,
    },
];

impl Format {
    fn bits(&self) -> u32 {
        1 + self.exponent_bits + self.mantissa_bits
    }

    fn sign(&self) -> u16 {
        1 << (self.bits() - 1)
    }

    /// The greatest exponent, with a mantissa of zero.
    fn top(&self) -> u16 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    /// The NaN that arithmetic gives.
    fn nan(&self) -> u16 {
        if self.has_infinity { self.top() | 1 << (self.mantissa_bits - 1) } else { self.sign() - 1 }
    }

    fn decode(&self, bits: u16) -> f64 {
        let magnitude = bits & !self.sign();
        let sign = if bits & self.sign() == 0 { 1.0 } else { -1.0 };
        let is_nan =
            if self.has_infinity { magnitude > self.top() } else { magnitude == self.sign() - 1 };
        if is_nan {
            return f64::NAN;
        }
        if self.has_infinity && magnitude == self.top() {
            return sign * f64::INFINITY;
        }
        sign * self.number(magnitude)
    }

    /// The number that an exponent and a mantissa make, also one beyond the format.
    fn number(&self, magnitude: u16) -> f64 {
        let ones = f64::from(1_u32 << self.mantissa_bits);
        let mantissa = f64::from(magnitude & ((1 << self.mantissa_bits) - 1)) / ones;
        let exponent = i32::from(magnitude >> self.mantissa_bits);
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        match exponent {
            0 => mantissa * 2_f64.powi(1 - bias),
            exponent => (1.0 + mantissa) * 2_f64.powi(exponent - bias),
        }
    }

    /// The nearest number of the format; of two the even one.
    fn round(&self, exact: f64) -> u16 {
        if exact.is_nan() {
            return self.nan();
        }
        let sign = if exact.is_sign_negative() { self.sign() } else { 0 };
        let magnitude = exact.abs();
        // Where numbers end: as if there were one more, which is infinity or none.
        let end = if self.has_infinity { self.top() } else { self.sign() - 1 };
        let below = (0..=end).collect::<Vec<u16>>();
        let above = below.partition_point(|&bits| self.number(bits) <= magnitude) as u16;
        let nearest = match above {
            above if above > end => end,
            above => {
                let [low, high] = [above - 1, above].map(|bits| self.number(bits));
                match (magnitude - low).partial_cmp(&(high - magnitude)).expect("no NaN") {
                    Ordering::Less => above - 1,
                    Ordering::Greater => above,
                    Ordering::Equal => above - 1 + (above - 1) % 2,
                }
            }
        };
        match nearest {
            nearest if nearest == end && !self.has_infinity => self.nan(),
            nearest => sign | nearest,
        }
    }

    fn expected(&self, op: AtomicOp, [target, value, operand]: [u16; 3]) -> u16 {
        let [t, v, o] = [target, value, operand].map(|bits| self.decode(bits));
        let swap = |condition: bool| if condition { value } else { target };
        match op {
            AtomicOp::Sum => self.round(t + v),
            AtomicOp::Diff => self.round(t - v),
            AtomicOp::Prod => self.round(t * v),
            AtomicOp::Min => swap(!t.lt(&v)),
            AtomicOp::Max => swap(!t.gt(&v)),
            AtomicOp::Swap => value,
            AtomicOp::Cswap => swap(o == t),
            AtomicOp::CswapNe => swap(o != t),
            AtomicOp::CswapLe => swap(o <= t),
            AtomicOp::CswapLt => swap(o < t),
            AtomicOp::CswapGe => swap(o >= t),
            AtomicOp::CswapGt => swap(o > t),
            other => unreachable!("{other:?} of a float"),
        }
    }

    fn check(&self, op: AtomicOp, items: [u16; 3]) {
        let bytes = self.datatype.bytes();
        let [target, value, operand] = items.map(u16::to_le_bytes);
        let item = [&target[..bytes], &value[..bytes], &operand[..bytes]];
        let expected = self.expected(op, items).to_le_bytes();
        let new = combined(op, self.datatype, item);
        assert_eq!(new, expected[..bytes], "{:?} {op:?} {items:04x?}", self.datatype);
    }

    fn operations(&self) -> impl Iterator<Item = AtomicOp> + Clone {
        let all = AtomicOp::ALL.iter().copied();
        all.filter(|&op| is_defined(op, self.datatype))
    }
}

#[test]
fn formats_are_those_of_their_standards() {
    let [half, brain, e4m3, e5m2] = &FORMATS;
    // The greatest, the least normal, the least number; 1 and what follows.
    for (format, bits, number) in [
        (half, 0x7bff, 65504.0),
        (half, 0x0400, 6.103_515_625e-5),
        (half, 0x0001, 2_f64.powi(-24)),
        (half, 0xbc01, -1.0009765625),
        (brain, 0x7f7f, 255.0 * 2_f64.powi(120)),
        (brain, 0x0001, 2_f64.powi(-133)),
        (brain, 0x3f81, 1.0078125),
        (e4m3, 0x7e, 448.0),
        (e4m3, 0x08, 0.015625),
        (e4m3, 0x01, 0.001953125),
        (e5m2, 0x7b, 57344.0),
        (e5m2, 0x01, 2_f64.powi(-16)),
        (e5m2, 0xbd, -1.25),
    ] {
        assert_eq!(format.decode(bits), number, "{:?} {bits:04x}", format.datatype);
        assert_eq!(format.round(number), bits, "{:?} {number}", format.datatype);
    }
    assert_eq!([half.nan(), brain.nan(), e4m3.nan(), e5m2.nan()], [0x7e00, 0x7fc0, 0x7f, 0x7e]);
    // Half of the way behind the greatest.
    assert_eq!((e4m3.round(463.0), e4m3.round(465.0)), (0x7e, 0x7f));
    assert_eq!((e5m2.round(61439.0), e5m2.round(61440.0)), (0x7b, 0x7c));
    for value in 0..=u16::MAX {
        let upper = f32::from_bits(u32::from(value) << 16);
        let brain = brain.decode(value);
        assert!(brain == f64::from(upper) || brain.is_nan() && upper.is_nan(), "{value:04x}");
    }
}

#[test]
fn eight_bits_agree_with_arithmetic_in_doubles_all_of_them() {
    for format in &FORMATS[2..] {
        for op in format.operations().filter(|op| !op.has_operand()) {
            for pair in 0..=u16::MAX {
                format.check(op, [pair & 0xff, pair >> 8, 0]);
            }
        }
    }
}

#[test]
fn short_floats_agree_with_arithmetic_in_doubles() {
    let mut numbers = Numbers(0x5108);
    for format in &FORMATS {
        assert_covers(format.datatype, format.operations());
        let mask = ((1_u32 << format.bits()) - 1) as u16;
        for op in format.operations() {
            for _ in 0..600 {
                let drawn = numbers.next();
                let [target, value, any] = [0, 16, 32].map(|at| (drawn >> at) as u16 & mask);
                // Values meet, and those that are near do.
                let value = if drawn >> 62 == 0 { target ^ (value & 0x3) } else { value };
                let operand = if drawn >> 63 == 0 { target } else { any };
                format.check(op, [target, value, operand]);
            }
        }
    }
}
