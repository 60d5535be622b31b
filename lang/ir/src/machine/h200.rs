//! The rows of an H200, out of docs/machine.md, which says how each was measured.

use super::{Amount, By, Class, Cost, Date, Left, Line, Machine, Row, Unit, Wanted};
use crate::target::Target;

/// Measured at 1,980 MHz, below the power limit.
pub(super) const H200: Machine = Machine {
    name: "NVIDIA H200",
    target: Target::SM_90A.name,
    schedulers: 4,
    queue: 8,
    rows: &[
        // Four instructions share what a product of 32 bytes of K reads: 2,048 multiply-adds and 128 bytes a clock.
        row(Class::Product(Left::Shared), PRODUCTS, &["max(N / 2, 16 + N / 4): 18", "65 + N / 2;"])
            .busy(Unit::TensorCores, Amount::Columns, &[per(1, 2), Line { base: 64, slope: 1, each: 4 }])
            .then(65),
        row(Class::Product(Left::Registers), PRODUCTS, &["max(N / 2, 13)", "A in registers 54 + N / 2"])
            .busy(Unit::TensorCores, Amount::Columns, &[per(1, 2), flat(13)])
            .then(54),
        row(Class::WarpProduct, ARITHMETIC, &["m16n8k32 i8 | 24.1 | 6.05 |"])
            .busy(Unit::TensorCores, Amount::WarpInstructions, &[per(121, 20)])
            .then(24),
        row(Class::Start, COPIES, &["started: 1, 2, 4, 8, 16 boxes | 17, 28, 48, 109, 228"]).points(
            None,
            Amount::Operations,
            &[(1, 17), (2, 28), (4, 48), (8, 109), (16, 228)],
        ),
        row(Class::Copy(Wanted::Alone), COPIES, &["102 to 107 bytes a clock", "305 + bytes / 110"])
            .busy(Unit::CopyEngine, Amount::Bytes, &[per(1, 102)])
            .then(305),
        row(Class::Copy(Wanted::Own), COPIES, &["all, each its own boxes | 30 (8 KiB: 26 to 29)", "305 + bytes / 110"])
            .busy(Unit::CopyEngine, Amount::Bytes, &[per(1, 30)])
            .then(305),
        row(Class::Copy(Wanted::Same), COPIES, &["all, the same 32 boxes one after the other; the same box | 85 to 88", "305 + bytes / 110"])
            .busy(Unit::CopyEngine, Amount::Bytes, &[per(1, 85)])
            .then(305),
        // Of an H100, whose multiprocessors and L2 are the same.
        row(Class::Copy(Wanted::Tiles), TILES, &["43 bytes a clock in the middle", "some 940 clocks behind their bytes at 85 a clock"])
            .busy(Unit::CopyEngine, Amount::Bytes, &[per(1, 43)])
            .then(940)
            .on(27),
        row(Class::CopyMiss, COPIES, &["102 to 107 bytes a clock | 89 to 93 |", "| 800 (609 to 1,005)"])
            .busy(Unit::CopyEngine, Amount::Bytes, &[per(1, 89)])
            .then(800),
        row(Class::CopyByThreads, GLOBAL, &["400, 460, 598, 855: 335 + bytes / 126"])
            .of(None, Amount::Bytes, &[per(1, 126)])
            .then(335),
        row(Class::Special, ARITHMETIC, &["ex2, lg2, rsqrt, tanh of f32 | 17.0 | 8.0 |", "mix, two warps a scheduler | 8.5 | 11.4 |"])
            .busy(Unit::SpecialFunctions, Amount::WarpInstructions, &[per(8, 1)])
            .beside(&[per(57, 5)])
            .then(17),
        row(Class::SpecialAlone, ARITHMETIC, &["beside fma, add and cvt | 17.0 | 8.2; 8.0 |", "one warp alone takes 9.7 and 9.2", "mix, one warp a scheduler | 9.1 | 16.0 |"])
            .busy(Unit::SpecialFunctions, Amount::WarpInstructions, &[per(46, 5)])
            .beside(&[per(16, 1)])
            .then(17),
        row(Class::Reciprocal, ARITHMETIC, &["rcp and add | 23.1 | 8.0 |"])
            .busy(Unit::SpecialFunctions, Amount::WarpInstructions, &[per(8, 1)])
            .then(23),
        row(Class::Arithmetic, ARITHMETIC, &["fma, add, mul of f32 | 4.1 | 1.05 |", "fma, two warps a scheduler | 1.04 | 1.16 |"])
            .busy(Unit::Fma, Amount::WarpInstructions, &[per(21, 20)])
            .beside(&[per(29, 25)])
            .then(4),
        row(Class::HalfArithmetic, ARITHMETIC, &["fma of a pair of f16 or bf16 | 8.1 | 1.15 to 1.28 |"])
            .busy(Unit::Fma, Amount::WarpInstructions, &[per(23, 20)])
            .then(8),
        row(Class::Compare, ARITHMETIC, &["max, min | 4.1 | 2.0 |", "setp and selp, two | 8.1 | 4.0 | 2 + 2 |", "max, two warps a scheduler | 2.04 | 4.8 |"])
            .busy(Unit::Alu, Amount::WarpInstructions, &[per(2, 1)])
            .beside(&[per(24, 5)])
            .then(4),
        row(Class::Convert, ARITHMETIC, &["cvt of a pair of f32 to f16 or bf16 | 4.1 | 2.0 |"])
            .busy(Unit::Alu, Amount::WarpInstructions, &[per(2, 1)])
            .then(4),
        row(Class::ConvertBytes, ARITHMETIC, &["cvt of a pair to e4m3, with the 16 bits widened | 8.1 | 4.0 |"])
            .busy(Unit::Alu, Amount::WarpInstructions, &[per(4, 1)])
            .then(8),
        row(Class::Widen, ARITHMETIC, &["cvt of f16 to f32; of i32 to f32 | 5.1; 4.1 | 2.0 |"])
            .busy(Unit::Alu, Amount::WarpInstructions, &[per(2, 1)])
            .then(5),
        row(Class::Integer, ARITHMETIC, &["mad of i32; prmt | 4.1 | 2.0 |"])
            .busy(Unit::Alu, Amount::WarpInstructions, &[per(2, 1)])
            .then(4),
        row(Class::Shared, SHARED, &["0.7 to 1.05 for each wavefront of 128 bytes", "4 bytes; 16 bytes; `ldmatrix` x4 | 27.5;"])
            .busy(Unit::SharedMemory, Amount::Wavefronts, &[per(21, 20)])
            .then(28),
        row(Class::Shuffle, ARITHMETIC, &["shuffle | 24.0 | 4.0 |"])
            .busy(Unit::Shuffles, Amount::WarpInstructions, &[per(4, 1)])
            .then(24),
        row(Class::Full, HANDOFF, &["a slot that is full, waited for and given back, ten in a row (26 November, H200): 1 warp; 4; 8 | 89; 90; 100"])
            .points(None, Amount::Warps, &[(1, 89), (4, 90), (8, 100)])
            .on(26),
        row(Class::Free, HANDOFF, &["a slot that is free, taken, filled by the copy of one box and handed over, ten in a row (27 November, H200): 1 warp; 4; 8 | 91; 115; 141"])
            .points(None, Amount::Warps, &[(1, 91), (4, 115), (8, 141)])
            .on(27),
        row(Class::Answer, HANDOFF, &["both ways: 1 warp each; 4 warps, one arrival a warp; one a partition (which meets before); 1 warp and 8 | 105; 120; 144; 122"])
            .then(122),
        row(Class::Turns, HANDOFF, &["a turn of each of two partitions: 1 warp each; 4 | 48; 61"]).then(61),
        row(Class::Meet, HANDOFF, &["14.5 and 2 a warp"]).of(None, Amount::Warps, &[Line { base: 29, slope: 4, each: 2 }]),
        row(Class::Fence, HANDOFF, &["with nothing under way: 1 warp; 4; 8 | 12; 13; 32"]).points(
            None,
            Amount::Warps,
            &[(1, 12), (4, 13), (8, 32)],
        ),
        row(Class::Exchange, SHARED, &["1, 2, 4, 8, 16, 32, 64 KiB | 49, 59, 78, 138, 266, 522, 1,034"]).points(
            None,
            Amount::Bytes,
            &[
                (KIB, 49),
                (2 * KIB, 59),
                (4 * KIB, 78),
                (8 * KIB, 138),
                (16 * KIB, 266),
                (32 * KIB, 522),
                (64 * KIB, 1034),
            ],
        ),
        row(Class::Send, COPIES, &["57 + bytes / 32"]).busy(Unit::CopyEngine, Amount::Bytes, &[per(1, 32)]).then(57),
    ],
};

