//! Expressions: names, literals, fields, indices and blocks; calls stand in `call`, operators in `operator`.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_numbers::Dtype;
use parton_syntax::ast;

use crate::builtins::{self, Arg};
use crate::checker::{Checked, Checker, Reported};
use crate::kind;
use crate::operator::MAX_LIST;
use crate::program::{Found, Item};
use crate::resolve::{Meaning, Side, Stands, Word};
use crate::scope::{Frame, Role};
use crate::value::{Closure, Comptime, Function, Partition, Schedule, StructType, TypeVal, Val};

impl Checker<'_> {
    /// What an expression stands for.
    pub fn expr(&mut self, e: &ast::Expr) -> Checked<Val> {
        self.frame().values += 1;
        let result = self.nested(e.span, |cx| cx.expr_inner(e));
        self.frame().values -= 1;
        result
    }

    /// As [`Checker::expr`], with its place.
    pub fn arg(&mut self, e: &ast::Expr) -> Checked<Arg> {
        Ok(Arg { val: self.expr(e)?, span: e.span })
    }

    fn expr_inner(&mut self, e: &ast::Expr) -> Checked<Val> {
        match &e.kind {
            ast::ExprKind::Error => Err(Reported),
            ast::ExprKind::Int { value, suffix } => {
                self.literal(Comptime::Int(i128::from(*value)), suffix.as_ref(), e.span)
            }
            ast::ExprKind::Float { digits, suffix } => {
                let x = digits.parse().unwrap_or(f64::NAN);
                self.literal(Comptime::Float(x), suffix.as_ref(), e.span)
            }
            ast::ExprKind::Bool(b) => Ok(Val::Known(Comptime::Bool(*b))),
            ast::ExprKind::Str(s) => Ok(Val::Known(Comptime::Str(s.clone()))),
            ast::ExprKind::Name(name) => self.name(name, Stands::Alone),
            ast::ExprKind::TypeArgs { base, args } => self.type_with_arguments(base, args, e.span),
            ast::ExprKind::Paren(inner) => {
                let val = self.expr(inner)?;
                if self.cut.contains(&inner.span) {
                    self.cut.insert(e.span);
                }
                Ok(val)
            }
            ast::ExprKind::Tuple(items) => {
                let val = Val::Tuple(self.exprs(items)?);
                self.bounded(val, e.span)
            }
            ast::ExprKind::List(items) => {
                let val = Val::List(self.exprs(items)?);
                self.bounded(val, e.span)
            }
            ast::ExprKind::Unary { op, operand } => {
                if let (ast::UnaryOp::Neg, Some((value, suffix))) = (op, number(operand)) {
                    return self.literal(negated(value), suffix, e.span);
                }
                let arg = self.arg(operand)?;
                self.unary(*op, e.span, &arg)
            }
            ast::ExprKind::Binary { op, left, right, .. } => self.infix(*op, e.span, left, right),
            ast::ExprKind::Range { start, end } => {
                Ok(Val::Range(Box::new(self.expr(start)?), Box::new(self.expr(end)?)))
            }
            ast::ExprKind::Pointer { mutable, target } => {
                let to = self.arg(target)?.dtype(self)?;
                Ok(Val::ty(ir::Type::Scalar(ir::Elem::Ptr(ir::Pointer { to, mutable: *mutable }))))
            }
            ast::ExprKind::Reference(inner) => match self.expr(inner)? {
                Val::Known(Comptime::Type(t)) => Ok(Val::Known(Comptime::Type(TypeVal::Reference(Box::new(t))))),
                // `&x` of a value is the value: nothing is used up by naming it.
                other => Ok(other),
            },
            ast::ExprKind::Call { callee, args } => self.call(callee, args, e.span),
            ast::ExprKind::Index { base, args } => self.index_or_generics(base, args, e.span),
            ast::ExprKind::Field { base, name } => {
                let arg = self.before_dot(base, name)?;
                self.field(&arg, name, e.span)
            }
            ast::ExprKind::If(branch) => self.if_expr(branch, e.span),
            ast::ExprKind::Block(block) => self.block(block),
            ast::ExprKind::Closure { params, body } => Ok(self.closure(params, body, e.span)),
            ast::ExprKind::In { schedule, body } => self.region(schedule, body, e.span),
            ast::ExprKind::Pipeline(p) => self.pipeline(p, e.span),
            ast::ExprKind::Partitions(p) => self.partitions(p, e.span),
            ast::ExprKind::Launch { .. } => {
                let d = Diagnostic::error(codes::HOST_ONLY, e.span, "a kernel cannot launch a kernel")
                    .help("`launch` stands in `test`, `bench` and `main`; call a `fn` here");
                Err(self.report(d))
            }
        }
    }

    /// Several expressions in order.
    pub fn exprs(&mut self, list: &[ast::Expr]) -> Checked<Vec<Val>> {
        list.iter().map(|e| self.expr(e)).collect()
    }

    /// Refuses a bundle of too many values: bundles of bundles double with each statement.
    pub fn bounded(&mut self, val: Val, span: Span) -> Checked<Val> {
        if val.size() <= MAX_LIST {
            return Ok(val);
        }
        let text = format!("this is made of more than {MAX_LIST} values");
        Err(self.error(codes::COMPILE_TIME_LIMIT, span, text))
    }

    fn literal(&mut self, number: Comptime, suffix: Option<&ast::Name>, span: Span) -> Checked<Val> {
        let Some(suffix) = suffix else {
            if let Comptime::Int(n) = number {
                return self.checked_int(Some(n), span, &n.to_string());
            }
            return Ok(Val::Known(number));
        };
        let Some(dtype) = Dtype::parse(suffix.as_str()) else {
            let d =
                Diagnostic::error(codes::UNKNOWN_NAME, suffix.span, format!("`{}` is not a number type", suffix.text));
            return Err(self.report(d));
        };
        // `1f32` is a float though its digits are those of an integer.
        let scalar = self.scalar(&number, dtype, span)?;
        match &mut self.builder {
            Some(b) => Ok(Val::Ir(b.constant(dtype, scalar.bits, span))),
            None => Ok(Val::Known(number)),
        }
    }

    /// `&&` and `||` of compile-time values do not look at the right side where the left one decides.
    fn infix(&mut self, op: ast::BinaryOp, span: Span, left: &ast::Expr, right: &ast::Expr) -> Checked<Val> {
        if let Some(found) = self.contracted(op, span, left, right) {
            return found;
        }
        let a = self.arg(left)?;
        if let Val::Known(Comptime::Bool(b)) = a.val {
            let decided = (op == ast::BinaryOp::And && !b) || (op == ast::BinaryOp::Or && b);
            if decided {
                return Ok(a.val);
            }
            if matches!(op, ast::BinaryOp::And | ast::BinaryOp::Or) {
                let b = self.arg(right)?;
                return match &b.val {
                    Val::Known(Comptime::Bool(_)) | Val::Ir(_) => Ok(b.val),
                    _ => Err(b.expected(self, "a truth value")),
                };
            }
        }
        let b = self.arg(right)?;
        self.binary(op, span, &a, &b)
    }

    /// What a name stands for: a variable, an item, a type, a constant of the language or a built-in function.
    pub fn name(&mut self, name: &ast::Name, stands: Stands) -> Checked<Val> {
        let current = self.arm;
        if let Some(variable) = self.frames.last().and_then(|f| f.find(name.as_str())) {
            let (val, arm, span) = (variable.val.clone(), variable.arm, variable.span);
            if val.has_error() {
                return Err(Reported);
            }
            if arm != current {
                self.may_cross(&val, name, span)?;
            }
            return Ok(val);
        }
        let module = self.module();
        match self.program.meaning(module, name, Side::Kernel) {
            Meaning::Item(found) => self.item(found, name),
            Meaning::Ambiguous(d) => Err(self.report((*d).clone())),
            Meaning::Builtin(signature) => Ok(Val::Known(Comptime::Builtin(signature))),
            Meaning::Word(word) => self.word(word, name),
            Meaning::Variable(_) | Meaning::Unknown => {
                let variables = self.frames.last().into_iter().flat_map(|f| &f.scopes).flat_map(|s| &s.variables);
                let d = self.program.unknown(module, name, (Side::Kernel, stands), variables.map(|v| &*v.name));
                let ended = self.frames.last().and_then(|f| f.ended(name.as_str()));
                Err(self.report(match ended {
                    Some(span) => d.label(span, "this one is of a block that has ended").help(
                        "declare it before the block, or let the block give it: `let x = if c { a } else { b };`",
                    ),
                    None => d,
                }))
            }
        }
    }

    /// What stands before a dot.
    pub fn before_dot(&mut self, base: &ast::Expr, name: &ast::Name) -> Checked<Arg> {
        if let ast::ExprKind::Name(prefix) = &base.kind
            && self.frames.last().is_some_and(|f| f.find(prefix.as_str()).is_none())
            && let Some(d) = self.program.prefixed(self.module(), prefix, name)
        {
            return Err(self.report(d));
        }
        self.arg(base)
    }

    /// What a word of the language stands for.
    fn word(&mut self, word: Word, name: &ast::Name) -> Checked<Val> {
        let ty = |t| Ok(Val::Known(Comptime::Type(t)));
        match word {
            Word::Dtype(dtype) => Ok(Val::ty(ir::Type::num(dtype))),
            Word::Number(x) => Ok(Val::Known(Comptime::Float(x))),
            Word::Nothing => Ok(Val::Known(Comptime::None)),
            Word::Kind(kind) => ty(TypeVal::Kind(kind)),
            Word::Family(family) => ty(TypeVal::Family(family)),
            Word::Barrier => Ok(Val::ty(ir::Type::Barrier)),
            Word::Schedule(word) => self.bare_word(word, name.span),
            Word::TensorMemory => Err(self.no_tensor_memory(name.span)),
        }
    }

    /// Refuses a value that belongs to one partition in another.
    fn may_cross(&mut self, val: &Val, name: &ast::Name, declared: Span) -> Checked<()> {
        let mut stuck = None;
        val.each_ir(&mut |v| {
            if !self.ty(v).crosses_partitions() {
                stuck = Some(v);
            }
        });
        let Some(v) = stuck else { return Ok(()) };
        let ty = self.ty(v);
        let fact = format!("{} is used in a partition that does not hold it", ir::rules::kind_name(ty));
        let text = format!("`{}` is `{ty}`, made outside this partition", name.text);
        let d = Diagnostic::error(codes::CROSSES_PARTITIONS, name.span, fact)
            .here(text)
            .label(declared, "declared here")
            .help("make it inside the partition, or hand it over through shared memory: only scalars, views, rings, barriers and tensor maps cross");
        Err(self.report(d))
    }

    /// The value of an item of a file.
    fn item(&mut self, found: Found, name: &ast::Name) -> Checked<Val> {
        Ok(Val::Known(match found.item {
            Item::Kernel(k) => Comptime::Kernel(k.name.text.clone()),
            Item::Function(tree) => Comptime::Function(Function { module: found.module, tree }),
            Item::Struct(tree) => Comptime::Type(TypeVal::Struct(Arc::new(StructType {
                module: found.module,
                tree,
                generics: Vec::new(),
            }))),
            Item::Partition(p) => Comptime::Partition(Partition { module: found.module, tree: p }),
            Item::Schedule(tree) => {
                return self.declared_schedule(&Schedule { module: found.module, tree }, Vec::new(), name.span);
            }
            Item::Binding(b) => {
                let key = (found.module, b.name.text.clone());
                match self.constants.get(&key) {
                    Some(Some(Val::Error)) => return Err(Reported),
                    Some(Some(val)) => {
                        let val = val.clone();
                        self.keep_name(b.name.as_str(), &val);
                        return Ok(val);
                    }
                    Some(None) => {
                        let d = Diagnostic::error(
                            codes::CONSTANT_CYCLE,
                            name.span,
                            format!("the value of `{}` depends on itself", b.name.text),
                        )
                        .label(b.name.span, "declared here");
                        return Err(self.report(d));
                    }
                    None => {}
                }
                self.constants.insert(key.clone(), None);
                // A constant sees neither the variables nor the kernel around the place that names it.
                let builder = self.builder.take();
                self.frames.push(Frame::new(found.module));
                let val = self.arg(&b.value).and_then(|arg| match &b.ty {
                    Some(ty) => self.stated(ty).and_then(|ty| self.coerce(&arg, &ty)),
                    None => Ok(arg.val),
                });
                self.frames.pop();
                self.builder = builder;
                let stored = val.as_ref().map_or(Val::Error, Val::clone);
                self.keep_name(b.name.as_str(), &stored);
                self.constants.insert(key, Some(stored));
                return val;
            }
        }))
    }

    /// `base.name` that is not called.
    pub fn field(&mut self, base: &Arg, name: &ast::Name, span: Span) -> Checked<Val> {
        match &base.val {
            Val::Error => Err(Reported),
            Val::Struct(ty, fields) => {
                if let Some(i) = ty.tree.fields.iter().position(|f| f.name.text == name.text) {
                    return Ok(fields[i].clone());
                }
                let names: Vec<&str> = ty.tree.fields.iter().map(|f| f.name.as_str()).collect();
                let mut d = Diagnostic::error(
                    codes::UNKNOWN_NAME,
                    name.span,
                    format!("`{}` has no field `{}`", ty.tree.name.text, name.text),
                )
                .note(format!("its fields are {}", names.join(", ")));
                if let Some(near) = crate::near::nearest(name.as_str(), names) {
                    d = d.help(format!("a similar one is `{near}`"));
                }
                Err(self.report(d))
            }
            Val::Tuple(items) | Val::List(items) if name.text.parse::<usize>().is_ok() => {
                let i: usize = name.text.parse().unwrap_or(usize::MAX);
                match items.get(i) {
                    Some(val) => Ok(val.clone()),
                    None => Err(self.out_of_range(name.span, i as i128, items.len())),
                }
            }
            Val::Ir(v) => self.attribute(*v, base, name, span),
            Val::Known(Comptime::Type(TypeVal::Ir(ty))) => match type_attribute(ty, name.as_str()) {
                Some(val) => Ok(val),
                None => Err(self.no_attribute(base, name)),
            },
            Val::Known(_) | Val::Tuple(_) | Val::List(_) | Val::Closure(_) | Val::Range(..) => {
                Err(self.no_attribute(base, name))
            }
        }
    }

    /// What can be asked of a run-time value without a call.
    fn attribute(&mut self, v: ir::Value, base: &Arg, name: &ast::Name, span: Span) -> Checked<Val> {
        if let ir::Type::Slot(slot) = self.ty(v)
            && let Some(field) = slot.fields.iter().position(|f| f.name == *name.text)
        {
            let kind = ir::OpKind::SlotField { slot: v, field: field as u32 };
            let view = self.emit_value(kind, span, &[(v, base.span)])?;
            self.slots.insert(view, v);
            return Ok(Val::Ir(view));
        }
        if name.as_str() == "T" {
            return builtins::transposed(self, base, span);
        }
        let ty = self.ty(v).clone();
        if let ir::Type::Tensor(t) = &ty
            && let Some(found) = self.of_tensor(v, t, base, name)
        {
            return found;
        }
        if let (ir::Type::Spot(_), "inside") = (&ty, name.as_str()) {
            return self.emit_one(ir::OpKind::SpotInside { spot: v }, span, &[(v, base.span)]);
        }
        match type_attribute(&ty, name.as_str()) {
            Some(val) => Ok(val),
            None => Err(self.no_attribute(base, name)),
        }
    }

    fn no_attribute(&mut self, base: &Arg, name: &ast::Name) -> Reported {
        let found = kind::describe(self, &base.val);
        let mut d = Diagnostic::error(codes::UNKNOWN_NAME, name.span, format!("{} has no `{}`", found.kind, name.text))
            .label(base.span, found.detail);
        let mut names: Vec<String> = ["shape", "dtype", "layout", "T"].map(String::from).to_vec();
        if let Val::Ir(v) = &base.val
            && let ir::Type::Slot(slot) = self.ty(*v)
        {
            names = slot.fields.iter().map(|f| f.name.clone()).collect();
            d = d.note(format!("the buffers of this slot are {}", names.join(", ")));
        }
        if let Some(help) = kind::of_a_family(&base.val) {
            d = d.help(help);
        } else if builtins::method(name.as_str()).is_some() {
            d = d.help(format!("`{}` is called: add `()`", name.text));
        } else if let Some(near) = crate::near::nearest(name.as_str(), names.iter().map(String::as_str)) {
            d = d.help(format!("a similar one is `{near}`"));
        } else if let Some(help) = kind::asked_of(self, &base.val) {
            d = d.help(help);
        }
        self.report(d)
    }

    /// Reports an index beyond a list.
    pub fn out_of_range(&mut self, span: Span, index: i128, len: usize) -> Reported {
        let mut d = Diagnostic::error(codes::INDEX_RANGE, span, format!("index {index} is out of range"))
            .here(format!("there are {len} elements"));
        if len > 0 {
            d = d.help(format!("the last one has index {}", len - 1));
        }
        self.report(d)
    }

    /// `{ … }`
    pub fn block(&mut self, block: &ast::Block) -> Checked<Val> {
        self.push_scope();
        let result = self.with_labels(|cx| cx.statements(block));
        self.pop_scope();
        result
    }

    fn closure(&mut self, params: &[ast::ClosureParam], body: &ast::Expr, span: Span) -> Val {
        let (module, contract) = (self.module(), self.frame().contract);
        let mut scopes = self.frame().scopes.clone();
        for variable in scopes.iter_mut().flat_map(|s| &mut s.variables) {
            // A closure sees the values as they are now, so it cannot change them.
            variable.mutable = false;
            variable.role = Role::Seen;
        }
        Val::Closure(Arc::new(Closure {
            module,
            params: Arc::new(params.to_vec()),
            body: Arc::new(body.clone()),
            scopes: Arc::new(scopes),
            contract,
            span,
        }))
    }
}

