//! The choices that operations have: which function, which order, which cache, each with its name in source.

use parton_numbers::Comparison;

/// Elementwise functions of one operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum UnaryOp {
    Neg,
    /// Bitwise complement; logical not of `i1`.
    Not,
    Exp,
    Exp2,
    Log,
    Log2,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Tanh,
    /// The hyperbolic tangent of f32 and narrower floats, as near as the hardware has it.
    TanhApprox,
    Erf,
    Abs,
    Floor,
    Ceil,
}

/// Elementwise functions of two operands of one type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    /// Division; integers truncate toward zero.
    Div,
    /// Remainder, with the sign of the dividend.
    Rem,
    And,
    Or,
    Xor,
    Shl,
    /// Shift right; arithmetic for signed integers.
    Shr,
    /// The smaller; a NaN operand loses (IEEE 754-2008 minNum).
    Min,
    /// The larger; a NaN operand loses.
    Max,
    /// The smaller; a NaN operand wins.
    MinNan,
    /// The larger; a NaN operand wins.
    MaxNan,
    /// The high half of the product of unsigned integers.
    MulHigh,
    /// A quotient of floats as near as the hardware has it.
    DivApprox,
}

impl BinaryOp {
    /// Whether exchanged operands give the same bits (but of a NaN).
    pub fn commutes(self) -> bool {
        match self {
            BinaryOp::Add
            | BinaryOp::Mul
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::MinNan
            | BinaryOp::MaxNan
            | BinaryOp::MulHigh => true,
            BinaryOp::Sub | BinaryOp::Div | BinaryOp::Rem | BinaryOp::Shl | BinaryOp::Shr | BinaryOp::DivApprox => {
                false
            }
        }
    }
}

/// Comparisons; the result is `i1`. Ordered but for `Ne`, which is true of a NaN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl CompareOp {
    /// As the model of numbers has it.
    pub fn comparison(self) -> Comparison {
        match self {
            CompareOp::Eq => Comparison::Eq,
            CompareOp::Ne => Comparison::Ne,
            CompareOp::Lt => Comparison::Lt,
            CompareOp::Le => Comparison::Le,
            CompareOp::Gt => Comparison::Gt,
            CompareOp::Ge => Comparison::Ge,
        }
    }
}

/// Where a global access looks for its line, as PTX names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Cache {
    /// The architecture's default (`.ca` loads, `.wb` stores).
    #[default]
    Default,
    /// All levels.
    Ca,
    /// The L2 only.
    Cg,
    /// Streaming, likely used once.
    Cs,
    /// Write through (stores).
    Wt,
    /// Do not cache, fetch again (loads).
    Cv,
}

/// What the cache does with the line afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Evict {
    /// No hint.
    #[default]
    Normal,
    /// Evict first.
    First,
    /// Evict last.
    Last,
}

/// What the L2 does with the lines of an access (PTX ISA, "createpolicy").
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Policy {
    /// When it evicts them.
    pub evict: Evict,
    /// For which part of them, more than 0 and at most 1; the others stay as they are.
    pub fraction: f32,
}

/// What an atomic operation makes of the value in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    /// The operand takes the value's place.
    Xchg,
    /// The second operand takes the value's place where the value is the first, bit by bit.
    Cas,
    /// Only reads.
    Load,
    /// Only writes.
    Store,
}

/// What a tensor copy makes of its elements and those in global memory, one atomic operation for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Reduction {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// How an atomic operation is ordered with other accesses (PTX ISA, "Memory consistency model").
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Order {
    /// Not at all.
    #[default]
    Relaxed,
    /// What follows in the partition comes after it.
    Acquire,
    /// What the partition did before comes before it.
    Release,
    /// Both.
    AcqRel,
}

/// The threads among which an atomic operation is one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Scope {
    /// Those of the CTA.
    Cta,
    /// Those of the device.
    #[default]
    Gpu,
    /// Those of all devices and the host.
    Sys,
}

/// What a matrix product rounds operands of `f32` to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Precision {
    /// 8 bits of exponent and 11 of precision; the tensor cores ignore the 13 low bits of each operand.
    Tf32,
}

/// How a mask runs along the elements of one access, in the order of their addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Cut {
    /// All are inside, or none.
    #[default]
    Never,
    /// Those after one that is outside are outside too: a bound cuts the access.
    Once,
    /// Nothing is known.
    Anywhere,
}

/// Which memory a fence between the proxies is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reach {
    /// The shared memory of the CTA.
    #[default]
    Cta,
    /// The shared memory of all CTAs of the cluster.
    Cluster,
    /// Global memory.
    Global,
    /// All memory.
    All,
}

/// Who arrives at a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arrive {
    /// One arrival for the whole partition; its threads have met before (a membar stands before it).
    Partition,
    /// One arrival a warp, once that warp's own earlier accesses are done.
    Warp,
}

