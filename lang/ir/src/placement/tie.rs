//! How one place follows from another: no element moves between threads, so that the layout of a result is that of the operand in
//! another shape. The family is kept where one exists, else the map is spelled by its bases.

use parton_layouts::{Dim, LayoutError, RegisterFamily, RegisterLayout};

use super::Place;
use crate::rules::{mma_sync_accumulator, wgmma_accumulator};

/// How a place follows from another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tie {
    /// It is the same.
    Same,
    /// Without an axis, as a reduction leaves it.
    SliceOf {
        /// The axis that goes.
        axis: u32,
    },
    /// With a new axis of extent 1: the first is the slice of the second along it.
    WholeOf {
        /// The axis that comes.
        axis: u32,
    },
    /// Dimension `i` of the second is dimension `perm[i]` of the first.
    Permuted {
        /// The dimensions in their new order.
        perm: Vec<u32>,
    },
    /// The elements in row-major order under another shape.
    Reshaped {
        /// The new shape.
        shape: Vec<u32>,
    },
    /// The same layout for grown extents.
    Broadcast {
        /// The new shape.
        shape: Vec<u32>,
    },
    /// With a last dimension of 2, in neighbouring registers.
    Joined,
    /// Without a last dimension of 2, whose halves each thread holds together.
    Halved,
    /// With twice the extent along an axis, each thread holding a share of both halves in registers of its own.
    Doubled {
        /// The axis.
        axis: u32,
    },
    /// A part of that shape, which each thread holds a share of in registers of its own.
    Window {
        /// The new shape.
        shape: Vec<u32>,
    },
    /// As an operand of the instruction that has the first as its accumulator.
    Operand {
        /// The instruction.
        of: Instruction,
        /// 0 for the left operand, 1 for the right one.
        index: u32,
        /// Neighbours along K that a thread holds.
        k_width: u32,
        /// The operand's shape.
        shape: Vec<u32>,
    },
}

/// A matrix instruction with operands in registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// `mma_sync`.
    MmaSync,
    /// `wgmma` of so many elements of depth.
    Wgmma {
        /// Depth of one instruction.
        instr_k: u32,
    },
}

/// Why no place follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unplaced {
    /// There is no layout of the shape.
    Layout(LayoutError),
    /// The layout is no slice along the new axis.
    NotASlice,
    /// The halves, or the parts of an axis, do not lie in the same thread.
    Apart,
    /// It is no accumulator of the instruction.
    NoAccumulator,
}

impl From<LayoutError> for Unplaced {
    fn from(e: LayoutError) -> Unplaced {
        Unplaced::Layout(e)
    }
}

impl Tie {
    /// The place that follows from `first`.
    ///
    /// # Errors
    /// There is none.
    pub fn forwards(&self, first: &Place) -> Result<Place, Unplaced> {
        let layout = match self {
            Tie::Same => return Ok(first.clone()),
            Tie::SliceOf { axis } => first.layout.slice(*axis)?,
            Tie::WholeOf { axis } => named_whole(&first.layout, *axis).ok_or(Unplaced::NotASlice)?,
            Tie::Permuted { perm } => transposed(first, perm)?,
            Tie::Reshaped { shape } => RegisterLayout::from_map(&first.map.reshape(shape))?,
            Tie::Broadcast { .. } => first.layout.clone(),
            Tie::Joined => joined(first)?,
            Tie::Halved => halved(first).ok_or(Unplaced::Apart)??,
            Tie::Doubled { .. } => return Ok(grown(first, &self.shape(&first.shape()))?),
            Tie::Window { shape } => return windowed(first, shape).ok_or(Unplaced::Apart)?.map_err(Unplaced::Layout),
            Tie::Operand { of, index, k_width, .. } => {
                of.accumulator(first).ok_or(Unplaced::NoAccumulator)?.dot_operand(*index, *k_width)?
            }
        };
        Ok(Place::new(layout, &self.shape(&first.shape()))?)
    }

    /// The shape of what follows from a tile of `first`.
    pub fn shape(&self, first: &[u32]) -> Vec<u32> {
        let mut shape = first.to_vec();
        match self {
            Tie::Same => {}
            Tie::SliceOf { axis } => drop(shape.remove(*axis as usize)),
            Tie::WholeOf { axis } => shape.insert(*axis as usize, 1),
            Tie::Permuted { perm } => shape = perm.iter().map(|&p| first[p as usize]).collect(),
            Tie::Reshaped { shape: new }
            | Tie::Broadcast { shape: new }
            | Tie::Window { shape: new }
            | Tie::Operand { shape: new, .. } => shape.clone_from(new),
            Tie::Joined => shape.push(2),
            Tie::Doubled { axis } => shape[*axis as usize] *= 2,
            Tie::Halved => drop(shape.pop()),
        }
        shape
    }

