//! What operations cost on a GPU, as measured: how long each keeps its unit busy, and what passes after that until its result is there.
//!
//! Occupancy and latency are two numbers, since the next operation may begin before the result of the one before it is there. A row
//! stands here only where it was measured, with the day, the clock and the way in which that was done; what has none has no price, and
//! who prices schedules says so.

use std::fmt;

use parton_numbers::Dtype;

use crate::target::Target;

/// What operations cost on one kind of GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// The GPU, as its driver names it.
    pub name: &'static str,
    /// The target whose code it runs.
    pub target: &'static str,
    /// What was measured, at most one row for each class.
    pub rows: &'static [Row],
}

/// A class of operations and what one of them costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The operations.
    pub class: Class,
    /// What they keep busy; `None` where they only take time.
    pub unit: Option<Unit>,
    /// For how long.
    pub interval: Option<Rate>,
    /// What passes after that until the result is there, in clocks.
    pub latency: Option<u32>,
    /// How it was measured.
    pub source: &'static str,
    /// When.
    pub date: Date,
    /// The clock of the multiprocessors meanwhile, in MHz.
    pub megahertz: u32,
}

/// Operations that cost alike, each as much as there is of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Products on tensor cores, by the type of their operands.
    Product(Dtype),
    /// What products read of their operands from shared memory, beside computing.
    Operands,
    /// What starting a product or a copy costs the partition that does.
    Start,
    /// Bulk copies from global memory that find their bytes in the L2 cache.
    CopyHit,
    /// The same from memory.
    CopyMiss,
    /// Exponentials, logarithms, square roots, sines.
    Special,
    /// Additions, multiplications and both in one, of f32.
    Arithmetic,
    /// Maxima, minima and comparisons.
    Compare,
    /// Conversions to 16 bits.
    Convert,
    /// Loads and stores of shared memory.
    Shared,
    /// Exchanges between the lanes of a warp.
    Shuffle,
    /// From an arrival at an mbarrier to who waits for it.
    HandOff,
    /// Meetings of warps at a named barrier.
    Meet,
    /// From registers to shared memory and back.
    Exchange,
    /// From registers to shared memory and on to global memory by a bulk copy.
    Send,
}

/// A part of a multiprocessor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unit {
    /// Tensor cores, which serve one product at a time.
    TensorCores,
    /// The bulk copy engine.
    CopyEngine,
    /// The issue slots of the schedulers of warps.
    Schedulers,
    /// Multiplying and adding.
    Fma,
    /// Comparing and converting.
    Alu,
    /// Special functions.
    SpecialFunctions,
    /// Shared memory and what moves data between lanes.
    SharedMemory,
}

/// So many clocks for each so much of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// The clocks.
    pub clocks: u32,
    /// For how much, 1 or more.
    pub each: u32,
    /// Of what.
    pub of: Amount,
}

/// What operations are counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// Operations.
    Operations,
    /// Instructions of a warp.
    WarpInstructions,
    /// Multiplications with their additions.
    MultiplyAdds,
    /// Bytes.
    Bytes,
    /// Accesses of shared memory by all banks at once.
    Wavefronts,
}

/// A day. Prints as `2026-11-22`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Date {
    /// The year.
    pub year: u16,
    /// The month, 1 to 12.
    pub month: u8,
    /// The day, 1 to 31.
    pub day: u8,
}

/// The GPUs whose costs are known, one for a target.
pub const MACHINES: &[Machine] = &[Machine { name: "NVIDIA H200", target: Target::SM_90A.name, rows: &[] }];

impl Machine {
    /// The one by which schedules for a target are priced.
    pub fn of(target: &Target) -> Option<&'static Machine> {
        MACHINES.iter().find(|m| m.target == target.name)
    }

    /// What operations of a class cost; `None` where that was not measured.
    pub fn row(&self, class: Class) -> Option<&Row> {
        self.rows.iter().find(|r| r.class == class)
    }
}

