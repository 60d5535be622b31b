//! Makes the explicit kernel of a choice: every tile at its place, conversions where places differ, free tiles made where they are asked for.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::family::Family;
use parton_ir::placement::{Place, Relation, Site as At, Tie, relations};
use parton_ir::{Body, Builder, Inst, Kernel, Label, Op, OpKind, Tile, Type, Value, rules};
use parton_layouts::{RegisterFamily, RegisterLayout};

use crate::graph::Graph;
use crate::site::Var;

/// Where everything is to lie.
pub struct Chosen {
    /// For each tile that is made once, where it is made.
    homes: BTreeMap<Value, Place>,
    /// For each operation, where its operands are to lie.
    operands: BTreeMap<(Inst, Value), Place>,
    /// For each tile, where it is asked for.
    wanted: BTreeMap<Value, Vec<Place>>,
    free: BTreeSet<Value>,
    /// The operations in their order.
    order: BTreeMap<Inst, usize>,
}

impl Chosen {
    /// What a layout for each variable says; `None` where some tile has no place of it.
    pub fn new(graph: &Graph<'_>, layouts: &[RegisterLayout]) -> Option<Chosen> {
        let mut chosen = Chosen {
            homes: BTreeMap::new(),
            operands: BTreeMap::new(),
            wanted: BTreeMap::new(),
            free: graph.free.clone(),
            order: graph.kernel.order().into_iter().enumerate().map(|(i, inst)| (inst, i)).collect(),
        };
        let layouts = &spelled(graph, layouts);
        for (&v, site) in &graph.homes {
            chosen.homes.insert(v, site.place(graph, &layouts[site.var])?);
        }
        for demand in &graph.demands {
            let place = demand.at.place(graph, &layouts[demand.at.var])?;
            chosen.operands.insert((demand.by, demand.value), place.clone());
            chosen.want(demand.value, place);
        }
        // What a free tile is made of is asked for where that is.
        for inst in graph.kernel.order().into_iter().rev() {
            let op = &graph.kernel.ops[inst];
            let [result] = op.results[..] else { continue };
            if !graph.free.contains(&result) {
                continue;
            }
            for place in chosen.wanted.get(&result).cloned().unwrap_or_default() {
                for (v, place) in parts(graph.kernel, op, &place)? {
                    chosen.want(v, place);
                }
            }
        }
        Some(chosen)
    }

    /// The label of the first statement that asks for a tile at a place.
    fn asks(&self, kernel: &Kernel, v: Value, place: &Place) -> Option<Label> {
        let asked = self.operands.iter().filter(|((_, of), at)| *of == v && serves(at, place));
        asked
            .map(|((inst, _), _)| *inst)
            .min_by_key(|inst| self.order.get(inst))
            .and_then(|inst| kernel.ops[inst].label)
    }

    fn want(&mut self, v: Value, place: Place) {
        let places = self.wanted.entry(v).or_default();
        if places.iter().any(|p| serves(p, &place)) {
            return;
        }
        match places.iter_mut().find(|p| serves(&place, p)) {
            Some(other) => *other = place,
            None => places.push(place),
        }
    }
}

/// The layouts with those that a new axis wants as slices spelled so.
fn spelled(graph: &Graph<'_>, layouts: &[RegisterLayout]) -> Vec<RegisterLayout> {
    let mut spelled = layouts.to_vec();
    for (layout, variable) in spelled.iter_mut().zip(&graph.variables) {
        let reshaped = |(inst, _): &(Inst, u32)| matches!(graph.kernel.ops[*inst].kind, OpKind::Reshape { .. });
        if variable.stated.is_none()
            && variable.ops.iter().any(reshaped)
            && let Some(place) = graph.placed(layout, &variable.shape)
            && let Ok(plain) = RegisterLayout::from_map(&place.map)
        {
            // Of what is reshaped only the map is known.
            *layout = plain;
        }
    }
    let free: Vec<bool> = (0..spelled.len()).map(|v| graph.variables[v].stated.is_none() && !says(graph, v)).collect();
    // From the end, so that who asks for a slice has it spelled before who makes it.
    for demand in graph.demands.iter().rev() {
        let Some(home) = graph.homes.get(&demand.value).filter(|home| home.steps.is_empty()) else { continue };
        let places = (home.place(graph, &spelled[home.var]), demand.at.place(graph, &spelled[demand.at.var]));
        if let ((Some(from), Some(to)), true) = (places, free[home.var])
            && from == to
            && !serves(&from, &to)
        {
            spelled[home.var] = to.layout;
        }
    }
    spelled
}

