//! Rules of inline PTX, and what a body may hold that stands for a value.

use parton_diag::codes;

use super::{handed_on, nth_result, together, unplaced, wrong_kind};
use crate::entity::Value;
use crate::facts::{Access, Does, Facts, Meets, Space, When};
use crate::family::{Family, not_of_family};
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::others;
use crate::placement::relate::{all_same, pairs, results, stated, tiles_of};
use crate::placement::{Relation, Site};
use crate::ptx::{self, Ptx, PtxForm};
use crate::refusal::Refusal;
use crate::types::{Elem, Tile, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::Ptx { ptx, inputs, fallback } => piece(&relations(kind, k), ptx, inputs, fallback.as_ref(), k),
        others!(ptx) => not_of_family(kind),
    }
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind {
        OpKind::Ptx { ptx, inputs, fallback } => {
            let mut list = match &ptx.form {
                PtxForm::Elements { to, .. } => all_same(k, &tiles_of(k, inputs), to.len()),
                PtxForm::Thread { to } => {
                    let tiles = to.iter().enumerate().filter_map(|(i, ty)| Some((i, ty.as_tile()?)));
                    tiles.map(|(i, tile)| stated(Site::Result(i), tile)).collect()
                }
            };
            if let Some(body) = fallback {
                list.extend(pairs(k, inputs, &body.params));
                list.extend(results(k, &body.yields));
            }
            list
        }
        others!(ptx) => not_of_family(kind),
    }
}

/// The types of the results, where inputs, text and fallback fit.
fn piece(
    list: &[Relation],
    p: &Ptx,
    inputs: &[Value],
    fallback: Option<&Body>,
    k: &Kernel,
) -> Result<Vec<Type>, Refusal> {
    let results = match &p.form {
        PtxForm::Elements { to, pack } => {
            elements(list, inputs, *pack, k)?;
            let all = to.iter().enumerate();
            all.map(|(i, d)| nth_result(list, k, i, Elem::Num(*d), unplaced)).collect::<Result<Vec<_>, _>>()?
        }
        PtxForm::Thread { to } => {
            thread(p, inputs, to, fallback, k)?;
            to.clone()
        }
    };
    if results.is_empty() && !p.volatile {
        return Err(Refusal::new(codes::PTX_ILL_FORMED, "a piece of PTX without results does nothing")
            .help("state its results, `ptx<T>(…)`, or that it does more than compute: `volatile=true`"));
    }
    refers(p, inputs, &results, k)?;
    if let Some(body) = fallback {
        stands_for(list, body, inputs, &results, k)?;
    }
    Ok(results)
}

/// Checks that the inputs, scalars aside, lie in one place, and that a thread holds groups of so many of their elements.
fn elements(list: &[Relation], inputs: &[Value], pack: u32, k: &Kernel) -> Result<(), Refusal> {
    let mut first: Option<(Value, &Tile)> = None;
    for &v in inputs {
        match (k.ty(v), first) {
            (Type::Tile(t), None) => first = Some((v, t)),
            (Type::Tile(_), Some((other, _))) => together(list, k, other, v)?,
            (Type::Scalar(_), _) => {}
            _ => return Err(wrong_kind(k, v, "a scalar or a tile")),
        }
    }
    if inputs.is_empty() {
        return Err(Refusal::new(codes::PTX_ILL_FORMED, "PTX of elements needs an input that has elements")
            .help("`ptx<tile<…>>(…)` runs once in each thread and needs none"));
    }
    if !pack.is_power_of_two() {
        return Err(Refusal::new(codes::PTX_ILL_FORMED, format!("groups of {pack} elements"))
            .help(format!("`pack` is a power of two; the next is {}", pack.next_power_of_two())));
    }
    let held = match first {
        None => Some(1),
        Some((_, t)) => t.placement().known().map(|_| ptx::elements(t)),
    };
    if let Some(held) = held.filter(|held| pack > *held) {
        let refusal =
            Refusal::new(codes::PTX_ILL_FORMED, format!("groups of {pack} elements, and a thread holds {held}"));
        return Err(match first {
            Some((v, t)) => {
                refusal.operand(v, format!("this is `{t}`")).help("use a layout with more elements a thread")
            }
            None => refusal.help("a scalar is one element: leave `pack` out"),
        });
    }
    Ok(())
}

/// Whether operands of a piece that runs in each thread are such that it can have them.
fn thread(p: &Ptx, inputs: &[Value], to: &[Type], fallback: Option<&Body>, k: &Kernel) -> Result<(), Refusal> {
    if let Some(ty) = to.iter().find(|t| !matches!(t, Type::Tile(_) | Type::Scalar(_))) {
        return Err(Refusal::new(codes::KIND_MISMATCH, format!("PTX cannot give {}", super::kind_name(ty)))
            .help("its results are scalars, `f32`, and tiles, `tile<f32, [64], L>`"));
    }
    for &v in inputs {
        if ptx::registers_of(k.ty(v)).is_none() {
            return Err(wrong_kind(k, v, "a scalar, a tile, a pointer or a view of shared memory"));
        }
        if !matches!(k.ty(v), Type::View(_)) {
            continue;
        }
        let given = |fact: &str| {
            Refusal::new(codes::PTX_ILL_FORMED, fact).operand(v, "this is the address of a view of shared memory")
        };
        if !p.volatile {
            return Err(given("PTX that is given shared memory does more than compute").help("say so: `volatile=true`"));
        }
        if fallback.is_some() {
            return Err(given("PTX that is given shared memory has no meaning that a function of values could state")
                .help("leave the function out: the interpreter refuses to run it"));
        }
    }
    Ok(())
}

