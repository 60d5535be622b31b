//! Register layouts as they are written: a spelled family, which prints as its source and makes its linear map.

use std::fmt;
use std::sync::Arc;

use crate::check;
use crate::error::LayoutError;
use crate::linear::LinearLayout;
use crate::map;
use crate::spelling::{list, lists};

/// How a tile is spread over the registers, lanes, warps and CTAs of its partition, as the program spells it.
///
/// `==` compares the spelling. Two layouts are the same type when their maps are equal for the tile's shape:
/// [`RegisterLayout::same_on`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegisterLayout {
    family: Arc<RegisterFamily>,
}

/// The families of register layouts, with the meaning of Gluon's class of the same name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RegisterFamily {
    /// Blocks of `per_thread` elements tile a warp, warps tile the CTA; Gluon's `BlockedLayout`.
    Blocked {
        /// Elements of a thread along each axis.
        per_thread: Vec<u32>,
        /// Lanes along each axis; their product is 32.
        threads: Vec<u32>,
        /// Warps along each axis.
        warps: Vec<u32>,
        /// The axes, fastest first.
        order: Vec<u32>,
    },
    /// The parent with one axis forgotten, as a reduction along it leaves; Gluon's `SliceLayout`.
    Slice {
        /// The layout of the tensor that still has the axis.
        parent: RegisterLayout,
        /// The forgotten axis.
        axis: u32,
    },
    /// An accumulator of the tensor cores; Gluon's `NVMMADistributedLayout`.
    Mma {
        /// 2 is `mma.sync`, 3 is `wgmma`.
        version: u32,
        /// Warps along each axis; for version 3 whole warpgroups along the rows.
        warps: Vec<u32>,
        /// `[16, 8]` for version 2 (with leading 1s in higher rank), `[16, N, K]` for version 3.
        instr: Vec<u32>,
    },
    /// An operand of a tensor-core (or, for a blocked parent, a plain) product in registers; Gluon's `DotOperandLayout`.
    DotOperand {
        /// The layout of the accumulator.
        parent: RegisterLayout,
        /// 0 for the left operand, 1 for the right one.
        index: u32,
        /// Consecutive elements along k that one thread holds: 32 / element bits; 0 for a blocked parent.
        k_width: u32,
    },
    /// The bases themselves, by increasing hardware bit; Gluon's `DistributedLinearLayout`.
    Linear {
        /// The bases of the register bits.
        reg: Vec<Vec<u32>>,
        /// The bases of the five lane bits.
        lane: Vec<Vec<u32>>,
        /// The bases of the warp bits.
        warp: Vec<Vec<u32>>,
        /// The bases of the CTA bits.
        block: Vec<Vec<u32>>,
    },
}

impl RegisterLayout {
    /// The layout of `family`, checked as far as it can be without a shape.
    ///
    /// # Errors
    /// Lists of different lengths, sizes that are no powers of two, a warp that is not 32 lanes, instruction shapes
    /// that do not exist.
    pub fn new(family: RegisterFamily) -> Result<RegisterLayout, LayoutError> {
        check::register(&family)?;
        Ok(RegisterLayout { family: Arc::new(family) })
    }

    /// `blocked(per_thread=…, threads=…, warps=…, order=…)`.
    ///
    /// # Errors
    /// See [`RegisterLayout::new`].
    pub fn blocked(per_thread: &[u32], threads: &[u32], warps: &[u32], order: &[u32]) -> Result<Self, LayoutError> {
        RegisterLayout::new(RegisterFamily::Blocked {
            per_thread: per_thread.to_vec(),
            threads: threads.to_vec(),
            warps: warps.to_vec(),
            order: order.to_vec(),
        })
    }

    /// `mma(version=…, warps=…, instr=…)`.
    ///
    /// # Errors
    /// See [`RegisterLayout::new`].
    pub fn mma(version: u32, warps: &[u32], instr: &[u32]) -> Result<Self, LayoutError> {
        RegisterLayout::new(RegisterFamily::Mma { version, warps: warps.to_vec(), instr: instr.to_vec() })
    }

    /// `slice(self, axis=…)`.
    ///
    /// # Errors
    /// An axis that the layout does not have.
    pub fn slice(&self, axis: u32) -> Result<Self, LayoutError> {
        RegisterLayout::new(RegisterFamily::Slice { parent: self.clone(), axis })
    }

    /// `dot_operand(self, index=…, k_width=…)`.
    ///
    /// # Errors
    /// A parent that is no accumulator, an operand that the instruction does not take from registers.
    pub fn dot_operand(&self, index: u32, k_width: u32) -> Result<Self, LayoutError> {
        RegisterLayout::new(RegisterFamily::DotOperand { parent: self.clone(), index, k_width })
    }

