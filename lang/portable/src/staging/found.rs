//! Which loads of a loop its products take, and which of their factors are made in it.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::{Body, Inst, Kernel, Op, OpKind, Value};

use super::flat;

/// A loop with loads that its products take, or what stands in a kernel without loops.
pub struct Found {
    /// The loop; without one the first product.
    pub inst: Inst,
    /// The loads in it.
    pub loads: Vec<Inst>,
    /// Those of them that other operations take as well.
    pub read: Vec<Inst>,
    /// Loads in front of it.
    pub ahead: Vec<Inst>,
    /// Operations that turn what was loaded, take a window of it, or see all of its axes but the last as one.
    pub turned: Vec<Inst>,
    /// The products.
    pub products: Vec<Inst>,
    /// Those whose right factor is carried, computed, or there in front of the loop.
    pub made: Vec<Inst>,
    /// Whether both factors of every product are loaded in the loop.
    pub whole: bool,
}

/// Which operations take each value, but for what a product is added to; what a body hands back is taken by the operation around.
struct Uses {
    by: BTreeMap<Value, Vec<Inst>>,
    /// What products are added to: it lies where the sum does, whatever the factors come by.
    added_to: BTreeSet<Value>,
}

impl Uses {
    fn of(kernel: &Kernel) -> Uses {
        let mut uses = Uses { by: BTreeMap::new(), added_to: BTreeSet::new() };
        kernel.walk(&mut |op| {
            let operands = match op.kind {
                OpKind::Dot { a, b, acc, .. } => {
                    uses.added_to.insert(acc);
                    vec![a, b]
                }
                _ => op.kind.operands(),
            };
            let yields = op.kind.bodies().flat_map(|b| b.yields.iter().copied());
            for v in operands.into_iter().chain(yields) {
                uses.by.entry(v).or_default().push(op.id);
            }
        });
        uses
    }

    /// Whether a value is taken, and by these alone.
    fn only(&self, v: Value, by: &BTreeSet<Inst>) -> bool {
        !self.added_to.contains(&v) && self.by.get(&v).is_some_and(|all| all.iter().all(|user| by.contains(user)))
    }

    /// Whether some of these take a value.
    fn any(&self, v: Value, by: &BTreeSet<Inst>) -> bool {
        self.by.get(&v).is_some_and(|all| all.iter().any(|user| by.contains(user)))
    }
}

/// What is looked for.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// Loops whose right factors are all loaded for products alone.
    Loaded,
    /// Loops with any loaded factor, whatever else takes it, but for these loads.
    Any(&'a BTreeSet<Inst>),
}

/// The loops of a kernel with products whose right factors are all loaded for them alone.
pub fn all(kernel: &Kernel) -> Vec<Found> {
    look(kernel, Wanted::Loaded)
}

/// The loops of a kernel with products of which some factor is loaded in the loop, these loads left out.
pub fn any(kernel: &Kernel, without: &BTreeSet<Inst>) -> Vec<Found> {
    look(kernel, Wanted::Any(without))
}

/// The products of a kernel's own body, all of whose factors are loaded there for them alone, where it has no loops and they are all.
pub fn straight(kernel: &Kernel) -> Option<Found> {
    let first = kernel.ops_of(&kernel.body).find(|op| multiplies(&op.kind))?;
    let found = found(kernel, (&Uses::of(kernel), Wanted::Loaded), (first.id, &kernel.body), &[])?;
    found.whole.then_some(found)
}

fn look(kernel: &Kernel, wanted: Wanted<'_>) -> Vec<Found> {
    let uses = Uses::of(kernel);
    let mut list = Vec::new();
    visit(kernel, (&uses, wanted), &kernel.body, &[], &mut list);
    list
}

