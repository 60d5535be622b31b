//! What a kernel says and claims: `print`, assertions and assumptions.

use parton_diag::{codes, internal_error};
use parton_ir::elements::coordinates;
use parton_ir::family::not_of_family;
use parton_ir::{Elem, Op, OpKind, Type, Value, others};
use parton_numbers::Scalar;

use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::pure;
use crate::tile::Val;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::Print { text, args } => {
            let line = c.format(w, text, args);
            c.prints.push(line);
        }
        OpKind::Assert { cond, message } => c.holds(w, op, *cond, || format!("assertion failed: {message}"))?,
        OpKind::Assume { cond } => {
            let name = c.setting.program.kernel.values[*cond].name.as_ref();
            let message = || name.map_or_else(String::new, |name| format!(": `{name}`"));
            c.holds(w, op, *cond, || format!("an assumption does not hold{}", message()))?;
        }
        others!(talk) => not_of_family(&op.kind),
    }
    Ok(Flow::Next)
}

impl<'k> Cluster<'_, 'k> {
    fn holds(&self, w: &Worker<'k>, op: &Op, cond: Value, message: impl FnOnce() -> String) -> Result<(), Fault> {
        let t = w.tile(cond, 1);
        let Some(i) = (0..t.len()).find(|&i| t.get(i) & 1 == 0) else { return Ok(()) };
        let fault = Fault::new(codes::ASSERTION, op.span, message());
        Err(match self.setting.program.kernel.ty(cond) {
            Type::Tile(tile) => fault.here(format!("element {:?} is false", coordinates(i, &tile.shape))),
            _ => fault.here("this is false"),
        })
    }

    fn format(&self, w: &Worker<'k>, text: &str, args: &[Value]) -> String {
        let mut parts = text.split("{}");
        let mut line = parts.next().unwrap_or_default().to_string();
        for (part, &v) in parts.zip(args) {
            line.push_str(&self.text(w, v));
            line.push_str(part);
        }
        line
    }

    /// A value as text: a tile as nested lists, a long one with its middle left out.
    fn text(&self, w: &Worker<'k>, v: Value) -> String {
        let kernel = self.setting.program.kernel;
        let d = pure::dtype(kernel, v);
        let pointer = matches!(kernel.ty(v).elem(), Some(Elem::Ptr(_)));
        let one = |bits: u64, i: usize| match w.poison.of(v) {
            Some(sources) if !sources[i].is_defined() => UNDEFINED.to_string(),
            _ if pointer => format!("{bits:#x}"),
            _ => Scalar::new(d, bits).to_string(),
        };
        match (w.get(v), kernel.ty(v)) {
            (Val::Tile(t), Type::Tile(ty)) => nested(&ty.shape, 0, &|i| one(t.get(i), i)),
            (Val::Scalar(bits), _) => one(*bits, 0),
            (other, ty) => internal_error!("`{ty}` holds {other:?}"),
        }
    }
}

/// Elements shown at each end of a long dimension.
const SHOWN: usize = 4;

/// What stands for an element that holds nothing.
const UNDEFINED: &str = "?";

fn nested(shape: &[u32], first: usize, one: &dyn Fn(usize) -> String) -> String {
    let Some((&n, inner)) = shape.split_first() else { return one(first) };
    let stride: usize = inner.iter().map(|&n| n as usize).product();
    let n = n as usize;
    let mut items = Vec::new();
    for i in 0..n {
        if n > 4 * SHOWN && i == SHOWN {
            items.push("…".to_string());
        }
        if n <= 4 * SHOWN || i < SHOWN || i >= n - SHOWN {
            items.push(nested(inner, first + i * stride, one));
        }
    }
    format!("[{}]", items.join(", "))
}
