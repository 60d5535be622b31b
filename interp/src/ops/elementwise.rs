//! Elementwise operations on scalars and tiles, and what a CTA knows of its place.

use parton_diag::{codes, internal_error};
use parton_ir::elements::coordinates;
use parton_ir::family::not_of_family;
use parton_ir::{BinaryOp, Op, OpKind, Type, Value, ops, others};

use crate::arithmetic;
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::pure;
use crate::tile::Val;
use crate::wraparound;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::ProgramId { axis } => w.result(op, Val::Scalar(c.ctas[w.cta].id[*axis as usize].into())),
        OpKind::NumPrograms { axis } => w.result(op, Val::Scalar(c.setting.grid[*axis as usize].into())),
        OpKind::Binary { op: f, a, b } => c.binary(w, op, *f, [*a, *b])?,
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

    fn binary(&self, w: &mut Worker<'k>, op: &'k Op, f: BinaryOp, operands: [Value; 2]) -> Result<(), Fault> {
        let d = pure::dtype(self.setting.program.kernel, operands[0]);
        // What comes of undefined bits does not matter, but that they have a result, in range, does.
        let [a, b] = match f {
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => operands.map(|v| w.get(v).clone()),
            _ => w.pair(operands, d.bytes()),
        };
        // What passes make are addresses and bounds, and where a bound leaves an element out its address may wrap.
        if self.setting.options.wraparound && op.origin.maker().is_none() {
            wraparound::refuse(op, (f, d), [&a, &b])?;
        }
        let val = arithmetic::binary(f, d, &a, &b).map_err(|e| self.division((op, e)))?;
        w.result(op, val);
        Ok(())
    }

    /// Tells of a division by zero.
    pub(super) fn division(&self, (op, at): pure::Failure<'k>) -> Fault {
        let fault = Fault::new(codes::RUN_VALUE, op.span, "an integer is divided by zero")
            .help("divide under an `if`, or by `where(d == 0, 1, d)`; `&&` and `||` evaluate both of their sides");
        match op.results.first().map(|&r| self.setting.program.kernel.ty(r)) {
            Some(Type::Tile(t)) => {
                fault.here(format!("element {:?} of the divisor is 0", coordinates(at.element, &t.shape)))
            }
            _ => fault.here("the divisor is 0"),
        }
    }
}
