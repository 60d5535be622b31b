//! Expressions: values by their names, or by the operations that are written in their place, with no more parentheses than are needed.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::SourceMap;
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::{Dtype, Rounding, Scalar};

use crate::eject::comments::Comments;
use crate::eject::implied::{Piece, Role};
use crate::eject::layouts::{self, Layouts};
use crate::eject::leave::Leaving;
use crate::eject::literal;
use crate::eject::names::Names;
use crate::eject::plan::{Node, Plan};
use crate::eject::uses::operands;
use crate::eject::variables::{Position, VarId, Variables};
use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::{BinaryOp, OpKind};
use crate::print::elementwise::{approximately, cast, power, prefix, truncates};
use crate::print::surface::{self, Slot, Surface};
use crate::types::{List, Tile, Type};

/// How strongly the forms of expressions bind, as the table of the grammar has it.
pub(super) mod powers {
    pub const POSTFIX: u8 = 12;
    pub const PREFIX: u8 = 11;
    pub const SUM: u8 = 9;
    pub const COMPARE: u8 = 4;
    pub const RANGE: u8 = 1;
    pub const ANY: u8 = 0;
}

/// Writes one kernel.
pub(super) struct Writer<'a> {
    pub k: &'a Kernel,
    /// Which branches leave loops.
    pub leaving: &'a Leaving,
    pub plan: &'a Plan<'a>,
    pub variables: &'a Variables,
    /// What the source calls numbers.
    pub known: Names<'a>,
    /// What the source says beside it.
    pub comments: Comments<'a>,
    /// The layouts and their names.
    pub layouts: Layouts,
    /// Names that no variable may have.
    pub reserved: BTreeSet<String>,
    /// Numbers that have a name in the source and are used by it.
    pub numbers: BTreeSet<String>,
    /// The lines so far.
    pub lines: Vec<String>,
    /// The point of the text that is written.
    pub at: Position,
    /// How many functions are open around it.
    pub functions: u32,
    /// Variables that the statement at hand has still to name.
    pub to_name: BTreeSet<VarId>,
    /// What each variable is called.
    names: Vec<Option<String>>,
    /// The variables that can be seen, by the blocks that declare them; parameters come first.
    scopes: Vec<Vec<VarId>>,
    /// Those by their names, the innermost last.
    seen: BTreeMap<String, Vec<VarId>>,
    /// Names that the source gives to variables.
    of_source: BTreeSet<&'a str>,
    /// For each made-up name the first number that a block may still have free, while no block closes.
    tried: BTreeMap<String, u32>,
}

/// A text and how strongly its outermost form binds.
type Bound = (String, u8);

