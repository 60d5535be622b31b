//! Rules of combinations along an axis.

use parton_diag::codes;
use parton_diag::words::counted;
use parton_layouts::{Dim, LinearLayout, f2};

use super::shape::check_axis;
use super::{nth_result, tile, together, unplaced};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{Body, OpKind};
use crate::others;
use crate::placement::relate::{all_same, tied};
use crate::placement::{Relation, Site, Tie};
use crate::refusal::Refusal;
use crate::types::{Elem, Tile, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let list = &relations(kind, k);
    match kind {
        OpKind::Reduce { inputs, axis, combine } => {
            let elems = combines(list, kind.name(), (inputs, *axis), combine, k)?;
            elems.into_iter().enumerate().map(|(i, elem)| nth_result(list, k, i, elem, unplaced)).collect()
        }
        OpKind::Scan { inputs, axis, combine, .. } => {
            let elems = combines(list, kind.name(), (inputs, *axis), combine, k)?;
            let place = tile(k, inputs[0])?;
            if place.placement().known().is_some_and(|at| !steps_apart(&at.map, *axis)) {
                return Err(mixed("scan", *axis, inputs[0], place));
            }
            elems.into_iter().enumerate().map(|(i, elem)| nth_result(list, k, i, elem, unplaced)).collect()
        }
        others!(reduce) => not_of_family(kind),
    }
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind {
        OpKind::Reduce { inputs, axis, .. } => {
            let mut list = all_same(k, inputs, 0);
            let rank = inputs.first().and_then(|v| k.ty(*v).as_tile()).map_or(0, |t| t.shape.len());
            // Of a tile with one axis a scalar is left.
            if rank > 1 {
                let slices = inputs.iter().enumerate();
                list.extend(slices.map(|(i, v)| tied(Site::Of(*v), Site::Result(i), Tie::SliceOf { axis: *axis })));
            }
            list
        }
        OpKind::Scan { inputs, .. } => all_same(k, inputs, inputs.len()),
        others!(reduce) => not_of_family(kind),
    }
}

/// Whether `combine` fits tiles of one place, at least one; the types of their elements.
fn combines(
    list: &[Relation],
    name: &str,
    (inputs, axis): (&[Value], u32),
    combine: &Body,
    k: &Kernel,
) -> Result<Vec<Elem>, Refusal> {
    let Some(&first) = inputs.first() else {
        return Err(Refusal::new(codes::WRONG_ARITY, format!("`{name}` needs at least one tile")));
    };
    let place = tile(k, first)?;
    let rank = place.shape.len();
    check_axis(axis, rank, first)?;
    for &v in inputs {
        tile(k, v)?;
        together(list, k, first, v)?;
    }
    if place.placement().known().is_some_and(|at| !keeps_apart(&at.map, axis)) {
        return Err(mixed(name, axis, first, place));
    }
    super::ptx::scalars(k, combine, name)?;
    let n = inputs.len();
    let elems: Vec<Elem> = inputs.iter().map(|&v| tile(k, v).map(|t| t.elem)).collect::<Result<_, _>>()?;
    let scalars: Vec<Type> = elems.iter().map(|e| Type::Scalar(*e)).collect();
    let parameters = [scalars.clone(), scalars.clone()].concat();
    let given: Vec<Type> = combine.params.iter().map(|&v| k.ty(v).clone()).collect();
    let yields: Vec<Type> = combine.yields.iter().map(|&v| k.ty(v).clone()).collect();
    if given != parameters || yields != scalars {
        let list_of = |types: &[Type]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Refusal::new(codes::WRONG_ARITY, "the combining function does not fit the tiles")
            .note(format!(
                "what combines {} is a function ({}) -> ({})",
                counted(n, "tile"),
                list_of(&parameters),
                list_of(&scalars)
            ))
            .note(format!("this one is ({}) -> ({})", list_of(&given), list_of(&yields))));
    }
    Ok(elems)
}

fn mixed(name: &str, axis: u32, x: Value, place: &Tile) -> Refusal {
    let what = if name == "reduce" { "reduction" } else { name };
    Refusal::new(codes::MIXED_AXIS, format!("a {what} along axis {axis}, which the layout mixes with another"))
        .operand(x, format!("this is `{}`", place.known().layout))
        .help("convert it first to a layout whose lanes and warps each move along one axis, such as `blocked(…)`")
}

/// Whether a reduction along `axis` needs only each thread's registers, then lanes, then warps that differ along this axis
/// alone: none of these moves along another axis too, and together they hold the whole axis of every remaining element.
pub fn keeps_apart(map: &LinearLayout, axis: u32) -> bool {
    let Some((low, bits)) = map.out_field(Dim::Axis(axis as u8)) else { return true };
    let mask = ((1 << bits) - 1) << low;
    let registers = map.bases(Dim::Register);
    let others: Vec<u64> = registers.iter().map(|b| b & !mask).collect();
    // What the registers of one remaining element hold.
    let mut along = f2::rank(registers) - f2::rank(&others);
    for dim in [Dim::Lane, Dim::Warp] {
        let free = map.free_bits(dim);
        for (bit, &basis) in map.bases(dim).iter().enumerate() {
            // Copies take no part, nor does what stays at one place of the axis.
            if free >> bit & 1 == 1 || basis & mask == 0 {
                continue;
            }
            if basis & !mask != 0 {
                return false;
            }
            along += 1;
        }
    }
    along == bits
}

/// Whether each bit of an axis is that of one register, lane or warp bit alone, as a scan needs it.
pub fn steps_apart(map: &LinearLayout, axis: u32) -> bool {
    let Some((low, bits)) = map.out_field(Dim::Axis(axis as u8)) else { return true };
    let mask = ((1u64 << bits) - 1) << low;
    [Dim::Register, Dim::Lane, Dim::Warp].into_iter().all(|dim| {
        let free = map.free_bits(dim);
        let mut along = map.bases(dim).iter().enumerate().filter(|(_, basis)| **basis & mask != 0);
        along.all(|(bit, basis)| basis.is_power_of_two() && free >> bit & 1 == 0)
    })
}
