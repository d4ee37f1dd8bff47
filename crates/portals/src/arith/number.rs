//! The numbers that items are: how they stand in memory, add and multiply.
//!
//! `long double` and floats of 16 and 8 bits are computed in software, by the port of LLVM's `APFloat`
//! that the Rust compiler uses, for Rust has no such types.

use rustc_apfloat::Float;
use rustc_apfloat::ieee::IeeeFloat;
use std::ops::{BitAnd, BitOr, BitXor, Not};

/// The C compiler's `long double`: x87's 80 bits in 16 bytes.
#[cfg(target_arch = "x86_64")]
pub(super) type LongDouble = rustc_apfloat::ieee::X87DoubleExtended;

/// The C compiler's `long double`: IEEE 754 binary128.
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "loongarch64"))]
pub(super) type LongDouble = rustc_apfloat::ieee::Quad;

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "loongarch64"
)))]
compile_error!("which format `long double` has here is not known: add it to `LongDouble`");

/// What every type can do. `PartialEq` is C's `==`.
pub(super) trait Number: Copy + PartialEq {
    /// Bytes that it takes in memory.
    const BYTES: usize;

    /// Reads one. Panics if the length is not `BYTES`.
    fn load(bytes: &[u8]) -> Self;

    /// Writes it, a NaN in its one form. Panics if the length is not `BYTES`.
    fn store(self, bytes: &mut [u8]);

    fn sum(self, other: Self) -> Self;
    fn difference(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
}

/// An integer, for which bits and truth values mean something.
pub(super) trait Integer:
    Number
    + Ord
    + From<bool>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
{
}

/// The bytes as an array.
fn array<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    bytes.try_into().expect("the length is checked by `combine`")
}

macro_rules! integers {
    ($($integer:ty)*) => { $(
        impl Number for $integer {
            const BYTES: usize = size_of::<$integer>();

            fn load(bytes: &[u8]) -> Self {
                <$integer>::from_ne_bytes(array(bytes))
            }

            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }

            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn difference(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Integer for $integer {}
    )* };
}

integers!(i8 u8 i16 u16 i32 u32 i64 u64 i128 u128);

macro_rules! hardware_floats {
    ($($float:ty, $quiet_nan:literal;)*) => { $(
        impl Number for $float {
            const BYTES: usize = size_of::<$float>();

            fn load(bytes: &[u8]) -> Self {
                <$float>::from_ne_bytes(array(bytes))
            }

            fn store(self, bytes: &mut [u8]) {
                let bits = if self.is_nan() { $quiet_nan } else { self.to_bits() };
                bytes.copy_from_slice(&bits.to_ne_bytes());
            }

            fn sum(self, other: Self) -> Self {
                self + other
            }

            fn difference(self, other: Self) -> Self {
                self - other
            }

            fn product(self, other: Self) -> Self {
                self * other
            }
        }
    )* };
}

hardware_floats! {
    f32, 0x7fc0_0000;
    f64, 0x7ff8_0000_0000_0000;
}

/// A `long double` of either kind, or a short float. The operators of `rustc_apfloat` round to
/// nearest, ties to even. x87's encodings that no instruction makes are what
/// the processor takes them for: pseudo-denormals are numbers, all others NaNs.
impl<S> Number for IeeeFloat<S>
where
    IeeeFloat<S>: Float,
{
    /// x87's 80 bits take 16 bytes.
    const BYTES: usize = (<Self as Float>::BITS / 8).next_power_of_two();

    fn load(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES, "the length is checked by `combine`");
        // Machines with a known `long double` have the least byte first.
        let mut whole = [0; 16];
        whole[..Self::BYTES].copy_from_slice(bytes);
        let padding_bits = u128::BITS as usize - <Self as Float>::BITS;
        Self::from_bits(u128::from_le_bytes(whole) & (u128::MAX >> padding_bits))
    }

    fn store(self, bytes: &mut [u8]) {
        let number = if self.is_nan() { Self::NAN } else { self };
        bytes.copy_from_slice(&number.to_bits().to_le_bytes()[..Self::BYTES]);
    }

    fn sum(self, other: Self) -> Self {
        (self + other).value
    }

    fn difference(self, other: Self) -> Self {
        (self - other).value
    }

    fn product(self, other: Self) -> Self {
        (self * other).value
    }
}

/// Two numbers, the real part first, as C99 lays them out.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Complex<R> {
    real: R,
    imaginary: R,
}

impl<R: Number> Number for Complex<R> {
    const BYTES: usize = 2 * R::BYTES;

    fn load(bytes: &[u8]) -> Self {
        let (real, imaginary) = bytes.split_at(R::BYTES);
        Complex { real: R::load(real), imaginary: R::load(imaginary) }
    }

    fn store(self, bytes: &mut [u8]) {
        let (real, imaginary) = bytes.split_at_mut(R::BYTES);
        self.real.store(real);
        self.imaginary.store(imaginary);
    }

    fn sum(self, other: Self) -> Self {
        Complex { real: self.real.sum(other.real), imaginary: self.imaginary.sum(other.imaginary) }
    }

    fn difference(self, other: Self) -> Self {
        Complex {
            real: self.real.difference(other.real),
            imaginary: self.imaginary.difference(other.imaginary),
        }
    }

    fn product(self, other: Self) -> Self {
        let (a, b) = (self.real, self.imaginary);
        let (c, d) = (other.real, other.imaginary);
        Complex {
            real: a.product(c).difference(b.product(d)),
            imaginary: a.product(d).sum(b.product(c)),
        }
    }
}