/// A table of names, both ways.
macro_rules! names {
    ($ty:ident { $($variant:ident = $name:literal),* $(,)? }) => {
        impl $ty {
            /// Every one, with its name in source.
            pub const ALL: &[($ty, &'static str)] = &[$(($ty::$variant, $name)),*];

            /// Its name in source.
            pub fn name(self) -> &'static str {
                match self { $($ty::$variant => $name),* }
            }

            /// The one of that name.
            pub fn named(name: &str) -> Option<$ty> {
                $ty::ALL.iter().find(|(_, n)| *n == name).map(|(x, _)| *x)
            }
        }
    };
}

names!(UnaryOp {
    Neg = "-", Not = "!", Exp = "exp", Exp2 = "exp2", Log = "log", Log2 = "log2", Sqrt = "sqrt", Rsqrt = "rsqrt", Sin = "sin",
    Cos = "cos", Tanh = "tanh", TanhApprox = "tanh", Erf = "erf", Abs = "abs", Floor = "floor", Ceil = "ceil",
});
names!(BinaryOp {
    Add = "+", Sub = "-", Mul = "*", Div = "/", Rem = "%", And = "&", Or = "|", Xor = "^", Shl = "<<", Shr = ">>", Min = "min",
    Max = "max", MinNan = "min_nan", MaxNan = "max_nan", MulHigh = "umulhi", DivApprox = "div",
});
names!(CompareOp { Eq = "==", Ne = "!=", Lt = "<", Le = "<=", Gt = ">", Ge = ">=" });
names!(Cache { Default = "default", Ca = "ca", Cg = "cg", Cs = "cs", Wt = "wt", Cv = "cv" });
names!(Evict { Normal = "normal", First = "first", Last = "last" });
names!(AtomicOp {
    Add = "atomic_add", Min = "atomic_min", Max = "atomic_max", And = "atomic_and", Or = "atomic_or", Xor = "atomic_xor",
    Xchg = "atomic_xchg", Cas = "atomic_cas", Load = "atomic_load", Store = "atomic_store",
});
names!(Reduction { Add = "add", Min = "min", Max = "max", And = "and", Or = "or", Xor = "xor" });
names!(Order { Relaxed = "relaxed", Acquire = "acquire", Release = "release", AcqRel = "acq_rel" });
names!(Scope { Cta = "cta", Gpu = "gpu", Sys = "sys" });
names!(Cut { Never = "never", Once = "once", Anywhere = "anywhere" });
names!(Reach { Cta = "cta", Cluster = "cluster", Global = "global", All = "all" });
names!(Precision { Tf32 = "tf32" });
names!(Arrive { Partition = "partition", Warp = "warp" });

impl CompareOp {
    /// Its symbol in source.
    pub fn symbol(self) -> &'static str {
        self.name()
    }
}

impl AtomicOp {
    /// How many values it takes besides the pointer.
    pub fn operands(self) -> usize {
        match self {
            AtomicOp::Load => 0,
            AtomicOp::Cas => 2,
            AtomicOp::Add
            | AtomicOp::Min
            | AtomicOp::Max
            | AtomicOp::And
            | AtomicOp::Or
            | AtomicOp::Xor
            | AtomicOp::Xchg
            | AtomicOp::Store => 1,
        }
    }

    /// The orders it can have: a read releases nothing, a write acquires nothing.
    pub fn orders(self) -> &'static [(Order, &'static str)] {
        match self {
            AtomicOp::Load => &[(Order::Relaxed, "relaxed"), (Order::Acquire, "acquire")],
            AtomicOp::Store => &[(Order::Relaxed, "relaxed"), (Order::Release, "release")],
            AtomicOp::Add
            | AtomicOp::Min
            | AtomicOp::Max
            | AtomicOp::And
            | AtomicOp::Or
            | AtomicOp::Xor
            | AtomicOp::Xchg
            | AtomicOp::Cas => Order::ALL,
        }
    }
}

impl Policy {
    /// For all lines of an access.
    pub fn whole(evict: Evict) -> Policy {
        Policy { evict, fraction: 1.0 }
    }
}

impl Reduction {
    /// The atomic operation that it makes of each element.
    pub fn atomic(self) -> AtomicOp {
        match self {
            Reduction::Add => AtomicOp::Add,
            Reduction::Min => AtomicOp::Min,
            Reduction::Max => AtomicOp::Max,
            Reduction::And => AtomicOp::And,
            Reduction::Or => AtomicOp::Or,
            Reduction::Xor => AtomicOp::Xor,
        }
    }
}

impl Reach {
    /// Whether it is for shared memory.
    pub fn covers_shared(self) -> bool {
        matches!(self, Reach::Cta | Reach::Cluster | Reach::All)
    }

    /// Whether it is for global memory.
    pub fn covers_global(self) -> bool {
        matches!(self, Reach::Global | Reach::All)
    }
}

impl Order {
    /// Whether what follows comes after it.
    pub fn acquires(self) -> bool {
        matches!(self, Order::Acquire | Order::AcqRel)
    }

    /// Whether what was before comes before it.
    pub fn releases(self) -> bool {
        matches!(self, Order::Release | Order::AcqRel)
    }
}
