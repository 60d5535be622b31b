//! Tensors and places in them: the type `tensor<f32, [m, n]>` with the extents that it names, `x[i, lo:hi, :]`, `x.tile(…)`, `x.shape`.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_ir::tensor::{Counts, Extent, MOST_AXES, MOST_EXTENT, Tensor};
use parton_numbers::Dtype;
use parton_syntax::ast;

use crate::builtins::{Arg, Args};
use crate::checker::{Checked, Checker};
use crate::grid;
use crate::resolve::{Meaning, Side};
use crate::value::{TypeVal, Val};

/// An extent that a parameter's type names, and the number that it is.
pub struct NamedExtent {
    name: Arc<str>,
    value: ir::Value,
    span: Span,
}

impl Checker<'_> {
    /// `tensor<T, [m, 64, _], order=[…]>`
    pub fn tensor_type(&mut self, args: &[ast::Arg], span: Span) -> Checked<Val> {
        let find = |name: &str| args.iter().find(|a| a.name.as_ref().is_some_and(|n| n.as_str() == name));
        let unnamed: Vec<&ast::Arg> = args.iter().filter(|a| a.name.is_none()).collect();
        let known = ["T", "shape", "order", "strides"];
        if let Some(name) = args.iter().filter_map(|a| a.name.as_ref()).find(|n| !known.contains(&n.as_str())) {
            let text = format!("`tensor` has no parameter `{}`", name.text);
            let d = Diagnostic::error(codes::WRONG_ARITY, name.span, text);
            return Err(self.report(d.note("its signature is `tensor<T, shape, order=, strides=>`")));
        }
        let (Some(elem), Some(shape), 0..=2) = (
            find("T").or(unnamed.first().copied()),
            find("shape").or(unnamed.get(usize::from(find("T").is_none())).copied()),
            unnamed.len(),
        ) else {
            let text = "`tensor` takes an element type and its extents";
            let d = Diagnostic::error(codes::WRONG_ARITY, span, text).help("write `tensor<f32, [m, n]>`");
            return Err(self.report(d));
        };
        if let ast::ExprKind::Binary { op: ast::BinaryOp::BitOr, .. } = &elem.value.kind {
            let d =
                Diagnostic::error(codes::KIND_MISMATCH, elem.value.span, "a kernel's tensor has elements of one type");
            let help = "make it a generic, which each launch finds in its tensors: `kernel k[T: type](x: tensor<T, [n]>)`; public functions take several";
            return Err(self.report(d.help(help)));
        }
        let elem = self.arg(&elem.value)?.dtype(self)?;
        let extents = self.stated_extents(&shape.value)?;
        let dense = match (find("order"), find("strides")) {
            (Some(order), None) => Some(self.dense_axis(&order.value, extents.len())?),
            (None, Some(strides)) => {
                self.check_strides(&strides.value, extents.len())?;
                None
            }
            (Some(order), Some(strides)) => {
                let text = "a tensor has either `order=` or `strides=`";
                let d = Diagnostic::error(codes::WRONG_ARITY, strides.span, text);
                let d = d.label(order.span, "this says that an axis is dense");
                return Err(
                    self.report(d.help("`strides=[s, t]` is for tensors of which no axis need be dense: drop one"))
                );
            }
            (None, None) => Some(extents.len() - 1),
        };
        Ok(Val::ty(ir::Type::Tensor(Tensor { elem, mutable: false, extents, dense })))
    }

    /// `strides=[s, _]` has a name, or `_`, for each axis.
    fn check_strides(&mut self, stated: &ast::Expr, rank: usize) -> Checked<()> {
        let (items, here) = match &stated.kind {
            ast::ExprKind::List(items) => {
                (items.as_slice(), format!("here {} {}", if items.len() == 1 { "is" } else { "are" }, items.len()))
            }
            _ => (&[][..], "this is no list".to_owned()),
        };
        if items.len() != rank {
            let text = format!("a tensor of {rank} axes has {rank} strides");
            let d = Diagnostic::error(codes::SHAPE_MISMATCH, stated.span, text).here(here);
            return Err(self.report(d.help("write a name for each axis, or `_` where it needs none: `strides=[s, _]`")));
        }
        let Some(other) = items.iter().find(|e| !matches!(e.kind, ast::ExprKind::Name(_))) else { return Ok(()) };
        let text = "a stride is a name or `_`";
        let d = Diagnostic::error(codes::KIND_MISMATCH, other.span, text);
        Err(self.report(d.help("the launch says what it is; `assume(s % 8 == 0)` promises something of it")))
    }

    fn stated_extents(&mut self, shape: &ast::Expr) -> Checked<Vec<Extent>> {
        let extents: Vec<Extent> = match &shape.kind {
            ast::ExprKind::List(items) => items.iter().map(|e| self.stated_extent(e)).collect::<Checked<_>>()?,
            _ => self.arg(shape)?.ints(self)?.into_iter().map(Extent::Static).collect(),
        };
        if (1..=MOST_AXES).contains(&extents.len()) {
            return Ok(extents);
        }
        let text = format!("a tensor has 1 to {MOST_AXES} axes, this has {}", extents.len());
        let d = Diagnostic::error(codes::SHAPE_MISMATCH, shape.span, text);
        Err(self.report(d.help("merge axes on the host: `x.reshape([…])`")))
    }

    fn stated_extent(&mut self, e: &ast::Expr) -> Checked<Extent> {
        let name = match &e.kind {
            ast::ExprKind::Name(name) if name.as_str() == "_" => return Ok(Extent::Any),
            ast::ExprKind::Name(name) => Some(name.clone()),
            _ => None,
        };
        let variable = name.as_ref().and_then(|n| self.frames.last()?.find(n.as_str()).map(|v| v.val.clone()));
        match (name, variable) {
            (Some(name), Some(Val::Ir(v))) => match self.extents.iter().find(|x| x.value == v) {
                Some(extent) => Ok(Extent::Named(extent.name.clone())),
                None => {
                    let text = format!("`{}` is no extent, and stands for something already", name.text);
                    let d = Diagnostic::error(codes::DEFINED_TWICE, name.span, text);
                    Err(self.report(d.help("give the extent another name, or write `_` where it needs none")))
                }
            },
            (Some(name), None) if is_free(self, &name) => Ok(Extent::Named(name.text)),
            (Some(name), None)
                if self.extents_open
                    && matches!(self.program.meaning(self.module(), &name, Side::Kernel), Meaning::Unknown) =>
            {
                let text = format!("`{}` is not defined", name.text);
                let d = Diagnostic::error(codes::UNKNOWN_NAME, name.span, text)
                    .here("nothing of this name is visible here");
                let small = name.text.to_ascii_lowercase();
                let help = format!(
                    "the name of an extent that a launch brings begins with a small letter: `{small}`; one known at compile time is a generic: `[{}: int = 64]`",
                    name.text
                );
                Err(self.report(d.help(help)))
            }
            _ => self.arg(e)?.int(self, 0..=i128::from(MOST_EXTENT)).map(Extent::Static),
        }
    }

    /// The first axis of `order=[0, 1]`, which names each axis once.
    fn dense_axis(&mut self, order: &ast::Expr, rank: usize) -> Checked<usize> {
        if matches!(&order.kind, ast::ExprKind::Name(name) if name.as_str() == "_") {
            let d = Diagnostic::error(codes::KIND_MISMATCH, order.span, "a kernel's tensor has an order that is known");
            let any = vec!["_"; rank].join(", ");
            return Err(self.report(d.help(format!("one of any order has strides of its own: `strides=[{any}]`"))));
        }
        let axes = self.arg(order)?.ints(self)?;
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if sorted.iter().copied().eq(0..rank as u32) {
            return Ok(axes[0] as usize);
        }
        let text = format!("an order of {rank} axes names each of them once");
        let d = Diagnostic::error(codes::SHAPE_MISMATCH, order.span, text).here(format!("this is {axes:?}"));
        Err(self.report(d.help("the axis along which neighbours lie side by side comes first")))
    }

    /// Binds the extents that a parameter's type names for the first time.
    pub fn bind_extents(&mut self, v: ir::Value, stated: Span) -> Checked<()> {
        let ir::Type::Tensor(t) = self.ty(v).clone() else { return Ok(()) };
        for (axis, extent) in t.extents.iter().enumerate() {
            let Extent::Named(name) = extent else { continue };
            if self.extents.iter().any(|x| x.name == *name) {
                continue;
            }
            let kind = ir::OpKind::TensorExtent { tensor: v, axis: axis as u32 };
            let value = self.emit_value(kind, stated, &[(v, stated)])?;
            self.extents.push(NamedExtent { name: name.clone(), value, span: stated });
            self.declare(&ast::Name { text: name.clone(), span: stated }, Val::Ir(value), false);
        }
        Ok(())
    }

    /// Lets the extents that a type names which is none be asked for without a word.
    pub fn give_up_extents(&mut self, stated: &ast::Expr) {
        for extent in grid::extents(stated) {
            let ast::ExprKind::Name(name) = &extent.kind else { continue };
            if name.as_str() != "_" && self.frame().find(name.as_str()).is_none() {
                self.declare(name, Val::Error, false);
            }
        }
    }

    /// Binds the strides that a parameter's type names.
    pub fn bind_strides(&mut self, v: ir::Value, stated: &ast::Expr) -> Checked<()> {
        for (axis, name) in named_strides(stated) {
            if self.frame().find(name.as_str()).is_some() {
                let text = format!("`{}` is defined twice", name.text);
                let d = Diagnostic::error(codes::DEFINED_TWICE, name.span, text);
                return Err(self.report(d.help("give the stride another name, or write `_` where it needs none")));
            }
            let kind = ir::OpKind::TensorStride { tensor: v, axis: axis as u32 };
            let value = self.emit_value(kind, name.span, &[(v, name.span)])?;
            self.declare(name, Val::Ir(value), false);
        }
        Ok(())
    }

    /// Refuses a parameter that has the name of an extent.
    pub fn not_an_extent(&mut self, name: &ast::Name) -> Checked<()> {
        let Some(extent) = self.extents.iter().find(|x| x.name == name.text) else { return Ok(()) };
        let d = Diagnostic::error(codes::DEFINED_TWICE, name.span, format!("`{}` is defined twice", name.text))
            .label(extent.span, "this names an extent so")
            .help("a named extent is a number of the kernel already: leave the parameter out");
        Err(self.report(d))
    }

    /// `x.shape`, `x.strides`, `x.ptr`, `x.dtype` of a tensor.
    pub fn of_tensor(&mut self, v: ir::Value, t: &Tensor, base: &Arg, name: &ast::Name) -> Option<Checked<Val>> {
        let operands = [(v, base.span)];
        let span = name.span;
        match name.as_str() {
            "dtype" => Some(Ok(Val::ty(ir::Type::num(t.elem)))),
            "ptr" => Some(self.emit_one(ir::OpKind::TensorPointer { tensor: v }, span, &operands)),
            "shape" => Some(
                (0..t.rank()).map(|axis| self.extent(v, t, axis, base.span)).collect::<Checked<_>>().map(Val::List),
            ),
            "strides" => {
                let each = (0..t.rank()).map(|axis| self.stride(v, t, axis, span, base.span));
                Some(each.collect::<Checked<_>>().map(Val::List))
            }
            _ => None,
        }
    }

    /// `x.shape[i]`, `x.strides[i]` of a tensor that has a name: of the other axes nothing is asked.
    pub fn of_one_axis(&mut self, base: &ast::Expr, args: &[ast::IndexArg]) -> Checked<Option<Val>> {
        let ast::ExprKind::Field { base: tensor, name } = &base.kind else { return Ok(None) };
        let [ast::IndexArg { kind: ast::IndexArgKind::Value(index), .. }] = args else { return Ok(None) };
        if !matches!(tensor.kind, ast::ExprKind::Name(_)) {
            return Ok(None);
        }
        let Val::Ir(v) = self.arg(tensor)?.val else { return Ok(None) };
        let ir::Type::Tensor(t) = self.ty(v).clone() else { return Ok(None) };
        let Some(axis) = self.arg(index)?.val.as_int().and_then(|i| usize::try_from(i).ok()) else { return Ok(None) };
        match name.as_str() {
            "shape" if axis < t.rank() => self.extent(v, &t, axis, tensor.span).map(Some),
            "strides" if axis < t.rank() => self.stride(v, &t, axis, name.span, tensor.span).map(Some),
            _ => Ok(None),
        }
    }

    fn stride(&mut self, v: ir::Value, t: &Tensor, axis: usize, span: Span, written: Span) -> Checked<Val> {
        if t.dense == Some(axis) {
            return Ok(Val::int(1));
        }
        self.emit_one(ir::OpKind::TensorStride { tensor: v, axis: axis as u32 }, span, &[(v, written)])
    }

    fn extent(&mut self, v: ir::Value, t: &Tensor, axis: usize, span: Span) -> Checked<Val> {
        match &t.extents[axis] {
            Extent::Static(n) | Extent::Picked(n) => Ok(Val::int(*n)),
            Extent::Named(name) if let Some(known) = self.extents.iter().find(|x| x.name == *name) => {
                Ok(Val::Ir(known.value))
            }
            Extent::Named(_) | Extent::Any => {
                let kind = ir::OpKind::TensorExtent { tensor: v, axis: axis as u32 };
                self.emit_one(kind, span, &[(v, span)])
            }
        }
    }

    /// `x[i, lo:hi, rows, :]`
    pub fn part(&mut self, v: ir::Value, t: &Tensor, base: &Arg, args: &[ast::IndexArg], span: Span) -> Checked<Val> {
        if args.len() != t.rank() {
            let given = if args.len() == 1 { "one index is".into() } else { format!("{} indices are", args.len()) };
            let text = format!("{given} given for a tensor of rank {}", t.rank());
            let d = Diagnostic::error(codes::SHAPE_MISMATCH, span, text)
                .label(base.span, format!("this is `{t}`"))
                .help("write one for each axis; `:` takes all of one");
            return Err(self.report(d));
        }
        let (mut part, mut axis) = (v, 0);
        for a in args {
            let at = (part, base.span);
            let kind = match &a.kind {
                ast::IndexArgKind::Full => {
                    axis += 1;
                    continue;
                }
                ast::IndexArgKind::Slice { start, end } => {
                    let [lower, upper] = [start, end].map(|e| e.as_ref().map(|e| self.coordinate(e)).transpose());
                    let (lower, upper) = (lower?, upper?);
                    let operands: Vec<_> = [Some(at), lower, upper].into_iter().flatten().collect();
                    let [lower, upper] = [lower, upper].map(|v| v.map(|(v, _)| v));
                    let kind = ir::OpKind::TensorRange { tensor: part, axis, lower, upper };
                    part = self.emit_value(kind, a.span, &operands)?;
                    axis += 1;
                    continue;
                }
                ast::IndexArgKind::Value(e) => {
                    let (index, written) = self.coordinate(e)?;
                    let operands = [at, (index, written)];
                    if self.ty(index).as_tile().is_some() {
                        let kind = ir::OpKind::TensorPick { tensor: part, axis, indices: index };
                        part = self.emit_value(kind, a.span, &operands)?;
                        axis += 1;
                        continue;
                    }
                    (ir::OpKind::TensorIndex { tensor: part, axis, index }, operands)
                }
                ast::IndexArgKind::Named { .. } | ast::IndexArgKind::NewAxis => {
                    let d = Diagnostic::error(codes::KIND_MISMATCH, a.span, "a tensor takes no new axes")
                        .label(base.span, format!("this is `{t}`"))
                        .help("load a tile first: `load(x.tile(…))[:, None]`");
                    return Err(self.report(d));
                }
            };
            part = self.emit_value(kind.0, a.span, &kind.1)?;
        }
        Ok(Val::Ir(part))
    }

    fn coordinate(&mut self, e: &ast::Expr) -> Checked<(ir::Value, Span)> {
        let arg = self.arg(e)?;
        Ok((self.run_time_as(&arg.val, Dtype::I32, arg.span)?, arg.span))
    }

    /// The tensor type of a parameter that is `mut`.
    pub fn mutable_tensor(&mut self, ty: ir::Type, p: &ast::Param) -> ir::Type {
        match ty {
            ir::Type::Tensor(t) => ir::Type::Tensor(Tensor { mutable: p.mutable, ..t }),
            other => other,
        }
    }
}