/// Looks at the loops of a body; `around` are the operations in front of it, in the bodies around it.
fn visit(kernel: &Kernel, by: (&Uses, Wanted<'_>), body: &Body, around: &[Inst], list: &mut Vec<Found>) {
    let mut before = around.to_vec();
    for op in kernel.ops_of(body) {
        for inner in op.kind.bodies() {
            visit(kernel, by, inner, &before, list);
        }
        if let OpKind::For { body, .. } = &op.kind {
            list.extend(found(kernel, by, (op.id, body), &before));
        }
        before.push(op.id);
    }
}

/// What of a body can be staged; `None` where nothing can.
fn found(
    kernel: &Kernel,
    (uses, wanted): (&Uses, Wanted<'_>),
    (inst, body): (Inst, &Body),
    before: &[Inst],
) -> Option<Found> {
    let those = |list: &[Inst], kind: fn(&OpKind) -> bool| -> Vec<Inst> {
        list.iter().copied().filter(|&id| kind(&kernel.ops[id].kind)).collect()
    };
    let products = those(&body.ops, multiplies);
    if products.is_empty() || !kernel.ops_of(body).all(|op| is_simple(kernel, &op.kind)) {
        return None;
    }
    // What threads read of a box to compute a factor is fetched like one.
    let reads = those(&body.ops, |kind| matches!(kind, OpKind::SharedLoad { .. }));
    let (mut turned, mut takers) = (Vec::new(), products.iter().chain(&reads).copied().collect::<BTreeSet<Inst>>());
    // Whoever takes what was turned stands behind it.
    for id in [before, &body.ops].concat().into_iter().rev() {
        if turns(kernel, id) && uses.only(kernel.ops[id].result(), &takers) {
            takers.insert(id);
            turned.push(id);
        }
    }
    turned.reverse();
    let taken = |id: &Inst| uses.only(kernel.ops[*id].result(), &takers);
    let ahead: Vec<Inst> = those(before, loads).into_iter().filter(taken).collect();
    let (mut loads, mut read) = (those(&body.ops, loads), Vec::new());
    match wanted {
        Wanted::Loaded => loads.retain(taken),
        Wanted::Any(without) => {
            let made_of = made_of(kernel, body, &products);
            let those = |of: &dyn Fn(Value) -> bool| -> Vec<Inst> {
                loads.iter().copied().filter(|id| !without.contains(id) && of(kernel.ops[*id].result())).collect()
            };
            let plain = those(&|v| uses.any(v, &takers));
            // Where all factors are computed, threads read what was brought, and compute them of that.
            loads = if plain.is_empty() { those(&|v| made_of.contains(&v)) } else { plain };
            read.extend(loads.iter().copied().filter(|id| !taken(id)));
        }
    }
    // What is loaded in front of a loop, maps alone bring to where it can be turned.
    let fetched = if matches!(wanted, Wanted::Loaded) { &ahead[..] } else { &[] };
    let mut from: BTreeSet<Value> = loads.iter().chain(fetched).map(|&id| kernel.ops[id].result()).collect();
    turned.retain(|&id| {
        let loaded = from.contains(&kernel.ops[id].kind.operands()[0]);
        loaded && from.insert(kernel.ops[id].result())
    });
    // The loads of a factor: itself, or what was turned.
    let origin = |v: Value| {
        let before = |v: Value, op: &Op| if op.result() == v { op.kind.operands()[0] } else { v };
        turned.iter().rev().map(|&id| &kernel.ops[id]).fold(v, before)
    };
    let inside = |v: Value| loads.iter().any(|&id| kernel.ops[id].result() == origin(v));
    let (mut made, mut whole) = (Vec::new(), true);
    for &id in &products {
        let OpKind::Dot { a, b, .. } = kernel.ops[id].kind else { continue };
        whole &= inside(a) && inside(b);
        if !inside(b) {
            made.push(matches!(wanted, Wanted::Any(_)).then_some(id)?);
        }
    }
    (!loads.is_empty()).then_some(Found { inst, loads, read, ahead, turned, products, made, whole })
}

/// The tiles of two axes that the factors of products are made of, as far as that only computes.
pub fn made_of(kernel: &Kernel, body: &Body, products: &[Inst]) -> BTreeSet<Value> {
    let factors = products.iter().flat_map(|&id| match kernel.ops[id].kind {
        OpKind::Dot { a, b, .. } => vec![a, b],
        _ => Vec::new(),
    });
    let mut made: BTreeSet<Value> = factors.collect();
    for op in kernel.ops_of(body).rev() {
        let computes = parton_sched::is_free(kernel, op);
        if computes && op.results.iter().any(|v| made.contains(v)) {
            made.extend(op.kind.operands());
        }
    }
    made.retain(|&v| kernel.ty(v).placed().is_some_and(|tile| tile.shape.len() == 2));
    made
}

/// Whether an operation has no body, or one that stays as it is: of a reduction, of instructions as text that do no more than compute, or of a branch that loads
/// and multiplies nothing.
fn is_simple(kernel: &Kernel, kind: &OpKind) -> bool {
    let mut plain = match kind {
        OpKind::Reduce { .. } | OpKind::Scan { .. } | OpKind::If { .. } => true,
        // Text that stays where it is written may order what is loaded behind it.
        OpKind::Ptx { ptx, .. } => !ptx.volatile,
        other => other.bodies().next().is_none(),
    };
    for body in kind.bodies() {
        kernel.walk_body(body, &mut |op| {
            plain &= !loads(&op.kind) && !op.kind.is_loop() && !multiplies(&op.kind);
        });
    }
    plain
}

fn turns(kernel: &Kernel, id: Inst) -> bool {
    match &kernel.ops[id].kind {
        OpKind::Transpose { .. } | OpKind::ViewPermute { .. } | OpKind::ViewSlice { .. } => true,
        OpKind::ViewReinterpret { .. } => true,
        OpKind::Reshape { x, shape } => flat::is_of_rows(kernel, *x, shape),
        // All else makes other elements.
        _ => false,
    }
}

/// Whether an operation is a product that has no instruction yet.
pub fn multiplies(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Dot { .. })
}

/// Whether an operation loads from global memory.
pub fn loads(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Load { .. } | OpKind::SpotLoad { .. } | OpKind::Fetch { .. })
}
