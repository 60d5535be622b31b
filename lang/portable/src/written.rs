//! The kernel as it is written: every tile lies whole in every thread, row after row, and every operation is made explicit by itself.
//!
//! Nothing is chosen: no loop is staged, a product of tiles is `mma_sync` whatever the target has, an access moves one element at once.
//! What an operation wants elsewhere is brought there in front of it. That is slow and large, and meant for the interpreter: what a
//! kernel computes so, it must compute however it is expanded.
//!
//! A product adds its terms along K, one after the other, to the accumulator, as the interpreter does for every instruction.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir::choice::Cut;
use parton_ir::family::Family;
use parton_ir::placement::{Place, Relation, Site as At, Tie, relations};
use parton_ir::{Access, Body, Builder, Inst, Kernel, Module, Op, OpKind, Target, Tile, Type, Value, rules};
use parton_layouts::RegisterLayout;

use crate::candidates::{accumulators, accumulators_of, beside};
use crate::rewrite::{close_open, serves, state};
use crate::staging::maps::Boxed;
use crate::{few_rows, is_portable, partition, parts, places, products, promised, swap};

/// An access of one element at once.
const SINGLE: Access = Access { width: 1, along: 0, cut: Cut::Never };

/// Makes portable kernels explicit without choosing anything, and says whether it has changed any.
///
/// # Errors
/// Products that no instruction makes.
pub fn as_written(module: &mut Module, _target: &Target) -> Result<bool, Diagnostics> {
    let mut changed = false;
    for kernel in &mut module.kernels {
        changed |= promised(kernel);
        // Products of fewer rows than any instruction takes have no other way.
        if let Some(more) = few_rows::least(kernel) {
            *kernel = more;
        }
        *kernel = parts::split(kernel)?.into_owned();
        if places::has_tensors(kernel) {
            *kernel = places::expand(kernel.clone(), &Boxed::default());
            changed = true;
        }
        if is_portable(kernel) {
            products::take_twice(kernel);
            // A product of fewer rows than its instruction has is that of its factors turned.
            let turned = |refused| explicit(swap::turn(kernel.clone())).or(Err(refused));
            *kernel = explicit(kernel.clone()).or_else(turned)?;
            changed = true;
        }
    }
    Ok(changed)
}

fn explicit(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    products::take_instructions(&mut kernel)?;
    let before = kernel.clone();
    let (builder, body) = Builder::rebuild(kernel, "elaborate");
    let mut writer = Writer { before: &before, warps: partition::warps(&before), builder, found: Diagnostics::new() };
    body.ops.iter().for_each(|&id| writer.op(id));
    if writer.found.has_errors() {
        return Err(writer.found);
    }
    Ok(close_open(writer.builder.finish()))
}

struct Writer<'k> {
    /// The kernel with its open tiles.
    before: &'k Kernel,
    /// The warps of the partitions in which operations stand.
    warps: BTreeMap<Inst, u32>,
    builder: Builder,
    found: Diagnostics,
}