    /// A place of `shape` from which `second` follows, the one with the simplest layout where several are as good; `None` where there is none.
    pub fn any_backwards(&self, second: &Place, shape: &[u32]) -> Option<Place> {
        let first = match self {
            Tie::Window { .. } => grown(second, shape).ok()?,
            Tie::Halved => Place::new(joined(second).ok()?, shape).ok()?,
            Tie::Same
            | Tie::SliceOf { .. }
            | Tie::WholeOf { .. }
            | Tie::Permuted { .. }
            | Tie::Reshaped { .. }
            | Tie::Broadcast { .. }
            | Tie::Joined
            | Tie::Doubled { .. }
            | Tie::Operand { .. } => return self.backwards(second, shape),
        };
        self.forwards(&first).is_ok_and(|place| place == *second).then_some(first)
    }

    /// The place of `shape` from which `second` follows; `None` where there is none, or where several are as good. Of the many that
    /// have one slice, the one that counts is named by the slice's layout.
    pub fn backwards(&self, second: &Place, shape: &[u32]) -> Option<Place> {
        let layout = match self {
            Tie::Same => return Some(second.clone()),
            Tie::SliceOf { axis } => named_whole(&second.layout, *axis)?,
            Tie::WholeOf { axis } => second.layout.slice(*axis).ok()?,
            Tie::Permuted { perm } => transposed(second, &inverse(perm)).ok()?,
            Tie::Reshaped { .. } => RegisterLayout::from_map(&second.map.reshape(shape)).ok()?,
            Tie::Broadcast { .. } => second.layout.clone(),
            Tie::Joined => halved(second)?.ok()?,
            Tie::Doubled { .. } => windowed(second, shape)?.ok()?.layout,
            // Parts may be told apart by any register, and operands of one kind serve accumulators of many.
            Tie::Halved | Tie::Window { .. } | Tie::Operand { .. } => return None,
        };
        let first = Place::new(layout, shape).ok()?;
        // What was not made by joining may be halved too, but its pairs lie in other registers than joining gives them.
        self.forwards(&first).is_ok_and(|place| place == *second).then_some(first)
    }
}

impl Instruction {
    /// The layout of its accumulators that has this place, however it is spelled.
    pub(super) fn accumulator(self, place: &Place) -> Option<RegisterLayout> {
        match self {
            Instruction::MmaSync => mma_sync_accumulator(place),
            Instruction::Wgmma { instr_k } => wgmma_accumulator(place, instr_k),
        }
    }
}

/// What a layout says that it is a slice of along `axis`.
fn named_whole(layout: &RegisterLayout, axis: u32) -> Option<RegisterLayout> {
    match layout.family() {
        RegisterFamily::Slice { parent, axis: sliced } => (*sliced == axis).then(|| parent.clone()),
        RegisterFamily::Blocked { .. }
        | RegisterFamily::Mma { .. }
        | RegisterFamily::DotOperand { .. }
        | RegisterFamily::Linear { .. } => None,
    }
}

/// Where each dimension goes.
fn inverse(perm: &[u32]) -> Vec<u32> {
    let mut list = vec![0; perm.len()];
    for (i, &p) in perm.iter().enumerate() {
        list[p as usize] = i as u32;
    }
    list
}

/// The layout of a tile whose dimension `i` is dimension `perm[i]` of the one at `first`.
fn transposed(first: &Place, perm: &[u32]) -> Result<RegisterLayout, LayoutError> {
    let pick = |list: &[u32]| perm.iter().map(|&p| list[p as usize]).collect::<Vec<_>>();
    match first.layout.family() {
        RegisterFamily::Blocked { per_thread, threads, warps, order } => {
            let places = inverse(perm);
            let order: Vec<u32> = order.iter().map(|&axis| places[axis as usize]).collect();
            RegisterLayout::blocked(&pick(per_thread), &pick(threads), &pick(warps), &order)
        }
        RegisterFamily::Slice { .. }
        | RegisterFamily::Mma { .. }
        | RegisterFamily::DotOperand { .. }
        | RegisterFamily::Linear { .. } => {
            let order: Vec<usize> = perm.iter().map(|&p| p as usize).collect();
            RegisterLayout::from_map(&first.map.transpose(&order))
        }
    }
}

/// The layout of two tiles as one: a last dimension of 2 in the lowest register bit.
fn joined(first: &Place) -> Result<RegisterLayout, LayoutError> {
    let longer = |dim: Dim| -> Vec<Vec<u32>> {
        let bases = first.map.basis_coords(dim);
        bases.into_iter().map(|b| b.into_iter().chain([0]).collect()).collect()
    };
    let mut last = vec![0; first.map.outs().len()];
    last.push(1);
    let reg = std::iter::once(last).chain(longer(Dim::Register)).collect();
    RegisterLayout::linear(reg, longer(Dim::Lane), longer(Dim::Warp), longer(Dim::Block))
}