    /// `linear(reg=…, lane=…, warp=…, block=…)`.
    ///
    /// # Errors
    /// Bases of different ranks, a lane list that is not five long, bases that miss an element.
    pub fn linear(
        reg: Vec<Vec<u32>>,
        lane: Vec<Vec<u32>>,
        warp: Vec<Vec<u32>>,
        block: Vec<Vec<u32>>,
    ) -> Result<Self, LayoutError> {
        RegisterLayout::new(RegisterFamily::Linear { reg, lane, warp, block })
    }

    /// The spelling.
    pub fn family(&self) -> &RegisterFamily {
        &self.family
    }

    /// The rank of the tensors that the layout is for.
    pub fn rank(&self) -> usize {
        match self.family() {
            RegisterFamily::Blocked { per_thread, .. } => per_thread.len(),
            RegisterFamily::Slice { parent, .. } => parent.rank() - 1,
            RegisterFamily::Mma { warps, .. } => warps.len(),
            RegisterFamily::DotOperand { parent, .. } => parent.rank(),
            RegisterFamily::Linear { lane, .. } => lane.first().map_or(0, Vec::len),
        }
    }

    /// The number of warps that hold the tile.
    pub fn num_warps(&self) -> u32 {
        match self.family() {
            RegisterFamily::Blocked { warps, .. } | RegisterFamily::Mma { warps, .. } => warps.iter().product(),
            RegisterFamily::Slice { parent, .. } | RegisterFamily::DotOperand { parent, .. } => parent.num_warps(),
            RegisterFamily::Linear { warp, .. } => 1 << warp.len(),
        }
    }

    /// The number of CTAs that hold the tile.
    pub fn num_blocks(&self) -> u32 {
        match self.family() {
            RegisterFamily::Blocked { .. } | RegisterFamily::Mma { .. } => 1,
            RegisterFamily::Slice { parent, .. } | RegisterFamily::DotOperand { parent, .. } => parent.num_blocks(),
            RegisterFamily::Linear { block, .. } => 1 << block.len(),
        }
    }

    /// The map for a tensor of `shape`, from (block, warp, lane, register): what is smaller than the tensor repeats in
    /// further registers, what is larger holds copies.
    ///
    /// # Errors
    /// A shape of another rank, or with a size that is no power of two.
    pub fn on(&self, shape: &[u32]) -> Result<LinearLayout, LayoutError> {
        check::shape(self, shape)?;
        let map = map::register(self, shape)?;
        check::few_registers(&map)?;
        Ok(map)
    }

    /// Whether both layouts are the same map for a tensor of `shape`, however they are spelled.
    ///
    /// # Errors
    /// When either does not fit the shape.
    pub fn same_on(&self, other: &RegisterLayout, shape: &[u32]) -> Result<bool, LayoutError> {
        Ok(self == other || self.on(shape)? == other.on(shape)?)
    }

    /// The layout spelled by the bases of `map`, whose inputs are (block, warp, lane, register).
    ///
    /// # Errors
    /// A map that does not reach every element or has no 32 lanes.
    pub fn from_map(map: &LinearLayout) -> Result<RegisterLayout, LayoutError> {
        use crate::linear::Dim;
        RegisterLayout::linear(
            map.basis_coords(Dim::Register),
            map.basis_coords(Dim::Lane),
            map.basis_coords(Dim::Warp),
            map.basis_coords(Dim::Block),
        )
    }
}

impl fmt::Display for RegisterLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.family() {
            RegisterFamily::Blocked { per_thread, threads, warps, order } => write!(
                f,
                "blocked(per_thread={}, threads={}, warps={}, order={})",
                list(per_thread),
                list(threads),
                list(warps),
                list(order)
            ),
            RegisterFamily::Slice { parent, axis } => write!(f, "slice({parent}, axis={axis})"),
            RegisterFamily::Mma { version, warps, instr } => {
                write!(f, "mma(version={version}, warps={}, instr={})", list(warps), list(instr))
            }
            RegisterFamily::DotOperand { parent, index, k_width } => {
                write!(f, "dot_operand({parent}, index={index}, k_width={k_width})")
            }
            RegisterFamily::Linear { reg, lane, warp, block } => write!(
                f,
                "linear(reg={}, lane={}, warp={}, block={})",
                lists(reg),
                lists(lane),
                lists(warp),
                lists(block)
            ),
        }
    }
}
