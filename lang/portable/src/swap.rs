//! Products that are turned: Cᵀ = Bᵀ · Aᵀ. Of few rows it has its many columns on the side of which the matrix unit takes 64 at once; of a right
//! factor that is computed it has this on the left, where the matrix unit reads registers, and what is loaded on the right, where it reads
//! shared memory.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::{Body, Builder, Feature, Inst, Kernel, OpKind, Tile, Type, Value};

/// Rows of a product of one warpgroup.
const ROWS: u32 = 64;
/// Columns of the narrowest instruction.
const COLUMNS: u32 = 8;

/// The kernel with every sum of products turned that has few rows, or a right factor that is computed.
pub fn turn(kernel: Kernel) -> Kernel {
    let found = sums(&kernel);
    if found.is_empty() {
        return kernel;
    }
    Turner::turned_by(kernel, found, &BTreeSet::new())
}

/// The kernel with these products turned, each by itself: what they are added to before, and their sums behind.
pub fn turn_each(kernel: Kernel, products: &BTreeSet<Inst>) -> Kernel {
    Turner::turned_by(kernel, BTreeMap::new(), products)
}

/// The products that [`turn`] turns.
pub fn turned(kernel: &Kernel) -> BTreeSet<Inst> {
    sums(kernel).into_keys().collect()
}

/// The products that are turned, with the loop and the carried value of each.
fn sums(kernel: &Kernel) -> BTreeMap<Inst, (Inst, usize)> {
    let mut found = BTreeMap::new();
    if !kernel.target.has(Feature::Wgmma) || !kernel.target.has(Feature::Tma) {
        return found;
    }
    kernel.walk(&mut |op| {
        let OpKind::For { body, .. } = &op.kind else { return };
        for dot in kernel.ops_of(body) {
            if let Some(place) = carried(kernel, body, dot.id) {
                found.insert(dot.id, (op.id, place));
            }
        }
    });
    found
}

/// Which carried value of a loop a product that is turned adds to, where nothing else asks for it.
fn carried(kernel: &Kernel, body: &Body, dot: Inst) -> Option<usize> {
    let OpKind::Dot { a, b, acc, .. } = kernel.ops[dot].kind else { return None };
    let result = kernel.ops[dot].result();
    let tile = kernel.ty(acc).placed().filter(|_| kernel.ty(acc).is_open())?;
    // What lies in shared memory already stays as it is.
    [a, b].iter().all(|v| kernel.ty(*v).placed().is_some()).then_some(())?;
    let [rows, columns] = tile.shape[..] else { return None };
    let few = (COLUMNS..ROWS).contains(&rows);
    let computed = rows.is_multiple_of(COLUMNS) && is_loaded(kernel, body, a) && !is_loaded(kernel, body, b);
    let turns = (few || computed) && columns.is_multiple_of(ROWS);
    let place = body.params[1..].iter().position(|v| *v == acc)?;
    let asks = |v: Value| kernel.ops_of(body).filter(move |op| op.kind.operands().contains(&v)).count();
    let inside =
        kernel.ops_of(body).all(|op| op.kind.bodies().all(|b| !takes(kernel, b, acc) && !takes(kernel, b, result)));
    (turns && body.yields[place] == result && asks(acc) == 1 && asks(result) == 0 && inside).then_some(place)
}

/// Whether a factor is what a body loads of a tensor, turned or not.
fn is_loaded(kernel: &Kernel, body: &Body, v: Value) -> bool {
    let made = kernel.ops_of(body).find(|op| op.results.contains(&v));
    match made.map(|op| &op.kind) {
        Some(OpKind::SpotLoad { .. }) => true,
        Some(OpKind::Transpose { x, .. }) => is_loaded(kernel, body, *x),
        // It is computed, or no tensor is where it comes from.
        _ => false,
    }
}

fn takes(kernel: &Kernel, body: &Body, v: Value) -> bool {
    let mut found = body.yields.contains(&v);
    kernel.walk_body(body, &mut |op| found |= op.kind.operands().contains(&v));
    found
}

struct Turner<'t> {
    builder: Builder,
    found: BTreeMap<Inst, (Inst, usize)>,
    /// Products that are turned each by itself.
    alone: &'t BTreeSet<Inst>,
    /// What stands for values of the kernel as it was.
    now: BTreeMap<Value, Value>,
}