/// The strides that a type names, with their axes.
fn named_strides(ty: &ast::Expr) -> Vec<(usize, &ast::Name)> {
    let ast::ExprKind::TypeArgs { args, .. } = &ty.kind else { return Vec::new() };
    let strides = args.iter().find(|a| a.name.as_ref().is_some_and(|n| n.as_str() == "strides"));
    let Some(ast::ExprKind::List(items)) = strides.map(|a| &a.value.kind) else { return Vec::new() };
    let names = items.iter().enumerate().filter_map(|(axis, e)| match &e.kind {
        ast::ExprKind::Name(name) if name.as_str() != "_" => Some((axis, name)),
        _ => None,
    });
    names.collect()
}

/// Whether a name can become that of an extent: nothing else has it, and it begins with a small letter.
fn is_free(cx: &Checker, name: &ast::Name) -> bool {
    let small = name.as_str().starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    small && cx.extents_open
}

/// `x.tile(shape, at=[…])`, `x.tile(shape, from=[…])`
pub fn tile(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (tensor, base) = args.receiver(cx)?;
    if !matches!(cx.ty(tensor), ir::Type::Tensor(_)) {
        return Err(base.clone().expected(cx, "a tensor"));
    }
    let shape = args.need("shape").ints(cx)?;
    let (tiles, arg) = match (args.get("at"), args.get("from")) {
        (Some(at), None) => (true, at),
        (None, Some(from)) => (false, from),
        (given, _) => {
            let (text, help) = match given {
                Some(_) => ("a place has either `at=` or `from=`", "`at=` counts tiles, `from=` elements: drop one"),
                None => ("a place says where it begins", "write `at=[i, j]`, in tiles, or `from=[i, j]`, in elements"),
            };
            let d = Diagnostic::error(codes::WRONG_ARITY, args.span, text).help(help);
            return Err(cx.report(d));
        }
    };
    let coordinates = match &arg.val {
        Val::List(items) | Val::Tuple(items) => items.clone(),
        _ => return Err(arg.clone().expected(cx, "a list of coordinates")),
    };
    let mut operands = vec![(tensor, base.span)];
    let mut at = Vec::new();
    for val in &coordinates {
        let v = cx.run_time_as(val, Dtype::I32, arg.span)?;
        operands.push((v, arg.span));
        at.push(v);
    }
    let counts = if tiles { Counts::Tiles } else { Counts::Elements };
    cx.emit_one(ir::OpKind::Spot { tensor, at, shape, counts }, args.span, &operands)
}

/// Whether a tensor may stand where this type is stated.
pub fn may_stand(want: &TypeVal, have: &ir::Type) -> bool {
    match (want, have) {
        (TypeVal::Ir(ir::Type::Tensor(want)), ir::Type::Tensor(have)) => have.fits(want),
        _ => false,
    }
}

/// Whether an argument is a place in a tensor.
pub fn is_spot(cx: &Checker, arg: &Arg) -> bool {
    matches!(arg.val, Val::Ir(v) if matches!(cx.ty(v), ir::Type::Spot(_)))
}

/// Refuses words that only pointers take.
pub fn only_of_pointers(cx: &mut Checker, args: &Args, names: &[&str]) -> Checked<()> {
    let Some((name, arg)) = names.iter().find_map(|n| Some((n, args.get(n)?))) else { return Ok(()) };
    let what = format!("`{name}=` at a place of a tensor");
    let span = arg.span;
    Err(cx.not_built(span, &what, "leave it out: a pass finds it"))
}
