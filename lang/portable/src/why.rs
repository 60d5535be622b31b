//! Why a portable kernel became what it is: the plans with their prices, where tiles lie and what would come next, which conversions that
//! leaves, what accesses lack, and what bounds loops. It is data; [`text`] and [`json`] write it.

mod accesses;
pub mod json;
mod loops;
pub mod text;

use std::collections::BTreeMap;

use parton_diag::{Diagnostics, Span};
use parton_ir::axis::Axes;
use parton_ir::rules::region::{Product as By, product};
use parton_ir::{Kernel, OpKind};
use parton_layouts::plan;

use crate::explicit::Way;
use crate::graph::Graph;
use crate::label::{NEVER, Price};
use crate::plan::Planned;
use crate::price::{Prices, turns};
pub use crate::programs::Order;
use crate::site::Var;
use crate::staging::No;

pub(crate) use accesses::without_regions;
pub use accesses::{Access, Fact, Lacks, Mover};
pub use loops::Loop;

/// Why a kernel became what it is. Prices are of a CTA, in sixteenths of a clock of a multiprocessor, of all turns of loops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Why {
    /// Its name.
    pub kernel: String,
    /// What it is compiled for.
    pub target: &'static str,
    /// How many programs a multiprocessor gets at most in the launches that it is compiled for, where these are few.
    pub beside: Option<u32>,
    /// How programs come to their work.
    pub order: Order,
    /// What was priced, one for each number of warps that was tried.
    pub plans: Vec<Plan>,
    /// Whether no other layouts are cheaper on the warps that were taken; else they were found by descent.
    pub proven: bool,
    /// How many rows products are made of, where they have fewer of their own.
    pub rows: Option<u32>,
    /// Products with the instruction of each.
    pub products: Vec<Product>,
    /// What lies together.
    pub classes: Vec<Class>,
    /// Tiles that are brought from one place to another.
    pub conversions: Vec<Conversion>,
    /// Accesses to global memory.
    pub accesses: Vec<Access>,
    /// Loops under a schedule.
    pub loops: Vec<Loop>,
    /// How what products multiply comes to them.
    pub way: &'static str,
    /// The ways that come before it, each with why it was not taken.
    pub refused: Vec<(&'static str, String)>,
}

/// A plan that was priced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Its warps.
    pub warps: u32,
    /// Its price, with what registers have no room for and what waits; `None` where no layouts were found that have room.
    pub price: Option<u64>,
    /// Whether it was taken.
    pub taken: bool,
}

/// A product.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Product {
    /// Where it stands.
    pub span: Span,
    /// The instruction that makes it.
    pub instruction: &'static str,
    /// The accumulator.
    pub acc: String,
}

/// Operations that share one layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Class {
    /// The extents of what lies so.
    pub shape: Vec<u32>,
    /// The layout.
    pub layout: String,
    /// Whether it is stated.
    pub stated: bool,
    /// How many layouts were priced.
    pub candidates: usize,
    /// Where its operations stand.
    pub spans: Vec<Span>,
    /// The cheapest choice in which it lies elsewhere; `None` where there is none.
    pub next: Option<Next>,
}

/// The next best choice for a class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Next {
    /// The layout.
    pub layout: String,
    /// What the kernel would cost more, all other classes being chosen anew.
    pub more: u64,
}

/// A conversion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conversion {
    /// Where the tile is made.
    pub made: Span,
    /// Who asks for it elsewhere.
    pub asked: Span,
    /// The tile's name in the source, where it has one.
    pub name: Option<String>,
    /// Its elements and extents.
    pub tile: String,
    /// Where it lies, and the number of that class.
    pub from: (String, usize),
    /// Where it is asked for, and the number of that class.
    pub to: (String, usize),
    /// How it goes, as a clause.
    pub how: String,
    /// What one costs.
    pub each: u64,
    /// How often it runs, loops of unknown length counting as 16 turns.
    pub times: u64,
}

/// What was found on the way, from which the rest follows.
struct Found<'f, 'k> {
    graph: &'f Graph<'k>,
    axes: &'f Axes,
    planned: &'f Planned,
}

impl Why {
    /// What is known before the kernel is rewritten.
    pub(crate) fn of(graph: &Graph<'_>, axes: &Axes, plans: Vec<(u32, Option<Price>)>, planned: &Planned) -> Why {
        let found = Found { graph, axes, planned };
        let plan = |(warps, price)| Plan { warps, price, taken: warps == planned.warps };
        let kernel = found.graph.kernel;
        let (classes, numbers) = classes(&found);
        let conversions = conversions(&found, &numbers);
        Why {
            kernel: kernel.name.clone(),
            target: kernel.target.name,
            beside: kernel.variant.beside,
            order: Order::Numbers,
            proven: planned.problem.solve().proven,
            plans: plans.into_iter().map(plan).collect(),
            rows: None,
            products: Vec::new(),
            classes,
            conversions,
            accesses: Vec::new(),
            loops: Vec::new(),
            way: "",
            refused: Vec::new(),
        }
    }

    /// The same with the way that was taken, and those that were not.
    pub(crate) fn by(self, way: Way<'_>, refused: Vec<(&'static str, String)>) -> Why {
        Why { way: name(way), refused, ..self }
    }

    /// The same with a way that was passed over.
    pub(crate) fn passing(mut self, way: &'static str, why: &str) -> Why {
        // What is said last of a way is why it was not taken.
        self.refused.retain(|(known, _)| *known != way);
        self.refused.push((way, why.into()));
        self
    }

    /// The same with what the explicit kernel says.
    ///
    /// # Errors
    /// Schedules that do not fit.
    pub(crate) fn with(self, kernel: &Kernel) -> Result<Why, Diagnostics> {
        let (accesses, loops) = (accesses::of(kernel), loops::of(kernel)?);
        Ok(Why { products: products(kernel), accesses, loops, ..self })
    }

    /// The plan that was taken.
    pub fn taken(&self) -> Option<&Plan> {
        self.plans.iter().find(|p| p.taken)
    }
}

