//! Atomic operations and the types that they work on, as they travel
//! (Portals 4, section 3.15; what libfabric has beyond that comes behind). What they compute
//! is the target's affair.

use crate::error::WireError;

/// Defines an enumeration with the codes it travels as.
macro_rules! coded {
    ($(#[$meta:meta])* $name:ident, $error:ident { $($(#[$doc:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All of them, in order of their codes.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The number that stands for it, in packets and in the C header.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self { $($name::$variant => $code,)* }
            }

            /// Back from the number.
            ///
            /// # Errors
            /// A [`WireError`] for a number that stands for nothing.
            pub const fn from_code(code: u8) -> Result<$name, WireError> {
                match code {
                    $($code => Ok($name::$variant),)*
                    other => Err(WireError::$error(other)),
                }
            }
        }
    };
}

coded! {
    /// What is done with the value at the target and the one that arrives.
    AtomicOp, AtomicOp {
        /// The smaller one stays.
        Min = 0,
        /// The greater one stays.
        Max = 1,
        /// Sum.
        Sum = 2,
        /// Product.
        Prod = 3,
        /// Logical or.
        Lor = 4,
        /// Logical and.
        Land = 5,
        /// Bitwise or.
        Bor = 6,
        /// Bitwise and.
        Band = 7,
        /// Logical exclusive or.
        Lxor = 8,
        /// Bitwise exclusive or.
        Bxor = 9,
        /// The one that arrives stays.
        Swap = 10,
        /// It stays if the operand equals the target's.
        Cswap = 11,
        /// It stays if the operand differs from the target's.
        CswapNe = 12,
        /// It stays if the operand is not greater than the target's.
        CswapLe = 13,
        /// It stays if the operand is less than the target's.
        CswapLt = 14,
        /// It stays if the operand is not less than the target's.
        CswapGe = 15,
        /// It stays if the operand is greater than the target's.
        CswapGt = 16,
        /// Its bits stay where the operand has ones.
        Mswap = 17,
        /// The target's less the one that arrives; libfabric's alone.
        Diff = 18,
    }
}

coded! {
    /// The type of one item.
    Datatype, Datatype {
        /// Signed, 8 bits.
        Int8 = 0,
        /// Unsigned, 8 bits.
        Uint8 = 1,
        /// Signed, 16 bits.
        Int16 = 2,
        /// Unsigned, 16 bits.
        Uint16 = 3,
        /// Signed, 32 bits.
        Int32 = 4,
        /// Unsigned, 32 bits.
        Uint32 = 5,
        /// IEEE 754 binary32.
        Float = 6,
        /// Signed, 64 bits.
        Int64 = 7,
        /// Unsigned, 64 bits.
        Uint64 = 8,
        /// IEEE 754 binary64.
        Double = 9,
        /// Two `Float`.
        FloatComplex = 10,
        /// Two `Double`.
        DoubleComplex = 11,
        /// The C compiler's `long double`, 16 bytes.
        LongDouble = 12,
        /// Two `LongDouble`.
        LongDoubleComplex = 13,
        /// Signed, 128 bits; libfabric's alone, as all behind it.
        Int128 = 14,
        /// Unsigned, 128 bits.
        Uint128 = 15,
        /// IEEE 754 binary16.
        Float16 = 16,
        /// The upper half of a `Float`.
        Bfloat16 = 17,
        /// 4 bits of exponent, 3 of mantissa, one NaN of each sign and no infinity (OCP OFP8).
        Float8E4m3 = 18,
        /// 5 bits of exponent, 2 of mantissa, as IEEE 754 would have it.
        Float8E5m2 = 19,
    }
}

/// Bytes of the longest item.
pub const ITEM_BYTES_MAX: usize = 32;

impl AtomicOp {
    /// Whether it takes an operand besides the value, which limits it to one
    /// item: conditional swaps and the swap under a mask.
    #[must_use]
    pub const fn has_operand(self) -> bool {
        self.is_swap() && !matches!(self, AtomicOp::Swap)
    }

    /// Whether it is one of the swaps, which only [`AtomicOp`]s of `PtlSwap`
    /// are.
    #[must_use]
    pub const fn is_swap(self) -> bool {
        self.code() >= AtomicOp::Swap.code() && self.code() <= AtomicOp::Mswap.code()
    }

    /// Whether it is one of Portals 4.
    #[must_use]
    pub const fn is_of_portals(self) -> bool {
        !matches!(self, AtomicOp::Diff)
    }
}

impl Datatype {
    /// Bytes of one item.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Datatype::Int8 | Datatype::Uint8 | Datatype::Float8E4m3 | Datatype::Float8E5m2 => 1,
            Datatype::Int16 | Datatype::Uint16 | Datatype::Float16 | Datatype::Bfloat16 => 2,
            Datatype::Int32 | Datatype::Uint32 | Datatype::Float => 4,
            Datatype::Int64 | Datatype::Uint64 | Datatype::Double | Datatype::FloatComplex => 8,
            Datatype::DoubleComplex | Datatype::LongDouble => 16,
            Datatype::Int128 | Datatype::Uint128 => 16,
            Datatype::LongDoubleComplex => ITEM_BYTES_MAX,
        }
    }

    /// Bytes that an item's address is a multiple of where C puts it.
    #[must_use]
    pub const fn align(self) -> usize {
        match self {
            Datatype::FloatComplex => 4,
            Datatype::DoubleComplex => 8,
            Datatype::LongDoubleComplex => 16,
            other => other.bytes(),
        }
    }

    /// Whether it is one of the integer types.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Datatype::Int8
                | Datatype::Uint8
                | Datatype::Int16
                | Datatype::Uint16
                | Datatype::Int32
                | Datatype::Uint32
                | Datatype::Int64
                | Datatype::Uint64
                | Datatype::Int128
                | Datatype::Uint128
        )
    }

    /// Whether it is one of Portals 4.
    #[must_use]
    pub const fn is_of_portals(self) -> bool {
        self.code() <= Datatype::LongDoubleComplex.code()
    }

    /// Whether it is a complex type, whose values have no order.
    #[must_use]
    pub const fn is_complex(self) -> bool {
        matches!(
            self,
            Datatype::FloatComplex | Datatype::DoubleComplex | Datatype::LongDoubleComplex
        )
    }
}
