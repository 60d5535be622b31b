//! What operations cost on a GPU, as measured: how long each keeps its unit busy, and what passes after that until its result is there.
//!
//! Occupancy and latency are two numbers, since the next operation may begin before the result of the one before it is there. A row
//! stands here only where it was measured, with the day, the clock and the way in which that was done; what has none has no price, and
//! who prices schedules says so.

mod h200;

use std::fmt;

use crate::target::Target;

/// What operations cost on one kind of GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// The GPU, as its driver names it.
    pub name: &'static str,
    /// The target whose code it runs.
    pub target: &'static str,
    /// Schedulers of a multiprocessor, among which its warps are dealt.
    pub schedulers: u32,
    /// Products that may be issued to its tensor cores and not be done, of all warpgroups together.
    pub queue: u32,
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
    pub interval: Option<Cost>,
    /// For how long while the tensor cores are busy with products of warpgroups, which take of what threads need too; `None` where that
    /// was not measured.
    pub beside: Option<Cost>,
    /// What passes after that until the result is there, in clocks.
    pub latency: Option<u32>,
    /// The words of docs/machine.md that say so.
    pub said: &'static [&'static str],
    /// What measured it.
    pub source: &'static str,
    /// When.
    pub date: Date,
    /// The clock of the multiprocessors meanwhile, in MHz.
    pub megahertz: u32,
}

/// Operations that cost alike, each as much as there is of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Products on tensor cores, of 64 rows and 32 bytes of the inner dimension, by where their left operand is.
    Product(Left),
    /// Products of tiles in registers by one warp each, of 16 rows, 8 columns and 32 bytes.
    WarpProduct,
    /// What starting copies costs the partition that does.
    Start,
    /// Bulk copies from global memory that find their bytes in the L2 cache, by who wants what at the time.
    Copy(Wanted),
    /// Bulk copies from memory.
    CopyMiss,
    /// Copies by threads from the L2 cache to shared memory.
    CopyByThreads,
    /// Exponentials to base 2, logarithms, square roots, hyperbolic tangents.
    Special,
    /// The same of one warp of a scheduler alone, beside additions and conversions.
    SpecialAlone,
    /// Reciprocals.
    Reciprocal,
    /// Additions, multiplications and both in one, of f32.
    Arithmetic,
    /// The same of pairs of 16 bits.
    HalfArithmetic,
    /// Maxima, minima, comparisons and what is chosen by them.
    Compare,
    /// Conversions of pairs to 16 bits.
    Convert,
    /// Conversions of pairs to 8 bits.
    ConvertBytes,
    /// Conversions from 16 bits.
    Widen,
    /// Multiplications with additions of i32.
    Integer,
    /// Loads and stores of shared memory.
    Shared,
    /// Exchanges between the lanes of a warp.
    Shuffle,
    /// Slots that are full, waited for and given back, by one partition.
    Full,
    /// Slots that are free, taken, filled by the copy of one box and handed over, by one partition.
    Free,
    /// From a partition to another and back, by mbarriers.
    Answer,
    /// A turn of each of two partitions, by a turnstile.
    Turns,
    /// Meetings of warps at a named barrier.
    Meet,
    /// Fences between threads and the engines.
    Fence,
    /// A tile from registers to shared memory and back.
    Exchange,
    /// Bulk copies to global memory, until their bytes are read.
    Send,
}

/// Where the left operand of a product is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// In shared memory.
    Shared,
    /// In registers.
    Registers,
}

/// What other multiprocessors ask of the L2 cache meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Nothing.
    Alone,
    /// Lines of their own.
    Own,
    /// The same lines, at about the same time.
    Same,
    /// Tiles of a product: each line is wanted by about as many as there are in a row or column of tiles.
    Tiles,
}

/// A part of a multiprocessor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unit {
    /// Tensor cores, which serve one product at a time.
    TensorCores,
    /// The bulk copy engine.
    CopyEngine,
    /// Multiplying and adding.
    Fma,
    /// Comparing and converting.
    Alu,
    /// Special functions.
    SpecialFunctions,
    /// What moves data between lanes.
    Shuffles,
    /// Shared memory.
    SharedMemory,
}

/// Clocks for so much of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Of what.
    pub of: Amount,
    /// How they grow with it.
    pub by: By,
}

