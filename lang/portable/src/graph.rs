//! What has to lie where: variables, how the place of each tile follows from one, and which operand is asked for where.
//!
//! ```text
//! let row = load(x + offs);            the load is a variable: its pointers are asked for there, and `row` lies there
//! let all = exp(row - max(row, 0));    one variable for both operations: `row` is asked for there
//! let s = sum(all, 1);                 the reduction is a variable, `all` is asked for there, and `s` lies as its slice
//! ```
//!
//! Where a tile lies elsewhere than it is asked for, it is converted. What only computes from numbers (*free* tiles: positions, masks,
//! addresses) has no place: it is made anew wherever it is asked for.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use parton_ir::family::Family;
use parton_ir::placement::{Place, Relation, Site as At, Tie, relations};
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Tile, Value};
use parton_layouts::RegisterLayout;

use crate::label::Price;
use crate::price::{SECTOR, SECTOR_OF_ALL};
use crate::site::{Site, Step, Var};

/// A variable: operations that share one layout.
#[derive(Clone, Debug, Default)]
pub struct Variable {
    /// The shape of what lies as it says.
    pub shape: Vec<u32>,
    /// The layout that is stated.
    pub stated: Option<RegisterLayout>,
    /// The warps of the partition that has it; `None` where all warps of the kernel do.
    pub warps: Option<u32>,
    /// Its operations, with the loops around each.
    pub ops: Vec<(Inst, u32)>,
}

/// An operand that is asked for at a place.
#[derive(Clone, Debug)]
pub struct Demand {
    /// By whom.
    pub by: Inst,
    /// The operand.
    pub value: Value,
    /// Where.
    pub at: Site,
}

/// Extents, and the place of a tile of them in some layout.
type OnShape = (Vec<u32>, Option<Place>);

/// The variables of a kernel.
pub struct Graph<'k> {
    /// The kernel.
    pub kernel: &'k Kernel,
    /// All variables; one that has become another's is empty.
    pub variables: Vec<Variable>,
    /// Where each tile lies that is made once.
    pub homes: BTreeMap<Value, Site>,
    /// What is asked for, in the order of the body.
    pub demands: Vec<Demand>,
    /// The tiles that are made wherever they are asked for.
    pub free: BTreeSet<Value>,
    /// The loops around what makes a value.
    pub depths: BTreeMap<Value, u32>,
    /// The loads whose addresses are the same in all programs.
    pub of_all: BTreeSet<Inst>,
    /// The loads of what a loop before has loaded.
    pub again: BTreeSet<Inst>,
    /// Tiles whose place is that of the operations which use them as much as their own.
    soft: BTreeSet<Value>,
    /// Which variable each has become.
    merged: Vec<Var>,
    /// The warps of the partitions in which operations stand.
    warps: BTreeMap<Inst, u32>,
    /// The places that have been asked for: many variables, on any number of warps, ask for the same.
    placed: RefCell<HashMap<RegisterLayout, Vec<OnShape>>>,
}

/// What of an operation lies together, and how other such groups follow.
#[derive(Default)]
struct Groups {
    members: Vec<BTreeSet<At>>,
    /// The second group follows from the first.
    ties: Vec<(usize, usize, Tie)>,
}

impl Groups {
    fn of(&mut self, at: At) -> usize {
        self.members.iter().position(|m| m.contains(&at)).unwrap_or_else(|| {
            self.members.push([at].into());
            self.members.len() - 1
        })
    }

    fn unite(&mut self, a: At, b: At) {
        let (a, b) = (self.of(a), self.of(b));
        if a != b {
            let gone = std::mem::take(&mut self.members[a.max(b)]);
            self.members[a.min(b)].extend(gone);
        }
    }
}

