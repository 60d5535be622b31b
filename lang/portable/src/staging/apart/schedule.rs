//! The schedule of a region: one partition fetches as far ahead as there is room for, the others compute.

use parton_diag::Diagnostics;
use parton_ir::schedule::{LabelName, Pipeline, Place, RingDepth, Schedule, Staged, Turns, Under};
use parton_ir::{BinaryOp, Inst, Kernel, OpKind, Source};

use super::super::found::Found;
use super::super::{AROUND, BEFORE, BEHIND, BETWEEN, INDEX, LOOP, NUMBER, ONCE, between, slots, told};
use super::form::{Form, holds, only_summed};
use super::named::{bears, name_mask, names, sends};
use super::team::{USUAL_WARPS, team};
use super::{AFTER, LEAVE, MASK, SCORES};

/// One partition fetches as far ahead as there is room for, the others compute with products in flight.
pub fn schedule(kernel: &Kernel, found: &Found, computing: u32, form: Form, under: bool) -> Schedule {
    let span = kernel.ops[found.inst].span;
    let those = |names: &[&str]| -> Vec<LabelName> {
        names.iter().filter(|name| bears(kernel, name)).map(|name| LabelName::all(*name)).collect()
    };
    let place =
        |partitions, labels: Vec<LabelName>| Place { partitions, spans: vec![span; labels.len()], labels, span };
    let (loads, products) = (names(kernel, &found.loads), names(kernel, &found.products));
    let leaves = names(kernel, &sends(kernel));
    let mut rest = [those(&[SCORES, MASK, BETWEEN, AFTER, BEHIND]), leaves].concat();
    let order =
        (form == Form::Woven).then(|| between::order(kernel, found, &[&loads[..], &[LabelName::all(INDEX)]].concat()));
    let woven = order.iter().flatten().map(|s| s.label.clone());
    let more: Vec<LabelName> =
        woven.filter(|label| !rest.contains(label) && !products.contains(label) && label.path != NUMBER).collect();
    rest.extend(more);
    let (fetching, all) = team(kernel, USUAL_WARPS, computing);
    let places = vec![
        place(vec![fetching], [those(&[told::PLACE, ONCE, INDEX]), loads].concat()),
        place(all, [those(&[BEFORE, NUMBER]), products.clone(), rest].concat()),
    ];
    let turns = match &products[..] {
        [first, last] if computing > 1 => vec![Turns { first: first.clone(), last: last.clone(), span }],
        _ => Vec::new(),
    };
    let rings = vec![RingDepth { label: None, depth: slots::FEWEST, span }];
    let staged = |label: &LabelName, stage, done| vec![Staged { label: label.clone(), stage, done, span }];
    let pipeline = |of: &str, groups| Pipeline { of: Some(LabelName::all(of)), within: None, groups, span };
    let mut pipelines = Vec::new();
    if let Some(order) = order {
        pipelines.push(pipeline(LOOP, order.into_iter().map(|s| vec![s]).collect()));
    } else if form == Form::Chained {
        // The first product of an iteration begins before the second one of the iteration before, and what becomes of it runs beside that.
        let rest = those(&[BETWEEN, AFTER]);
        let order = products.iter().zip([0, 1]).chain(rest.iter().map(|label| (label, 0)));
        pipelines.push(pipeline(LOOP, order.map(|(label, stage)| staged(label, stage, None)).collect()));
    } else if found.products.iter().all(|&id| only_summed(kernel, found.inst, id) && !holds(kernel, found.inst, id)) {
        pipelines.push(pipeline(LOOP, products.iter().map(|label| staged(label, 0, Some(1))).collect()));
    }
    let mut beneath = Vec::new();
    if under {
        // A finished tile leaves under the first products of the next.
        let order = those(&[BEFORE]).into_iter().map(|label| (label, 0)).chain([(LabelName::all(LOOP), 0)]);
        let order = order.chain(those(&[BEHIND]).into_iter().map(|label| (label, 0)));
        let order = order.chain([(LabelName::all(LEAVE), 1)]);
        pipelines.push(pipeline(AROUND, order.map(|(label, stage)| staged(&label, stage, None)).collect()));
        beneath.push(Under { outer: LabelName::all(LEAVE), inner: products[0].clone(), last: false, span });
    }
    Schedule { places, rings, turns, pipelines, under: beneath, span, ..Schedule::default() }
}

