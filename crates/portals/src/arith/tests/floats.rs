//! `float`, `double` and the complex types of them, bit by bit. Rows are:
//! operation, target, value, operand, new value.

use super::{assert_covers, combined};
use sluice_wire::AtomicOp::{self, *};
use sluice_wire::Datatype;

/// A test of one real type and one of its complex type. They differ only in
/// their extremes, which come as literals.
macro_rules! real {
    ($test:ident, $complex_test:ident, $float:ident, $datatype:ident, $complex:ident,
     max $max:literal, half_ulp $half_ulp:literal, epsilon $epsilon:literal,
     least $least:literal, normal $normal:literal,
     nan $nan:literal, payload $payload:literal, signalling $signalling:literal) => {
        #[test]
        fn $test() {
            const INF: $float = $float::INFINITY;
            const MAX: $float = $max;
            const NAN: $float = $float::from_bits($nan);
            const PAYLOAD: $float = $float::from_bits($payload);
            const SIGNALLING: $float = $float::from_bits($signalling);
            const LEAST: $float = $float::from_bits($least);
            const NORMAL: $float = $float::from_bits($normal);
            let rows: &[(AtomicOp, $float, $float, $float, $float)] = &[
                (Min, 1.0, 2.0, 0.0, 1.0),
                (Min, 2.0, -2.0, 0.0, -2.0),
                (Min, -INF, -MAX, 0.0, -INF),
                (Min, 0.0, -0.0, 0.0, -0.0),
                (Min, -0.0, 0.0, 0.0, 0.0),
                (Min, 1.0, PAYLOAD, 0.0, PAYLOAD),
                (Min, PAYLOAD, 1.0, 0.0, 1.0),
                (Min, 1.0, SIGNALLING, 0.0, SIGNALLING),
                (Max, 1.0, 2.0, 0.0, 2.0),
                (Max, 2.0, -2.0, 0.0, 2.0),
                (Max, INF, MAX, 0.0, INF),
                (Max, 0.0, -0.0, 0.0, -0.0),
                (Max, -0.0, 0.0, 0.0, 0.0),
                (Max, 1.0, PAYLOAD, 0.0, PAYLOAD),
                (Max, PAYLOAD, 1.0, 0.0, 1.0),
                (Max, LEAST, 0.0, 0.0, LEAST),
                (Sum, 1.5, 2.25, 0.0, 3.75),
                (Sum, 1.0, -1.0, 0.0, 0.0),
                (Sum, -0.0, -0.0, 0.0, -0.0),
                (Sum, -0.0, 0.0, 0.0, 0.0),
                (Sum, MAX, MAX, 0.0, INF),
                (Sum, 1.0, $half_ulp, 0.0, 1.0),
                (Sum, 1.0 + $epsilon, $half_ulp, 0.0, 1.0 + 2.0 * $epsilon),
                (Sum, LEAST, -LEAST, 0.0, 0.0),
                (Sum, NORMAL, -LEAST, 0.0, $float::from_bits($normal - 1)),
                (Sum, INF, -INF, 0.0, NAN),
                (Sum, PAYLOAD, 1.0, 0.0, NAN),
                (Sum, 1.0, SIGNALLING, 0.0, NAN),
                (Diff, 1.5, 2.25, 0.0, -0.75),
                (Diff, 1.0, 1.0, 0.0, 0.0),
                (Diff, -0.0, 0.0, 0.0, -0.0),
                (Diff, -MAX, MAX, 0.0, -INF),
                (Diff, NORMAL, LEAST, 0.0, $float::from_bits($normal - 1)),
                (Diff, INF, INF, 0.0, NAN),
                (Diff, PAYLOAD, 1.0, 0.0, NAN),
                (Prod, 1.5, -2.0, 0.0, -3.0),
                (Prod, 0.0, -1.0, 0.0, -0.0),
                (Prod, MAX, -2.0, 0.0, -INF),
                (Prod, LEAST, 0.5, 0.0, 0.0),
                (Prod, $float::from_bits(3), 0.5, 0.0, $float::from_bits(2)),
                (Prod, NORMAL, 0.5, 0.0, $float::from_bits($normal / 2)),
                (Prod, INF, 0.0, 0.0, NAN),
                (Prod, 2.0, -PAYLOAD, 0.0, NAN),
                (Swap, 1.0, 2.0, 0.0, 2.0),
                (Swap, 1.0, SIGNALLING, 0.0, SIGNALLING),
                (Cswap, 1.0, 5.0, 1.0, 5.0),
                (Cswap, 1.0, 5.0, 2.0, 1.0),
                (Cswap, -0.0, 5.0, 0.0, 5.0),
                (Cswap, PAYLOAD, 5.0, PAYLOAD, PAYLOAD),
                (CswapNe, 1.0, 5.0, 1.0, 1.0),
                (CswapNe, 1.0, 5.0, 2.0, 5.0),
                (CswapNe, -0.0, 5.0, 0.0, -0.0),
                (CswapNe, NAN, 5.0, NAN, 5.0),
                (CswapLe, 1.0, 5.0, 1.0, 5.0),
                (CswapLe, 1.0, 5.0, 2.0, 1.0),
                (CswapLe, INF, 5.0, MAX, 5.0),
                (CswapLe, -0.0, 5.0, 0.0, 5.0),
                (CswapLe, 1.0, 5.0, NAN, 1.0),
                (CswapLt, 1.0, 5.0, 1.0, 1.0),
                (CswapLt, 1.0, 5.0, -2.0, 5.0),
                (CswapLt, 0.0, 5.0, -0.0, 0.0),
                (CswapLt, NAN, 5.0, 1.0, NAN),
                (CswapGe, 1.0, 5.0, 1.0, 5.0),
                (CswapGe, 2.0, 5.0, 1.0, 2.0),
                (CswapGe, 0.0, 5.0, -0.0, 5.0),
                (CswapGe, 1.0, 5.0, NAN, 1.0),
                (CswapGt, 1.0, 5.0, 1.0, 1.0),
                (CswapGt, -INF, 5.0, -MAX, 5.0),
                (CswapGt, -0.0, 5.0, 0.0, -0.0),
                (CswapGt, NAN, 5.0, 1.0, NAN),
            ];
            assert_covers(Datatype::$datatype, rows.iter().map(|row| row.0));
            for &(op, target, value, operand, expected) in rows {
                let [t, v, o] = [target, value, operand].map($float::to_le_bytes);
                let new = combined(op, Datatype::$datatype, [&t, &v, &o]);
                assert_eq!(new, expected.to_le_bytes(), "{op:?} {target} {value} {operand}");
            }
        }

        #[test]
        fn $complex_test() {
            const INF: $float = $float::INFINITY;
            const MAX: $float = $max;
            const NAN: $float = $float::from_bits($nan);
            const PAYLOAD: $float = $float::from_bits($payload);
            const ZERO: [$float; 2] = [0.0; 2];
            type C = [$float; 2];
            let rows: &[(AtomicOp, C, C, C, C)] = &[
                (Sum, [1.0, 2.0], [0.5, -4.0], ZERO, [1.5, -2.0]),
                (Sum, [-0.0, MAX], [-0.0, MAX], ZERO, [-0.0, INF]),
                (Sum, [INF, PAYLOAD], [-INF, 1.0], ZERO, [NAN, NAN]),
                (Sum, [1.0, INF], [1.0, -INF], ZERO, [2.0, NAN]),
                (Diff, [1.0, 2.0], [0.5, -4.0], ZERO, [0.5, 6.0]),
                (Diff, [INF, PAYLOAD], [INF, 1.0], ZERO, [NAN, NAN]),
                (Prod, [1.0, 2.0], [3.0, 4.0], ZERO, [-5.0, 10.0]),
                (Prod, [0.0, 1.0], [0.0, 1.0], ZERO, [-1.0, 0.0]),
                (Prod, [1.0, -0.0], [0.0, -0.0], ZERO, [0.0, -0.0]),
                (Prod, [MAX, MAX], [1.0, 1.0], ZERO, [0.0, INF]),
                (Prod, [INF, INF], [1.0, 0.0], ZERO, [NAN, NAN]),
                (Prod, [INF, 0.0], [1.0, 1.0], ZERO, [INF, INF]),
                (Prod, [INF, 0.0], [1.0, 0.0], ZERO, [INF, NAN]),
                // 1 + 2 epsilon + epsilon squared rounds before 1 is taken off.
                (
                    Prod,
                    [1.0 + $epsilon, 1.0],
                    [1.0 + $epsilon, 1.0],
                    ZERO,
                    [2.0 * $epsilon, 2.0 + 2.0 * $epsilon],
                ),
                (Swap, [1.0, 2.0], [PAYLOAD, 4.0], ZERO, [PAYLOAD, 4.0]),
                (Cswap, [1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [3.0, 4.0]),
                (Cswap, [1.0, 2.0], [3.0, 4.0], [1.0, 5.0], [1.0, 2.0]),
                (Cswap, [1.0, 2.0], [3.0, 4.0], [5.0, 2.0], [1.0, 2.0]),
                (Cswap, [0.0, -0.0], [3.0, 4.0], [-0.0, 0.0], [3.0, 4.0]),
                (Cswap, [1.0, NAN], [3.0, 4.0], [1.0, NAN], [1.0, NAN]),
                (CswapNe, [1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.0, 2.0]),
                (CswapNe, [1.0, 2.0], [3.0, 4.0], [1.0, 5.0], [3.0, 4.0]),
                (CswapNe, [1.0, 2.0], [3.0, 4.0], [5.0, 2.0], [3.0, 4.0]),
                (CswapNe, [0.0, -0.0], [3.0, 4.0], [-0.0, 0.0], [0.0, -0.0]),
                (CswapNe, [NAN, 2.0], [3.0, 4.0], [NAN, 2.0], [3.0, 4.0]),
            ];
            assert_covers(Datatype::$complex, rows.iter().map(|row| row.0));
            let bytes = |number: C| number.map($float::to_le_bytes).concat();
            for &(op, target, value, operand, expected) in rows {
                let item = [&bytes(target)[..], &bytes(value), &bytes(operand)];
                let new = combined(op, Datatype::$complex, item);
                assert_eq!(new, bytes(expected), "{op:?} {target:?} {value:?} {operand:?}");
            }
        }
    };
}

real! {
    float, float_complex, f32, Float, FloatComplex,
    max 3.402_823_5e38, half_ulp 5.960_464_5e-8, epsilon 1.192_092_9e-7,
    least 1, normal 0x0080_0000,
    nan 0x7fc0_0000, payload 0xffc0_1234, signalling 0x7f80_0001
}

real! {
    double, double_complex, f64, Double, DoubleComplex,
    max 1.797_693_134_862_315_7e308, half_ulp 1.110_223_024_625_156_5e-16,
    epsilon 2.220_446_049_250_313e-16,
    least 1, normal 0x0010_0000_0000_0000,
    nan 0x7ff8_0000_0000_0000, payload 0xfff8_0000_0000_1234,
    signalling 0x7ff0_0000_0000_0001
}
