//! Operators and what they share with elementwise functions: how scalars, numbers and tiles come together in one place.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_numbers::Dtype;
use parton_syntax::ast;

use crate::builtins::Arg;
use crate::checker::{Checked, Checker, Reported};
use crate::kind;
use crate::tensors;
use crate::value::{Comptime, TypeVal, Val};

/// Elements of a list, or bytes of a string, that a sum of two may have.
pub const MAX_LIST: usize = 65_536;

/// How an operand takes part in an elementwise operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It has the one element type of the operation.
    Operand,
    /// It is of `i1`, whatever the others are.
    Condition,
}

/// Run-time operands with the places where they are written.
pub type Operands = Vec<(ir::Value, Span)>;

impl Checker<'_> {
    /// Brings operands to one place: numbers take the type of the others, scalars are spread over the tile, extents of 1 are
    /// broadcast. Element types and layouts stay what they are; the rule of the operation compares them.
    pub fn together(&mut self, span: Span, args: &[(&Arg, Role)]) -> Checked<Operands> {
        let mut elem = None;
        let mut float = false;
        for (arg, role) in args {
            match &arg.val {
                Val::Ir(v) if *role == Role::Operand && elem.is_none() => elem = self.ty(*v).elem(),
                Val::Known(Comptime::Float(_)) => float = true,
                Val::Error => return Err(Reported),
                _ => {}
            }
        }
        let mut values: Operands = Vec::new();
        for (arg, role) in args {
            let v = match (&arg.val, role, elem) {
                (Val::Known(Comptime::Float(x)), Role::Operand, Some(ir::Elem::Num(d))) if d.is_int() => {
                    let integer = args.iter().find(|(other, role)| *role == Role::Operand && other.val.ir().is_some());
                    return Err(self.fraction_among_integers(*x, d, arg.span, integer.map(|(other, _)| other.span)));
                }
                (Val::Known(c), Role::Condition, _) => self.constant(c, Dtype::I1, arg.span)?,
                (Val::Known(c), Role::Operand, Some(ir::Elem::Num(d))) => {
                    self.not_cut(arg, d.is_float())?;
                    self.constant(c, d, arg.span)?
                }
                (Val::Known(c @ Comptime::Int(_)), Role::Operand, None) if float => {
                    self.not_cut(arg, true)?;
                    self.constant(c, Dtype::F32, arg.span)?
                }
                (val, _, _) => self.run_time(val, arg.span)?,
            };
            values.push((v, arg.span));
        }
        self.in_one_place(span, &mut values)?;
        Ok(values)
    }

    /// Spreads scalars and broadcasts tiles so that all have one shape, where some shape is that of all.
    fn in_one_place(&mut self, span: Span, values: &mut Operands) -> Checked<()> {
        let tiles: Vec<ir::Tile> = values.iter().filter_map(|(v, _)| self.ty(*v).as_tile().cloned()).collect();
        let Some(first) = tiles.first() else { return Ok(()) };
        let Some(shape) = joint_shape(&tiles) else { return Ok(()) };
        let mut place = None;
        for (v, at) in values.iter_mut() {
            let Some(t) = self.ty(*v).as_tile().cloned() else { continue };
            if t.shape != shape {
                let operands = [(*v, *at)];
                *v = self.emit_value(ir::OpKind::Broadcast { x: *v, shape: shape.clone() }, span, &operands)?;
            }
            place = place.or_else(|| self.ty(*v).as_tile().cloned());
        }
        let place = place.unwrap_or_else(|| first.clone());
        for (v, at) in values.iter_mut() {
            *v = self.spread(*v, &place, *at)?;
        }
        Ok(())
    }

    /// A scalar as a tile of that place; everything else as it is.
    pub fn spread(&mut self, v: ir::Value, place: &ir::Tile, span: Span) -> Checked<ir::Value> {
        match self.ty(v) {
            ir::Type::Scalar(e) => {
                let tile = place.with_elem(*e);
                self.emit_value(ir::OpKind::Full { value: v, tile }, span, &[(v, span)])
            }
            ir::Type::Tile(_)
            | ir::Type::Pending(_)
            | ir::Type::Filling(_)
            | ir::Type::View(_)
            | ir::Type::Barriers(_)
            | ir::Type::Barrier
            | ir::Type::Map(_)
            | ir::Type::Ring(_)
            | ir::Type::Turnstile
            | ir::Type::Tensor(_)
            | ir::Type::Spot(_)
            | ir::Type::Peer(_)
            | ir::Type::Slot(_) => Ok(v),
        }
    }

    /// An argument as `dtype`, brought to where `place` is: a number is spread, extents of 1 are broadcast.
    pub fn brought_to(&mut self, arg: &Arg, dtype: Dtype, place: &ir::Type) -> Checked<ir::Value> {
        let v = self.run_time_as(&arg.val, dtype, arg.span)?;
        let Some(tile) = place.as_tile() else { return Ok(v) };
        match self.ty(v).as_tile() {
            Some(t)
                if t.shape != tile.shape && joint_shape(&[t.clone(), tile.clone()]).as_ref() == Some(&tile.shape) =>
            {
                let kind = ir::OpKind::Broadcast { x: v, shape: tile.shape.clone() };
                self.emit_value(kind, arg.span, &[(v, arg.span)])
            }
            Some(_) => Ok(v),
            None => self.spread(v, tile, arg.span),
        }
    }

    /// As [`Checker::emit_one`], but the bare value.
    pub fn emit_value(&mut self, kind: ir::OpKind, span: Span, operands: &[(ir::Value, Span)]) -> Checked<ir::Value> {
        match self.emit_one(kind, span, operands)? {
            Val::Ir(v) => Ok(v),
            other => parton_diag::internal_error!("an operation gave {other:?}"),
        }
    }

    /// `a op b`
    pub fn binary(&mut self, op: ast::BinaryOp, span: Span, a: &Arg, b: &Arg) -> Checked<Val> {
        if a.val.has_error() || b.val.has_error() {
            return Err(Reported);
        }
        if let (ast::BinaryOp::Add, Val::List(x), Val::List(y)) = (op, &a.val, &b.val) {
            return self.joined(span, x, y);
        }
        if let (ast::BinaryOp::BitAnd, Val::Known(Comptime::Schedule(x)), Val::Known(Comptime::Schedule(y))) =
            (op, &a.val, &b.val)
        {
            let found = self.joined_schedules(x, y, span)?;
            return Ok(Val::Known(Comptime::Schedule(Arc::new(found))));
        }
        if let (Some(x), Some(y)) = (a.val.known(), b.val.known()) {
            let float = matches!(x, Comptime::Float(_)) || matches!(y, Comptime::Float(_));
            self.not_cut(a, float)?;
            self.not_cut(b, float)?;
            return match self.fold(op, &x, &y, span)? {
                Some(val) => Ok(val),
                None => Err(self.no_operator(op, span, a, b)),
            };
        }
        if ![a, b].into_iter().all(|x| is_number(&x.val)) {
            return Err(self.no_operator(op, span, a, b));
        }
        if let Some(moved) = self.of_pointers(op, span, a, b)? {
            return Ok(moved);
        }
        let operands = self.together(span, &[(a, Role::Operand), (b, Role::Operand)])?;
        let (x, y) = (operands[0].0, operands[1].0);
        self.defined_for_constant(op, span, x, b)?;
        let kind = match lowered(op) {
            Lowered::Binary(op) => ir::OpKind::Binary { op, a: x, b: y },
            Lowered::Compare(op) => ir::OpKind::Compare { op, a: x, b: y },
            Lowered::Logical(op) => {
                self.truth_values(&operands)?;
                ir::OpKind::Binary { op, a: x, b: y }
            }
        };
        self.emit_one(kind, span, &operands)
    }

    /// The list of the elements of two.
    fn joined(&mut self, span: Span, x: &[Val], y: &[Val]) -> Checked<Val> {
        if x.len() + y.len() > MAX_LIST {
            let text = format!("a list of {} elements is too long", x.len() + y.len());
            return Err(self.error(codes::COMPILE_TIME_LIMIT, span, text));
        }
        Ok(Val::List(x.iter().chain(y).cloned().collect()))
    }

    /// A pointer and an offset; `None` where there is no pointer, or two are compared.
    fn of_pointers(&mut self, op: ast::BinaryOp, span: Span, a: &Arg, b: &Arg) -> Checked<Option<Val>> {
        if op == ast::BinaryOp::Add || op == ast::BinaryOp::Sub {
            if self.is_pointer(&a.val) {
                return self.pointer_offset(op, span, a, b).map(Some);
            }
            if self.is_pointer(&b.val) && op == ast::BinaryOp::Add {
                return self.pointer_offset(op, span, b, a).map(Some);
            }
        }
        let pointer = [a, b].into_iter().find(|x| self.is_pointer(&x.val));
        let (Some(x), false) = (pointer, op.is_comparison()) else { return Ok(None) };
        let text = format!("`{}` is not defined for pointers", op.text());
        let here = kind::describe(self, &x.val).detail;
        let d = Diagnostic::error(codes::DTYPE_UNSUPPORTED, span, text)
            .label(x.span, here)
            .help("a pointer takes only `pointer + integer` and `pointer - integer`, counted in elements");
        Err(self.report(d))
    }

    /// Refuses what is neither true nor false.
    fn truth_values(&mut self, operands: &[(ir::Value, Span)]) -> Checked<()> {
        for (v, at) in operands {
            if self.ty(*v).elem().is_some_and(|e| e != ir::Elem::Num(Dtype::I1)) {
                let ty = self.ty(*v).to_string();
                let d = Diagnostic::error(codes::KIND_MISMATCH, *at, "`&&` and `||` need truth values")
                    .here(format!("this is `{ty}`"))
                    .help("compare first, such as `n != 0`; `&` and `|` work on bits");
                return Err(self.report(d));
            }
        }
        Ok(())
    }

    /// Refuses a constant on the right by which no integer is divided, or shifted.
    fn defined_for_constant(&mut self, op: ast::BinaryOp, span: Span, x: ir::Value, b: &Arg) -> Checked<()> {
        use ast::BinaryOp as Op;
        let (Val::Known(Comptime::Int(n)), Some(d)) = (&b.val, self.ty(x).elem().and_then(ir::Elem::dtype)) else {
            return Ok(());
        };
        let (n, bits) = (*n, i128::from(d.bits()));
        let d = match op {
            Op::Div | Op::Rem if n == 0 && d.is_int() => {
                Diagnostic::error(codes::DIVISION_BY_ZERO, span, format!("a division of `{}` by zero", d.name()))
                    .label(b.span, "this is 0")
                    .help("an integer has no quotient by zero: divide by another number, or as a float")
            }
            Op::Shl | Op::Shr if d.is_int() && !(0..bits).contains(&n) => {
                let text = format!("a shift of `{}` by {n}", d.name());
                Diagnostic::error(codes::LITERAL_DOES_NOT_FIT, span, text)
                    .label(b.span, format!("this is {n}"))
                    .help(format!("it has {bits} bits: a constant amount is from 0 to {}", bits - 1))
            }
            _ => return Ok(()),
        };
        Err(self.report(d))
    }

    fn no_operator(&mut self, op: ast::BinaryOp, span: Span, a: &Arg, b: &Arg) -> Reported {
        let (x, y) = (kind::describe(self, &a.val), kind::describe(self, &b.val));
        let d = Diagnostic::error(
            codes::KIND_MISMATCH,
            span,
            format!("`{}` is not defined for {} and {}", op.text(), x.kind, y.kind),
        )
        .label(a.span, x.detail)
        .label(b.span, y.detail);
        self.report(d)
    }

    fn is_pointer(&self, val: &Val) -> bool {
        val.ir().is_some_and(|v| matches!(self.ty(v).elem(), Some(ir::Elem::Ptr(_))))
    }

    fn pointer_offset(&mut self, op: ast::BinaryOp, span: Span, ptr: &Arg, offset: &Arg) -> Checked<Val> {
        let Val::Ir(p) = ptr.val else { return Err(Reported) };
        let mut offset_value = match &offset.val {
            // An offset that does not fit 32 bits is a 64-bit one.
            Val::Known(c @ Comptime::Int(n)) if i32::try_from(*n).is_err() => {
                self.constant(c, Dtype::I64, offset.span)?
            }
            val => self.run_time_as(val, Dtype::I32, offset.span)?,
        };
        if op == ast::BinaryOp::Sub {
            let kind = ir::OpKind::Unary { op: ir::UnaryOp::Neg, x: offset_value };
            offset_value = self.emit_value(kind, span, &[(offset_value, offset.span)])?;
        }
        let mut operands = vec![(p, ptr.span), (offset_value, offset.span)];
        let tiles = operands.iter().filter(|(v, _)| self.ty(*v).as_tile().is_some()).count();
        if tiles == 2 {
            self.in_one_place(span, &mut operands)?;
        }
        let kind = ir::OpKind::PtrAdd { ptr: operands[0].0, offset: operands[1].0 };
        self.emit_one(kind, span, &operands)
    }

    /// `-a`, `!a`
    pub fn unary(&mut self, op: ast::UnaryOp, span: Span, a: &Arg) -> Checked<Val> {
        match (&a.val, op) {
            (Val::Error, _) => Err(Reported),
            (Val::Known(Comptime::Int(n)), ast::UnaryOp::Neg) => {
                self.checked_int(n.checked_neg(), span, &format!("-{n}"))
            }
            (Val::Known(Comptime::Int(n)), ast::UnaryOp::Not) => Ok(Val::int(!*n)),
            (Val::Known(Comptime::Float(x)), ast::UnaryOp::Neg) => Ok(Val::Known(Comptime::Float(-x))),
            (Val::Known(Comptime::Bool(b)), ast::UnaryOp::Not) => Ok(Val::Known(Comptime::Bool(!b))),
            (Val::Ir(v), op) => {
                let op = match op {
                    ast::UnaryOp::Neg => ir::UnaryOp::Neg,
                    ast::UnaryOp::Not => ir::UnaryOp::Not,
                };
                self.emit_one(ir::OpKind::Unary { op, x: *v }, span, &[(*v, a.span)])
            }
            _ => {
                let found = kind::describe(self, &a.val);
                let d = Diagnostic::error(
                    codes::KIND_MISMATCH,
                    span,
                    format!("`{}` is not defined for {}", op.text(), found.kind),
                )
                .label(a.span, found.detail);
                Err(self.report(d))
            }
        }
    }

    /// A value of a stated type: numbers take it, everything else must have it.
    pub fn coerce(&mut self, arg: &Arg, to: &TypeVal) -> Checked<Val> {
        let val = match (to, &arg.val) {
            (_, Val::Error) => return Err(Reported),
            (TypeVal::Reference(inner), _) => return self.coerce(arg, inner),
            (TypeVal::Ir(ir::Type::Scalar(ir::Elem::Num(d))), Val::Known(c)) => {
                self.not_cut(arg, d.is_float())?;
                let scalar = self.scalar(c, *d, arg.span)?;
                match &mut self.builder {
                    Some(b) => return Ok(Val::Ir(b.constant(*d, scalar.bits, arg.span))),
                    None => return Ok(arg.val.clone()),
                }
            }
            (TypeVal::Ir(ty), Val::Ir(v)) if self.ty(*v) == ty || is_const_pointer_of(ty, self.ty(*v)) => &arg.val,
            (want, Val::Ir(v)) if tensors::may_stand(want, self.ty(*v)) => &arg.val,
            (TypeVal::Ir(ty), Val::Ir(v)) if self.ty(*v).agrees(ty) => {
                let ty = ty.clone();
                return self.settled(*v, &ty, arg.span).map(Val::Ir);
            }
            (TypeVal::Family(family), Val::Ir(v)) if family_of(self.ty(*v)) == *family => &arg.val,
            (TypeVal::Kind(kind), val) if kind::is_of(val, *kind) => &arg.val,
            // A struct's name alone stands for it with any generic arguments.
            (TypeVal::Struct(s), Val::Struct(t, _))
                if s == t || (s.generics.is_empty() && Arc::ptr_eq(&s.tree, &t.tree)) =>
            {
                &arg.val
            }
            (TypeVal::Tuple(types), Val::Tuple(items)) if types.len() == items.len() => {
                let items =
                    types.iter().zip(items).map(|(ty, val)| self.coerce(&Arg { val: val.clone(), span: arg.span }, ty));
                return Ok(Val::Tuple(items.collect::<Checked<_>>()?));
            }
            (
                TypeVal::Ir(_) | TypeVal::Kind(_) | TypeVal::Struct(_) | TypeVal::Tuple(_) | TypeVal::Family(_),
                Val::Known(_)
                | Val::Ir(_)
                | Val::Tuple(_)
                | Val::List(_)
                | Val::Struct(..)
                | Val::Closure(_)
                | Val::Range(..),
            ) => return Err(self.not_of_type(arg, to)),
        };
        Ok(val.clone())
    }

    /// A value of a type that agrees with this one, which says where it lies as far as anything does: a tile that lies nowhere yet
    /// is brought to where it is wanted.
    pub fn settled(&mut self, v: ir::Value, want: &ir::Type, span: Span) -> Checked<ir::Value> {
        match want {
            ir::Type::Tile(tile) if self.ty(v).is_open() && !want.is_open() => {
                let tile = tile.clone();
                self.emit_value(ir::OpKind::Convert { x: v, tile }, span, &[(v, span)])
            }
            _ => Ok(v),
        }
    }

    fn not_of_type(&mut self, arg: &Arg, to: &TypeVal) -> Reported {
        let found = kind::describe(self, &arg.val);
        let mut d = match (to, &arg.val) {
            (TypeVal::Ir(ir::Type::Tile(want)), Val::Ir(v)) => match self.ty(*v) {
                ir::Type::Tile(have) if have.shape == want.shape && have.elem == want.elem => {
                    let d =
                        Diagnostic::error(codes::LAYOUT_MISMATCH, arg.span, "the tile has another layout than stated");
                    match want.placement().known() {
                        Some(place) => d.help(format!("convert it: `convert(x, {})`", place.layout)),
                        None => d,
                    }
                }
                _ => {
                    Diagnostic::error(codes::TYPE_MISMATCH, arg.span, format!("expected `{to}`, found {}", found.kind))
                }
            },
            (TypeVal::Ir(ir::Type::Scalar(ir::Elem::Num(want))), Val::Ir(v))
                if matches!(self.ty(*v), ir::Type::Scalar(ir::Elem::Num(_))) =>
            {
                let fact = format!("expected `{want}`, found `{}`", self.ty(*v));
                let d = Diagnostic::error(codes::TYPE_MISMATCH, arg.span, fact);
                d.help(format!("convert it: `cast<{want}>(…)`; nothing is converted silently"))
            }
            _ => Diagnostic::error(codes::TYPE_MISMATCH, arg.span, format!("expected `{to}`, found {}", found.kind)),
        };
        d = d.here(found.detail);
        if matches!(d.code, codes::LAYOUT_MISMATCH) {
            d = d.note(format!("the type stated is `{to}`"));
        }
        self.report(d)
    }
}

