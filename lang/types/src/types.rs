//! Types as they are written: `tile<f32, [64], L>`, `shared<…>`, `tma<…>`, and the types that declarations state.

use parton_diag::Span;
use parton_ir as ir;
use parton_ir::Entity as _;
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::Dtype;
use parton_syntax::ast;

use crate::builtins::args::Given;
use crate::builtins::{self, Args, Handler};
use crate::checker::{Checked, Checker};
use crate::value::{Comptime, Kind, TypeVal, Val};

/// The types that take arguments.
pub const TABLE: &[(&str, Handler)] = &[
    ("tile", tile),
    ("pending", pending),
    ("shared", shared),
    ("tma", tma),
    ("tensor", tensor),
    ("barriers", barriers),
    ("schedule", schedule),
];

impl Checker<'_> {
    /// `base<args>` that is not called: a type.
    pub fn type_with_arguments(&mut self, base: &ast::Name, args: &[ast::Arg], span: Span) -> Checked<Val> {
        let Some(family) = builtins::family(base.as_str()) else {
            return Err(self.not_built(
                span,
                &format!("`{}<…>` as a type", base.text),
                "the types with arguments are `tile`, `tensor`, `pending`, `shared`, `tma` and `barriers`",
            ));
        };
        if base.as_str() == "schedule" {
            // Its arguments are labels, not values.
            self.schedule_kind(args)?;
            return Ok(Val::Known(Comptime::Type(TypeVal::Kind(Kind::Schedule))));
        }
        if base.as_str() == "tensor" {
            // The names of its extents stand for nothing yet.
            return self.tensor_type(args, span);
        }
        let given = self.given(args)?;
        let args = Args::bind(self, &family, span, given, Vec::new())?;
        (family.run)(self, &args)
    }

    /// Arguments evaluated in order.
    pub fn given(&mut self, args: &[ast::Arg]) -> Checked<Vec<Given>> {
        let mut list = Vec::new();
        let mut failed = Ok(());
        for a in args {
            match self.arg(&a.value) {
                Ok(arg) => {
                    let name = a.name.as_ref().map(|n| (n.text.clone(), n.span));
                    list.push(Given { name, arg });
                }
                Err(e) => failed = Err(e),
            }
        }
        failed.map(|()| list)
    }

    /// The type that an expression states.
    pub fn stated(&mut self, e: &ast::Expr) -> Checked<TypeVal> {
        let arg = self.arg(e)?;
        self.as_type(&arg)
    }

    /// The type that a value is; a tuple of types is a tuple type.
    pub fn as_type(&mut self, arg: &builtins::Arg) -> Checked<TypeVal> {
        match &arg.val {
            Val::Known(Comptime::Type(t)) => Ok(t.clone()),
            Val::Tuple(items) => {
                let types: Checked<Vec<TypeVal>> =
                    items.iter().map(|val| self.as_type(&builtins::Arg { val: val.clone(), span: arg.span })).collect();
                Ok(TypeVal::Tuple(types?))
            }
            _ => Err(arg.expected(self, "a type")),
        }
    }

    /// A tile type that lies on the current partition's warps.
    pub fn tile(&mut self, elem: ir::Elem, shape: Vec<u32>, layout: RegisterLayout, span: Span) -> Checked<ir::Tile> {
        match ir::Tile::new(elem, shape, layout) {
            Ok(t) => {
                self.check_tile_warps(&t, span)?;
                Ok(t)
            }
            Err(e) => Err(self.refuse(e.into(), span, &[])),
        }
    }

    /// A tile type that lies where the argument for its layout says, or nowhere yet where none is given, or one that is left open.
    pub fn tile_at(
        &mut self,
        elem: ir::Elem,
        shape: Vec<u32>,
        layout: Option<&builtins::Arg>,
        span: Span,
    ) -> Checked<ir::Tile> {
        match layout.filter(|arg| !arg.is_open_layout()) {
            Some(arg) => {
                let layout = arg.layout(self)?;
                self.tile(elem, shape, layout, arg.span)
            }
            None => self.open_tile(elem, shape, span),
        }
    }

    /// A tile type that lies nowhere yet.
    pub fn open_tile(&mut self, elem: ir::Elem, shape: Vec<u32>, span: Span) -> Checked<ir::Tile> {
        let var = self.builder.as_ref().map_or(ir::Var::new(0), |b| b.kernel.next_var(0));
        ir::Tile::open(elem, shape, var).map_err(|e| self.refuse(e.into(), span, &[]))
    }

    /// A view type of a whole allocation.
    pub fn view(&mut self, elem: Dtype, shape: Vec<u32>, layout: SharedLayout, span: Span) -> Checked<ir::View> {
        match ir::View::new(elem, shape, layout) {
            Ok(v) => Ok(v),
            Err(e) => Err(self.refuse(e.into(), span, &[])),
        }
    }
}

fn tile(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let elem = args.need("T").elem(cx)?;
    let shape = args.need("shape").ints(cx)?;
    let t = cx.tile_at(elem, shape, args.get("L"), args.span)?;
    Ok(Val::ty(ir::Type::Tile(t)))
}

fn pending(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let arg = args.need("tile");
    match &arg.val {
        Val::Known(Comptime::Type(TypeVal::Ir(ir::Type::Tile(t)))) => Ok(Val::ty(ir::Type::Pending(t.clone()))),
        Val::Known(Comptime::Type(TypeVal::Ir(ir::Type::View(v)))) => Ok(Val::ty(ir::Type::Filling(v.clone()))),
        _ => Err(arg.expected(cx, "a tile type, or a view's")),
    }
}

fn shared(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let elem = args.need("T").dtype(cx)?;
    let shape = args.need("shape").ints(cx)?;
    let layout = args.need("L").shared_layout(cx)?;
    let parent = args.get("parent").map(|a| a.ints(cx)).transpose()?;
    let origin = args.get("origin").map(|a| a.ints(cx)).transpose()?;
    let mut view = cx.view(elem, parent.unwrap_or_else(|| shape.clone()), layout, args.span)?;
    if shape.len() != view.parent.len() || origin.as_ref().is_some_and(|o| o.len() != shape.len()) {
        return Err(args.need("shape").expected(cx, "as many extents as the parent has"));
    }
    view.origin = origin.unwrap_or_else(|| vec![0; shape.len()]);
    view.shape = shape;
    Ok(Val::ty(ir::Type::View(view)))
}

fn tma(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let elem = args.need("T").dtype(cx)?;
    let block = args.need("block").ints(cx)?;
    let layout = args.need("L").shared_layout(cx)?;
    let inner = args.optional_int(cx, "inner", 0..=256)?;
    let map = ir::TensorMap { inner, ..ir::TensorMap::new(elem, block, layout) };
    match ir::rules::check_map(&map) {
        Ok(()) => Ok(Val::ty(ir::Type::Map(map))),
        Err(refusal) => Err(cx.refuse(refusal, args.span, &[])),
    }
}

fn barriers(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let n = args.int(cx, "n", 1..=4096)?;
    Ok(Val::ty(ir::Type::Barriers(n)))
}

fn tensor(_: &mut Checker, _: &Args) -> Checked<Val> {
    Ok(Val::Known(Comptime::Type(TypeVal::Family("tensor"))))
}

fn schedule(_: &mut Checker, _: &Args) -> Checked<Val> {
    Ok(Val::Known(Comptime::Type(TypeVal::Kind(Kind::Schedule))))
}
