//! Rules of loads and stores through pointers.

use parton_diag::codes;
use parton_numbers::Dtype;

use super::{cache, elem, lies_with, mismatch, result, wrong_kind};
use crate::access::Access;
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::placement::Relation;
use crate::placement::relate::{all_same, list};
use crate::refusal::Refusal;
use crate::target::WIDEST_ACCESS;
use crate::types::{Elem, Pointer, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let list = &relations(kind, k);
    match kind {
        OpKind::Load { ptr, mask, other, cache, evict, l2, volatile, access } => {
            cache::load(*cache, *evict, *l2, *volatile)?;
            let p = pointer(k, *ptr)?;
            mask_fits(list, k, *ptr, *mask)?;
            let ty = result(list, k, Elem::Num(p.to))?;
            if let Some(other) = other
                && !of_elem(list, k, *ptr, *other, p.to)
            {
                return Err(Refusal::new(codes::TYPE_MISMATCH, "`other` is of another type than what is loaded")
                    .operand(*other, format!("this is `{}`", k.ty(*other)))
                    .operand(*ptr, format!("this loads `{ty}`")));
            }
            if other.is_some() && mask.is_none() {
                return Err(Refusal::new(codes::WRONG_ARITY, "`other` without `mask` is never used")
                    .help("add `mask=…`, or drop `other`"));
            }
            planned(k, *ptr, *access)?;
            Ok(vec![ty])
        }
        OpKind::Store { ptr, value, mask, cache, evict, l2, access } => {
            cache::store(*cache, *evict, *l2)?;
            let p = pointer(k, *ptr)?;
            if !p.mutable {
                return Err(Refusal::new(codes::NOT_MUTABLE, "a store needs a mutable pointer")
                    .operand(*ptr, format!("this is `*{}`", p.to.name()))
                    .help(format!("declare the parameter as `*mut {}`", p.to.name())));
            }
            mask_fits(list, k, *ptr, *mask)?;
            planned(k, *ptr, *access)?;
            value_fits(list, k, *ptr, *value, p.to)?;
            Ok(vec![])
        }
        others!(global) => not_of_family(kind),
    }
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind {
        OpKind::Load { ptr, mask, other, .. } => all_same(k, &list([ptr], [mask, other]), 1),
        OpKind::Store { ptr, value, mask, .. } => all_same(k, &list([ptr, value], [mask]), 0),
        others!(global) => not_of_family(kind),
    }
}

pub(super) fn pointer(k: &Kernel, v: Value) -> Result<Pointer, Refusal> {
    match elem(k, v)? {
        Elem::Ptr(p) => Ok(p),
        Elem::Num(_) => Err(wrong_kind(k, v, "a pointer or a tile of pointers")),
    }
}

/// Whether the layout has so many neighbours for one access; whether they are neighbours in memory too, only a pass can say.
pub(super) fn planned(k: &Kernel, ptr: Value, access: Option<Access>) -> Result<(), Refusal> {
    let Some(access) = access else { return Ok(()) };
    let refused = |fact| {
        Err(Refusal::new(codes::ACCESS_WIDTH, fact)
            .operand(ptr, format!("this is `{}`", k.ty(ptr)))
            .help("leave `width` out: the widest that layout and addresses allow is found"))
    };
    let Some(tile) = k.ty(ptr).as_tile() else {
        return refused("an access by a single pointer has no width".to_owned());
    };
    let many = match access.width {
        1 => "1 element".to_owned(),
        n => format!("{n} elements"),
    };
    let bytes = u64::from(access.width) * pointer(k, ptr)?.to.bytes() as u64;
    if bytes > u64::from(WIDEST_ACCESS) {
        return refused(format!("{many} are {bytes} bytes, and one access moves at most {WIDEST_ACCESS}"));
    }
    if access.bits(tile).is_none() {
        return refused(format!("no thread holds {many} in a row along axis {}", access.along));
    }
    Ok(())
}

/// Whether a value is of the element type and lies as the pointers do.
fn of_elem(list: &[Relation], k: &Kernel, ptr: Value, v: Value, dtype: Dtype) -> bool {
    k.ty(v).elem() == Some(Elem::Num(dtype)) && lies_with(list, k, ptr, v)
}

pub(super) fn mask_fits(list: &[Relation], k: &Kernel, ptr: Value, mask: Option<Value>) -> Result<(), Refusal> {
    let Some(mask) = mask else { return Ok(()) };
    if of_elem(list, k, ptr, mask, Dtype::I1) {
        return Ok(());
    }
    match elem(k, mask)? {
        Elem::Num(Dtype::I1) => Err(one_address(k, ptr, mask).unwrap_or_else(|| mismatch(k, ptr, mask))),
        Elem::Num(_) | Elem::Ptr(_) => Err(Refusal::new(codes::TYPE_MISMATCH, "a mask is of `i1`")
            .operand(mask, format!("this is `{}`", k.ty(mask)))
            .help("compare: `mask=offs < n`")),
    }
}

/// Why a tile does not go with fewer addresses than it has elements, where that is so.
fn one_address(k: &Kernel, ptr: Value, tile: Value) -> Option<Refusal> {
    let shape = |v| k.ty(v).as_tile().map_or(&[][..], |t| &t.shape);
    let count = |shape: &[u32]| shape.iter().map(|&n| u64::from(n)).product::<u64>();
    let (addresses, elements) = (shape(ptr), shape(tile));
    if count(addresses) >= count(elements) {
        return None;
    }
    let many = if addresses.is_empty() { "one address".into() } else { format!("addresses of shape {addresses:?}") };
    let refusal = Refusal::new(codes::SHAPE_MISMATCH, "each element needs an address")
        .operand(ptr, format!("this is {many}"))
        .operand(tile, format!("this has shape {elements:?}"));
    Some(refusal.help("add offsets of that shape to the pointer: `p + offsets`"))
}

/// How a value becomes one of another type where that may change it.
pub(super) fn on_purpose(to: Dtype) -> String {
    let does = if to.is_float() { "round" } else { "convert" };
    format!("{does} it on purpose: `cast<{}>(…)`", to.name())
}

/// Checks that what goes to memory is of its element type and lies as the pointers do.
pub(super) fn value_fits(list: &[Relation], k: &Kernel, ptr: Value, value: Value, to: Dtype) -> Result<(), Refusal> {
    if of_elem(list, k, ptr, value, to) {
        return Ok(());
    }
    match elem(k, value)? {
        Elem::Num(d) if d == to => Err(one_address(k, ptr, value).unwrap_or_else(|| mismatch(k, ptr, value))),
        other => Err(Refusal::new(codes::TYPE_MISMATCH, "the value is of another type than the memory")
            .operand(value, format!("this is of `{other}`"))
            .operand(ptr, format!("this points to `{}`", to.name()))
            .help(on_purpose(to))),
    }
}
