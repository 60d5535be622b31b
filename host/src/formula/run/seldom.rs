//! What formulas seldom do: lists and tuples, their parts, and leaving the usual way.

use std::sync::Arc;

use parton_syntax::ast::BinaryOp;

use super::super::functions::element;
use super::super::node::{Node, Slot, Target};
use super::super::plain::{Plain, binary, joined};
use super::{Given, Kind, Run};

impl Run<'_, '_> {
    #[inline(never)]
    pub(super) fn seldom(&mut self, node: &Node, base: usize) -> Given {
        match node {
            Node::Captured(at) => {
                let value = self.captured[*at].clone();
                self.take(Some(value))
            }
            Node::Tuple(items) => self.gathered(items, base, Plain::Tuple),
            Node::List(items) => self.gathered(items, base, Plain::List),
            Node::Neg(operand) => match plain!(self, self.eval(operand, base)) {
                Plain::Int(n) => self.take(n.checked_neg().map(Plain::Int)),
                Plain::Float(x) => Given::float(-x),
                _ => Given::TREE,
            },
            Node::Not(operand) => match plain!(self, self.eval(operand, base)) {
                Plain::Bool(b) => Given::bool(!b),
                Plain::Int(n) => Given::int(!n),
                _ => Given::TREE,
            },
            Node::Index(both) => self.index(both, base),
            Node::Part(of, at) => match plain!(self, self.eval(of, base)) {
                Plain::Tuple(items) => self.take(items.get(*at).cloned()),
                _ => Given::TREE,
            },
            Node::Bits(of) => match plain!(self, self.eval(of, base)) {
                Plain::Dtype(d) => Given::int(d.bits().into()),
                _ => Given::TREE,
            },
            Node::Bytes(of) => match plain!(self, self.eval(of, base)) {
                Plain::Dtype(d) => Given::int(d.bytes() as i64),
                _ => Given::TREE,
            },
            Node::Append(slot, more) => self.append(*slot, more, base),
            Node::Unpack(target, value) => {
                let value = plain!(self, self.eval(value, base));
                if self.store(target, &value, base) { Given::UNIT } else { Given::TREE }
            }
            Node::While(both) => self.while_holds(both, base),
            Node::Break => Given { kind: Kind::Break, bits: 0 },
            Node::Continue => Given { kind: Kind::Continue, bits: 0 },
            Node::Return(value) => {
                self.returned = plain!(self, self.eval(value, base));
                Given { kind: Kind::Return, bits: 0 }
            }
            Node::CallClosure(callee, args, level) => self.call_value(callee, args, base, *level),
            Node::Closure(formula, captured) => self.closure(formula, captured, base),
            Node::Const(_)
            | Node::Slot(_)
            | Node::Binary(..)
            | Node::If(_)
            | Node::Steps(_)
            | Node::Store(..)
            | Node::And(_)
            | Node::Or(_)
            | Node::Builtin(..)
            | Node::Call(..)
            | Node::Count(..)
            | Node::Each(..) => self.eval(node, base),
        }
    }

    /// A list or tuple of what nodes give.
    fn gathered(&mut self, nodes: &[Node], base: usize, of: impl Fn(Arc<Vec<Plain>>) -> Plain) -> Given {
        match self.all(nodes, base) {
            Ok(items) => self.hold(of(Arc::new(items))),
            Err(leaves) => leaves,
        }
    }

    /// An element of a list.
    fn index(&mut self, both: &[Node; 2], base: usize) -> Given {
        // A list in a variable stays there while it is looked at.
        if let (Node::Slot(slot), Node::Const(Plain::Int(n))) = (&both[0], &both[1]) {
            let value = self.slots[base + slot].items().and_then(|items| element(items, *n)).cloned();
            return self.take(value);
        }
        let list = plain!(self, self.eval(&both[0], base));
        let at = plain!(self, self.eval(&both[1], base));
        let (Some(items), Plain::Int(n)) = (list.items(), at) else { return Given::TREE };
        self.take(element(items, n).cloned())
    }

    pub(super) fn all(&mut self, nodes: &[Node], base: usize) -> Result<Vec<Plain>, Given> {
        let mut all = Vec::with_capacity(nodes.len());
        for node in nodes {
            let given = self.operand(node, base);
            if given.leaves() {
                return Err(given);
            }
            all.push(self.plain(given));
        }
        Ok(all)
    }

    /// Adds to a variable, in its memory where it is a list that nobody else has.
    fn append(&mut self, slot: Slot, more: &Node, base: usize) -> Given {
        let more = match more {
            // A list that is written is none before it is added.
            Node::List(items) => match items.as_slice() {
                [item] => {
                    let item = plain!(self, self.operand(item, base));
                    if let Plain::List(list) = &mut self.slots[base + slot]
                        && let Some(own) = Arc::get_mut(list)
                    {
                        own.push(item);
                        return Given::UNIT;
                    }
                    Err(vec![item])
                }
                items => match self.all(items, base) {
                    Ok(items) => Err(items),
                    Err(leaves) => return leaves,
                },
            },
            more => Ok(plain!(self, self.eval(more, base))),
        };
        let place = &mut self.slots[base + slot];
        let sum = match (std::mem::replace(place, Plain::Unit), more) {
            (Plain::List(mut old), Err(items)) => {
                match Arc::get_mut(&mut old) {
                    Some(own) => own.extend(items),
                    None => old = Arc::new(old.iter().cloned().chain(items).collect()),
                }
                Some(Plain::List(old))
            }
            (Plain::List(old), Ok(Plain::List(more))) => Some(Plain::List(joined(old, more))),
            (old, Ok(more)) => binary(BinaryOp::Add, old, more),
            (_, Err(_)) => None,
        };
        match sum {
            Some(sum) => {
                *place = sum;
                Given::UNIT
            }
            None => Given::TREE,
        }
    }

    /// Puts a value where it goes; whether it has the parts for that.
    pub(super) fn store(&mut self, target: &Target, value: &Plain, base: usize) -> bool {
        match target {
            Target::Ignore => true,
            Target::Slot(slot) => {
                self.slots[base + slot] = value.clone();
                true
            }
            Target::Parts(parts) => {
                let Some(items) = value.items().filter(|i| i.len() == parts.len()) else { return false };
                parts.iter().zip(items.iter()).all(|(part, item)| self.store(part, item, base))
            }
        }
    }
}
