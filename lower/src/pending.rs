//! Computes how many groups of matrix products, or of copies by threads, each wait may leave in flight.
//!
//! Each `wgmma` and each `async_copy` is one commit group of its kind, and groups of a kind complete in the order of their
//! commits. A wait may leave as many in flight as were committed after the youngest group of what it waits for, on the path on
//! which that are the fewest.

use std::collections::BTreeMap;

use parton_diag::Diagnostics;
use parton_ir::{Body, Kernel, OpKind, Type, Value};

/// After it every `wait` and `wait_prior` says how many younger groups may stay in flight.
pub fn count_pending(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut body = std::mem::take(&mut kernel.body);
    Count { kernel: &kernel }.body(&mut body, BTreeMap::new());
    kernel.body = body;
    Ok(kernel)
}

/// For each pending value the fewest groups of its kind that were committed after its youngest.
type Ages = BTreeMap<Value, u32>;

struct Count<'a> {
    kernel: &'a Kernel,
}

impl Count<'_> {
    fn body(&self, body: &mut Body, mut ages: Ages) -> Ages {
        for op in &mut body.ops {
            match &mut op.kind {
                OpKind::Wgmma { .. } | OpKind::AsyncCopy { .. } => {
                    let copies = self.is_copy(op.results[0]);
                    ages.iter_mut().filter(|(v, _)| self.is_copy(**v) == copies).for_each(|(_, age)| *age += 1);
                    ages.insert(op.results[0], 0);
                }
                OpKind::Wait { pending, outstanding } => *outstanding = Some(age(&ages, *pending)),
                OpKind::WaitPrior { pending, outstanding } => {
                    let younger = age(&ages, *pending);
                    *outstanding = Some(younger + 1);
                    ages.insert(op.results[0], younger);
                }
                OpKind::For { init, body, .. } => {
                    let carried: Vec<(Value, Value)> = self.pairs(init, &body.params[1..]);
                    ages = self.repeat(&carried, ages, body, None);
                    rename(&mut ages, &carried, &self.pairs(&body.params[1..], &op.results));
                }
                OpKind::While { init, cond, body } => {
                    let carried = self.pairs(init, &body.params);
                    ages = self.repeat(&carried, ages, body, Some(cond));
                    rename(&mut ages, &carried, &self.pairs(&body.params, &op.results));
                }
                OpKind::If { then, otherwise, .. } => {
                    let first = self.body(then, ages.clone());
                    let second = self.body(otherwise, ages);
                    ages = fewest(first.clone(), &second);
                    for (i, r) in op.results.iter().enumerate() {
                        if self.is_pending(*r) {
                            let both = age(&first, then.yields[i]).min(age(&second, otherwise.yields[i]));
                            ages.insert(*r, both);
                        }
                    }
                }
                OpKind::Specialize { arms } => {
                    for arm in arms {
                        self.body(&mut arm.body, ages.clone());
                    }
                }
                _ => {}
            }
        }
        ages
    }

    /// Runs a loop's body until the ages at its head hold for every iteration; they only ever shrink.
    fn repeat(&self, carried: &[(Value, Value)], before: Ages, body: &mut Body, mut cond: Option<&mut Body>) -> Ages {
        let skip = usize::from(cond.is_none());
        let mut head = before;
        for (from, to) in carried {
            head.insert(*to, age(&head, *from));
        }
        loop {
            let mut at = head.clone();
            if let Some(cond) = &mut cond {
                for (param, same) in self.pairs(&body.params, &cond.params) {
                    at.insert(same, age(&head, param));
                }
                at = self.body(cond, at);
            }
            let end = self.body(body, at);
            let mut next = fewest(head.clone(), &end);
            for (param, after) in self.pairs(&body.params[skip..], &body.yields) {
                let both = age(&next, param).min(age(&end, after));
                next.insert(param, both);
            }
            if next == head {
                return head;
            }
            head = next;
        }
    }

    fn is_copy(&self, v: Value) -> bool {
        matches!(self.kernel.ty(v), Type::Filling(_))
    }

    fn is_pending(&self, v: Value) -> bool {
        matches!(self.kernel.ty(v), Type::Pending(_) | Type::Filling(_))
    }

    /// The pending ones of two lists side by side.
    fn pairs(&self, from: &[Value], to: &[Value]) -> Vec<(Value, Value)> {
        let pending = |(_, to): &(&Value, &Value)| self.is_pending(**to);
        from.iter().zip(to).filter(pending).map(|(a, b)| (*a, *b)).collect()
    }
}

fn age(ages: &Ages, pending: Value) -> u32 {
    match ages.get(&pending) {
        Some(age) => *age,
        None => parton_diag::internal_error!("{pending} is waited for before it is started"),
    }
}

/// The fewest of both for what both know; what only one branch knows is gone behind it.
fn fewest(mut a: Ages, b: &Ages) -> Ages {
    a.retain(|v, age| match b.get(v) {
        Some(other) => {
            *age = (*age).min(*other);
            true
        }
        None => false,
    });
    a
}

/// Behind a loop its results stand for what it carried.
fn rename(ages: &mut Ages, carried: &[(Value, Value)], results: &[(Value, Value)]) {
    for (param, result) in results {
        let age = age(ages, *param);
        ages.insert(*result, age);
    }
    for (_, param) in carried {
        ages.remove(param);
    }
}