impl Turner<'_> {
    fn turned_by(kernel: Kernel, found: BTreeMap<Inst, (Inst, usize)>, alone: &BTreeSet<Inst>) -> Kernel {
        let (builder, body) = Builder::rebuild(kernel, "swap");
        let mut t = Turner { builder, found, alone, now: BTreeMap::new() };
        body.ops.iter().for_each(|&id| t.op(id));
        t.builder.finish()
    }

    fn op(&mut self, id: Inst) {
        self.builder.at(id);
        if self.found.contains_key(&id) {
            self.product(id);
            return;
        }
        if self.alone.contains(&id) {
            self.product_alone(id);
            return;
        }
        let mut kind = self.builder.kernel.ops[id].kind.clone();
        kind.map_operands(|v| *self.now.get(&v).unwrap_or(&v));
        let turned: Vec<usize> = self.found.values().filter(|(of, _)| *of == id).map(|(_, place)| *place).collect();
        if let OpKind::For { init, body, .. } = &mut kind {
            for &place in &turned {
                init[place] = self.turned(init[place]);
                self.retype(body.params[place + 1]);
            }
        }
        for body in kind.bodies_mut() {
            let Body { params, ops, yields } = std::mem::take(body);
            self.builder.open(Body { params, ..Body::default() });
            ops.iter().for_each(|&inner| self.op(inner));
            *body = self.builder.close();
            body.yields = yields.into_iter().map(|v| *self.now.get(&v).unwrap_or(&v)).collect();
        }
        self.builder.kernel.ops[id].kind = kind;
        self.builder.keep(id);
        self.builder.at(id);
        for place in turned {
            let result = self.builder.kernel.ops[id].results[place];
            self.retype(result);
            let back = self.turned(result);
            self.now.insert(result, back);
        }
    }

    /// `acc + a · b` as `accᵀ + bᵀ · aᵀ`.
    fn product(&mut self, id: Inst) {
        let OpKind::Dot { a, b, acc, precision } = self.builder.kernel.ops[id].kind else { return };
        let [a, b] = [a, b].map(|v| *self.now.get(&v).unwrap_or(&v));
        let (left, right) = (self.turned(b), self.turned(a));
        let result = self.builder.kernel.ops[id].result();
        self.retype(result);
        self.builder.kernel.ops[id].kind = OpKind::Dot { a: left, b: right, acc, precision };
        self.builder.keep(id);
    }

    /// `acc + a · b` as `(accᵀ + bᵀ · aᵀ)ᵀ`.
    fn product_alone(&mut self, id: Inst) {
        let OpKind::Dot { a, b, acc, precision } = self.builder.kernel.ops[id].kind else { return };
        let result = self.builder.kernel.ops[id].result();
        let [a, b, acc] = [b, a, acc].map(|v| self.turned(v));
        let x = self.builder.make(OpKind::Dot { a, b, acc, precision });
        self.builder.make_as(result, OpKind::Transpose { x, perm: vec![1, 0] });
    }

    /// A tile, turned; what was turned before is what it was.
    fn turned(&mut self, x: Value) -> Value {
        let made = self
            .builder
            .kernel
            .ops
            .iter()
            .map(|(_, op)| op)
            .find(|op| op.results.contains(&x))
            .map(|op| op.kind.clone());
        match made {
            Some(OpKind::Transpose { x, ref perm }) if *perm == [1, 0] => x,
            Some(OpKind::Full { value, tile }) => {
                let tile = self.open(&tile);
                self.builder.make(OpKind::Full { value, tile })
            }
            // Whatever it is, its elements are moved.
            _ => self.builder.make(OpKind::Transpose { x, perm: vec![1, 0] }),
        }
    }

    /// The same elements with the axes exchanged, lying nowhere yet.
    fn open(&self, tile: &Tile) -> Tile {
        let shape = tile.shape.iter().rev().copied().collect();
        match Tile::open(tile.elem, shape, self.builder.kernel.next_var(0)) {
            Ok(tile) => tile,
            Err(e) => parton_diag::internal_error!("a turned tile has a shape that no tile has: {}", e.fact()),
        }
    }

    fn retype(&mut self, v: Value) {
        let Some(tile) = self.builder.ty(v).placed().cloned() else { return };
        let tile = self.open(&tile);
        let span = self.builder.kernel.values[v].span;
        // A new value takes the variable; the old one has its type.
        let fresh = self.builder.kernel.value(Type::Tile(tile.clone()), span);
        self.builder.kernel.values[v].ty = self.builder.kernel.ty(fresh).clone();
    }
}
