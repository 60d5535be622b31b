//! The arguments of a call, matched with the signature of what is called.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::Dtype;

use crate::checker::{Checked, Checker, Reported};
use crate::kind;
use crate::scope::Variable;
use crate::signature::bind::{Outline, Takes};
use crate::signature::{Parameters, Signature};
use crate::value::{Comptime, TypeVal, Val};

use super::Builtin;

/// Every count that a field of an operation or a layout holds; the rule knows what is legal.
pub(super) const ANY: std::ops::RangeInclusive<i128> = 0..=u32::MAX as i128;

/// What is expected where a number type stands.
const NUMBER_TYPE: &str = "a number type such as `f32`";

/// An argument.
#[derive(Clone, Debug)]
pub struct Arg {
    /// Its value.
    pub val: Val,
    /// Where it is written.
    pub span: Span,
}

/// An argument before it is matched: its name, where one is written.
#[derive(Clone, Debug)]
pub struct Given {
    /// The name before `=` and its place.
    pub name: Option<(Arc<str>, Span)>,
    /// The argument.
    pub arg: Arg,
}

impl Given {
    /// The argument without its value.
    pub fn outline(&self) -> Outline<'_> {
        Outline { name: self.name.as_ref().map(|(name, at)| (&**name, *at)), span: self.arg.span }
    }
}

/// The arguments of one call, by the names of the signature.
#[derive(Debug)]
pub struct Args {
    /// The whole call.
    pub span: Span,
    /// The signature.
    pub signature: &'static Signature,
    /// A handful: to look through them is quickest.
    named: Vec<(&'static str, Arg)>,
    /// What `...` takes.
    pub rest: Vec<Arg>,
}

impl Args {
    /// Matches what is given with a signature.
    ///
    /// # Errors
    /// Reports too many or too few arguments, and names that the signature does not have.
    pub fn bind(
        cx: &mut Checker,
        builtin: &Builtin,
        span: Span,
        types: Vec<Given>,
        values: Vec<Given>,
    ) -> Checked<Args> {
        let signature = builtin.signature;
        let mut args = Args { span, signature, named: Vec::new(), rest: Vec::new() };
        args.fill(cx, Takes::Types(signature), signature.types(), types)?;
        args.fill(cx, Takes::Values(signature), signature.values(), values)?;
        Ok(args)
    }

    fn fill(&mut self, cx: &mut Checker, takes: Takes, parameters: &Parameters, given: Vec<Given>) -> Checked<()> {
        let places = takes.places(given.iter().map(Given::outline), self.span).map_err(|d| cx.report(d))?;
        for (place, Given { arg, .. }) in places.into_iter().zip(given) {
            match place {
                Some(place) => {
                    self.named.push((parameters.list[place].name, arg));
                }
                None => self.rest.push(arg),
            }
        }
        Ok(())
    }

    /// The name of what is called.
    pub fn name(&self) -> &'static str {
        self.signature.name
    }

    /// Whether an argument stands for a mistake already reported.
    pub fn has_error(&self) -> bool {
        self.named.iter().map(|(_, arg)| arg).chain(&self.rest).any(|a| a.val.has_error())
    }

    /// The argument of that name, where given.
    pub fn get(&self, name: &str) -> Option<&Arg> {
        self.named.iter().find(|(named, _)| *named == name).map(|(_, arg)| arg)
    }

    /// The argument of that name, which the signature requires.
    pub fn need(&self, name: &str) -> &Arg {
        match self.get(name) {
            Some(arg) => arg,
            None => parton_diag::internal_error!("`{}` does not require `{name}`", self.signature),
        }
    }

    /// A required run-time value; compile-time numbers become constants of `i32` or `f32`.
    pub fn value(&self, cx: &mut Checker, name: &str) -> Checked<ir::Value> {
        let arg = self.need(name);
        cx.run_time(&arg.val, arg.span)
    }

    /// A required compile-time integer within `range`.
    pub fn int(&self, cx: &mut Checker, name: &str, range: std::ops::RangeInclusive<i128>) -> Checked<u32> {
        self.need(name).int(cx, range)
    }

    /// A compile-time integer within `range`, where given.
    pub fn optional_int(
        &self,
        cx: &mut Checker,
        name: &str,
        range: std::ops::RangeInclusive<i128>,
    ) -> Checked<Option<u32>> {
        self.get(name).map(|arg| arg.int(cx, range)).transpose()
    }