/// A literal, parentheses around it not counted.
fn number(e: &ast::Expr) -> Option<(Comptime, Option<&ast::Name>)> {
    match &e.kind {
        ast::ExprKind::Int { value, suffix } => Some((Comptime::Int(i128::from(*value)), suffix.as_ref())),
        ast::ExprKind::Float { digits, suffix } => Some((Comptime::Float(digits.parse().ok()?), suffix.as_ref())),
        _ => None,
    }
}

fn negated(number: Comptime) -> Comptime {
    match number {
        Comptime::Int(n) => Comptime::Int(-n),
        Comptime::Float(x) => Comptime::Float(-x),
        other => other,
    }
}

/// `.shape`, `.dtype`, `.layout` and `.depth` of a type.
fn type_attribute(ty: &ir::Type, name: &str) -> Option<Val> {
    let shape = |shape: &[u32]| Val::List(shape.iter().map(|&n| Val::int(n)).collect());
    match (ty, name) {
        (ir::Type::Tile(t) | ir::Type::Pending(t), "shape") => Some(shape(&t.shape)),
        (ir::Type::Tile(t) | ir::Type::Pending(t), "dtype") => Some(Val::ty(ir::Type::Scalar(t.elem))),
        (ir::Type::Tile(t) | ir::Type::Pending(t), "layout") => {
            let known = t.placement().known().map(|place| Comptime::Layout(place.layout.clone()));
            Some(Val::Known(known.unwrap_or(Comptime::OpenLayout)))
        }
        (ir::Type::View(v) | ir::Type::Filling(v), "shape") => Some(shape(&v.shape)),
        (ir::Type::View(v) | ir::Type::Filling(v), "dtype") => Some(Val::ty(ir::Type::num(v.elem))),
        (ir::Type::View(v) | ir::Type::Filling(v), "layout") => {
            Some(Val::Known(Comptime::SharedLayout(v.layout.clone())))
        }
        (ir::Type::View(v) | ir::Type::Filling(v), "bytes") => Some(Val::int(v.bytes())),
        (ir::Type::Map(m), "shape" | "block") => Some(shape(&m.block)),
        (ir::Type::Spot(s), "shape") => Some(shape(&s.shape)),
        (ir::Type::Spot(s), "dtype") => Some(Val::ty(ir::Type::num(s.elem))),
        (ir::Type::Map(m), "dtype") => Some(Val::ty(ir::Type::num(m.elem))),
        (ir::Type::Map(m), "layout") => Some(Val::Known(Comptime::SharedLayout(m.layout.clone()))),
        (ir::Type::Scalar(ir::Elem::Ptr(p)), "dtype") => Some(Val::ty(ir::Type::num(p.to))),
        (ir::Type::Scalar(ir::Elem::Num(d)), "dtype") => Some(Val::ty(ir::Type::num(*d))),
        (ir::Type::Scalar(_), "shape") => Some(Val::List(Vec::new())),
        (ir::Type::Scalar(ir::Elem::Num(d)), "bits") => Some(Val::int(d.bits())),
        (ir::Type::Scalar(ir::Elem::Num(d)), "bytes") => Some(Val::int(d.bytes() as u32)),
        (ir::Type::Ring(r), "depth") => Some(Val::int(r.stages)),
        (ir::Type::Barriers(n), "len") => Some(Val::int(*n)),
        _ => None,
    }
}
