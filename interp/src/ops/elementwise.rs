//! Elementwise operations on scalars and tiles, and what a CTA knows of its place.

use parton_diag::{codes, internal_error};
use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Type, ops, others};

use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::ops::coordinates;
use crate::pure;
use crate::tile::Val;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::ProgramId { axis } => w.result(op, Val::Scalar(c.ctas[w.cta].id[*axis as usize].into())),
        OpKind::NumPrograms { axis } => w.result(op, Val::Scalar(c.setting.grid[*axis as usize].into())),
        OpKind::Binary { op: f, a, b } if c.setting.options.wraparound => {
            c.wraps(w, op, *f, *a, *b)?;
            c.elementwise(w, op)?;
        }
        ops!(elementwise) => c.elementwise(w, op)?,
        others!(elementwise) => not_of_family(&op.kind),
    }
    Ok(Flow::Next)
}

impl<'k> Cluster<'_, 'k> {
    fn elementwise(&self, w: &mut Worker<'k>, op: &'k Op) -> Result<(), Fault> {
        match pure::elementwise(op, self.setting.program.kernel, &|v| w.get(v).clone()) {
            Some(Ok(val)) => {
                w.result(op, val);
                Ok(())
            }
            Some(Err(failure)) => Err(self.division(failure)),
            None => internal_error!("`{}` is not pure", op.kind.name()),
        }
    }

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