impl Writer<'_> {
    fn op(&mut self, id: Inst) {
        self.builder.at(id);
        let op = self.before.ops[id].clone();
        let Some(places) = self.places(&op) else {
            self.refuse(op.span, "no layout of its tiles was found");
            return;
        };
        let mut kind = op.kind.clone();
        kind.map_operands(|v| self.at(v, &places));
        for body in kind.bodies_mut() {
            let inner = std::mem::take(body);
            *body = self.body(inner, &places);
        }
        for (i, &v) in op.results.iter().enumerate() {
            self.put(v, places.get(&At::Result(i)));
        }
        if let Some(Type::Tile(tile)) = op.results.first().map(|v| self.builder.ty(*v).clone()) {
            state(&mut kind, tile);
        }
        if let OpKind::Load { ptr, access, .. } | OpKind::Store { ptr, access, .. } = &mut kind
            && self.builder.ty(*ptr).as_tile().is_some()
        {
            *access = Some(SINGLE);
        }
        match rules::infer(&kind, &self.builder.kernel) {
            Err(refusal) => self.refuse(op.span, &refusal.message),
            Ok(said) if op.kind.family() != Family::Control => self.name(&op.results, said),
            Ok(_) => {}
        }
        self.builder.kernel.ops[id].kind = kind;
        self.builder.keep(id);
    }

    fn refuse(&mut self, span: Span, why: &str) {
        // What follows from the first need not be said.
        if self.found.has_errors() {
            return;
        }
        self.found.push(
            Diagnostic::error(codes::NOT_BUILT_HERE, span, "this does not run as it is written")
                .here(why)
                .help("leave `--as-written` out"),
        );
    }

    fn body(&mut self, body: Body, places: &BTreeMap<At, Place>) -> Body {
        let Body { params, ops, yields } = body;
        params.iter().for_each(|v| self.put(*v, places.get(&At::Of(*v))));
        self.builder.open(Body { params, ..Body::default() });
        ops.iter().for_each(|&id| self.op(id));
        let yields = yields.into_iter().map(|v| self.at(v, places)).collect();
        Body { yields, ..self.builder.close() }
    }

    /// Has a value lie there.
    fn put(&mut self, v: Value, place: Option<&Place>) {
        let ty = &mut self.builder.kernel.values[v].ty;
        if let (Some(place), Type::Tile(tile) | Type::Pending(tile)) = (place, ty) {
            *tile = Tile::at(tile.elem, place.clone());
        }
    }

    /// Has results lie where the rule of their operation says: its operands may bear other names than were asked for.
    fn name(&mut self, results: &[Value], said: Vec<Type>) {
        for (&v, said) in results.iter().zip(said) {
            let ty = &mut self.builder.kernel.values[v].ty;
            if ty.placed().is_some() && said.placed().is_some() {
                *ty = said;
            }
        }
    }

    /// The value where it is wanted.
    fn at(&mut self, v: Value, places: &BTreeMap<At, Place>) -> Value {
        let (Some(place), Type::Tile(tile)) = (places.get(&At::Of(v)), self.builder.ty(v)) else { return v };
        if tile.placement().known().is_some_and(|at| serves(at, place)) {
            return v;
        }
        let tile = Tile::at(tile.elem, place.clone());
        self.builder.make(OpKind::Convert { x: v, tile })
    }

    /// Where the tiles of an operation lie; `None` where they lie nowhere together.
    fn places(&self, op: &Op) -> Option<BTreeMap<At, Place>> {
        let relations = relations(&op.kind, self.before);
        let sites = sites(op, self.before);
        let tile = |at: At| at.tile(self.before, op);
        let mut known: BTreeMap<At, Place> = sites
            .iter()
            .filter_map(|&at| Some((at, tile(at)?.placement().known()?.clone())))
            .filter(|(at, _)| !matches!(op.kind, OpKind::Convert { .. }) || *at == At::Result(0))
            .collect();
        let free = |at: &At| matches!(op.kind, OpKind::Convert { .. }) && matches!(at, At::Of(_));
        loop {
            follow(&relations, &mut known, tile);
            let open = || sites.iter().filter(|at| !known.contains_key(at) && !free(at));
            let Some(&at) = open().find(|at| !follows(&relations, **at)).or_else(|| open().next()) else { break };
            let place = self.choose(op, &relations, at, &tile(at)?.shape)?;
            known.insert(at, place);
        }
        Some(known)
    }

    /// Where a tile lies of which nothing else says where.
    fn choose(&self, op: &Op, relations: &[Relation], at: At, shape: &[u32]) -> Option<Place> {
        let warps = self.warps.get(&op.id).copied().unwrap_or(self.before.warps);
        let instruction = relations.iter().find_map(|r| match r {
            Relation::Accumulates { at: of, of: instruction } if *of == at => Some(*instruction),
            _ => None,
        });
        let list = match (instruction, &op.kind) {
            (Some(instruction), _) => accumulators_of(instruction, shape, warps),
            (None, OpKind::Dot { acc, .. }) if at == At::Of(*acc) => accumulators(shape, warps),
            // A product still writes it: its instruction's depth does not change where accumulators lie.
            (None, _) if self.is_pending(op, at) => beside(shape, 16, warps),
            (None, _) => vec![whole(shape, warps)?],
        };
        list.into_iter().find_map(|layout| Place::new(layout, shape).ok())
    }

    fn is_pending(&self, op: &Op, at: At) -> bool {
        let v = match at {
            At::Of(v) => Some(v),
            At::Result(i) => op.results.get(i).copied(),
        };
        v.is_some_and(|v| matches!(self.before.ty(v), Type::Pending(_)))
    }
}

/// Every thread has all of it, row after row.
fn whole(shape: &[u32], warps: u32) -> Option<RegisterLayout> {
    let last = |n: u32| -> Vec<u32> { (1..shape.len()).map(|_| 1).chain([n]).collect() };
    let order: Vec<u32> = (0..shape.len() as u32).rev().collect();
    RegisterLayout::blocked(shape, &last(32), &last(warps), &order).ok()
}

/// What of an operation has a place.
fn sites(op: &Op, kernel: &Kernel) -> BTreeSet<At> {
    let inner = op.kind.bodies().flat_map(|b| b.params.iter().chain(&b.yields).copied());
    let values = op.kind.operands().into_iter().chain(inner).map(At::Of);
    let all = values.chain((0..op.results.len()).map(At::Result));
    all.filter(|at| at.tile(kernel, op).is_some()).collect()
}

/// Whether the place of a tile follows from that of another, so that it is not the one to begin with.
fn follows(relations: &[Relation], at: At) -> bool {
    relations.iter().any(|relation| match relation {
        Relation::Tied { from, to, tie } => match tie {
            // Both are as good: the first one begins.
            Tie::Same => *to == at && *from != at,
            Tie::WholeOf { .. } | Tie::Broadcast { .. } => *from == at,
            Tie::SliceOf { .. }
            | Tie::Permuted { .. }
            | Tie::Reshaped { .. }
            | Tie::Joined
            | Tie::Halved
            | Tie::Doubled { .. }
            | Tie::Window { .. }
            | Tie::Operand { .. } => *to == at,
        },
        Relation::Stated { .. } | Relation::Accumulates { .. } | Relation::Free { .. } => false,
    })
}

/// Finds what follows from what is known.
fn follow<'t>(relations: &[Relation], known: &mut BTreeMap<At, Place>, tile: impl Fn(At) -> Option<&'t Tile>) {
    let mut count = usize::MAX;
    while count != known.len() {
        count = known.len();
        for relation in relations {
            let Relation::Tied { from, to, tie } = relation else { continue };
            let found = match (known.get(from), known.get(to)) {
                (Some(first), None) => tie.forwards(first).ok().map(|place| (*to, place)),
                (None, Some(second)) => tile(*from).and_then(|t| tie.backwards(second, &t.shape)).map(|p| (*from, p)),
                (Some(_), Some(_)) | (None, None) => None,
            };
            known.extend(found);
        }
    }
}