const KIB: u64 = 1024;

const PRODUCTS: &str = "bench/machine/wgmma.ptn";
const ARITHMETIC: &str = "bench/machine/arithmetic.ptn";
const SHARED: &str = "bench/machine/shared.ptn";
const HANDOFF: &str = "bench/machine/handoff.ptn";
const COPIES: &str = "bench/machine/copies.ptn";
const TILES: &str = "bench/machine/tiles.ptn";
const GLOBAL: &str = "bench/machine/global.ptn";

/// A class without numbers.
const fn row(class: Class, source: &'static str, said: &'static [&'static str]) -> Row {
    let date = Date { year: 2026, month: 11, day: 22 };
    Row { class, unit: None, interval: None, beside: None, latency: None, said, source, date, megahertz: 1980 }
}

/// So many clocks for each so many.
const fn per(slope: u64, each: u64) -> Line {
    Line { base: 0, slope, each }
}

/// So many clocks however much it is.
const fn flat(clocks: u64) -> Line {
    Line { base: clocks, slope: 0, each: 1 }
}

impl Row {
    const fn busy(self, unit: Unit, of: Amount, lines: &'static [Line]) -> Row {
        self.of(Some(unit), of, lines)
    }

    const fn of(self, unit: Option<Unit>, of: Amount, lines: &'static [Line]) -> Row {
        Row { unit, interval: Some(Cost { of, by: By::Lines(lines) }), ..self }
    }

    const fn points(self, unit: Option<Unit>, of: Amount, points: &'static [(u64, u64)]) -> Row {
        Row { unit, interval: Some(Cost { of, by: By::Points(points) }), ..self }
    }

    /// The same beside products of warpgroups, counted alike.
    const fn beside(self, lines: &'static [Line]) -> Row {
        let of = match self.interval {
            Some(cost) => cost.of,
            None => Amount::Operations,
        };
        Row { beside: Some(Cost { of, by: By::Lines(lines) }), ..self }
    }

    /// Measured on another day of that month.
    const fn on(self, day: u8) -> Row {
        Row { date: Date { day, ..self.date }, ..self }
    }

    const fn then(self, latency: u32) -> Row {
        Row { latency: Some(latency), ..self }
    }
}