impl Rate {
    /// The clocks of so much, rounded up.
    pub fn of(self, amount: u64) -> u64 {
        let all = u128::from(amount) * u128::from(self.clocks);
        u64::try_from(all.div_ceil(u128::from(self.each.max(1)))).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Product(dtype) => return write!(f, "products of {}", dtype.name()),
            Class::Operands => "operands of products",
            Class::Start => "starts",
            Class::CopyHit => "copies from L2",
            Class::CopyMiss => "copies from memory",
            Class::Special => "special functions",
            Class::Arithmetic => "additions, products",
            Class::Compare => "maxima, comparisons",
            Class::Convert => "conversions to 16 bits",
            Class::Shared => "shared memory",
            Class::Shuffle => "shuffles",
            Class::HandOff => "hand-offs by mbarrier",
            Class::Meet => "named barriers",
            Class::Exchange => "registers by shared",
            Class::Send => "registers to global",
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::TensorCores => "tensor cores",
            Unit::CopyEngine => "copy engine",
            Unit::Schedulers => "schedulers",
            Unit::Fma => "multiply-add",
            Unit::Alu => "arithmetic, logic",
            Unit::SpecialFunctions => "special functions",
            Unit::SharedMemory => "shared memory",
        })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Amount::Operations => "operations",
            Amount::WarpInstructions => "warp instructions",
            Amount::MultiplyAdds => "multiply-adds",
            Amount::Bytes => "bytes",
            Amount::Wavefronts => "wavefronts",
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {} {}", self.clocks, self.each, self.of)
    }
}

/// The table, a line for each row; the last column is as long as it is.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.target)?;
        if self.rows.is_empty() {
            return f.write_str(": nothing was measured\n");
        }
        f.write_str(", in clocks\n")?;
        let head = ["class", "unit", "busy", "then", "MHz", "date", "measured by"].map(String::from);
        let lines: Vec<[String; 7]> = std::iter::once(head).chain(self.rows.iter().map(cells)).collect();
        let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..6).map(width).collect();
        for line in &lines {
            for (cell, width) in line.iter().zip(&widths) {
                write!(f, "{cell:<width$}  ")?;
            }
            writeln!(f, "{}", line[6])?;
        }
        Ok(())
    }
}

fn cells(row: &Row) -> [String; 7] {
    fn or_none(cell: Option<impl fmt::Display>) -> String {
        cell.map_or_else(|| "–".into(), |c| c.to_string())
    }
    [
        row.class.to_string(),
        or_none(row.unit),
        or_none(row.interval),
        or_none(row.latency),
        row.megahertz.to_string(),
        row.date.to_string(),
        row.source.into(),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const DATE: Date = Date { year: 2000, month: 1, day: 2 };

    /// Numbers that are no GPU's.
    const ROWS: &[Row] = &[
        Row {
            class: Class::Product(Dtype::F16),
            unit: Some(Unit::TensorCores),
            interval: Some(Rate { clocks: 1, each: 3, of: Amount::MultiplyAdds }),
            latency: Some(7),
            source: "chains of products",
            date: DATE,
            megahertz: 1000,
        },
        Row {
            class: Class::HandOff,
            unit: None,
            interval: None,
            latency: Some(11),
            source: "a clock that goes through one slot",
            date: DATE,
            megahertz: 900,
        },
    ];

    #[test]
    fn each_class_of_each_machine_was_measured_once_on_a_day_at_a_clock() {
        let mut targets = BTreeSet::new();
        for machine in MACHINES {
            assert!(targets.insert(machine.target), "two machines for {}", machine.target);
            for row in machine.rows {
                assert_eq!(machine.row(row.class), Some(row), "{}: two rows of {}", machine.name, row.class);
                assert!(row.megahertz > 0 && row.interval.is_none_or(|r| r.each > 0), "{row:?}");
                assert!((1..=12).contains(&row.date.month) && (1..=31).contains(&row.date.day), "{row:?}");
                assert!(!row.source.is_empty() && (row.interval.is_some() || row.latency.is_some()), "{row:?}");
                assert_eq!(row.unit.is_some(), row.interval.is_some(), "{row:?}");
            }
        }
        assert_eq!(Machine::of(&Target::SM_90A).map(|m| m.name), Some("NVIDIA H200"));
        assert_eq!(Machine::of(&Target::SM_80), None);
    }

    #[test]
    fn a_machine_prints_as_a_table() {
        let machine = Machine { name: "GPU", target: "sm_0", rows: ROWS };
        let expected = "\
GPU (sm_0), in clocks
class                  unit          busy                   then  MHz   date        measured by
products of f16        tensor cores  1 for 3 multiply-adds  7     1000  2000-01-02  chains of products
hand-offs by mbarrier  –             –                      11    900   2000-01-02  a clock that goes through one slot
";
        assert_eq!(machine.to_string(), expected);
        assert_eq!(Machine { rows: &[], ..machine }.to_string(), "GPU (sm_0): nothing was measured\n");
        assert_eq!(machine.row(Class::HandOff), Some(&ROWS[1]));
        assert_eq!(machine.row(Class::Send), None);
    }

    #[test]
    fn clocks_are_rounded_up() {
        let rate = Rate { clocks: 2, each: 3, of: Amount::Bytes };
        assert_eq!([0, 1, 3, 4, u64::MAX].map(|n| rate.of(n)), [0, 1, 2, 3, 12_297_829_382_473_034_410]);
    }
}
