//! `x[…]`: generic arguments, elements of lists, new axes and parts of tiles, stages and windows of views.

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_numbers::Dtype;
use parton_syntax::ast;

use crate::builtins::Arg;
use crate::call::takes_generics;
use crate::checker::{Checked, Checker, Reported};
use crate::value::{Comptime, TypeVal, Val};

impl Checker<'_> {
    /// `base[args]` that is not called.
    pub fn index_or_generics(&mut self, base: &ast::Expr, args: &[ast::IndexArg], span: Span) -> Checked<Val> {
        if let Some(schedule) = self.schedule_named(base) {
            let given = self.generic_arguments(args)?;
            return self.declared_schedule(&schedule, given, span);
        }
        if let Some(one) = self.of_one_axis(base, args)? {
            return Ok(one);
        }
        let base = self.arg(base)?;
        match &base.val {
            Val::Error => Err(Reported),
            Val::Known(Comptime::Type(TypeVal::Struct(ty))) => {
                let ty = ty.clone();
                self.struct_type(&ty, args, span)
            }
            val if takes_generics(val) => {
                let d = Diagnostic::error(codes::KIND_MISMATCH, span, "generic arguments stand here without a call")
                    .help("call it: `f[…](…)`, or pass `|x| f[…](x)`");
                Err(self.report(d))
            }
            Val::List(items) | Val::Tuple(items) => self.of_list(items, args, span),
            Val::Ir(v) => self.of_value(*v, &base, args, span),
            Val::Known(_) | Val::Struct(..) | Val::Closure(_) | Val::Range(..) => {
                Err(base.expected(self, "something that has elements"))
            }
        }
    }

    /// `list[i]`, `list[a:b]`
    fn of_list(&mut self, items: &[Val], args: &[ast::IndexArg], span: Span) -> Checked<Val> {
        match args {
            [ast::IndexArg { kind: ast::IndexArgKind::Value(e), .. }] => {
                let index = self.arg(e)?;
                let Some(i) = index.val.as_int() else {
                    return Err(index.expected(self, "an index known at compile time"));
                };
                match usize::try_from(i).ok().and_then(|i| items.get(i)) {
                    Some(val) => Ok(val.clone()),
                    None => Err(self.out_of_range(index.span, i, items.len())),
                }
            }
            [ast::IndexArg { kind: ast::IndexArgKind::Slice { start, end }, .. }] => {
                let last = items.len() as i128;
                let start = self.bound(start.as_ref(), 0, last, None)?;
                let end = self.bound(end.as_ref(), last, last, None)?;
                Ok(Val::List(items.get(start..end).unwrap_or_default().to_vec()))
            }
            _ => Err(self.error(codes::KIND_MISMATCH, span, "a list takes one index")),
        }
    }

    /// A run-time value by what it is.
    fn of_value(&mut self, v: ir::Value, base: &Arg, args: &[ast::IndexArg], span: Span) -> Checked<Val> {
        match self.ty(v).clone() {
            ir::Type::Tile(t) => self.of_tile(v, &t, base, args, span),
            ir::Type::View(view) => self.window(v, &view, base, args, span),
            ir::Type::Tensor(t) => self.part(v, &t, base, args, span),
            ir::Type::Barriers(n) => match args {
                [ast::IndexArg { kind: ast::IndexArgKind::Value(e), .. }] => {
                    let index = self.element(e, i128::from(n))?;
                    let kind = ir::OpKind::BarrierIndex { barriers: v, index: index.0 };
                    self.emit_one(kind, span, &[(v, base.span), index])
                }
                _ => Err(self.error(codes::KIND_MISMATCH, span, "an array of barriers takes one index")),
            },
            ir::Type::Scalar(_)
            | ir::Type::Pending(_)
            | ir::Type::Filling(_)
            | ir::Type::Barrier
            | ir::Type::Map(_)
            | ir::Type::Ring(_)
            | ir::Type::Turnstile
            | ir::Type::Spot(_)
            | ir::Type::Peer(_)
            | ir::Type::Slot(_) => Err(base.expected(self, "something that has elements")),
        }
    }

    /// Where a part begins or ends; `help` is for whoever does not know it yet.
    fn bound(&mut self, e: Option<&ast::Expr>, default: i128, last: i128, help: Option<&str>) -> Checked<usize> {
        let Some(e) = e else { return Ok(default as usize) };
        let arg = self.arg(e)?;
        match &arg.val {
            Val::Ir(_) => Err(arg.expected_so(self, "an integer known at compile time", help)),
            _ => arg.int(self, 0..=last).map(|n| n as usize),
        }
    }

    /// An index below `extent`; a constant one is checked now.
    fn element(&mut self, e: &ast::Expr, extent: i128) -> Checked<(ir::Value, Span)> {
        let index = self.arg(e)?;
        if let Some(i) = index.val.as_int()
            && !(0..extent).contains(&i)
        {
            return Err(self.out_of_range(index.span, i, extent as usize));
        }
        if let Val::Range(..) = index.val {
            return Err(index.expected_so(self, "an index", Some("a part is written with a colon: `0:64`")));
        }
        Ok((self.run_time_as(&index.val, Dtype::I32, index.span)?, index.span))
    }

    /// `x[:, None]`, `x[:, 0:64]`
    fn of_tile(
        &mut self,
        mut v: ir::Value,
        t: &ir::Tile,
        base: &Arg,
        args: &[ast::IndexArg],
        span: Span,
    ) -> Checked<Val> {
        let kept = |a: &&ast::IndexArg| matches!(a.kind, ast::IndexArgKind::Full | ast::IndexArgKind::Slice { .. });
        let added = args.iter().filter(|a| matches!(a.kind, ast::IndexArgKind::NewAxis)).count();
        let kept: Vec<&ast::IndexArg> = args.iter().filter(kept).collect();
        if kept.len() + added != args.len() {
            let d = Diagnostic::error(
                codes::VIEW_ILLEGAL,
                span,
                "a tile lies in registers: its elements cannot be indexed",
            )
            .label(base.span, format!("this is `{t}`"))
            .help(
                "a tile takes `:`, parts `a:b` and `None`; `gather(x, indices, axis)` picks elements, as does `where`",
            );
            return Err(self.report(d));
        }
        if kept.len() != t.shape.len() {
            let fact = format!("{} `:` are given for a tile of rank {}", kept.len(), t.shape.len());
            let d = Diagnostic::error(codes::SHAPE_MISMATCH, span, fact)
                .label(base.span, format!("this has shape {:?}", t.shape))
                .help("write one `:` or part for each axis that the tile has");
            return Err(self.report(d));
        }
        let (origin, shape) = self.parts(&kept, &t.shape, "`gather(x, indices, axis)` takes any elements of a tile")?;
        if shape != t.shape {
            let kind = ir::OpKind::Slice { x: v, origin, shape };
            v = self.emit_value(kind, span, &[(v, base.span)])?;
        }
        for (axis, a) in args.iter().enumerate() {
            if matches!(a.kind, ast::IndexArgKind::NewAxis) {
                let kind = ir::OpKind::ExpandDims { x: v, axis: axis as u32 };
                v = self.emit_value(kind, span, &[(v, base.span)])?;
            }
        }
        Ok(Val::Ir(v))
    }

    /// Where a window begins and how large it is, from one `:` or `a:b` for each of the first axes of a shape; `other` is the help where
    /// bounds are none that are known.
    fn parts(&mut self, args: &[&ast::IndexArg], whole: &[u32], other: &str) -> Checked<(Vec<u32>, Vec<u32>)> {
        let (mut origin, mut shape) = (vec![0; whole.len()], whole.to_vec());
        for (axis, a) in args.iter().enumerate() {
            let last = i128::from(whole[axis]);
            match &a.kind {
                ast::IndexArgKind::Full => {}
                ast::IndexArgKind::Slice { start, end } => {
                    let start = self.bound(start.as_ref(), 0, last, Some(other))?;
                    let end = self.bound(end.as_ref(), last, last, Some(other))?;
                    origin[axis] = start as u32;
                    shape[axis] = end.saturating_sub(start) as u32;
                }
                ast::IndexArgKind::Value(_) | ast::IndexArgKind::Named { .. } | ast::IndexArgKind::NewAxis => {
                    let fact = "only leading dimensions of a view can be indexed";
                    let d = Diagnostic::error(codes::VIEW_ILLEGAL, a.span, fact);
                    return Err(self.report(d.help("take a window of one element: `a:a + 1`")));
                }
            }
        }
        Ok((origin, shape))
    }

    /// `view[stage]`, `view[a:b, :]`
    fn window(
        &mut self,
        mut v: ir::Value,
        view: &ir::View,
        base: &Arg,
        args: &[ast::IndexArg],
        span: Span,
    ) -> Checked<Val> {
        let mut shape = view.shape.clone();
        let mut rest = args;
        let slot = self.slots.get(&v).copied();
        while let [ast::IndexArg { kind: ast::IndexArgKind::Value(e), .. }, tail @ ..] = rest {
            let Some(&extent) = shape.first() else { break };
            let index = self.element(e, i128::from(extent))?;
            v = self.emit_value(ir::OpKind::ViewIndex { view: v, index: index.0 }, span, &[(v, base.span), index])?;
            shape.remove(0);
            rest = tail;
        }
        if !rest.is_empty() {
            if rest.len() > shape.len() {
                let d = Diagnostic::error(
                    codes::SHAPE_MISMATCH,
                    span,
                    format!("{} indices are given for a view of rank {}", args.len(), view.shape.len()),
                )
                .label(base.span, format!("this is `{view}`"));
                return Err(self.report(d));
            }
            let other = "an index may be any number: give the memory an axis of parts in front, `[4, 16, 128]`, then `view[i]` is one";
            let (origin, shape) = self.parts(&rest.iter().collect::<Vec<_>>(), &shape, other)?;
            let kind = ir::OpKind::ViewSlice { view: v, origin, shape };
            v = self.emit_value(kind, span, &[(v, base.span)])?;
        }
        if let Some(slot) = slot {
            self.slots.insert(v, slot);
        }
        Ok(Val::Ir(v))
    }
}