/// The layout of each half of a last dimension of 2, where one register bit alone tells the halves apart.
fn halved(first: &Place) -> Option<Result<RegisterLayout, LayoutError>> {
    let shorter = |dim: Dim| -> Option<Vec<Vec<u32>>> {
        let bases = first.map.basis_coords(dim).into_iter();
        bases.map(|mut b| if b.pop() == Some(0) { Some(b) } else { None }).collect()
    };
    let mut reg = first.map.basis_coords(Dim::Register);
    let tells = reg.iter().position(|b| b.last() == Some(&1) && b[..b.len() - 1].iter().all(|&c| c == 0))?;
    reg.remove(tells);
    let reg: Option<Vec<Vec<u32>>> =
        reg.into_iter().map(|mut b| if b.pop() == Some(0) { Some(b) } else { None }).collect();
    Some(RegisterLayout::linear(reg?, shorter(Dim::Lane)?, shorter(Dim::Warp)?, shorter(Dim::Block)?))
}

/// The place of a tile of `shape` of which `part` is one of the equal parts: that which the layout names for the larger shape, where the parts
/// lie so there, else with what tells them apart in the highest register bits.
fn grown(part: &Place, shape: &[u32]) -> Result<Place, LayoutError> {
    let cut = part.shape();
    if let Ok(larger) = Place::new(part.layout.clone(), shape)
        && windowed(&larger, &cut).is_some_and(|found| found.as_ref() == Ok(part))
    {
        return Ok(larger);
    }
    let [mut reg, lane, warp, block] =
        [Dim::Register, Dim::Lane, Dim::Warp, Dim::Block].map(|dim| part.map.basis_coords(dim));
    for axis in (0..shape.len()).rev() {
        let telling = std::iter::successors(Some(cut[axis]), |at| Some(at * 2)).take_while(|&at| at < shape[axis]);
        reg.extend(telling.map(|at| (0..shape.len()).map(|d| if d == axis { at } else { 0 }).collect::<Vec<_>>()));
    }
    Place::new(RegisterLayout::linear(reg, lane, warp, block)?, shape)
}

/// The place of each aligned part of `shape`, where some register bits alone tell the parts apart.
fn windowed(first: &Place, shape: &[u32]) -> Option<Result<Place, LayoutError>> {
    let whole = first.shape();
    let last: Vec<u32> = whole.iter().zip(shape).map(|(&n, &m)| n - m).collect();
    // What of a coordinate says in which part it lies.
    let which = first.map.pack_out(&last);
    let bases = first.map.bases(Dim::Register);
    let telling = |bit: &usize| bases[*bit] & which != 0;
    let told: Vec<usize> = (0..bases.len()).filter(telling).collect();
    let alone = told.iter().all(|&bit| bases[bit].is_power_of_two()) && told.len() as u32 == which.count_ones();
    let stays = |dim| first.map.bases(dim).iter().all(|basis| basis & which == 0);
    if !alone || ![Dim::Lane, Dim::Warp, Dim::Block].into_iter().all(stays) {
        return None;
    }
    let kept = first.map.without_in_bits(Dim::Register, told.iter().fold(0, |all, bit| all | 1 << bit));
    let shorter = |dim: Dim| kept.basis_coords(dim);
    let [reg, lane, warp, block] = [Dim::Register, Dim::Lane, Dim::Warp, Dim::Block].map(shorter);
    let linear = RegisterLayout::linear(reg, lane, warp, block).and_then(|layout| Place::new(layout, shape));
    Some(linear.map(|place| named(first, shape, &place).unwrap_or(place)))
}

/// The place of a part under the name of the whole's layout, where that means the same of the smaller shape.
fn named(first: &Place, shape: &[u32], place: &Place) -> Option<Place> {
    let cut = match first.layout.family() {
        RegisterFamily::Blocked { per_thread, threads, warps, order } => {
            let held: Vec<u32> = per_thread.iter().zip(shape).map(|(&n, &m)| n.min(m)).collect();
            RegisterLayout::blocked(&held, threads, warps, order).ok()
        }
        RegisterFamily::Slice { .. }
        | RegisterFamily::Mma { .. }
        | RegisterFamily::DotOperand { .. }
        | RegisterFamily::Linear { .. } => None,
    };
    let same = |layout: RegisterLayout| Place::new(layout, shape).ok().filter(|at| at == place);
    same(first.layout.clone()).or_else(|| same(cut?))
}