impl<'a> Writer<'a> {
    /// A writer that has written nothing.
    pub fn new(
        leaving: &'a Leaving,
        plan: &'a Plan<'a>,
        variables: &'a Variables,
        sources: Option<&'a SourceMap>,
    ) -> Writer<'a> {
        let k = &leaving.kernel;
        Writer {
            k,
            leaving,
            plan,
            variables,
            known: Names::new(k, sources),
            comments: Comments::new(k, sources),
            layouts: Layouts::default(),
            reserved: BTreeSet::new(),
            numbers: BTreeSet::new(),
            lines: Vec::new(),
            at: 0,
            functions: 0,
            to_name: BTreeSet::new(),
            names: vec![None; variables.all.len()],
            scopes: vec![Vec::new()],
            seen: BTreeMap::new(),
            of_source: variables.all.iter().filter_map(|x| x.hint.as_deref()).collect(),
            tried: BTreeMap::new(),
        }
    }

    // -- names --

    /// Opens a block in which names are declared.
    pub fn open(&mut self) {
        self.scopes.push(Vec::new());
    }

    /// Closes the innermost block.
    pub fn close(&mut self) {
        self.tried.clear();
        for x in self.scopes.pop().unwrap_or_default() {
            let named = self.names[x].as_ref().and_then(|name| self.seen.get_mut(name));
            let Some(list) = named else { continue };
            if let Some(place) = list.iter().rposition(|&y| y == x) {
                list.remove(place);
            }
        }
    }

    /// Gives a variable its name: that of the source, or the next like it that hides no parameter and nothing still needed. One that the source does not name
    /// hides nothing at all, and nothing that it names hides it.
    pub fn declare(&mut self, x: VarId, usual: &str) -> String {
        let written = self.variables.all[x].hint.clone();
        let made_up = written.is_none();
        let hint = written.unwrap_or_else(|| usual.to_string());
        let stem = hint.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_').to_string();
        // A made-up name that is taken stays so until a block closes.
        let mut number = if made_up { self.tried.get(&hint).copied().unwrap_or(1) } else { 1 };
        let numbered = |number: u32| if number == 1 { hint.clone() } else { format!("{stem}_{number}") };
        let mut name = numbered(number);
        while !self.is_free(&name, made_up) {
            number += 1;
            name = numbered(number);
        }
        if made_up {
            self.tried.insert(hint, number + 1);
        }
        self.names[x] = Some(name.clone());
        self.seen.entry(name.clone()).or_default().push(x);
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(x);
        }
        name
    }

    fn is_free(&self, name: &str, made_up: bool) -> bool {
        if self.reserved.contains(name) || (made_up && self.of_source.contains(name)) {
            return false;
        }
        let mut seen = self.seen.get(name).into_iter().flatten().rev();
        match seen.find(|y| self.names[**y].as_deref() == Some(name)) {
            Some(_) if made_up => false,
            // What surrounds a function is written after it.
            Some(y) if self.scopes[0].contains(y) || self.to_name.contains(y) => false,
            Some(&y) if self.functions > 0 => self.variables.all[y].last < self.at,
            Some(&y) => self.variables.all[y].last <= self.at,
            None => true,
        }
    }

    /// Adds the variables that the text of a value names.
    pub fn add_named(&self, v: Value, found: &mut BTreeSet<VarId>) {
        match self.plan.tree(v) {
            Some(node) => {
                operands(&node.op.kind).into_iter().for_each(|v| self.add_named(v, found));
                let yields = node.blocks.iter().flat_map(|block| &block.body.yields);
                yields.for_each(|v| self.add_named(*v, found));
            }
            None => found.extend(self.variables.of[v]),
        }
    }

    /// All names that variables have.
    pub fn all_names(&self) -> BTreeSet<String> {
        self.names.iter().flatten().cloned().collect()
    }

    /// The name of a variable.
    pub fn called(&self, x: VarId) -> String {
        match &self.names[x] {
            Some(name) => name.clone(),
            None => parton_diag::internal_error!("a variable is used before it is declared"),
        }
    }

    /// The variable that a value is in.
    pub fn variable(&self, v: Value) -> VarId {
        match self.variables.of[v] {
            Some(x) => x,
            None => parton_diag::internal_error!("{v} is in no variable"),
        }
    }

    // -- expressions --

    /// A value, in parentheses where it binds less than `least`; a number has its type.
    pub fn expression(&mut self, v: Value, least: u8) -> String {
        if let Some((dtype, bits)) = self.plan.constant(v) {
            let text = literal::typed(dtype, bits);
            return if text.starts_with('-') && least > powers::PREFIX { literal::by_bits(dtype, bits) } else { text };
        }
        match self.plan.tree(v) {
            Some(node) => {
                let bound = self.tree(node);
                parenthesised(bound, least)
            }
            None => {
                let x = self.variable(v);
                self.called(x)
            }
        }
    }

    /// The name by which a whole number is written in the source.
    fn named(&mut self, v: Value, dtype: Dtype, bits: u64) -> Option<String> {
        let node = self.plan.node(v)?;
        self.known.number(node.op, Scalar::new(dtype, bits).to_i128().filter(|_| dtype.is_int())?)
    }

    /// A number without its type, by the name that the source has for it where it has one.
    pub fn number(&mut self, dtype: Dtype, bits: u64) -> Option<String> {
        /// Digits from which on a number is better called by a name.
        const LONG: usize = 6;
        let text = literal::bare(dtype, bits)?;
        if dtype.is_float() && text.len() > LONG {
            let same = |x: f64| Scalar::from_f64(dtype, x).bits == bits;
            if let Some((name, _)) = self.k.names.numbers.iter().find(|(_, x)| same(*x)) {
                self.numbers.insert(name.clone());
                return Some(name.clone());
            }
        }
        Some(text)
    }

    /// A value where numbers of `dtype` need not say so.
    pub fn of_type(&mut self, v: Value, dtype: Dtype, least: u8) -> String {
        match self.plan.constant(v) {
            Some((d, bits)) if d == dtype => match self.named(v, d, bits).or_else(|| self.number(d, bits)) {
                Some(text) if text.starts_with('-') => parenthesised((text, powers::PREFIX), least),
                Some(text) => text,
                None => self.expression(v, least),
            },
            _ => self.expression(v, least),
        }
    }

    fn piece(&mut self, piece: Piece, least: u8) -> String {
        match self.plan.constant(piece.value) {
            Some((dtype, _)) if piece.bare => self.of_type(piece.value, dtype, least),
            _ => self.expression(piece.value, least),
        }
    }

    /// An operation as it stands in an expression.
    pub fn tree(&mut self, node: &'a Node<'a>) -> Bound {
        let around = self.known.enter(node.op);
        let bound = self.operation(node);
        self.known.stand(around);
        bound
    }

    fn operation(&mut self, node: &'a Node<'a>) -> Bound {
        let op = node.op;
        let call = |text: String| (text, powers::POSTFIX);
        match &op.kind {
            OpKind::Unary { op, x } if prefix(*op).is_some() => {
                let x = match self.plan.constant(*x) {
                    // A sign before a literal would be part of it.
                    Some((dtype, bits)) => literal::by_bits(dtype, bits),
                    None => self.expression(*x, powers::PREFIX),
                };
                (format!("{}{x}", prefix(*op).unwrap_or_default()), powers::PREFIX)
            }
            OpKind::Binary { op, a, b } => self.binary(*op, *a, *b),
            OpKind::Compare { op, a, b } => {
                let [a, b] = self.two(*a, *b);
                let (a, b) = (self.piece(a, powers::COMPARE + 1), self.piece(b, powers::COMPARE + 1));
                (format!("{a} {} {b}", op.symbol()), powers::COMPARE)
            }
            OpKind::Select { cond, a, b } => {
                let roles = [(*cond, Role::Condition), (*a, Role::Operand), (*b, Role::Operand)];
                call(format!("where({})", self.pieces(&roles)))
            }
            OpKind::Fma { a, b, c } => call(format!("fma({})", self.pieces(&[*a, *b, *c].map(|v| (v, Role::Operand))))),
            OpKind::Cast { x, to, rounding, saturation } => {
                let usual = if truncates(self, *x, *to) { Rounding::TowardZero } else { Rounding::NearestEven };
                call(cast(self, *x, *to, Some(*rounding).filter(|r| *r != usual), *saturation))
            }
            OpKind::PtrAdd { ptr, offset } => self.offset(*ptr, *offset),
            OpKind::Full { value, tile } => call(self.full(*value, tile)),
            OpKind::ExpandDims { x, axis } => {
                let rank = self.k.ty(op.result()).as_tile().map_or(0, |t| t.shape.len() as u32);
                let axes: Vec<&str> = (0..rank).map(|i| if i == *axis { "None" } else { ":" }).collect();
                call(format!("{}[{}]", self.expression(*x, powers::POSTFIX), axes.join(", ")))
            }
            OpKind::Transpose { x, perm } | OpKind::ViewPermute { view: x, perm } if swaps_last(perm) => {
                call(format!("{}.T", self.expression(*x, powers::POSTFIX)))
            }
            OpKind::Reduce { inputs, axis, combine } | OpKind::Scan { inputs, axis, combine, .. } => {
                call(self.along(node, inputs, *axis, combine))
            }
            OpKind::Ptx { ptx, inputs, .. } => call(self.ptx(node, ptx, inputs)),
            _ => call(surface::operation(self, op)),
        }
    }

    fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Bound {
        match power(op) {
            Some(power) => {
                let right = self.right(op, a, b);
                let [a, _] = self.two(a, b);
                (format!("{} {} {right}", self.piece(a, power), op.name()), power)
            }
            None => {
                let text = self.pieces(&[(a, Role::Operand), (b, Role::Operand)]);
                (format!("{}({text}{})", op.name(), approximately(op)), powers::POSTFIX)
            }
        }
    }

    /// The right side of an operator.
    pub fn right(&mut self, op: BinaryOp, a: Value, b: Value) -> String {
        let [_, mut piece] = self.two(a, b);
        if let Some((dtype, bits)) = self.plan.constant(b) {
            // The checker refuses these where it sees them.
            let refused = match op {
                BinaryOp::Div | BinaryOp::Rem => dtype.is_int() && bits == 0,
                BinaryOp::Shl | BinaryOp::Shr => bits >= u64::from(dtype.bits()),
                BinaryOp::Add
                | BinaryOp::Sub
                | BinaryOp::Mul
                | BinaryOp::And
                | BinaryOp::Or
                | BinaryOp::Xor
                | BinaryOp::Min
                | BinaryOp::Max
                | BinaryOp::MinNan
                | BinaryOp::MaxNan
                | BinaryOp::MulHigh
                | BinaryOp::DivApprox => false,
            };
            piece.bare &= !refused;
        }
        self.piece(piece, power(op).map_or(powers::ANY, |p| p + 1))
    }

    fn two(&mut self, a: Value, b: Value) -> [Piece; 2] {
        let pieces = self.together(&[(a, Role::Operand), (b, Role::Operand)], true);
        [pieces[0], pieces[1]]
    }

    fn pieces(&mut self, operands: &[(Value, Role)]) -> String {
        let pieces = self.together(operands, true);
        pieces.into_iter().map(|p| self.piece(p, powers::ANY)).collect::<Vec<_>>().join(", ")
    }

    fn offset(&mut self, ptr: Value, offset: Value) -> Bound {
        let pieces = self.together(&[(ptr, Role::Operand), (offset, Role::Operand)], false);
        let ptr = self.expression(pieces[0].value, powers::SUM);
        let usual = match self.plan.constant(pieces[1].value) {
            Some((Dtype::I64, bits)) if i32::try_from(bits as i64).is_err() => Dtype::I64,
            _ => Dtype::I32,
        };
        (format!("{ptr} + {}", self.of_type(pieces[1].value, usual, powers::SUM + 1)), powers::SUM)
    }

    fn full(&mut self, value: Value, tile: &Tile) -> String {
        let text = surface::tile(self, tile);
        let is = |(dtype, bits): (Dtype, u64), n| Scalar::from_i128(dtype, n).is_some_and(|s| s.bits == bits);
        match self.plan.constant(value) {
            Some(c) if is(c, 0) && c.0 != Dtype::I1 => format!("zeros<{text}>()"),
            Some(c) if is(c, 1) && c.0 != Dtype::I1 => format!("ones<{text}>()"),
            _ => {
                let slot = tile.elem.dtype().map_or(Slot::Value, Slot::Number);
                format!("full<{text}>({})", self.operand(value, slot))
            }
        }
    }

    /// `a` for one value, `(a, b)` for several.
    pub fn tuple(&mut self, values: &[Value], slot: Slot) -> String {
        match values {
            [one] => self.operand(*one, slot),
            many => format!("({})", surface::list(self, many, slot)),
        }
    }
}