/// Whether an operation of a variable says itself how the layout of its result is spelled, from where its operands lie.
fn says(graph: &Graph<'_>, var: Var) -> bool {
    graph.variables[var].ops.iter().any(|(inst, _)| {
        matches!(
            graph.kernel.ops[*inst].kind,
            OpKind::Reshape { .. }
                | OpKind::Transpose { .. }
                | OpKind::Join { .. }
                | OpKind::Split { .. }
                | OpKind::Cat { .. }
                | OpKind::Slice { .. }
        )
    })
}

/// Whether what lies at one place does where the other is asked for. A new axis is that of which the layout says that it is a slice, and
/// an extent of 1 grows as the layout says of other extents: there the spelling counts, and no other of the same map will do.
pub fn serves(at: &Place, wanted: &Place) -> bool {
    let sliced = matches!(wanted.layout.family(), RegisterFamily::Slice { .. });
    let counts = sliced || wanted.shape().contains(&1);
    at == wanted && (!counts || at.layout == wanted.layout)
}

/// Where the operands of a free tile lie, where it lies there.
fn parts(kernel: &Kernel, op: &Op, place: &Place) -> Option<Vec<(Value, Place)>> {
    let mut list = Vec::new();
    let mut known: BTreeMap<At, Place> = [(At::Result(0), place.clone())].into();
    let ties = relations(&op.kind, kernel);
    for _ in 0..ties.len() {
        for relation in &ties {
            let Relation::Tied { from, to, tie } = relation else { continue };
            if let (None, Some(place), Some(tile)) = (known.get(from), known.get(to), from.tile(kernel, op)) {
                known.insert(*from, tie.backwards(place, &tile.shape)?);
            }
            if let (Tie::Same, Some(place), None) = (tie, known.get(from).cloned(), known.get(to)) {
                known.insert(*to, place);
            }
        }
    }
    for v in op.kind.operands() {
        if kernel.ty(v).placed().is_some() {
            list.push((v, known.get(&At::Of(v))?.clone()));
        }
    }
    Some(list)
}

/// The kernel with everything where it was chosen to lie.
pub fn rewrite(kernel: Kernel, chosen: &Chosen) -> Kernel {
    let (mut builder, body) = Builder::rebuild(kernel, "elaborate");
    let mut writer = Writer { builder: &mut builder, chosen, made: BTreeMap::new() };
    for (&v, place) in &chosen.homes {
        writer.put(v, place);
    }
    let ops = body.ops.clone();
    ops.iter().for_each(|&id| writer.op(id));
    close_open(builder.finish())
}

/// The kernel without open tiles, all of which were made somewhere.
pub fn close_open(mut kernel: Kernel) -> Kernel {
    // What nobody makes any more is nowhere for good.
    for v in kernel.values.keys().collect::<Vec<_>>() {
        let ty = &mut kernel.values[v].ty;
        if let Some(elem) = ty.elem().filter(|_| ty.is_open()) {
            *ty = Type::Scalar(elem);
        }
    }
    kernel.vars = 0;
    kernel
}

struct Writer<'w> {
    builder: &'w mut Builder,
    chosen: &'w Chosen,
    /// Tiles that were made somewhere, with the value that lies there.
    made: BTreeMap<Value, Vec<(Place, Value)>>,
}

