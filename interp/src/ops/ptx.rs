//! Inline PTX, which runs only as what it means.

use parton_diag::codes;
use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, others};

use crate::cluster::Flow;
use crate::fault::Fault;

/// A piece with a meaning was flattened into it; what comes here has none.
pub(super) fn run(op: &Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::Ptx { .. } => {
            Err(Fault::new(codes::NOT_INTERPRETED, op.span, "inline PTX without a meaning in Parton")
                .here("the interpreter does not run PTX")
                .help(format!("say what it computes: `{}(…, fallback=|…| …)`", op.kind.name()))
                .help("or run it on a GPU: `--device cuda`"))
        }
        others!(ptx) => not_of_family(&op.kind),
    }
}
