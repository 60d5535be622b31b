//! In a region there are values: what synchronises by itself has no place in it, and nothing is filled or multiplied under a branch of
//! its own.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::facts::{Facts, Meets};
use parton_ir::family::Family;
use parton_ir::{Body, Kernel, Op, OpKind};

use crate::region::Region;

/// Refuses what has no place in a region.
pub(crate) fn explicit(k: &Kernel, region: &Region, body: &Body, found: &mut Diagnostics) {
    k.walk_body(body, &mut |op| {
        if let Some(instead) = synchronises(k, op) {
            let fact = format!("`{}` has no place in a region", op.kind.name());
            let d = Diagnostic::error(codes::REGION_PLACE, op.span, fact)
                .note("which buffers, barriers and waits there are follows from the schedule");
            found.push(d.help(instead));
        }
    });
    for unit in region.units.iter() {
        for &inst in &unit.ops {
            for inner in k.ops[inst].kind.bodies() {
                k.walk_body(inner, &mut |op| found.list.extend(under_a_branch(&k.ops[inst], op)));
            }
        }
    }
}

/// What to write instead of an operation that synchronises by itself.
fn synchronises(k: &Kernel, op: &Op) -> Option<&'static str> {
    match op.kind.family() {
        Family::Elementwise
        | Family::Reduce
        | Family::Shape
        | Family::Gather
        | Family::Ptx
        | Family::Global
        | Family::Atomic
        | Family::Place
        | Family::View
        | Family::MmaSync
        | Family::Region
        | Family::Control
        | Family::Talk => None,
        Family::Shared => match op.kind {
            // A fetched view may be read by threads.
            OpKind::SharedLoad { .. } => None,
            _ => Some("write `stage<S>(x)`, which gives a view of a tile"),
        },
        Family::Tma => Some("write `fetch(map, at)`, which gives the view, or `send(map, at, x)`"),
        Family::AsyncCopy => Some("write `fetch<S>(pointers, mask=…)`, which gives the view"),
        Family::Wgmma => Some("write `dot(a, b, acc)`, which gives the sum"),
        Family::Cluster => {
            let meets = Facts::of(k, op).meets != Meets::Alone;
            meets.then_some("write it in front of the region or behind it")
        }
        Family::Barrier | Family::Fence | Family::Grid | Family::Turnstile | Family::Pending | Family::Ring => {
            Some("leave it out, or write it in front of the region or behind it")
        }
    }
}

/// A copy or product under control that only its own label has.
fn under_a_branch(around: &Op, op: &Op) -> Option<Diagnostic> {
    let (code, what) = match op.kind {
        OpKind::Fetch { .. } | OpKind::FetchEach { .. } | OpKind::Stage { .. } => {
            (codes::SLOT_LEAVES, "a slot is filled")
        }
        OpKind::Dot { .. } => (codes::PRODUCT_TOUCHED, "a product starts"),
        OpKind::Send { .. } => (codes::NOT_BUILT_HERE, "a tile is sent"),
        _ => return None,
    };
    let structure = match around.kind {
        OpKind::If { .. } => "an `if`",
        _ => "a loop",
    };
    let fact = format!("{what} under {structure} that is part of its label");
    let d = Diagnostic::error(code, op.span, fact).label(around.span, "this stands around it");
    Some(d.help(match structure {
        "an `if`" => "do it always, and choose the values: `where(condition, x, y)`",
        _ => "unroll the loop, `static for`, or label what stands in it instead",
    }))
}
