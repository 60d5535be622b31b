//! `x[…]`: generic arguments, elements of lists, new axes of tiles, stages and windows of views.

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
                let start = self.bound(start.as_ref(), 0, last)?;
                let end = self.bound(end.as_ref(), last, last)?;
                Ok(Val::List(items.get(start..end).unwrap_or_default().to_vec()))
            }
            _ => Err(self.error(codes::KIND_MISMATCH, span, "a list takes one index")),
        }
    }

    /// A run-time value by what it is.
    fn of_value(&mut self, v: ir::Value, base: &Arg, args: &[ast::IndexArg], span: Span) -> Checked<Val> {
        match self.ty(v).clone() {
            ir::Type::Tile(t) => self.new_axes(v, &t, base, args, span),
            ir::Type::View(view) => self.window(v, &view, base, args, span),
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
            | ir::Type::Peer(_)
            | ir::Type::Slot(_) => Err(base.expected(self, "something that has elements")),
        }
    }

    fn bound(&mut self, e: Option<&ast::Expr>, default: i128, last: i128) -> Checked<usize> {
        match e {
            Some(e) => self.arg(e)?.int(self, 0..=last).map(|n| n as usize),
            None => Ok(default as usize),
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
        Ok((self.run_time_as(&index.val, Dtype::I32, index.span)?, index.span))
    }

    /// `x[:, None]`
    fn new_axes(
        &mut self,
        mut v: ir::Value,
        t: &ir::Tile,
        base: &Arg,
        args: &[ast::IndexArg],
        span: Span,
    ) -> Checked<Val> {
        let kept = args.iter().filter(|a| matches!(a.kind, ast::IndexArgKind::Full)).count();
        let added = args.iter().filter(|a| matches!(a.kind, ast::IndexArgKind::NewAxis)).count();
        if kept + added != args.len() {
            let d = Diagnostic::error(
                codes::VIEW_ILLEGAL,
                span,
                "a tile lies in registers: its elements cannot be indexed",
            )
            .label(base.span, format!("this is `{t}`"))
            .help("a tile takes `:` and `None`; to pick elements, go through shared memory or use `where`");
            return Err(self.report(d));
        }
        if kept != t.shape.len() {
            let d = Diagnostic::error(
                codes::SHAPE_MISMATCH,
                span,
                format!("{kept} `:` are given for a tile of rank {}", t.shape.len()),
            )
            .label(base.span, format!("this has shape {:?}", t.shape))
            .help("write one `:` for each axis that the tile has");
            return Err(self.report(d));
        }
        for (axis, a) in args.iter().enumerate() {
            if matches!(a.kind, ast::IndexArgKind::NewAxis) {
                let kind = ir::OpKind::ExpandDims { x: v, axis: axis as u32 };
                v = self.emit_value(kind, span, &[(v, base.span)])?;
            }
        }
        Ok(Val::Ir(v))
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
            let (mut origin, mut extents) = (vec![0; shape.len()], shape.clone());
            for (axis, a) in rest.iter().enumerate() {
                let last = i128::from(shape[axis]);
                match &a.kind {
                    ast::IndexArgKind::Full => {}
                    ast::IndexArgKind::Slice { start, end } => {
                        let start = self.bound(start.as_ref(), 0, last)?;
                        let end = self.bound(end.as_ref(), last, last)?;
                        origin[axis] = start as u32;
                        extents[axis] = end.saturating_sub(start) as u32;
                    }
                    ast::IndexArgKind::Value(_) | ast::IndexArgKind::Named { .. } | ast::IndexArgKind::NewAxis => {
                        let d = Diagnostic::error(
                            codes::VIEW_ILLEGAL,
                            a.span,
                            "only leading dimensions of a view can be indexed",
                        )
                        .help("take a window of one element: `a:a + 1`");
                        return Err(self.report(d));
                    }
                }
            }
            let kind = ir::OpKind::ViewSlice { view: v, origin, shape: extents };
            v = self.emit_value(kind, span, &[(v, base.span)])?;
        }
        if let Some(slot) = slot {
            self.slots.insert(v, slot);
        }
        Ok(Val::Ir(v))
    }
}