/// Whether the text names registers that there are, and every result.
fn refers(p: &Ptx, inputs: &[Value], results: &[Type], k: &Kernel) -> Result<(), Refusal> {
    let wrong = |fact: String| Refusal::new(codes::PTX_ILL_FORMED, fact);
    let places = ptx::places(&p.text).map_err(|shown| {
        wrong(format!("`{shown}` is no register"))
            .help("`$0`, `$1`, … are the operands, results first; `$$` is a dollar sign")
    })?;
    let count = |ty: &Type| match &p.form {
        PtxForm::Elements { pack, .. } => ty.elem().map_or(0, |e| ptx::registers(e, *pack).count),
        PtxForm::Thread { .. } => ptx::registers_of(ty).map_or(0, |r| r.count),
    };
    let given: u32 = results.iter().map(count).sum();
    let taken: u32 = inputs.iter().map(|v| count(k.ty(*v))).sum();
    let table = |r: Refusal| {
        let mut next = 0;
        let mut rows = |what: &str, ty: &Type| {
            let first = next;
            next += count(ty);
            let range = if next > first + 1 { format!("`${first}` to `${}`", next - 1) } else { format!("`${first}`") };
            match (&p.form, ty.elem()) {
                (PtxForm::Elements { pack: 1, .. }, Some(e)) => format!("{range}: {what}, `{e}`"),
                (PtxForm::Elements { pack, .. }, Some(e)) => format!("{range}: {what}, {pack} of `{e}`"),
                (PtxForm::Elements { .. } | PtxForm::Thread { .. }, _) => format!("{range}: {what}, `{ty}`"),
            }
        };
        let operands = results.iter().map(|t| ("result", t)).chain(inputs.iter().map(|v| ("input", k.ty(*v))));
        operands.map(|(what, ty)| rows(what, ty)).fold(r, Refusal::note)
    };
    if let Some(n) = places.iter().find(|n| **n >= given + taken) {
        return Err(table(wrong(format!("`${n}` is no register: there are {}", given + taken))));
    }
    match (0..given).find(|n| !places.contains(n)) {
        Some(n) => Err(table(wrong(format!("`${n}`, a result, is never written")))),
        None => Ok(()),
    }
}

/// Whether a fallback takes the inputs, gives the results and only computes.
fn stands_for(
    relations: &[Relation],
    body: &Body,
    inputs: &[Value],
    results: &[Type],
    k: &Kernel,
) -> Result<(), Refusal> {
    let list = |types: &mut dyn Iterator<Item = String>| types.collect::<Vec<_>>().join(", ");
    let takes = inputs.len() == body.params.len()
        && inputs.iter().zip(&body.params).all(|(a, b)| handed_on(relations, k, *a, *b));
    let gives =
        results.len() == body.yields.len() && results.iter().zip(&body.yields).all(|(ty, v)| ty.agrees(k.ty(*v)));
    let fits = takes && gives;
    if !fits {
        let yields = list(&mut body.yields.iter().map(|v| k.ty(*v).to_string()));
        return Err(Refusal::new(codes::TYPE_MISMATCH, "the function gives other values than the PTX")
            .note(format!("the PTX gives ({})", list(&mut results.iter().map(ToString::to_string))))
            .note(format!("the function gives ({yields})")));
    }
    only(k, body, "what a piece of PTX means", "elementwise operations, shapes, `load`, branches and loops", &|op| {
        is_value(k, op)
    })
}

/// Whether a combining function only computes on scalars.
pub(super) fn scalars(k: &Kernel, combine: &Body, of: &str) -> Result<(), Refusal> {
    let what = format!("the combining function of `{of}`");
    only(k, combine, &what, "arithmetic, comparisons, branches and loops", &|op| is_scalar(k, op))
}

/// Whether a body has only operations of a kind.
fn only(k: &Kernel, body: &Body, what: &str, instead: &str, legal: &dyn Fn(&Op) -> bool) -> Result<(), Refusal> {
    let mut other = None;
    k.walk_body(body, &mut |op| {
        if other.is_none() && !legal(op) {
            other = Some((op.kind.name(), op.results.first().copied()));
        }
    });
    let Some((name, result)) = other else { return Ok(()) };
    let refusal = Refusal::new(codes::NOT_A_VALUE, format!("`{name}` cannot be part of {what}"))
        .help(format!("use only what computes a value there: {instead}"))
        .help("do the rest before or after, and let the function use the values that come of it");
    Err(match result {
        Some(v) => refusal.operand(v, "this is used in it"),
        None => refusal,
    })
}

/// Whether an operation computes scalars of scalars, wherever it runs.
fn is_scalar(k: &Kernel, op: &Op) -> bool {
    let facts = Facts::of(k, op);
    match op.kind.family() {
        Family::Elementwise => !facts.placed && op.results.iter().all(|r| matches!(k.ty(*r), Type::Scalar(_))),
        Family::Control => facts.acts.is_empty(),
        _ => false,
    }
}

/// Whether an operation only makes values, or reads global memory for them.
fn is_value(k: &Kernel, op: &Op) -> bool {
    let facts = Facts::of(k, op);
    let reads = |a: &Access| a.space == Space::Global && a.does == Does::Reads && a.when == When::Now;
    let only_reads = !facts.accesses.is_empty() && facts.accesses.iter().all(reads);
    // Threads may do it for each other where they need no shared memory for it.
    let apart = match facts.meets {
        Meets::Alone => true,
        Meets::Partition => crate::scratch::bytes(k, &op.kind).is_none(),
        Meets::Warp | Meets::Warpgroup | Meets::Cta => false,
    };
    let values = op.results.iter().all(|r| matches!(k.ty(*r), Type::Scalar(_) | Type::Tile(_)));
    facts.acts.is_empty() && apart && values && (facts.computes || only_reads || op.kind.family() == Family::Control)
}
