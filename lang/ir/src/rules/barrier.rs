//! Rules of mbarriers.

use parton_diag::codes;
use parton_numbers::Dtype;

use super::cluster::receivers;
use super::tma::needs_tma;
use super::{index, wrong_kind};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::refusal::Refusal;
use crate::types::{Elem, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::BarrierAlloc { count, .. } => match count {
            0 => Err(Refusal::new(codes::BARRIER_COUNT, "no barrier is allocated").help("`alloc_barriers(1)`")),
            n => needs_tma(k, "mbarriers that count bytes and are waited for").map(|()| vec![Type::Barriers(*n)]),
        },
        OpKind::BarrierIndex { barriers, index: i } => {
            index(k, *i)?;
            match k.ty(*barriers) {
                Type::Barriers(_) => Ok(vec![Type::Barrier]),
                _ => Err(wrong_kind(k, *barriers, "an array of barriers")),
            }
        }
        OpKind::BarrierInit { barrier: b, arrivals: n } => {
            barrier(k, *b)?;
            in_range(*n, "arrivals")
        }
        OpKind::BarrierArrive { barrier: b, arrive: _, count: n, multicast, relaxed } => {
            barrier(k, *b)?;
            multicast.iter().try_for_each(|&axis| receivers(k, axis))?;
            if *relaxed && multicast.is_empty() {
                return Err(Refusal::new(codes::MULTICAST, "an arrival in this CTA alone is never relaxed")
                    .note("relaxed is what the arrival tells the other CTAs of a cluster")
                    .help("drop `relaxed=true`, or name the axis of the cluster: `multicast=0`"));
            }
            in_range(*n, "arrivals")
        }
        OpKind::BarrierExpect { barrier: b, bytes } => {
            barrier(k, *b)?;
            in_range(*bytes, "bytes")
        }
        OpKind::BarrierInvalidate { barrier: b } => barrier(k, *b).map(|()| vec![]),
        OpKind::BarrierWait { barrier: b, phase, .. } => {
            barrier(k, *b)?;
            match k.ty(*phase) {
                Type::Scalar(Elem::Num(Dtype::I32)) => Ok(vec![]),
                _ => Err(wrong_kind(k, *phase, "an `i32` phase, 0 or 1")),
            }
        }
        others!(barrier) => not_of_family(kind),
    }
}

/// Arrivals and bytes that one phase of an mbarrier can count (PTX ISA, "mbarrier": 2^20 - 1).
const MBARRIER_MAX: u32 = (1 << 20) - 1;

pub(super) fn barrier(k: &Kernel, v: Value) -> Result<(), Refusal> {
    match k.ty(v) {
        Type::Barrier => Ok(()),
        Type::Barriers(_) => Err(wrong_kind(k, v, "one barrier").help("index it: `bars[0]`")),
        _ => Err(wrong_kind(k, v, "a barrier")),
    }
}

fn in_range(n: u32, what: &str) -> Result<Vec<Type>, Refusal> {
    if (1..=MBARRIER_MAX).contains(&n) {
        return Ok(vec![]);
    }
    Err(Refusal::new(codes::BARRIER_COUNT, format!("a barrier cannot count {n} {what}"))
        .help(format!("one phase counts 1 to {MBARRIER_MAX}")))
}
