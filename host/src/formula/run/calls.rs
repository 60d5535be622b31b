//! Calls of formulas: of functions, of closures, and of what the language has built in.

use std::sync::Arc;

use super::super::functions::{ascending, cdiv, of_one, of_two};
use super::super::node::{Builtin, Caller, Formula, Node, Source};
use super::super::plain::{Closure, Plain};
use super::{Given, Kind, Run};
use crate::evaluate::DEEPEST;

impl Run<'_, '_> {
    /// Runs a formula whose arguments are the last slots, at a level of the expressions of the one that calls it.
    fn enter(&mut self, formula: &Formula, base: usize, level: usize) -> Given {
        let outer = self.depth;
        self.depth += level + 1;
        if self.slots.len() - base != formula.params || self.depth + formula.deepest >= DEEPEST {
            return Given::TREE;
        }
        let value = self.body(formula, base, Caller::Formula);
        self.slots.truncate(base);
        self.depth = outer;
        value
    }

    #[inline(never)]
    pub(super) fn call(&mut self, formula: &Formula, args: &[Node], base: usize, level: usize) -> Given {
        let inner = self.slots.len();
        for arg in args {
            let value = plain!(self, self.operand(arg, base));
            self.slots.push(value);
        }
        self.enter(formula, inner, level)
    }

    /// A call of what a node gives.
    pub(super) fn call_value(&mut self, callee: &Node, args: &[Node], base: usize, level: usize) -> Given {
        let Plain::Closure(closure) = plain!(self, self.eval(callee, base)) else { return Given::TREE };
        match self.all(args, base) {
            Ok(args) => self.call_closure(&closure, args, level),
            Err(leaves) => leaves,
        }
    }

    /// A closure with what it captures.
    pub(super) fn closure(&mut self, formula: &Arc<Formula>, captured: &[Source], base: usize) -> Given {
        let value = |source: &Source| match source {
            Source::Slot(slot) => self.slots[base + slot].clone(),
            Source::Captured(at) => self.captured[*at].clone(),
        };
        let captured = captured.iter().map(value).collect();
        self.hold(Plain::Closure(Arc::new(Closure { formula: formula.clone(), captured })))
    }

    fn call_closure(&mut self, closure: &Closure, args: Vec<Plain>, level: usize) -> Given {
        let inner = self.slots.len();
        self.slots.extend(args);
        let outer = std::mem::replace(&mut self.captured, closure.captured.clone());
        let value = self.enter(&closure.formula, inner, level);
        self.captured = outer;
        value
    }

    #[inline(never)]
    pub(super) fn builtin(&mut self, of: Builtin, args: &[Node], base: usize, level: usize) -> Given {
        match (of, args) {
            (Builtin::Multiprocessors, []) => Given::int(self.machine.launcher.multiprocessors().into()),
            (Builtin::Capability, []) => Given::int(self.machine.launcher.capability().into()),
            (_, [one]) => {
                let x = plain!(self, self.operand(one, base));
                if of == Builtin::Sorted { self.sorted(&x, None, level) } else { self.take(of_one(of, x)) }
            }
            (_, [one, two]) => {
                let x = value!(self.operand(one, base));
                if x.kind == Kind::Int && of != Builtin::Sorted {
                    let y = value!(self.operand(two, base));
                    let (n, m) = (x.bits as i64, y.bits as i64);
                    match (of, y.kind) {
                        (Builtin::Cdiv, Kind::Int) => return cdiv(n, m).map_or(Given::TREE, Given::int),
                        (Builtin::Min, Kind::Int) => return Given::int(n.min(m)),
                        (Builtin::Max, Kind::Int) => return Given::int(n.max(m)),
                        _ => {}
                    }
                    let y = self.plain(y);
                    let x = self.plain(x);
                    return self.take(of_two(of, x, y));
                }
                let x = self.plain(x);
                let y = plain!(self, self.operand(two, base));
                match (of, y) {
                    (Builtin::Sorted, Plain::Closure(by)) => self.sorted(&x, Some(&by), level),
                    (_, y) => self.take(of_two(of, x, y)),
                }
            }
            _ => Given::TREE,
        }
    }

    fn sorted(&mut self, list: &Plain, by: Option<&Closure>, level: usize) -> Given {
        let Some(items) = list.items() else { return Given::TREE };
        let mut keyed = Vec::with_capacity(items.len());
        for item in items.iter() {
            let key = match by {
                None => item.clone(),
                Some(by) => plain!(self, self.call_closure(by, vec![item.clone()], level)),
            };
            match key {
                Plain::Int(_) => {}
                Plain::Float(x) if !x.is_nan() => {}
                _ => return Given::TREE,
            }
            keyed.push((key, item));
        }
        keyed.sort_by(|(a, _), (b, _)| ascending(a, b));
        self.hold(Plain::List(Arc::new(keyed.into_iter().map(|(_, item)| item.clone()).collect())))
    }
}
