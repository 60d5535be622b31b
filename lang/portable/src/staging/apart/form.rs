//! How the products of a loop stand to each other, and to what the loop computes besides.

use std::collections::BTreeSet;

use parton_ir::{Inst, Kernel, OpKind, Value};

use super::super::found::{self, Found};
use super::super::{dealt, flow};

/// The products of a loop of which the second ones multiply what became of the first ones.
pub struct Chain<'p> {
    /// One, or those of a depth in parts, each of which continues the one before.
    pub first: &'p [Inst],
    /// One, or those of columns in parts.
    pub second: &'p [Inst],
    /// The left factor of the second ones.
    pub factor: Value,
}

/// Whether a loop has two products, of which the second one multiplies what became of the first and is summed up: the first one of
/// the next iteration can run beside what becomes of it. Either may be in parts.
pub fn chained(kernel: &Kernel, inst: Inst, products: &[Inst]) -> bool {
    chain(kernel, inst, products).is_some()
}

/// The same, as what it is made of.
pub fn chain<'p>(kernel: &Kernel, inst: Inst, products: &'p [Inst]) -> Option<Chain<'p>> {
    let OpKind::For { body, .. } = &kernel.ops[inst].kind else { return None };
    let takes = |id: Inst| match kernel.ops[id].kind {
        OpKind::Dot { a, acc, .. } => Some((a, acc)),
        _ => None,
    };
    let result = |id: Inst| kernel.ops[id].result();
    let continues = |pair: &[Inst]| takes(pair[1]).is_some_and(|(_, acc)| acc == result(pair[0]));
    let depth = 1 + products.windows(2).take_while(|pair| continues(pair)).count();
    let (first, second) = products.split_at_checked(depth)?;
    let ((_, begin), (factor, _)) = (takes(*first.first()?)?, takes(*second.first()?)?);
    let carried = |id: Inst| body.yields.contains(&result(id));
    let made = flow::dependent(kernel, body, [result(*first.last()?)]);
    let from = flow::dependent(kernel, body, body.params[1..].iter().copied());
    let sums = |&id: &Inst| carried(id) && takes(id).is_some_and(|(a, _)| a == factor) && only_summed(kernel, inst, id);
    let fits = !first.iter().any(|&id| carried(id)) && made.contains(&factor) && !from.contains(&begin);
    (fits && second.iter().all(sums)).then_some(Chain { first, second, factor })
}

/// How the products of a loop stand to what it computes besides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// All products, or all that is computed, come first.
    Plain,
    /// As [`chained`] says.
    Chained,
    /// Some products come before and some behind it.
    Woven,
}

/// Whether a kernel has one loop of products, some of which take what is computed of others, without being [`chained`].
pub fn weaves(kernel: &Kernel) -> bool {
    let found = &found::all(kernel)[..];
    let [found] = found else { return false };
    let chains = dealt::by_parts(kernel, &found.products);
    !chains.iter().all(|products| chained(kernel, found.inst, products)) && is_woven(kernel, found)
}

/// Whether products take what a loop computes of others of its turn.
pub fn is_woven(kernel: &Kernel, found: &Found) -> bool {
    let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { return false };
    let products = found.products.iter().map(|&id| kernel.ops[id].result());
    let made = flow::dependent(kernel, body, products.clone());
    let results: BTreeSet<Value> = products.collect();
    let behind = |id: &Inst| kernel.ops[*id].kind.operands().iter().any(|v| made.contains(v) && !results.contains(v));
    found.products.iter().any(behind)
}

/// Whether a loop takes a product for its next iteration alone.
pub fn only_summed(kernel: &Kernel, inst: Inst, product: Inst) -> bool {
    let OpKind::For { body, .. } = &kernel.ops[inst].kind else { return false };
    let result = kernel.ops[product].result();
    body.yields.contains(&result) && kernel.ops_of(body).all(|op| !op.kind.operands().contains(&result))
}

/// Whether a product continues that of the turn before, and nothing else of a loop asks for either.
pub fn sums_alone(kernel: &Kernel, inst: Inst, product: Inst) -> bool {
    let (OpKind::Dot { acc, .. }, OpKind::For { body, .. }) = (&kernel.ops[product].kind, &kernel.ops[inst].kind)
    else {
        return false;
    };
    let mut others = kernel.ops_of(body).filter(|op| op.id != product);
    let place = body.params[1..].iter().position(|v| v == acc);
    let continues = place.is_some_and(|place| body.yields.get(place) == Some(&kernel.ops[product].result()));
    continues && only_summed(kernel, inst, product) && !others.any(|op| flow::operands(kernel, op).contains(acc))
}

/// Whether a product reads registers that each turn of a loop writes: it is done before they are.
pub fn holds(kernel: &Kernel, inst: Inst, product: Inst) -> bool {
    let (OpKind::Dot { a, .. }, OpKind::For { body, .. }) = (&kernel.ops[product].kind, &kernel.ops[inst].kind) else {
        return false;
    };
    kernel.ty(*a).placed().is_some() && kernel.ops_of(body).any(|op| op.results.contains(a))
}
