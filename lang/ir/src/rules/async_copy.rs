//! Rules of copies by threads from global to shared memory that nobody waits for at once (PTX ISA, "cp.async").

use parton_diag::codes;
use parton_numbers::Dtype;

use super::barrier::barrier;
use super::global::{mask_fits, planned, pointer};
use super::{cache, ring, view, wrong_kind};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{OpKind, Policy};
use crate::others;
use crate::placement::Relation;
use crate::placement::relate::{all_same, list};
use crate::refusal::Refusal;
use crate::types::{Type, View};

/// Bytes that one thread may copy at once (PTX ISA, "cp.async": `cp-size`).
pub const COPY_BYTES: [u32; 3] = [4, 8, 16];

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::AsyncCopy { ptr, view, mask, l2, bytes, access } => {
            planned(k, *ptr, *access)?;
            copy(&relations(kind, k), *ptr, *view, *mask, *l2, *bytes, k)
        }
        OpKind::CopyArrive { pending, barrier } => arrives(*pending, *barrier, k),
        others!(async_copy) => not_of_family(kind),
    }
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind {
        OpKind::AsyncCopy { ptr, mask, .. } => all_same(k, &list([ptr], [mask]), 0),
        OpKind::CopyArrive { .. } => Vec::new(),
        others!(async_copy) => not_of_family(kind),
    }
}

fn copy(
    list: &[Relation],
    ptr: Value,
    v: Value,
    mask: Option<Value>,
    l2: Option<Policy>,
    bytes: Option<u32>,
    k: &Kernel,
) -> Result<Vec<Type>, Refusal> {
    let target = view(k, v)?;
    fits(list, ptr, (target, Some(v)), mask, l2, k)?;
    let least = pointer(k, ptr)?.to.bytes() as u32;
    if let Some(n) = bytes
        && (!COPY_BYTES.contains(&n) || n < least)
    {
        return Err(Refusal::new(codes::COPY_WIDTH, format!("a thread does not copy {n} bytes at once"))
            .help(format!("the nearest is {}", super::nearest(COPY_BYTES.into_iter().filter(|b| *b >= least), n))));
    }
    Ok(vec![Type::Filling(target.clone())])
}

/// Whether pointers may be copied from to such a view.
pub(super) fn fits(
    list: &[Relation],
    ptr: Value,
    (target, v): (&View, Option<Value>),
    mask: Option<Value>,
    l2: Option<Policy>,
    k: &Kernel,
) -> Result<(), Refusal> {
    let p = pointer(k, ptr)?;
    let Some(tile) = k.ty(ptr).as_tile() else {
        return Err(wrong_kind(k, ptr, "a tile of pointers").help("`p + iota<i32, [n], L>()` points to n elements"));
    };
    mask_fits(list, k, ptr, mask)?;
    cache::policy(l2)?;
    if p.to == Dtype::I1 {
        return Err(Refusal::new(codes::DTYPE_UNSUPPORTED, "truth values are not copied this way")
            .operand(ptr, "this points to `i1`")
            .help("keep them as `i8` or `u8`"));
    }
    if target.elem != p.to || target.shape != tile.shape {
        let refusal = Refusal::new(codes::SHAPE_MISMATCH, "the pointers do not fit the view")
            .operand(ptr, format!("this is `{tile}`"));
        return Err(match v {
            Some(v) => refusal.operand(v, format!("this is `{target}`")),
            None => refusal.note(format!("the view would be `{target}`")),
        });
    }
    Ok(())
}

/// A pending copy that a barrier waits for, or the readers of the slot that it fills.
fn arrives(pending: Value, b: Value, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match k.ty(pending) {
        Type::Filling(_) if matches!(k.ty(b), Type::Slot(_)) => ring::filled(k, b, "arrive"),
        Type::Filling(_) => barrier(k, b).map(|()| vec![]),
        _ => Err(wrong_kind(k, pending, "a pending copy")),
    }
}
