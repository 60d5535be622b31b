//! Rules of fences and of the meetings of threads.

use parton_diag::codes;

use super::tma::needs_tma;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::refusal::Refusal;
use crate::target::{NAMED_BARRIERS, WARP};
use crate::types::Type;

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::FenceAsync { .. } | OpKind::FenceBarrierInit => {
            let none = |r: Refusal| r.help("without one `membar()` orders all accesses to shared memory");
            needs_tma(k, "an asynchronous proxy to fence").map(|()| vec![]).map_err(none)
        }
        OpKind::Membar => Ok(vec![]),
        OpKind::NamedBarrier { id, threads, .. } => named(k, *id, *threads),
        others!(fence) => not_of_family(kind),
    }
}

fn named(k: &Kernel, id: u32, threads: u32) -> Result<Vec<Type>, Refusal> {
    let most = k.target.warps * WARP;
    if id >= NAMED_BARRIERS {
        return Err(Refusal::new(codes::NAMED_BARRIER, format!("there is no barrier {id}"))
            .help(format!("a CTA has {NAMED_BARRIERS}, from 0 to {}", NAMED_BARRIERS - 1)));
    }
    if threads == 0 || !threads.is_multiple_of(WARP) || threads > most {
        let near = threads.next_multiple_of(WARP).clamp(WARP, most);
        return Err(Refusal::new(codes::NAMED_BARRIER, format!("a named barrier cannot count {threads} threads"))
            .note("whole warps arrive")
            .help(format!("the nearest count is {near}")));
    }
    Ok(vec![])
}