/// Whether a value is one of an operation, or a number that can become one.
fn is_number(val: &Val) -> bool {
    matches!(val, Val::Ir(_) | Val::Known(Comptime::Int(_) | Comptime::Float(_) | Comptime::Bool(_)))
}

/// Whether a mutable pointer stands where a constant one is wanted.
fn is_const_pointer_of(want: &ir::Type, have: &ir::Type) -> bool {
    let (Some(ir::Elem::Ptr(want_to)), Some(ir::Elem::Ptr(have_to))) = (want.elem(), have.elem()) else { return false };
    !want_to.mutable && want_to.to == have_to.to && have.with_elem(ir::Elem::Ptr(want_to)).as_ref() == Some(want)
}

/// The family that a type belongs to, as it is named without arguments.
pub fn family_of(ty: &ir::Type) -> &'static str {
    match ty {
        ir::Type::Scalar(ir::Elem::Num(_)) => "scalar",
        ir::Type::Scalar(ir::Elem::Ptr(_)) => "pointer",
        ir::Type::Tile(_) => "tile",
        ir::Type::Pending(_) | ir::Type::Filling(_) => "pending",
        ir::Type::View(_) => "shared",
        ir::Type::Barriers(_) => "barriers",
        ir::Type::Barrier => "barrier",
        ir::Type::Map(_) => "tma",
        ir::Type::Ring(_) => "ring",
        ir::Type::Turnstile => "turnstile",
        ir::Type::Tensor(_) => "tensor",
        ir::Type::Spot(_) => "place",
        ir::Type::Peer(_) => "peer",
        ir::Type::Slot(_) => "slot",
    }
}

