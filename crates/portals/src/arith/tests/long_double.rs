//! `long double` against what C computes with it, in both formats on every
//! machine: [`x87_vectors`], [`quad_vectors`]. What [`combine`] makes of the
//! machine's own format is checked with it.

use super::{assert_covers, combined, quad_vectors, x87_vectors};
use crate::arith::number::{Complex, LongDouble, Number};
use crate::arith::{Item, any, is_defined, ordered};
use rustc_apfloat::ieee::{Quad, X87DoubleExtended};
use sluice_wire::{AtomicOp, Datatype};

/// One of the two formats.
struct Format {
    real: fn(AtomicOp, Item<'_>, &mut [u8]),
    complex: fn(AtomicOp, Item<'_>, &mut [u8]),
    /// Bytes that hold the number; the others are padding.
    number_bytes: usize,
    /// The NaN that arithmetic gives.
    nan: [u8; 16],
    /// Whether it is this machine's.
    native: bool,
}

const X87: Format = Format {
    real: ordered::<X87DoubleExtended>,
    complex: any::<Complex<X87DoubleExtended>>,
    number_bytes: 10,
    nan: [0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x7f, 0, 0, 0, 0, 0, 0],
    native: cfg!(target_arch = "x86_64"),
};

const QUAD: Format = Format {
    real: ordered::<Quad>,
    complex: any::<Complex<Quad>>,
    number_bytes: 16,
    nan: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x7f],
    native: !cfg!(target_arch = "x86_64"),
};

impl Format {
    /// The bytes of a number of the tables, with zeros for padding.
    fn number(&self, hex: &str) -> [u8; 16] {
        if hex == "nan" {
            return self.nan;
        }
        assert_eq!(hex.len(), 2 * self.number_bytes, "{hex}");
        let mut number = [0; 16];
        for (at, byte) in number[..self.number_bytes].iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
        }
        number
    }

    /// The number with the other sign.
    fn negative(&self, mut number: [u8; 16]) -> [u8; 16] {
        number[self.number_bytes - 1] ^= 0x80;
        number
    }

    /// The same number with that in its padding.
    fn padded(&self, mut number: [u8; 16], padding: u8) -> [u8; 16] {
        number[self.number_bytes..].fill(padding);
        number
    }

    /// Computes one new value and compares it, on this machine's format also
    /// through the entrance.
    fn check(&self, op: AtomicOp, [target, value, operand]: [&[u8]; 3], expected: &[u8]) {
        let what = format!("{op:?} {target:02x?} {value:02x?} {operand:02x?}");
        let (compute, datatype) = if target.len() == 16 {
            (self.real, Datatype::LongDouble)
        } else {
            (self.complex, Datatype::LongDoubleComplex)
        };
        let mut out = vec![0xa5; target.len()];
        compute(op, Item { target, value, operand }, &mut out);
        assert_eq!(out, expected, "{what}");
        if self.native {
            assert_eq!(combined(op, datatype, [target, value, operand]), expected, "{what}");
        }
    }

    /// All operations on the rows of a table of real numbers.
    fn check_real(&self, table: &str) {
        let tokens: Vec<&str> = table.split_whitespace().collect();
        assert_eq!(tokens.len() % 5, 0);
        for row in tokens.chunks_exact(5) {
            let [a, b, sum, product] = [0, 1, 2, 3].map(|at| self.number(row[at]));
            let [first, second] = [self.padded(a, 0x11), self.padded(b, 0x22)];
            let arrived = [0x33; 16];
            let flags = row[4].as_bytes();
            for &op in AtomicOp::ALL.iter().filter(|op| is_defined(**op, Datatype::LongDouble)) {
                // Which flag tells of an operation that chooses.
                let flag = match op {
                    AtomicOp::Sum => {
                        self.check(op, [&first, &second, &[]], &sum);
                        continue;
                    }
                    AtomicOp::Diff => {
                        self.check(op, [&first, &self.negative(second), &[]], &sum);
                        continue;
                    }
                    AtomicOp::Prod => {
                        self.check(op, [&first, &second, &[]], &product);
                        continue;
                    }
                    AtomicOp::Swap => {
                        self.check(op, [&first, &second, &[]], &second);
                        continue;
                    }
                    AtomicOp::Cswap => 0,
                    AtomicOp::CswapNe => 1,
                    AtomicOp::CswapLe => 2,
                    AtomicOp::CswapLt => 3,
                    AtomicOp::CswapGe => 4,
                    AtomicOp::CswapGt => 5,
                    AtomicOp::Min => 6,
                    AtomicOp::Max => 7,
                    other => unreachable!("{other:?} of a long double"),
                };
                if op.has_operand() {
                    // The operand is a, the target b.
                    let new = if flags[flag] == b'1' { arrived } else { second };
                    self.check(op, [&second, &arrived, &first], &new);
                } else {
                    let new = if flags[flag] == b't' { first } else { second };
                    self.check(op, [&first, &second, &[]], &new);
                }
            }
        }
    }

