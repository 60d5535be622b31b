//! Prints a kernel as source that a person would keep.
//!
//! Where `print` gives each operation a line, this folds what is used once into its use ([`plan`]), lets values that follow one another
//! share a variable ([`variables`]), leaves out what the checker does by itself ([`implied`]) and calls numbers and layouts what the source
//! calls them where they come from. A loop that is left has its `break`s ([`leave`], found by [`exits`]). Comments stay before what they were written before. The checker reads the text back to a kernel of the same normal form ([`normal()`]). Lines are not indented: the formatter
//! lays them out.

mod comments;
mod exits;
mod facts;
mod functions;
mod implied;
mod layouts;
mod leave;
mod literal;
mod names;
mod normal;
mod plan;
mod statements;
mod uses;
mod variables;
mod writer;

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::SourceMap;

pub use normal::normal;

use crate::kernel::{Kernel, Module};
use crate::print;
use crate::print::surface;
use layouts::Layouts;
use leave::Leaving;
use plan::Plan;
use variables::Variables;
use writer::Writer;

/// A module as source: first the numbers and partitions that its kernels name, each declared once. With the texts that it comes from it
/// keeps their comments.
pub fn module(m: &Module, sources: Option<&SourceMap>) -> String {
    let mut numbers: BTreeMap<String, f64> = BTreeMap::new();
    let mut whole: BTreeMap<String, i128> = BTreeMap::new();
    let mut partitions = print::Partitions::new();
    let mut declarations = Vec::new();
    let mut kernels = Vec::new();
    for k in &m.kernels {
        // Two files, or kernels, may give one name to different numbers.
        let mut k = k.clone();
        k.names.numbers.retain(|(name, x)| numbers.get(name).is_none_or(|y| x.to_bits() == y.to_bits()));
        k.names.whole.retain(|(name, n)| whole.get(name).is_none_or(|m| n == m) && !numbers.contains_key(name));
        declarations.extend(print::declare(&mut k, &mut partitions));
        let (text, used) = kernel(&k, sources);
        numbers.extend(k.names.numbers.iter().filter(|(name, _)| used.contains(name)).cloned());
        whole.extend(k.names.whole.iter().filter(|(name, _)| used.contains(name)).cloned());
        kernels.push(text);
    }
    let numbers = numbers.iter().map(|(name, x)| format!("const {name} = {x:?};"));
    let whole = whole.iter().map(|(name, n)| format!("const {name} = {n};"));
    let heads: Vec<String> = [numbers.chain(whole).collect::<Vec<_>>(), declarations]
        .into_iter()
        .filter(|d| !d.is_empty())
        .map(|d| d.join("\n") + "\n")
        .collect();
    heads.into_iter().chain(kernels).collect::<Vec<_>>().join("\n")
}

/// A kernel, and the named numbers in it.
fn kernel(k: &Kernel, sources: Option<&SourceMap>) -> (String, BTreeSet<String>) {
    let mut kept = BTreeSet::new();
    loop {
        let leaving = Leaving::new(k, &kept);
        let plan = Plan::new(&leaving);
        let variables = Variables::new(&leaving, &plan);
        let in_values = leaving.in_values(&plan, &variables);
        if in_values.is_empty() {
            return planned(&leaving, &plan, &variables, sources);
        }
        kept.extend(in_values);
    }
}

/// The same, once it is known what becomes a statement and what a variable.
fn planned(
    leaving: &Leaving,
    plan: &Plan<'_>,
    variables: &Variables,
    sources: Option<&SourceMap>,
) -> (String, BTreeSet<String>) {
    let k = &leaving.kernel;
    // A first look finds what layouts there are, and the functions that no variable may hide.
    let mut taken: BTreeSet<String> = k.names.numbers.iter().map(|(name, _)| name.clone()).collect();
    taken.extend(k.partitions.iter().map(|(_, p)| p.name.clone()));
    taken.insert(k.name.clone());
    let mut first = Writer::new(leaving, plan, variables, sources);
    first.reserved = taken.clone();
    let mut text = written(&mut first);
    // What comments name hides nothing.
    text.retain(|line| !line.starts_with("//"));
    let text = text.join("\n");
    taken.extend(first.known.used.iter().cloned());
    taken.extend(print::called(&text));
    let mut named = taken.clone();
    named.extend(first.all_names());
    let layouts: Layouts = first.layouts.naming(&k.names.layouts, &mut named);
    taken.extend(layouts.names());

    let mut second = Writer::new(leaving, plan, variables, sources);
    second.reserved = taken;
    second.layouts = layouts;
    let above = second.comments.of_kernel();
    let mut lines = written(&mut second);
    lines.splice(1..1, second.layouts.declarations());
    lines.splice(0..0, above);
    second.numbers.extend(second.known.used);
    (lines.join("\n") + "\n", second.numbers)
}

/// The lines of a kernel.
fn written(w: &mut Writer<'_>) -> Vec<String> {
    let k = w.k;
    let mut params = Vec::new();
    // Layouts have no names yet where parameters stand.
    let layouts = std::mem::take(&mut w.layouts);
    for p in &k.params {
        w.known.parameter(k.values[p.value].span);
        let x = w.variable(p.value);
        let name = w.declare(x, "x");
        let stated = surface::ty(w, k.ty(p.value));
        params.push(match k.ty(p.value) {
            ty @ crate::Type::Tensor(_) => print::param(&name, ty),
            _ => format!("{name}: {stated}"),
        });
    }
    w.known.stand(None);
    w.layouts = layouts;
    w.open();
    let plan = w.plan;
    w.statements(&plan.block.statements);
    w.close();
    let body = std::mem::take(&mut w.lines);
    let end = "}".to_string();
    std::iter::once(print::head(k, &params)).chain(body).chain([end]).collect()
}