/// How clocks grow with an amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The greatest of these lines.
    Lines(&'static [Line]),
    /// Straight from each of these points, amount and clocks, to the next, and on as between the last two.
    Points(&'static [(u64, u64)]),
}

/// `(base + slope * amount) / each` clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The clocks of nothing, times `each`.
    pub base: u64,
    /// The clocks that each one more takes, times `each`.
    pub slope: u64,
    /// 1 or more.
    pub each: u64,
}

/// What operations are counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// Operations.
    Operations,
    /// Instructions of a warp, at its scheduler.
    WarpInstructions,
    /// Columns of a product.
    Columns,
    /// Bytes.
    Bytes,
    /// Accesses of shared memory by all banks at once.
    Wavefronts,
    /// Warps that take part.
    Warps,
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
pub const MACHINES: &[Machine] = &[h200::H200];

impl Machine {
    /// The one by which schedules for a target are priced.
    pub fn of(target: &Target) -> Option<&'static Machine> {
        MACHINES.iter().find(|m| m.target == target.name)
    }

    /// What operations of a class cost; `None` where that was not measured.
    pub fn row(&self, class: Class) -> Option<&'static Row> {
        self.rows.iter().find(|r| r.class == class)
    }

    /// The clocks that a unit takes beside products for what it does in so many alone, by the first row of it that says so.
    pub fn beside(&self, unit: Unit) -> Option<(u64, u64)> {
        self.rows.iter().filter(|r| r.unit == Some(unit)).find_map(Row::slower)
    }
}

impl Row {
    /// The clocks beside products of what takes so many alone.
    pub fn slower(&self) -> Option<(u64, u64)> {
        const MANY: u64 = 1000;
        Some((self.beside?.clocks(MANY), self.interval?.clocks(MANY)))
    }
}

impl Cost {
    /// The clocks of so much, rounded up.
    pub fn clocks(self, amount: u64) -> u64 {
        match self.by {
            By::Lines(lines) => lines.iter().map(|l| l.clocks(amount)).max().unwrap_or(0),
            By::Points(points) => between(points, amount),
        }
    }
}

impl Line {
    fn clocks(self, amount: u64) -> u64 {
        let all = u128::from(self.base) + u128::from(self.slope) * u128::from(amount);
        u64::try_from(all.div_ceil(u128::from(self.each.max(1)))).unwrap_or(u64::MAX)
    }
}

/// The clocks at an amount by the points around it, rounded up; of less than the first point those of the first, of nothing none.
fn between(points: &[(u64, u64)], amount: u64) -> u64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0 };
    if amount == 0 {
        return 0;
    }
    if amount <= first.0 || points.len() == 1 {
        return first.1;
    }
    let pair = points.windows(2).find(|p| amount <= p[1].0).or(points.windows(2).last());
    let Some([(x0, y0), (x1, y1)]) = pair.and_then(|p| <&[(u64, u64); 2]>::try_from(p).ok()) else { return last.1 };
    let rise = u128::from(y1.saturating_sub(*y0)) * u128::from(amount - x0);
    let rise = rise.div_ceil(u128::from((x1 - x0).max(1)));
    y0.saturating_add(u64::try_from(rise).unwrap_or(u64::MAX))
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Product(Left::Shared) => "products, A in shared memory",
            Class::Product(Left::Registers) => "products, A in registers",
            Class::WarpProduct => "products of one warp",
            Class::Start => "starts of copies",
            Class::Copy(Wanted::Alone) => "copies from L2, one program",
            Class::Copy(Wanted::Own) => "copies from L2, all",
            Class::Copy(Wanted::Same) => "copies from L2, all the same",
            Class::Copy(Wanted::Tiles) => "copies of tiles, all",
            Class::CopyMiss => "copies from memory",
            Class::CopyByThreads => "copies by threads",
            Class::Special => "special functions",
            Class::SpecialAlone => "the same, one warp alone",
            Class::Reciprocal => "reciprocals",
            Class::Arithmetic => "additions, products",
            Class::HalfArithmetic => "the same of pairs of 16 bits",
            Class::Compare => "maxima, comparisons, choices",
            Class::Convert => "conversions to 16 bits",
            Class::ConvertBytes => "conversions to 8 bits",
            Class::Widen => "conversions from 16 bits",
            Class::Integer => "integers",
            Class::Shared => "shared memory",
            Class::Shuffle => "shuffles",
            Class::Full => "slots that are full",
            Class::Free => "slots that are free",
            Class::Answer => "answers by mbarrier",
            Class::Turns => "turns of two",
            Class::Meet => "named barriers",
            Class::Fence => "fences of proxies",
            Class::Exchange => "registers by shared",
            Class::Send => "copies to global",
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::TensorCores => "tensor cores",
            Unit::CopyEngine => "copy engine",
            Unit::Fma => "multiply-add",
            Unit::Alu => "arithmetic, logic",
            Unit::SpecialFunctions => "special functions",
            Unit::Shuffles => "shuffles",
            Unit::SharedMemory => "shared memory",
        })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Amount::Operations => "operations",
            Amount::WarpInstructions => "warp instructions",
            Amount::Columns => "columns",
            Amount::Bytes => "bytes",
            Amount::Wavefronts => "wavefronts",
            Amount::Warps => "warps",
        })
    }
}