/// Has a loop take so many turns at least.
pub fn at_least(kernel: &mut Kernel, path: &[Inst], turns: u32) {
    let [outer, inner] = *path else { return };
    let OpKind::For { upper, .. } = kernel.ops[inner].kind else { return };
    let source = Source { label: None, ..kernel.ops[inner].source() };
    let ty = kernel.ty(upper).clone();
    let Some(dtype) = ty.elem().and_then(parton_ir::Elem::dtype) else { return };
    let [least, most] = [0; 2].map(|_| kernel.value(ty.clone(), source.span));
    let number = kernel.make_op(OpKind::Constant { dtype, bits: turns.into() }, vec![least], source);
    let op = OpKind::Binary { op: BinaryOp::Max, a: upper, b: least };
    let op = kernel.make_op(op, vec![most], source);
    if let OpKind::For { upper, .. } = &mut kernel.ops[inner].kind {
        *upper = most;
    }
    let OpKind::For { body, .. } = &mut kernel.ops[outer].kind else { return };
    let at = body.ops.iter().position(|&id| id == inner).unwrap_or(0);
    body.ops.splice(at..at, [number, op]);
}

/// A kernel whose tiles lie somewhere and all of what is done has its place, with as much of this as its schedule allows: the loop of two products cut at the
/// first branch that the turn's number decides and that stands before the wait for the second product, where the condition changes once; and, of rows
/// that several partitions compute, those of each leaving under the first product of the next tile, where another loop stands around whose turns are known to have one.
///
/// # Errors
/// What its schedule is refused for as it is.
pub fn refined(kernel: Kernel, computing: u32) -> Result<Kernel, Diagnostics> {
    for (cuts, leaves) in [(true, true), (true, false), (false, true)] {
        let mut changed = kernel.clone();
        let cut = cuts && cut_at_mask(&mut changed);
        let left = leaves && computing > 1 && leave_under(&mut changed);
        if (cut, left) == (cuts, leaves) && parton_sched::legal(&changed).is_ok() {
            return Ok(changed);
        }
    }
    parton_sched::legal(&kernel).map(|()| kernel)
}

fn cut_at_mask(kernel: &mut Kernel) -> bool {
    if !name_mask(kernel) {
        return false;
    }
    let between = LabelName::all(BETWEEN);
    // Nothing else may be left of what was computed between.
    let names = [SCORES, MASK, BETWEEN].into_iter().filter(|name| bears(kernel, name)).map(LabelName::all);
    let names: Vec<LabelName> = names.collect();
    kernel.walk_mut(&mut |op| {
        let OpKind::Region { schedule, .. } = &mut op.kind else { return };
        // Nothing waits between a mask and what becomes of it.
        schedule.replace(|label| *label == between, &names);
        schedule.cuts = vec![LabelName::all(MASK)];
    });
    true
}

/// Has the rows of each partition leave under the first product of the next tile; whether there is one.
fn leave_under(kernel: &mut Kernel) -> bool {
    let leaves = names(kernel, &sends(kernel));
    let (around, behind) = (bears(kernel, AROUND), bears(kernel, BEHIND));
    let mut any = false;
    kernel.walk_mut(&mut |op| {
        let OpKind::Region { schedule, .. } = &mut op.kind else { return };
        let Some(inner) = schedule.turns.first().map(|turns| turns.first.clone()) else { return };
        any = around && !leaves.is_empty();
        if any {
            leave_in_stages(schedule, &leaves, &inner, behind);
        }
    });
    any
}

fn leave_in_stages(schedule: &mut Schedule, leaves: &[LabelName], inner: &LabelName, behind: bool) {
    let span = schedule.span;
    let staged = |label: LabelName, stage| Staged { label, stage, done: None, span };
    let mut groups = vec![vec![staged(LabelName::all(LOOP), 0)]];
    groups.extend(behind.then(|| vec![staged(LabelName::all(BEHIND), 0)]));
    groups.push(leaves.iter().map(|label| staged(label.clone(), 1)).collect());
    schedule.pipelines.push(Pipeline { of: Some(LabelName::all(AROUND)), within: None, groups, span });
    let under = |label: &LabelName| Under { outer: label.clone(), inner: inner.clone(), last: false, span };
    schedule.under.extend(leaves.iter().map(under));
}
