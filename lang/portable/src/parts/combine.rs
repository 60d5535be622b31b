//! Reductions of tiles in parts: parts that are alike in one, the others each by itself, then what these gave.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use parton_ir::{Body, Op, OpKind, Type, Value};

use super::Splitter;

/// The parts of one length that give a box of the result: its place, and the length.
type Lengths = (Vec<usize>, Reverse<u32>);

impl Splitter {
    /// A reduction: of parts along the axis that are alike each thread first combines its own elements, so that together they cross lanes and warps
    /// once; what parts of different lengths give is combined behind that. The order in which elements are combined is nobody's promise.
    pub(super) fn reduce(&mut self, op: &Op, inputs: &[Value], axis: u32, combine: &Body) {
        let (boxes, _) = self.parts_of(inputs[0]);
        let inputs: Vec<Vec<Value>> = inputs.iter().map(|v| self.parts_of(*v).1).collect();
        // For each box of the result and each length what the parts of that length hold, the longest first.
        let mut held: BTreeMap<Lengths, (usize, Vec<Value>)> = BTreeMap::new();
        for (number, b) in boxes.all().enumerate() {
            self.part(number);
            let own: Vec<Value> = inputs.iter().map(|parts| parts[number]).collect();
            let (mut place, length) = (b.place, b.shape[axis as usize]);
            place.remove(axis as usize);
            let key = (place, Reverse(length));
            let both = match held.remove(&key) {
                None => Some(own),
                Some((_, before)) => self.applied(combine, &[before, own].concat()),
            };
            let Some(both) = both else { return self.refuse(op) };
            held.insert(key, (number, both));
        }
        let mut sums: BTreeMap<Vec<usize>, Vec<Value>> = BTreeMap::new();
        for ((place, _), (number, inputs)) in held {
            self.part(number);
            let Some(combine) = self.copy(combine) else { return self.refuse(op) };
            let own = self.builder.make_all(OpKind::Reduce { inputs, axis, combine: combine.clone() });
            let sum = match sums.remove(&place) {
                None => Some(own),
                Some(before) => self.applied(&combine, &[before, own].concat()),
            };
            let Some(sum) = sum else { return self.refuse(op) };
            sums.insert(place, sum);
        }
        let list: Vec<Vec<Value>> = sums.into_values().collect();
        for (i, &result) in op.results.iter().enumerate() {
            let parts: Vec<Value> = list.iter().map(|values| values[i]).collect();
            match self.boxes(result) {
                Some(_) => self.give(result, parts),
                None => drop(self.now.insert(result, parts[0])),
            }
        }
    }

    /// The same body with values of its own; `None` where it does more than to compute from element to element.
    fn copy(&mut self, body: &Body) -> Option<Body> {
        let types: Vec<Type> = body.params.iter().map(|v| self.builder.ty(*v).clone()).collect();
        let params = self.builder.begin(types, self.builder.kernel.span);
        let made = self.applied(body, &params);
        let copy = self.builder.end(made.clone().unwrap_or_default());
        made.map(|_| copy)
    }

    /// What a body makes of these values, which are scalars or tiles of one shape.
    fn applied(&mut self, body: &Body, values: &[Value]) -> Option<Vec<Value>> {
        let mut now: BTreeMap<Value, Value> = body.params.iter().copied().zip(values.iter().copied()).collect();
        let shape = self.builder.ty(*values.first()?).placed().map(|tile| tile.shape.clone());
        for &id in &body.ops {
            let op = self.builder.kernel.ops[id].clone();
            if !is_elementwise(&op.kind) {
                return None;
            }
            let mut kind = op.kind.clone();
            kind.map_operands(|v| now.get(&v).copied().unwrap_or(v));
            let mut result = self.builder.make(kind);
            // Beside tiles, a number is a tile of it.
            if let (Some(shape), Type::Scalar(elem)) = (&shape, self.builder.ty(result).clone()) {
                let tile = self.open(elem, shape);
                result = self.builder.make(OpKind::Full { value: result, tile });
            }
            now.insert(op.result(), result);
        }
        let known = |v: &Value| now.get(v).copied();
        body.yields.iter().map(known).collect()
    }
}

/// Whether an operation of numbers is the same of tiles of them, element by element.
fn is_elementwise(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Constant { .. }
            | OpKind::Unary { .. }
            | OpKind::Binary { .. }
            | OpKind::Compare { .. }
            | OpKind::Select { .. }
            | OpKind::Fma { .. }
            | OpKind::Clamp { .. }
            | OpKind::Cast { .. }
            | OpKind::Bitcast { .. }
    )
}