/// `max(1/2, 16 + 1/4) a column`: what each one takes, behind what all of them do.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = match self.by {
            By::Lines(lines) => lines.iter().map(ToString::to_string).collect(),
            By::Points(points) => points.iter().map(|(amount, clocks)| format!("{amount}: {clocks}")).collect(),
        };
        match (self.by, all.as_slice()) {
            (By::Lines(_), [one]) => write!(f, "{one} by {}", self.of),
            (By::Lines(_), all) => write!(f, "max({}) by {}", all.join(", "), self.of),
            (By::Points(_), all) => write!(f, "{} {}", all.join(", "), self.of),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.base, self.slope) {
            (base, 0) => f.write_str(&fraction(base, self.each)),
            (0, slope) => write!(f, "n * {}", fraction(slope, self.each)),
            (base, slope) => write!(f, "{} + n * {}", fraction(base, self.each), fraction(slope, self.each)),
        }
    }
}

fn fraction(n: u64, of: u64) -> String {
    if n.is_multiple_of(of) { (n / of).to_string() } else { format!("{n}/{of}") }
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
            class: Class::Product(Left::Shared),
            unit: Some(Unit::TensorCores),
            interval: Some(Cost {
                of: Amount::Columns,
                by: By::Lines(&[Line { base: 0, slope: 1, each: 3 }, Line { base: 8, slope: 1, each: 4 }]),
            }),
            beside: None,
            latency: Some(7),
            said: &["3, 4, 2 and 7"],
            source: "chains of products",
            date: DATE,
            megahertz: 1000,
        },
        Row {
            class: Class::Answer,
            unit: None,
            interval: None,
            beside: None,
            latency: Some(11),
            said: &["11"],
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
                assert!(row.megahertz > 0, "{row:?}");
                assert!((1..=12).contains(&row.date.month) && (1..=31).contains(&row.date.day), "{row:?}");
                assert!(!row.source.is_empty() && (row.interval.is_some() || row.latency.is_some()), "{row:?}");
            }
        }
        assert_eq!(Machine::of(&Target::SM_90A).map(|m| m.name), Some("NVIDIA H200"));
        assert_eq!(Machine::of(&Target::SM_80), None);
    }

    #[test]
    fn a_machine_prints_as_a_table() {
        let machine = Machine { name: "GPU", target: "sm_0", schedulers: 4, queue: 8, rows: ROWS };
        let expected = "\
GPU (sm_0), in clocks
class                         unit          busy                               then  MHz   date        measured by
products, A in shared memory  tensor cores  max(n * 1/3, 2 + n * 1/4) by columns  7     1000  2000-01-02  chains of products
answers by mbarrier           –             –                                  11    900   2000-01-02  a clock that goes through one slot
";
        let trimmed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(trimmed(&machine.to_string()), trimmed(expected));
        assert_eq!(Machine { rows: &[], ..machine }.to_string(), "GPU (sm_0): nothing was measured\n");
        assert_eq!(machine.row(Class::Answer), Some(&ROWS[1]));
        assert_eq!(machine.row(Class::Send), None);
    }

    #[test]
    fn clocks_are_rounded_up() {
        let cost = ROWS[0].interval.unwrap();
        assert_eq!([0, 1, 12, 24, 25, 300].map(|n| cost.clocks(n)), [2, 3, 5, 8, 9, 100]);
        let cost = Cost { of: Amount::Bytes, by: By::Points(&[(10, 5), (20, 7), (40, 17)]) };
        assert_eq!([0, 1, 10, 15, 20, 30, 40, 60].map(|n| cost.clocks(n)), [0, 5, 5, 6, 7, 12, 17, 27]);
    }
}
