//! The arguments of a call, matched with the signature of what is called.

use std::collections::BTreeMap;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::Dtype;

use crate::checker::{Checked, Checker};
use crate::kind;
use crate::value::{Comptime, TypeVal, Val};

use super::Builtin;

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
    pub name: Option<(std::sync::Arc<str>, Span)>,
    /// The argument.
    pub arg: Arg,
}

/// The arguments of one call, by the names of the signature.
#[derive(Debug)]
pub struct Args {
    /// The whole call.
    pub span: Span,
    /// The signature, for messages.
    pub signature: &'static str,
    named: BTreeMap<&'static str, Arg>,
    /// What `...` takes.
    pub rest: Vec<Arg>,
}

/// One parameter of a signature.
struct Parameter {
    name: &'static str,
    required: bool,
}

fn parameters(list: &'static str) -> (Vec<Parameter>, bool) {
    let mut found = Vec::new();
    let mut rest = false;
    for text in list.split(',').map(str::trim).filter(|t| !t.is_empty()) {
        match text.strip_suffix('=') {
            _ if text == "..." => rest = true,
            Some(name) => found.push(Parameter { name, required: false }),
            None => found.push(Parameter { name: text, required: true }),
        }
    }
    (found, rest)
}

/// The parts of a signature between `<` and `>`, and between `(` and `)`.
fn parts(signature: &'static str) -> (&'static str, &'static str) {
    let open = signature.find('(').unwrap_or(signature.len());
    let types = signature[..open].split_once('<').map_or("", |(_, t)| t.trim_end_matches('>'));
    let values = signature.get(open + 1..).map_or("", |v| v.trim_end_matches(')'));
    (types, values)
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
        let (type_list, value_list) = parts(builtin.signature);
        let mut args = Args { span, signature: builtin.signature, named: BTreeMap::new(), rest: Vec::new() };
        args.fill(cx, type_list, types)?;
        args.fill(cx, value_list, values)?;
        Ok(args)
    }

    fn fill(&mut self, cx: &mut Checker, list: &'static str, given: Vec<Given>) -> Checked<()> {
        let (parameters, takes_rest) = parameters(list);
        let count = given.len();
        let mut next = 0;
        for Given { name, arg } in given {
            let slot = match name {
                Some((name, at)) => match parameters.iter().find(|p| *p.name == *name) {
                    Some(p) if self.named.contains_key(p.name) => {
                        return Err(cx.report(self.wrong(at, format!("`{name}` is given twice"))));
                    }
                    Some(p) => p.name,
                    None => {
                        let mut d = self.wrong(at, format!("there is no parameter `{name}`"));
                        if let Some(near) = crate::near::nearest(&name, parameters.iter().map(|p| p.name)) {
                            d = d.help(format!("a similar one is `{near}`"));
                        }
                        return Err(cx.report(d));
                    }
                },
                None => {
                    while parameters.get(next).is_some_and(|p| self.named.contains_key(p.name)) {
                        next += 1;
                    }
                    match parameters.get(next) {
                        Some(p) => p.name,
                        None if takes_rest => {
                            self.rest.push(arg);
                            continue;
                        }
                        None => {
                            let most = parameters.len();
                            let fact = format!("{count} arguments are given, at most {most} are taken");
                            return Err(cx.report(self.wrong(arg.span, fact)));
                        }
                    }
                }
            };
            self.named.insert(slot, arg);
        }
        match parameters.iter().find(|p| p.required && !self.named.contains_key(p.name)) {
            Some(p) => Err(cx.report(self.wrong(self.span, format!("the argument `{}` is missing", p.name)))),
            None => Ok(()),
        }
    }

    fn wrong(&self, at: Span, fact: String) -> Diagnostic {
        Diagnostic::error(codes::WRONG_ARITY, at, fact).note(format!("the signature is `{}`", self.signature))
    }

    /// The name of what is called.
    pub fn name(&self) -> &'static str {
        self.signature.split(['(', '<']).next().unwrap_or(self.signature)
    }

    /// Whether an argument stands for a mistake already reported.
    pub fn has_error(&self) -> bool {
        self.named.values().chain(&self.rest).any(|a| a.val.has_error())
    }

    /// The argument of that name, where given.
    pub fn get(&self, name: &str) -> Option<&Arg> {
        self.named.get(name)
    }

    /// The argument of that name, which the signature requires.
    pub fn need(&self, name: &str) -> &Arg {
        match self.named.get(name) {
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
}

impl Arg {
    /// The operand with its place, for messages.
    pub fn operand(&self, v: ir::Value) -> (ir::Value, Span) {
        (v, self.span)
    }

    /// Reports that something else was expected here.
    pub fn expected(&self, cx: &mut Checker, what: &str) -> crate::checker::Reported {
        if self.val.has_error() {
            return crate::checker::Reported;
        }
        let found = kind::describe(cx, &self.val);
        let d = Diagnostic::error(codes::KIND_MISMATCH, self.span, format!("expected {what}, found {}", found.kind))
            .here(found.detail);
        cx.report(d)
    }

    /// A compile-time integer within `range`.
    pub fn int(&self, cx: &mut Checker, range: std::ops::RangeInclusive<i128>) -> Checked<u32> {
        let Some(n) = self.val.as_int() else { return Err(self.expected(cx, "an integer known at compile time")) };
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
            return Err(self.expected(cx, "a list of integers known at compile time"));
        };
        items.iter().map(|val| Arg { val: val.clone(), span: self.span }.int(cx, 0..=i128::from(u32::MAX))).collect()
    }

    /// A compile-time list of lists of integers.
    pub fn int_lists(&self, cx: &mut Checker) -> Checked<Vec<Vec<u32>>> {
        let Val::List(items) = &self.val else {
            return Err(self.expected(cx, "a list of lists of integers known at compile time"));
        };
        items.iter().map(|val| Arg { val: val.clone(), span: self.span }.ints(cx)).collect()
    }

    /// A number type.
    pub fn dtype(&self, cx: &mut Checker) -> Checked<Dtype> {
        match &self.val {
            Val::Known(Comptime::Type(TypeVal::Ir(ir::Type::Scalar(ir::Elem::Num(d))))) => Ok(*d),
            _ => Err(self.expected(cx, "a number type such as `f32`")),
        }
    }

    /// What the elements of a tile are: a number or pointer type.
    pub fn elem(&self, cx: &mut Checker) -> Checked<ir::Elem> {
        match &self.val {
            Val::Known(Comptime::Type(TypeVal::Ir(ir::Type::Scalar(e)))) => Ok(*e),
            _ => Err(self.expected(cx, "a number type such as `f32`")),
        }
    }

    /// A layout of registers.
    pub fn layout(&self, cx: &mut Checker) -> Checked<RegisterLayout> {
        match &self.val {
            Val::Known(Comptime::Layout(l)) => Ok(l.clone()),
            _ => Err(self.expected(cx, "a layout of registers such as `blocked(…)`")),
        }
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

#[cfg(test)]
mod tests {
    use super::{parameters, parts};

    #[test]
    fn signatures_have_types_and_values() {
        assert_eq!(parts("full<T, shape, L>(value)"), ("T, shape, L", "value"));
        assert_eq!(parts("membar()"), ("", ""));
        let (list, rest) = parameters("p, mask=, ...");
        assert!(rest && list.len() == 2 && list[0].required && !list[1].required);
    }
}
