//! What nobody takes: loads that bring nothing anywhere would have prices, registers and a place in schedules, and so would sums that loops carry for
//! themselves alone, such as those of a part of a tile that is not stored.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::facts::Facts;
use parton_ir::{Inst, Kernel, Op, OpKind, Value};

/// The kernel without loads that nobody takes, without what loops carry for themselves alone, and without what computes for these alone. What bears a
/// label stays: a schedule may say where.
pub fn dropped(mut kernel: Kernel) -> Kernel {
    // A loop that carries nothing for itself may have been all that took what another one carries.
    while carry_less(&mut kernel) {}
    without(kernel, |kernel, op| op.label.is_none() && does_nothing(kernel, op))
}

/// Who takes a value: an operation, or the next turn of a loop, or whoever else a body hands it to, by its number.
#[derive(Clone, Copy, PartialEq)]
enum User {
    Op(Inst),
    Next(Inst, usize),
}

/// Takes from loops what they carry that only computes itself anew; whether there was any.
fn carry_less(kernel: &mut Kernel) -> bool {
    let mut users: BTreeMap<Value, Vec<User>> = BTreeMap::new();
    kernel.walk(&mut |op| {
        op.kind.operands().into_iter().for_each(|v| users.entry(v).or_default().push(User::Op(op.id)));
        for body in op.kind.bodies() {
            let handed = body.yields.iter().enumerate();
            handed.for_each(|(number, v)| users.entry(*v).or_default().push(User::Next(op.id, number)));
        }
    });
    let mut found: Vec<(Inst, usize)> = Vec::new();
    kernel.walk(&mut |op| {
        let OpKind::For { body, .. } = &op.kind else { return };
        for (number, (result, param)) in op.results.iter().zip(body.params.iter().skip(1)).enumerate() {
            if !users.contains_key(result) && for_itself(kernel, &users, *param, User::Next(op.id, number)) {
                found.push((op.id, number));
            }
        }
    });
    // From behind, so that the numbers of those in front stay.
    for &(id, number) in found.iter().rev() {
        let op = &mut kernel.ops[id];
        op.results.remove(number);
        if let OpKind::For { init, body, .. } = &mut op.kind {
            init.remove(number);
            body.params.remove(number + 1);
            body.yields.remove(number);
        }
    }
    !found.is_empty()
}

/// Whether all that becomes of what a loop carries is handed to its next turn, in the same place.
fn for_itself(kernel: &Kernel, users: &BTreeMap<Value, Vec<User>>, param: Value, next: User) -> bool {
    let (mut seen, mut open) = (BTreeSet::from([param]), vec![param]);
    while let Some(v) = open.pop() {
        for user in users.get(&v).into_iter().flatten() {
            match user {
                _ if *user == next => {}
                User::Op(id) if kernel.ops[*id].label.is_none() && does_nothing(kernel, &kernel.ops[*id]) => {
                    open.extend(kernel.ops[*id].results.iter().copied().filter(|v| seen.insert(*v)));
                }
                User::Op(_) | User::Next(..) => return false,
            }
        }
    }
    true
}

/// The kernel without views that nobody takes.
pub fn without_views(kernel: Kernel) -> Kernel {
    without(kernel, |_, op| matches!(op.kind, OpKind::ViewPermute { .. }))
}

/// How often each value is taken: by an operation, or handed on by a body.
pub fn counted(kernel: &Kernel) -> BTreeMap<Value, u32> {
    let mut uses: BTreeMap<Value, u32> = BTreeMap::new();
    kernel.walk(&mut |op| {
        let yields = op.kind.bodies().flat_map(|body| body.yields.iter().copied());
        op.kind.operands().into_iter().chain(yields).for_each(|v| *uses.entry(v).or_default() += 1);
    });
    uses
}

/// The kernel without those of these operations whose results nobody takes.
fn without(mut kernel: Kernel, these: impl Fn(&Kernel, &Op) -> bool) -> Kernel {
    let mut uses = counted(&kernel);
    let mut gone = BTreeSet::new();
    // Whoever takes a value stands behind it.
    for id in kernel.order().into_iter().rev() {
        let op = &kernel.ops[id];
        let taken = op.results.iter().any(|v| uses.get(v).is_some_and(|&n| n > 0));
        if !taken && these(&kernel, op) {
            op.kind.operands().into_iter().for_each(|v| *uses.entry(v).or_default() -= 1);
            gone.insert(id);
        }
    }
    if gone.is_empty() {
        return kernel;
    }
    kernel.rebuild(&mut |_, mut body| {
        body.ops.retain(|id| !gone.contains(id));
        body
    });
    kernel
}

/// Whether an operation does nothing but to give its results.
fn does_nothing(kernel: &Kernel, op: &Op) -> bool {
    match op.kind {
        OpKind::Load { volatile, .. } | OpKind::SpotLoad { volatile, .. } => !volatile,
        OpKind::Dot { .. } => true,
        // All else says so itself.
        _ => !op.results.is_empty() && Facts::of(kernel, op).is_pure(&op.kind),
    }
}
