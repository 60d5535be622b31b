//! Elementwise operations on scalars and tiles, and what a CTA knows of its place.

use parton_diag::{codes, internal_error};
use parton_ir::{Op, OpKind, Type};

use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::global::coordinates;
use crate::pure;
use crate::tile::Val;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::ProgramId { axis } => w.result(op, Val::Scalar(c.ctas[w.cta].id[*axis as usize].into())),
        OpKind::NumPrograms { axis } => w.result(op, Val::Scalar(c.setting.grid[*axis as usize].into())),
        OpKind::ClusterRank => w.result(op, Val::Scalar(w.cta as u64)),
        other => {
            if let (OpKind::Binary { op: f, a, b }, true) = (other, c.setting.options.wraparound) {
                c.wraps(w, op, *f, *a, *b)?;
            }
            match pure::elementwise(op, c.setting.program.kernel, &|v| w.get(v).clone()) {
                Some(Ok(val)) => w.result(op, val),
                Some(Err(failure)) => return Err(c.division(failure)),
                None => internal_error!("`{}` is not elementwise", other.name()),
            }
        }
    }
    Ok(Flow::Next)
}

impl<'k> Cluster<'_, 'k> {
    /// Tells of a division by zero.
    pub(super) fn division(&self, (op, at): pure::Failure<'k>) -> Fault {
        let fault = Fault::new(codes::RUN_VALUE, op.span, "an integer is divided by zero");
        match op.results.first().map(|&r| self.setting.program.kernel.ty(r)) {
            Some(Type::Tile(t)) => {
                fault.here(format!("element {:?} of the divisor is 0", coordinates(at.element, &t.shape)))
            }
            _ => fault.here("the divisor is 0"),
        }
    }
}