    /// Complex products and, from the table of real numbers, sums.
    fn check_complex(&self, real: &str, complex: &str) {
        let tokens: Vec<&str> = complex.split_whitespace().collect();
        assert_eq!(tokens.len() % 6, 0);
        for row in tokens.chunks_exact(6) {
            let [a, b] = [0, 2].map(|at| {
                let part = |at: usize| self.padded(self.number(row[at]), 0x44);
                [part(at), part(at + 1)].concat()
            });
            let product = [self.number(row[4]), self.number(row[5])].concat();
            self.check(AtomicOp::Prod, [&a, &b, &[]], &product);
            self.check(AtomicOp::Swap, [&a, &b, &[]], &b);
        }
        let tokens: Vec<&str> = real.split_whitespace().collect();
        let rows: Vec<&[&str]> = tokens.chunks_exact(5).collect();
        for two in rows.windows(2) {
            let column = |at: usize| [self.number(two[0][at]), self.number(two[1][at])].concat();
            self.check(AtomicOp::Sum, [&column(0), &column(1), &[]], &column(2));
            let negative = |row: &[&str]| self.negative(self.number(row[1]));
            let negatives = [negative(two[0]), negative(two[1])].concat();
            self.check(AtomicOp::Diff, [&column(0), &negatives, &[]], &column(2));
            // The operand is a, the target b: equal if both parts are.
            let equal = two.iter().all(|row| row[4].starts_with('1'));
            let (b, arrived) = (column(1), [0x33; 32].to_vec());
            let [same, other] = if equal { [&arrived, &b] } else { [&b, &arrived] };
            self.check(AtomicOp::Cswap, [&b, &arrived, &column(0)], same);
            self.check(AtomicOp::CswapNe, [&b, &arrived, &column(0)], other);
        }
    }
}

#[test]
fn x87_numbers_are_what_c_computes() {
    X87.check_real(x87_vectors::REAL);
}

#[test]
fn x87_complex_numbers_are_what_c_computes() {
    X87.check_complex(x87_vectors::REAL, x87_vectors::COMPLEX);
}

#[test]
fn binary128_numbers_are_what_c_computes() {
    QUAD.check_real(quad_vectors::REAL);
}

#[test]
fn binary128_complex_numbers_are_what_c_computes() {
    QUAD.check_complex(quad_vectors::REAL, quad_vectors::COMPLEX);
}

/// `check_complex` names its operations one by one: these are all.
#[test]
fn complex_numbers_have_six_operations() {
    use AtomicOp::{Cswap, CswapNe, Diff, Prod, Sum, Swap};
    let all = [Prod, Swap, Sum, Diff, Cswap, CswapNe];
    assert_covers(Datatype::LongDoubleComplex, all.into_iter());
    assert_eq!(<Complex<LongDouble> as Number>::BYTES, Datatype::LongDoubleComplex.bytes());
}

#[test]
fn padding_neither_decides_a_swap_nor_survives_a_sum() {
    let one = X87.number("0000000000000080ff3f");
    let two = X87.number("00000000000000800040");
    let [dirty, dirtier] = [X87.padded(one, 0x11), X87.padded(one, 0xff)];
    X87.check(AtomicOp::Cswap, [&dirty, &X87.padded(two, 0x22), &dirtier], &X87.padded(two, 0x22));
    X87.check(AtomicOp::Min, [&dirty, &X87.padded(two, 0x22), &[]], &dirty);
    X87.check(AtomicOp::Sum, [&dirty, &dirtier, &[]], &two);
}