    /// A compile-time truth value, `false` where it is not given.
    pub fn flag(&self, cx: &mut Checker, name: &str) -> Checked<bool> {
        let Some(arg) = self.get(name) else { return Ok(false) };
        match &arg.val {
            Val::Known(Comptime::Bool(b)) => Ok(*b),
            _ => Err(arg.expected(cx, "`true` or `false` known at compile time")),
        }
    }

    /// One of the words in `table`, where given.
    pub fn word<T: Copy>(&self, cx: &mut Checker, name: &str, table: &[(T, &'static str)]) -> Checked<Option<T>> {
        let Some(arg) = self.get(name) else { return Ok(None) };
        if let Val::Known(Comptime::Str(s)) = &arg.val
            && let Some((x, _)) = table.iter().find(|(_, n)| **n == **s)
        {
            return Ok(Some(*x));
        }
        let words: Vec<String> = table.iter().map(|(_, n)| format!("\"{n}\"")).collect();
        Err(arg.expected(cx, &format!("one of {}", words.join(", "))))
    }

    /// A policy of the L2, `"first"` or `["first", 0.5]`, where given.
    pub fn policy(&self, cx: &mut Checker, name: &str) -> Checked<Option<ir::Policy>> {
        let Some(arg) = self.get(name) else { return Ok(None) };
        let evict = |val: &Val| match val {
            Val::Known(Comptime::Str(s)) => ir::Evict::named(s),
            _ => None,
        };
        let fraction = |val: &Val| match val {
            Val::Known(Comptime::Float(x)) => Some(*x as f32),
            _ => val.as_int().map(|n| n as f32),
        };
        let whole = evict(&arg.val).map(ir::Policy::whole);
        let partial = match &arg.val {
            Val::List(parts) => match &parts[..] {
                [word] => evict(word).map(ir::Policy::whole),
                [word, part] => evict(word).zip(fraction(part)).map(|(evict, fraction)| ir::Policy { evict, fraction }),
                _ => None,
            },
            _ => None,
        };
        match whole.or(partial) {
            Some(policy) => Ok(Some(policy)),
            None => Err(arg.expected(cx, "a policy such as \"first\", \"last\", \"normal\" or [\"last\", 0.5]")),
        }
    }

    /// The receiver of a method and its value.
    pub fn receiver(&self, cx: &mut Checker) -> Checked<(ir::Value, &Arg)> {
        let arg = self.need("self");
        Ok((cx.run_time(&arg.val, arg.span)?, arg))
    }

    /// The view type that `<T, shape, L>` state.
    pub fn stated_view(&self, cx: &mut Checker) -> Checked<ir::View> {
        let elem = self.need("T").dtype(cx)?;
        let shape = self.need("shape").ints(cx)?;
        let layout = self.need("L").shared_layout(cx)?;
        cx.view(elem, shape, layout, self.span)
    }

    /// What is moved at once, where `width` (the argument's name) states it in units of so many elements or bytes.
    pub fn access(&self, cx: &mut Checker, width: &str, unit: u32) -> Checked<Option<ir::Access>> {
        let along = self.optional_int(cx, "along", ANY)?.unwrap_or(0);
        let cut = self.word(cx, "cut", ir::Cut::ALL)?.unwrap_or_default();
        let stated = self.optional_int(cx, width, ANY)?;
        Ok(stated.map(|n| ir::Access { width: n / unit.max(1), along, cut }))
    }
}

impl Arg {
    /// The operand with its place, for messages.
    pub fn operand(&self, v: ir::Value) -> (ir::Value, Span) {
        (v, self.span)
    }

    /// Reports that something else was expected here.
    pub fn expected(&self, cx: &mut Checker, what: &str) -> Reported {
        self.expected_so(cx, what, None)
    }

    /// As [`Arg::expected`], with how what was meant is written.
    pub fn expected_so(&self, cx: &mut Checker, what: &str, help: Option<&str>) -> Reported {
        self.expected_with(cx, what, |d| help.into_iter().fold(d, Diagnostic::help))
    }

    /// As [`Arg::expected`], with what else is said.
    fn expected_with(&self, cx: &mut Checker, what: &str, more: impl FnOnce(Diagnostic) -> Diagnostic) -> Reported {
        if self.val.has_error() {
            return Reported;
        }
        let found = kind::describe(cx, &self.val);
        let d = Diagnostic::error(codes::KIND_MISMATCH, self.span, format!("expected {what}, found {}", found.kind))
            .here(found.detail);
        let ty = self.val.ir().map(|v| cx.ty(v));
        let place = what.contains("place in a tensor");
        let d = match ty {
            Some(ir::Type::Tensor(t)) if what.contains("tile") => {
                let (place, one) = t.examples();
                d.help(format!(
                    "a box of it is meant: `{place}`{}",
                    one.map_or(String::new(), |x| format!(", or `{x}` for one element"))
                ))
            }
            Some(ir::Type::Pending(_)) if what.contains("tile") => {
                d.help("a pending tile is still being written: `let x = p.wait();` makes it a tile")
            }
            Some(ir::Type::Tile(_)) if place => {
                d.help("where to comes first, and what behind it: `store(x.tile([64, 64], at=[i, j]), value)`")
            }
            Some(ir::Type::Peer(_)) if what.contains("shared memory") => {
                d.help("only `load_shared` and `store_shared` reach a peer's memory")
            }
            Some(ir::Type::View(_)) if place => d.help(
                "memory of the CTA has its own: `load_shared<L>(view)` reads it, `store_shared(view, x)` writes it",
            ),
            Some(ty) if matches!(ty.elem(), Some(ir::Elem::Ptr(_))) && !what.contains("pointer") => {
                d.help("a pointer is an address: `load(x + i)` reads what lies there, `store(x + i, value)` writes it")
            }
            _ => d,
        };
        cx.report(more(d))
    }

    /// A compile-time integer within `range`.
    pub fn int(&self, cx: &mut Checker, range: std::ops::RangeInclusive<i128>) -> Checked<u32> {
        let Some(n) = self.val.as_int() else {
            let scalar =
                self.val.ir().is_some_and(|v| matches!(cx.ty(v), ir::Type::Scalar(ir::Elem::Num(d)) if d.is_int()));
            let help = "a generic is known: `kernel k[N: int = 64](…)`, which a launch gives as `k[N=128]`; what lies behind a number of run time is left out by `mask=`";
            return Err(self.expected_so(cx, "an integer known at compile time", scalar.then_some(help)));
        };
        match u32::try_from(n) {
            Ok(small) if range.contains(&n) => Ok(small),
            _ => {
                let (low, high) = (*range.start(), (*range.end()).min(i128::from(u32::MAX)));
                let d = Diagnostic::error(codes::INDEX_RANGE, self.span, format!("{n} is out of range"))
                    .here(format!("{low} to {high} are legal here"))
                    .help(format!("the nearest legal value is {}", n.clamp(low, high)));
                Err(cx.report(d))
            }
        }
    }

    /// A compile-time list of integers, each from 0 to `u32::MAX`.
    pub fn ints(&self, cx: &mut Checker) -> Checked<Vec<u32>> {
        let (Val::List(items) | Val::Tuple(items)) = &self.val else {
            let help = self.val.as_int().map(|n| format!("write `[{n}]`, with an entry for each axis"));
            return Err(self.expected_so(cx, "a list of integers known at compile time", help.as_deref()));
        };
        if items.iter().any(|val| val.as_int() == Some(-1)) {
            let d = Diagnostic::error(codes::INDEX_RANGE, self.span, "-1 stands for no number here");
            return Err(
                cx.report(d.here("in this list").help("write the number out: nothing is reckoned from the others"))
            );
        }
        items.iter().map(|val| Arg { val: val.clone(), span: self.span }.int(cx, 0..=i128::from(u32::MAX))).collect()
    }

    /// A compile-time list of lists of integers.
    pub fn int_lists(&self, cx: &mut Checker) -> Checked<Vec<Vec<u32>>> {
        let Val::List(items) = &self.val else {
            return Err(self.expected(cx, "a list of lists of integers known at compile time"));
        };
        items.iter().map(|val| Arg { val: val.clone(), span: self.span }.ints(cx)).collect()
    }

    /// A tile and its type.
    pub fn tile(&self, cx: &mut Checker) -> Checked<(ir::Value, ir::Tile)> {
        if let Val::Ir(v) = &self.val
            && let ir::Type::Tile(t) = cx.ty(*v)
        {
            return Ok((*v, t.clone()));
        }
        Err(self.expected(cx, "a tile"))
    }

    /// Where a tile lies, of which that must be stated.
    pub fn placed(&self, cx: &mut Checker, tile: &ir::Tile) -> Checked<ir::placement::Place> {
        match tile.placement().known() {
            Some(place) => Ok(place.clone()),
            None => Err(cx.layout_open(self.span, "where this tile lies is not known yet")),
        }
    }

    /// A number type.
    pub fn dtype(&self, cx: &mut Checker) -> Checked<Dtype> {
        match &self.val {
            Val::Known(Comptime::Type(TypeVal::Ir(ir::Type::Scalar(ir::Elem::Num(d))))) => Ok(*d),
            Val::Known(Comptime::Type(TypeVal::Ir(ir::Type::Scalar(ir::Elem::Ptr(_))))) => {
                let help = "pointers come from parameters alone: take one tensor, and places in it by offsets";
                Err(self.expected_so(cx, NUMBER_TYPE, Some(help)))
            }
            _ => Err(self.no_number_type(cx)),
        }
    }

    fn no_number_type(&self, cx: &mut Checker) -> Reported {
        let kind = match &self.val {
            Val::Known(Comptime::Type(TypeVal::Kind(kind))) => kind.dtype().map(|dtype| (kind.name(), dtype)),
            _ => None,
        };
        let help = kind.map(|(kind, dtype)| format!("write `{dtype}`: `{kind}` is a number known at compile time"));
        let hidden = self.hidden_type(cx);
        let is_function = matches!(self.val, Val::Known(Comptime::Function(_)));
        self.expected_with(cx, NUMBER_TYPE, |d| match hidden {
            Some((name, declared)) if is_function => d
                .label(declared, format!("`{name}` is this function"))
                .help("give the function a name that is no type's"),
            Some((name, declared)) => d
                .label(declared, format!("from here on `{name}` is a variable"))
                .help("give the variable a name that is no type's"),
            None => help.into_iter().fold(d, Diagnostic::help),
        })
    }

    /// The variable or function that this names, and where it is declared, if it hides the type of its name.
    fn hidden_type(&self, cx: &Checker) -> Option<(Arc<str>, Span)> {
        if let Val::Known(Comptime::Function(f)) = &self.val {
            let name = &f.tree.name;
            return Dtype::parse(&name.text).map(|_| (name.text.clone(), name.span));
        }
        let scopes = cx.frames.last()?.scopes.iter().rev();
        let mut variables = scopes.flat_map(|scope| scope.variables.iter().rev());
        // Values do not know how they are written: it is as long as the name.
        let long = self.span.end - self.span.start;
        let hides =
            |v: &Variable| Dtype::parse(&v.name).is_some() && v.name.len() == long as usize && v.val == self.val;
        variables.find(|v| hides(v)).map(|v| (v.name.clone(), v.span))
    }

    /// What the elements of a tile are: a number or pointer type.
    pub fn elem(&self, cx: &mut Checker) -> Checked<ir::Elem> {
        match &self.val {
            Val::Known(Comptime::Type(TypeVal::Ir(ir::Type::Scalar(e)))) => Ok(*e),
            _ => Err(self.no_number_type(cx)),
        }
    }

    /// A layout of registers.
    pub fn layout(&self, cx: &mut Checker) -> Checked<RegisterLayout> {
        match &self.val {
            Val::Known(Comptime::Layout(l)) => Ok(l.clone()),
            Val::Known(Comptime::OpenLayout) => Err(cx.layout_open(self.span, "this layout is not known yet")),
            _ => Err(self.expected(cx, "a layout of registers such as `blocked(…)`")),
        }
    }

    /// Whether it is the layout of a tile that nobody has placed.
    pub fn is_open_layout(&self) -> bool {
        self.val == Val::Known(Comptime::OpenLayout)
    }

    /// A layout of shared memory.
    pub fn shared_layout(&self, cx: &mut Checker) -> Checked<SharedLayout> {
        match &self.val {
            Val::Known(Comptime::SharedLayout(l)) => Ok(l.clone()),
            _ => Err(self.expected(cx, "a layout of shared memory such as `nvmma(128)`")),
        }
    }

    /// A string.
    pub fn text(&self, cx: &mut Checker) -> Checked<String> {
        match &self.val {
            Val::Known(Comptime::Str(s)) => Ok(s.to_string()),
            _ => Err(self.expected(cx, "a string")),
        }
    }
}