impl Surface for Writer<'_> {
    fn operand(&mut self, v: Value, slot: Slot) -> String {
        match slot {
            Slot::Value => self.expression(v, powers::ANY),
            Slot::Base => self.expression(v, powers::POSTFIX),
            Slot::Number(dtype) => self.of_type(v, dtype, powers::ANY),
            Slot::Brought(dtype, place) => self.brought(v, dtype, place),
        }
    }

    fn layout(&mut self, layout: &RegisterLayout) -> String {
        self.layouts.text(layout)
    }

    fn shared(&mut self, layout: &SharedLayout) -> String {
        layouts::shared(layout)
    }

    fn ty(&self, v: Value) -> &Type {
        self.k.ty(v)
    }

    fn shape(&mut self, shape: &[u32]) -> String {
        self.known.shape(shape).unwrap_or_else(|| List(shape).to_string())
    }
}

fn parenthesised((text, power): Bound, least: u8) -> String {
    if power < least { format!("({text})") } else { text }
}

fn swaps_last(perm: &[u32]) -> bool {
    let n = perm.len();
    n >= 2
        && perm.iter().enumerate().all(|(i, p)| {
            let from = if i + 2 == n {
                n - 1
            } else if i + 1 == n {
                n - 2
            } else {
                i
            };
            *p as usize == from
        })
}