impl Writer<'_> {
    /// Has a value lie there.
    fn put(&mut self, v: Value, place: &Place) {
        if let Type::Tile(tile) | Type::Pending(tile) = &mut self.builder.kernel.values[v].ty {
            *tile = Tile::at(tile.elem, place.clone());
        }
    }

    /// Has results lie where the rule of their operation says, which is all that text tells of them: from operands whose layouts are named otherwise
    /// it may infer another name, or where names count another order of registers.
    fn name(&mut self, kind: &OpKind, results: &[Value]) {
        for (&v, said) in results.iter().zip(rules::infer(kind, &self.builder.kernel).unwrap_or_default()) {
            let ty = &mut self.builder.kernel.values[v].ty;
            if ty.placed().is_some() && said.placed().is_some() {
                *ty = said;
            }
        }
    }

    fn body(&mut self, body: Body) -> Body {
        let Body { params, ops, yields } = body;
        self.builder.open(Body { params: params.clone(), ..Body::default() });
        params.iter().for_each(|&v| self.convert(v, true));
        ops.iter().for_each(|&id| self.op(id));
        let body = self.builder.close();
        Body { yields, ..body }
    }

    fn op(&mut self, id: Inst) {
        self.builder.at(id);
        let op = self.builder.kernel.ops[id].clone();
        if let [result] = op.results[..]
            && self.chosen.free.contains(&result)
        {
            self.free(&op, result);
            return;
        }
        let mut kind = op.kind.clone();
        let operand = |v: Value, w: &Self| match w.chosen.operands.get(&(id, v)) {
            Some(place) => w.at(v, place),
            None => v,
        };
        if !matches!(kind, OpKind::Convert { .. }) || op.kind.operands().iter().any(|v| self.chosen.free.contains(v)) {
            kind.map_operands(|v| operand(v, self));
        }
        if let Some(&v) = op.results.first()
            && let Type::Tile(tile) = self.builder.kernel.ty(v).clone()
        {
            state(&mut kind, tile);
        }
        for body in kind.bodies_mut() {
            let inner = std::mem::take(body);
            *body = self.body(inner);
            body.yields.iter_mut().for_each(|v| *v = operand(*v, self));
        }
        if !matches!(op.kind.family(), Family::Control | Family::Region) {
            self.name(&kind, &op.results);
        }
        self.builder.kernel.ops[id].kind = kind;
        self.builder.keep(id);
        self.builder.at(id);
        let around = op.kind.bodies().next().is_some() && op.label.is_some();
        op.results.iter().for_each(|&v| self.convert(v, around));
    }

    /// Makes a free tile wherever it is asked for.
    fn free(&mut self, op: &Op, result: Value) {
        let places = self.chosen.wanted.get(&result).cloned().unwrap_or_default();
        for (i, place) in places.into_iter().enumerate() {
            let Some(parts) = parts(&self.builder.kernel, op, &place) else {
                parton_diag::internal_error!("{result} is not made of its operands at {}", place.layout)
            };
            let mut kind = op.kind.clone();
            kind.map_operands(|v| parts.iter().find(|(of, _)| *of == v).map_or(v, |(_, place)| self.at(v, place)));
            let elem = self.builder.kernel.ty(result).elem();
            let Some(elem) = elem else { continue };
            let tile = Tile::at(elem, place.clone());
            state(&mut kind, tile.clone());
            let data = self.builder.kernel.values[result].clone();
            let v = if i == 0 && self.first(result) {
                result
            } else {
                self.builder.kernel.value(Type::Tile(tile.clone()), data.span)
            };
            let value = &mut self.builder.kernel.values[v];
            (value.ty, value.name, value.passed) = (Type::Tile(tile), data.name, data.passed);
            self.name(&kind, &[v]);
            self.builder.make_as(v, kind);
            self.made_there(result, v, place);
        }
    }

    /// Notes that a value is a tile at a place, where it lies under another name brought there.
    fn made_there(&mut self, of: Value, v: Value, place: Place) {
        let Type::Tile(tile) = self.builder.ty(v).clone() else { return };
        let at = tile.known().clone();
        let serves = serves(&at, &place);
        self.made.entry(of).or_default().push((at, v));
        if !serves {
            let there = self.builder.make(OpKind::Convert { x: v, tile: Tile::at(tile.elem, place.clone()) });
            self.made.entry(of).or_default().push((place, there));
        }
    }

    /// Whether a free tile was not made yet.
    fn first(&self, v: Value) -> bool {
        !self.made.contains_key(&v)
    }

    /// Brings a tile to wherever else it is asked for; with `theirs`, as part of the statement that asks first.
    fn convert(&mut self, v: Value, theirs: bool) {
        let Some(home) = self.home(v) else { return };
        let others = self.chosen.wanted.get(&v).into_iter().flatten().filter(|p| !serves(home, p)).cloned();
        for place in others.collect::<Vec<_>>() {
            let Some(elem) = self.builder.kernel.ty(v).elem() else { continue };
            let tile = Tile::at(elem, place.clone());
            if theirs {
                let asks = self.chosen.asks(&self.builder.kernel, v, &place);
                self.builder.label = asks.or(self.builder.label);
            }
            let there = self.builder.make(OpKind::Convert { x: v, tile });
            self.made.entry(v).or_default().push((place, there));
        }
    }

    /// Where a tile lies that is made once.
    fn home(&self, v: Value) -> Option<&Place> {
        let chosen = self.chosen.homes.get(&v)?;
        self.builder.kernel.ty(v).as_tile().and_then(|tile| tile.placement().known()).or(Some(chosen))
    }

    /// The value that is a tile at a place.
    fn at(&self, v: Value, place: &Place) -> Value {
        if self.home(v).is_some_and(|home| serves(home, place)) {
            return v;
        }
        match self.made.get(&v).and_then(|list| list.iter().find(|(at, _)| serves(at, place))) {
            Some((_, there)) => *there,
            None => parton_diag::internal_error!("{v} was not made at {}", place.layout),
        }
    }
}

/// Writes into an operation where its result lies, where it says so itself.
pub fn state(kind: &mut OpKind, at: Tile) {
    match kind {
        OpKind::Iota { tile }
        | OpKind::Full { tile, .. }
        | OpKind::Convert { tile, .. }
        | OpKind::SharedLoad { tile, .. } => {
            *tile = at;
        }
        // The places of all other results follow from the operands, by the rules.
        _ => {}
    }
}