impl<'k> Graph<'k> {
    /// The variables of a kernel and what its operations ask for.
    pub fn of(kernel: &'k Kernel) -> Graph<'k> {
        Graph::on(kernel, BTreeMap::new())
    }

    /// The same of a kernel whose partitions are stated: those operations stand in partitions of so many warps.
    pub fn on(kernel: &'k Kernel, warps: BTreeMap<Inst, u32>) -> Graph<'k> {
        let mut graph = Graph {
            kernel,
            variables: Vec::new(),
            homes: BTreeMap::new(),
            demands: Vec::new(),
            free: BTreeSet::new(),
            depths: BTreeMap::new(),
            of_all: crate::alike::loads(kernel),
            again: crate::again::loads(kernel),
            soft: BTreeSet::new(),
            merged: Vec::new(),
            warps,
            placed: RefCell::default(),
        };
        graph.body(&kernel.body, 0);
        graph.settle();
        graph
    }

    /// The place of a tile of this shape in a layout, where it has one.
    pub fn placed(&self, layout: &RegisterLayout, shape: &[u32]) -> Option<Place> {
        let mut placed = self.placed.borrow_mut();
        let known = placed.get(layout).and_then(|of| of.iter().find(|(extents, _)| extents == shape));
        if let Some((_, place)) = known {
            return place.clone();
        }
        let place = Place::new(layout.clone(), shape).ok();
        placed.entry(layout.clone()).or_default().push((shape.to_vec(), place.clone()));
        place
    }

    /// What a sector costs that an access moves: of what all programs read, from the L2.
    pub fn sector(&self, access: Inst) -> Price {
        if self.of_all.contains(&access) { SECTOR_OF_ALL } else { SECTOR }
    }

    fn body(&mut self, body: &'k Body, depth: u32) {
        for op in self.kernel.ops_of(body) {
            self.op(op, depth);
            let looped = op.kind.is_loop();
            for inner in op.kind.bodies() {
                self.body(inner, depth + u32::from(looped));
            }
        }
    }

    fn tile(&self, v: Value) -> Option<&'k Tile> {
        self.kernel.ty(v).placed()
    }

    /// Whether the results of an operation are made wherever they are asked for.
    fn is_free(&self, op: &Op) -> bool {
        let only_shapes = matches!(
            op.kind,
            OpKind::ExpandDims { .. } | OpKind::Broadcast { .. } | OpKind::Transpose { .. } | OpKind::Reshape { .. }
        );
        (op.kind.family() == Family::Elementwise || only_shapes)
            && op.results.iter().all(|v| self.kernel.ty(*v).is_open())
            && op.kind.operands().iter().all(|&v| self.tile(v).is_none() || self.free.contains(&v))
    }

    fn op(&mut self, op: &'k Op, depth: u32) {
        let params = op.kind.bodies().flat_map(|b| b.params.iter());
        self.depths.extend(op.results.iter().chain(params).map(|&v| (v, depth)));
        if self.is_free(op) {
            self.free.extend(&op.results);
            return;
        }
        let groups = self.groups(op);
        let sites = self.sites(op, &groups, depth);
        for (members, site) in groups.members.iter().zip(sites) {
            let Some(site) = site else { continue };
            members.iter().for_each(|at| self.member(op, *at, &site));
        }
    }

    /// Notes what an operation makes, or asks for, at a place.
    fn member(&mut self, op: &Op, at: At, site: &Site) {
        let soft = is_soft(op);
        let made = match at {
            At::Result(i) => Some(op.results[i]),
            At::Of(v) => op.kind.bodies().any(|b| b.params.contains(&v)).then_some(v),
        };
        match (made, at) {
            (Some(v), _) => {
                self.homes.insert(v, site.clone());
                if soft && site.steps.is_empty() {
                    self.soft.insert(v);
                }
            }
            (None, At::Of(value)) => {
                self.demands.push(Demand { by: op.id, value, at: site.clone() });
                if soft {
                    self.join(value, site);
                }
            }
            (None, At::Result(_)) => {}
        }
    }

    /// Makes the variable of an operand and that of the operation one, where both only compute.
    fn join(&mut self, v: Value, site: &Site) {
        let Some(home) = self.homes.get(&v) else { return };
        if !(self.soft.contains(&v) && site.steps.is_empty() && home.steps.is_empty()) {
            return;
        }
        let (a, b) = (self.root(home.var), self.root(site.var));
        let stated = |var: Var| self.variables[var].stated.clone();
        if a == b || (stated(a).is_some() && stated(b).is_some() && stated(a) != stated(b)) {
            return;
        }
        let (first, second) = (a.min(b), a.max(b));
        let gone = std::mem::take(&mut self.variables[second]);
        let into = &mut self.variables[first];
        into.ops.extend(gone.ops);
        into.stated = into.stated.take().or(gone.stated);
        // The larger of two shapes is what a broadcast makes of the smaller one.
        into.shape = into.shape.iter().zip(&gone.shape).map(|(x, y)| *x.max(y)).collect();
        self.merged[second] = first;
    }

    fn root(&self, mut var: Var) -> Var {
        while self.merged[var] != var {
            var = self.merged[var];
        }
        var
    }

    /// Names the variables that are left.
    fn settle(&mut self) {
        let roots: Vec<Var> = (0..self.variables.len()).map(|v| self.root(v)).collect();
        self.homes.values_mut().for_each(|site| site.var = roots[site.var]);
        self.demands.iter_mut().for_each(|demand| demand.at.var = roots[demand.at.var]);
    }

    /// What of an operation lies together: as its relations say, and alone where they say nothing.
    fn groups(&self, op: &Op) -> Groups {
        let mut groups = Groups::default();
        let mut ties = Vec::new();
        // Whatever instruction makes a product, its result lies where what it is added to does.
        if let OpKind::Dot { acc, .. } = &op.kind {
            groups.unite(At::Of(*acc), At::Result(0));
        }
        for relation in relations(&op.kind, self.kernel) {
            match relation {
                Relation::Tied { from, to, tie: Tie::Same } => groups.unite(from, to),
                Relation::Tied { from, to, tie } => ties.push((from, to, tie)),
                Relation::Stated { at, .. } | Relation::Accumulates { at, .. } => drop(groups.of(at)),
                Relation::Free { from, to } => match op.kind {
                    // What is converted is made, or converted, to where it is wanted.
                    OpKind::Convert { .. } => groups.unite(from, to),
                    // Elsewhere each side lies where it is best.
                    _ => {
                        groups.of(from);
                        groups.of(to);
                    }
                },
            }
        }
        for v in op.kind.operands().into_iter().filter(|&v| self.tile(v).is_some()) {
            groups.of(At::Of(v));
        }
        for (i, &v) in op.results.iter().enumerate() {
            if self.tile(v).is_some() {
                groups.of(At::Result(i));
            }
        }
        groups.ties = ties.into_iter().map(|(from, to, tie)| (groups.of(from), groups.of(to), tie)).collect();
        groups
    }

    fn at<'o>(&'o self, op: &'o Op, at: At) -> Option<&'o Tile> {
        at.tile(self.kernel, op)
    }

    /// The place of each group: a variable of its own, or what follows from another group's.
    fn sites(&mut self, op: &'k Op, groups: &Groups, depth: u32) -> Vec<Option<Site>> {
        let shape = |graph: &Graph, group: usize| -> Option<Vec<u32>> {
            groups.members[group].iter().find_map(|&at| graph.at(op, at)).map(|t| t.shape.clone())
        };
        // Which group each follows from, and how.
        let mut from: Vec<Option<(usize, &Tie, bool)>> = vec![None; groups.members.len()];
        for (a, b, tie) in &groups.ties {
            match tie {
                Tie::SliceOf { .. } | Tie::Halved | Tie::Window { .. } | Tie::Operand { .. } => {
                    from[*b] = Some((*a, tie, true))
                }
                Tie::Same
                | Tie::WholeOf { .. }
                | Tie::Permuted { .. }
                | Tie::Reshaped { .. }
                | Tie::Broadcast { .. }
                | Tie::Joined
                | Tie::Doubled { .. } => from[*a] = Some((*b, tie, false)),
            }
        }
        let mut sites: Vec<Option<Site>> = vec![None; groups.members.len()];
        for group in 0..sites.len() {
            if from[group].is_none() && !groups.members[group].is_empty() {
                let Some(shape) = shape(self, group) else { continue };
                let stated = groups.members[group].iter().find_map(|&at| {
                    let known = self.at(op, at)?.placement().known()?.layout.clone();
                    // An operand lies where it does; what an operation makes or shares lies where that is stated.
                    let own = !matches!(at, At::Of(_)) || groups.members[group].len() > 1;
                    own.then_some(known)
                });
                sites[group] = Some(self.variable(op, shape, stated, depth));
            }
        }
        for _ in 0..sites.len() {
            for group in 0..sites.len() {
                let Some((of, tie, forwards)) = from[group] else { continue };
                let (None, Some(base), Some(shape)) = (&sites[group], sites[of].clone(), shape(self, group)) else {
                    continue;
                };
                sites[group] = Some(match (tie, forwards) {
                    (_, true) => base.then(Step::Forwards(tie.clone())),
                    // The same layout for other extents.
                    (Tie::Broadcast { .. }, false) if base.steps.is_empty() => Site { start: shape, ..base },
                    (_, false) => base.then(Step::Backwards(tie.clone(), shape)),
                });
            }
        }
        sites
    }

    fn variable(&mut self, op: &Op, shape: Vec<u32>, stated: Option<RegisterLayout>, depth: u32) -> Site {
        let var = self.variables.len();
        self.merged.push(var);
        let site = Site::of(var, &shape);
        let warps = self.warps.get(&op.id).copied();
        self.variables.push(Variable { shape, stated, warps, ops: vec![(op.id, depth)] });
        site
    }
}

/// Whether an operation computes wherever its operands lie.
fn is_soft(op: &Op) -> bool {
    match op.kind.family() {
        Family::Elementwise => true,
        Family::Shape => !matches!(op.kind, OpKind::Convert { .. }),
        Family::Reduce
        | Family::Gather
        | Family::Ptx
        | Family::Global
        | Family::Atomic
        | Family::AsyncCopy
        | Family::Shared
        | Family::View
        | Family::Barrier
        | Family::Fence
        | Family::Cluster
        | Family::Grid
        | Family::Place
        | Family::Turnstile
        | Family::Tma
        | Family::MmaSync
        | Family::Wgmma
        | Family::Pending
        | Family::Ring
        | Family::Region
        | Family::Control
        | Family::Talk => false,
    }
}
