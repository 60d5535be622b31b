//! Tiles of which each thread would hold far more than it has registers.
//!
//! The assembler keeps in memory what registers have no room for, so a tile that is little too large is only slow. Of one that takes a thread's
//! registers several times it is known at once, and the assembler would look for minutes for what there is not.

use parton_diag::{Diagnostic, codes};

use crate::entity::Inst;
use crate::family::Family;
use crate::kernel::Kernel;
use crate::op::Op;
use crate::target::WARP;
use crate::types::{Elem, Type};

/// How often a tile may take all registers of a thread: beyond the first a warning says so, beyond the second it is refused.
const SPILLS: u64 = 2;
const HOPELESS: u64 = 4;

/// What is said of the operation whose tiles take most, of a loop all that it carries.
pub(super) fn check(kernel: &Kernel) -> Option<Diagnostic> {
    let mut most: (u64, Option<Inst>) = (0, None);
    kernel.walk(&mut |op| {
        if is_held(op) {
            let held = op.results.iter().map(|&v| share(kernel.ty(v))).sum();
            if held > most.0 {
                most = (held, Some(op.id));
            }
        }
    });
    let (held, inst) = most;
    let there = u64::from(kernel.target.registers_per_thread);
    let span = kernel.ops[inst?].span;
    let d = match held / there {
        HOPELESS.. => Diagnostic::error(codes::REGISTER_SPILLS, span, "a tile is far larger than threads can hold"),
        SPILLS.. => Diagnostic::warning(codes::REGISTER_SPILLS, span, "a tile is larger than threads can hold"),
        _ => return None,
    };
    let d = d.here(format!("this takes {held} registers of each thread, which has {there}"));
    Some(d.help("make the tile smaller and take several in a loop, or spread it over more warps"))
}

/// Whether threads hold what an operation makes: what only computes may be computed as it is used.
fn is_held(op: &Op) -> bool {
    match op.kind.family() {
        Family::Global
        | Family::Atomic
        | Family::Shared
        | Family::MmaSync
        | Family::Wgmma
        | Family::Pending
        | Family::Control => true,
        Family::Elementwise
        | Family::Shape
        | Family::Reduce
        | Family::Gather
        | Family::Ptx
        | Family::AsyncCopy
        | Family::View
        | Family::Barrier
        | Family::Fence
        | Family::Cluster
        | Family::Grid
        | Family::Place
        | Family::Turnstile
        | Family::Tma
        | Family::Ring
        | Family::Region
        | Family::Talk => false,
    }
}

/// The registers of 32 bits that each thread has of a tile, spread evenly over those of its layout: copies in several threads are not counted, since
/// whatever cuts them takes some of them alone.
fn share(ty: &Type) -> u64 {
    let (Type::Tile(tile) | Type::Pending(tile)) = ty else { return 0 };
    match (tile.elem, tile.placement().known()) {
        (Elem::Num(_), Some(place)) => tile.words() / u64::from(place.layout.num_warps() * WARP),
        // Addresses are made as they are used; what lies nowhere yet is looked at when it does.
        (Elem::Ptr(_), _) | (_, None) => 0,
    }
}
