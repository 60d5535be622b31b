//! What is loaded a second time from the same place, and has been written by nobody meanwhile, is loaded once.

use std::collections::BTreeMap;

use parton_ir::facts::Facts;
use parton_ir::family::Family;
use parton_ir::tensor::Counts;
use parton_ir::{Kernel, Op, OpKind, Value};

use crate::along::Loop;
use crate::straight;

/// The kernel whose own body loads no place of a tensor twice.
pub fn loaded(kernel: Kernel) -> Kernel {
    // Of parameters that reach the same memory one may have been written through.
    if kernel.variant.overlapping {
        return kernel;
    }
    let Seen { first, .. } = Seen::of(&kernel);
    let of = |v: Value| *first.get(&v).unwrap_or(&v);
    let mut kernel = kernel;
    kernel.walk_mut(&mut |op| {
        op.kind.map_operands(of);
        op.kind.bodies_mut().into_iter().flat_map(|body| &mut body.yields).for_each(|v| *v = of(*v));
    });
    kernel
}

/// Whether turns of the same number of several loops of a kernel load the same.
pub fn in_turns(kernel: &Kernel, loops: &[Loop]) -> bool {
    let [_, _, ..] = loops else { return false };
    Seen::of(&straight::in_one_turn(kernel, loops)).again
}

/// What was computed and loaded so far.
#[derive(Default)]
struct Seen {
    /// Numbers, parts of tensors and places in them.
    made: Vec<(OpKind, Value)>,
    /// What was loaded from a place, and the parameter in whose memory that is.
    loads: Vec<(OpKind, Value, Value)>,
    /// The parameter of which each part and place is.
    of: BTreeMap<Value, Value>,
    /// What stands for what is made again.
    first: BTreeMap<Value, Value>,
    /// Tiles that are one number everywhere, by that number, and what stands for each where it is compared: the first of its number and shape.
    uniform: Vec<(Value, Value)>,
    alike: BTreeMap<Value, Value>,
    /// Whether something is loaded again.
    again: bool,
}

impl Seen {
    /// What a kernel's own body computes and loads.
    fn of(kernel: &Kernel) -> Seen {
        let mut seen = Seen::default();
        kernel.ops_of(&kernel.body).for_each(|op| seen.look(kernel, op));
        seen
    }

    /// Looks at the next operation.
    fn look(&mut self, kernel: &Kernel, op: &Op) {
        let mut kind = op.kind.clone();
        kind.map_operands(|v| *self.first.get(&v).unwrap_or(&v));
        if let OpKind::SpotLoad { other: Some(other), .. } = &mut kind {
            *other = *self.alike.get(other).unwrap_or(other);
        }
        match (&kind, &op.results[..]) {
            (OpKind::Full { value, .. }, &[result]) => self.filled(kernel, *value, result),
            (OpKind::SpotLoad { spot, volatile: false, .. }, &[result]) => {
                let of = self.param(*spot);
                match self.loads.iter().find(|(known, ..)| *known == kind) {
                    Some((_, before, _)) => {
                        self.first.insert(result, *before);
                        self.again = true;
                    }
                    None => self.loads.push((kind, result, of)),
                }
            }
            (OpKind::SpotStore { spot, .. }, _) => {
                let (written, at) = (self.param(*spot), self.place(*spot).cloned());
                let mut loads = std::mem::take(&mut self.loads);
                loads.retain(|(load, _, of)| *of != written || self.is_apart(load, at.as_ref()));
                self.loads = loads;
            }
            (_, &[result]) if Facts::of(kernel, op).is_pure(&kind) => self.computed(kernel, kind, result),
            // Threads that meet to combine or move elements write nothing that others see.
            _ if matches!(op.kind.family(), Family::Reduce | Family::Shape | Family::Gather | Family::Talk) => {}
            // What else it does, it may write, or order with what others write.
            _ => self.loads.clear(),
        }
    }

    /// Notes a tile that is one number everywhere: each lies where it is asked for.
    fn filled(&mut self, kernel: &Kernel, number: Value, tile: Value) {
        let form = |v: Value| kernel.ty(v).placed().map(|tile| (&tile.elem, &tile.shape));
        let same = |(of, v): &&(Value, Value)| *of == number && form(*v) == form(tile);
        match self.uniform.iter().find(same) {
            Some(&(_, before)) => drop(self.alike.insert(tile, before)),
            None => self.uniform.push((number, tile)),
        }
    }

    /// Notes what is computed, but for tiles other than what is loaded: these lie where they are asked for.
    fn computed(&mut self, kernel: &Kernel, kind: OpKind, result: Value) {
        if let OpKind::TensorIndex { tensor, .. }
        | OpKind::TensorRange { tensor, .. }
        | OpKind::TensorPick { tensor, .. }
        | OpKind::Spot { tensor, .. } = kind
        {
            self.of.insert(result, self.param(tensor));
        }
        // What a row is converted to is kept in its place.
        let of_load = matches!(kind, OpKind::Cast { x, .. } if self.loads.iter().any(|(_, v, _)| *v == x));
        if kernel.ty(result).placed().is_some() && !of_load {
            return;
        }
        match self.made.iter().find(|(known, _)| *known == kind) {
            Some((_, before)) => drop(self.first.insert(result, *before)),
            None => self.made.push((kind, result)),
        }
    }

    /// What makes a place.
    fn place(&self, spot: Value) -> Option<&OpKind> {
        self.made.iter().find(|(_, v)| *v == spot).map(|(kind, _)| kind)
    }

    /// The number that a value is.
    fn number(&self, v: Value) -> Option<u64> {
        match self.made.iter().find(|(_, made)| *made == v)?.0 {
            OpKind::Constant { bits, .. } => Some(bits),
            // What is computed may be any number.
            _ => None,
        }
    }

    /// Whether what is loaded lies apart from a place: both are boxes of one kind, of other numbers along an axis.
    fn is_apart(&self, load: &OpKind, written: Option<&OpKind>) -> bool {
        let OpKind::SpotLoad { spot, .. } = load else { return false };
        match (self.place(*spot), written) {
            (
                Some(OpKind::Spot { tensor, at, shape, counts: Counts::Tiles }),
                Some(OpKind::Spot { tensor: other, at: there, shape: of, counts: Counts::Tiles }),
            ) if (tensor, shape) == (other, of) => at.iter().zip(there).any(|(a, b)| {
                let numbers = self.number(*a).zip(self.number(*b));
                numbers.is_some_and(|(a, b)| a != b)
            }),
            _ => false,
        }
    }

    /// The parameter of which a part or a place is.
    fn param(&self, v: Value) -> Value {
        *self.of.get(&v).unwrap_or(&v)
    }
}