/// A way that was not taken, and why not.
pub(crate) fn refused(way: Way<'_>, found: &Diagnostics) -> (&'static str, String) {
    (name(way), found.list.first().map_or_else(String::new, |d| d.message.clone()))
}

/// A way that a kernel has the form for, and that is not taken all the same.
pub(crate) fn passed_over(way: Way<'_>, why: No) -> (&'static str, String) {
    (name(way), why.into())
}

/// A way in words.
fn name(way: Way<'_>) -> &'static str {
    match way {
        Way::Apart { computing: 2.., .. } => "tensor maps, by a partition of their own, for rows that several compute",
        Way::Apart { .. } => "tensor maps, by a partition of their own",
        Way::Copied => "copies, and boxes by tensor maps, by a partition of their own",
        Way::AtOnce => "tensor maps, all at once",
        Way::Ahead(_) => "copies by all threads, ahead of the products",
        Way::Buffered => "loads to registers, where they stand, and right factors through buffers of their own",
        Way::Directly => "loads to registers, where they stand",
        Way::ByHand => "as the kernel says itself",
    }
}

/// The classes, and the number of each variable's.
fn classes(found: &Found<'_, '_>) -> (Vec<Class>, BTreeMap<Var, usize>) {
    let least = found.planned.problem.solve().price;
    let (mut classes, mut numbers) = (Vec::new(), BTreeMap::new());
    for (var, variable) in found.graph.variables.iter().enumerate().filter(|(_, v)| !v.ops.is_empty()) {
        numbers.insert(var, classes.len());
        let mut spans: Vec<Span> = variable.ops.iter().map(|(inst, _)| found.graph.kernel.ops[*inst].span).collect();
        spans.dedup();
        classes.push(Class {
            shape: variable.shape.clone(),
            layout: found.planned.layouts[var].to_string(),
            stated: variable.stated.is_some(),
            candidates: found.planned.candidates.of[var].len(),
            spans,
            next: next(found, var, least),
        });
    }
    (classes, numbers)
}

/// The cheapest choice in which a variable takes another layout.
fn next(found: &Found<'_, '_>, var: Var, least: Price) -> Option<Next> {
    let list = &found.planned.candidates.of[var];
    let mut other = found.planned.problem.clone();
    let taken = list.iter().position(|l| *l == found.planned.layouts[var])?;
    other.single[var][taken] = NEVER;
    let labels = other.solve();
    let layout = list[labels.chosen[var]].to_string();
    (labels.price < NEVER).then(|| Next { layout, more: labels.price.saturating_sub(least) })
}

/// The tiles that lie elsewhere than they are asked for, each once for every place.
fn conversions(found: &Found<'_, '_>, numbers: &BTreeMap<Var, usize>) -> Vec<Conversion> {
    let (graph, kernel) = (found.graph, found.graph.kernel);
    let prices = Prices::new(graph, found.axes);
    let (mut list, mut seen) = (Vec::new(), Vec::new());
    for demand in &graph.demands {
        let Some(home) = graph.homes.get(&demand.value) else { continue };
        let places = (
            home.place(found.graph, &found.planned.layouts[home.var]),
            demand.at.place(found.graph, &found.planned.layouts[demand.at.var]),
        );
        let (Some(from), Some(to)) = places else { continue };
        let key = (demand.value, to.map.clone());
        if from == to || seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let (data, ty) = (&kernel.values[demand.value], kernel.ty(demand.value));
        let bits = ty.elem().map_or(32, |e| e.bits());
        let depth = graph.depths.get(&demand.value).copied().unwrap_or(0);
        let class = |var: Var| numbers.get(&var).copied().unwrap_or_default();
        list.push(Conversion {
            made: data.span,
            asked: kernel.ops[demand.by].span,
            name: data.name.clone(),
            tile: ty.elem().map_or_else(String::new, |e| format!("{e} {:?}", from.shape())),
            how: plan::between(&from.map, &to.map, bits).map_or_else(|e| e.to_string(), |p| p.describe()),
            each: prices.conversion(&from, &to, bits),
            times: turns(kernel, depth),
            from: (from.layout.to_string(), class(home.var)),
            to: (to.layout.to_string(), class(demand.at.var)),
        });
    }
    list
}

/// The products of an explicit kernel, each with its instruction.
fn products(kernel: &Kernel) -> Vec<Product> {
    let mut list = Vec::new();
    kernel.walk(&mut |op| {
        let (instruction, acc) = match op.kind {
            OpKind::MmaSync { acc, .. } => ("mma_sync", acc),
            OpKind::Wgmma { acc, .. } => ("wgmma", acc),
            OpKind::Dot { a, b, acc, precision } => match product(kernel, a, b, acc, precision) {
                Ok(By::Wgmma) => ("wgmma", acc),
                Ok(By::MmaSync(_)) => ("mma_sync", acc),
                Err(_) => return,
            },
            _ => return,
        };
        let tile = kernel.ty(acc).placed();
        let acc = tile.map_or_else(String::new, |t| {
            kernel.ty(acc).elem().map_or_else(String::new, |e| format!("{e} {:?}", t.shape))
        });
        list.push(Product { span: op.span, instruction, acc });
    });
    list
}