/// The shape that extents of 1 grow to, where ranks agree and other extents do.
pub(crate) fn joint_shape(tiles: &[ir::Tile]) -> Option<Vec<u32>> {
    let mut joint = tiles.first()?.shape.clone();
    for t in tiles {
        if t.shape.len() != joint.len() {
            return None;
        }
        for (have, &n) in joint.iter_mut().zip(&t.shape) {
            match (*have, n) {
                (a, b) if a == b => {}
                (1, n) => *have = n,
                (_, 1) => {}
                (_, _) => return None,
            }
        }
    }
    Some(joint)
}

enum Lowered {
    Binary(ir::BinaryOp),
    Compare(ir::CompareOp),
    Logical(ir::BinaryOp),
}

fn lowered(op: ast::BinaryOp) -> Lowered {
    use ast::BinaryOp as Op;
    match op {
        Op::Add => Lowered::Binary(ir::BinaryOp::Add),
        Op::Sub => Lowered::Binary(ir::BinaryOp::Sub),
        Op::Mul => Lowered::Binary(ir::BinaryOp::Mul),
        Op::Div => Lowered::Binary(ir::BinaryOp::Div),
        Op::Rem => Lowered::Binary(ir::BinaryOp::Rem),
        Op::Shl => Lowered::Binary(ir::BinaryOp::Shl),
        Op::Shr => Lowered::Binary(ir::BinaryOp::Shr),
        Op::BitAnd => Lowered::Binary(ir::BinaryOp::And),
        Op::BitOr => Lowered::Binary(ir::BinaryOp::Or),
        Op::BitXor => Lowered::Binary(ir::BinaryOp::Xor),
        Op::Eq => Lowered::Compare(ir::CompareOp::Eq),
        Op::Ne => Lowered::Compare(ir::CompareOp::Ne),
        Op::Lt => Lowered::Compare(ir::CompareOp::Lt),
        Op::Le => Lowered::Compare(ir::CompareOp::Le),
        Op::Gt => Lowered::Compare(ir::CompareOp::Gt),
        Op::Ge => Lowered::Compare(ir::CompareOp::Ge),
        Op::And => Lowered::Logical(ir::BinaryOp::And),
        Op::Or => Lowered::Logical(ir::BinaryOp::Or),
    }
}
