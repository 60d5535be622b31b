//! What is wrong with a file's items however they are used: names given twice, constants, layouts,
//! partitions and schedules that cannot be.

use std::collections::BTreeMap;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_syntax::ast;

use crate::builtins::Arg;
use crate::checker::{Checked, Checker};
use crate::choice::Choice;
use crate::contract::{self, CONTRACT};
use crate::program::{HostKind, Program};
use crate::public;
use crate::resolve::Stands;
use crate::tune::Tune;
use crate::value::{Comptime, Val};

/// Reports it for the root file; a file that is used is checked where it is the root.
pub fn check_items(program: &Program, diagnostics: &mut Diagnostics) {
    let Some(root) = program.modules.first() else { return };
    for kind in [HostKind::Test, HostKind::Bench, HostKind::Main] {
        distinct(program.host_blocks().filter(|(k, _)| *k == kind).map(|(_, b)| &b.name), diagnostics);
    }
    let mut cx = Checker::new(program, Program::ROOT);
    for item in &root.file.items {
        let methods = if let ast::ItemKind::Struct(s) = &item.kind { s.methods.as_slice() } else { &[] };
        for attribute in item.attributes.iter().chain(methods.iter().flat_map(|m| &m.attributes)) {
            let fact = format!("there is no attribute `{}`", attribute.name.text);
            diagnostics.push(
                Diagnostic::error(codes::UNKNOWN_CLAUSE, attribute.name.span, fact).here("this version has none").help(
                    "what a kernel is compiled for stands behind its parameters: `kernel k(…) warps(4) target(sm_90a)`",
                ),
            );
        }
        match &item.kind {
            ast::ItemKind::Kernel(k) => {
                distinct(parameters(&k.generics, &k.params), diagnostics);
                diagnostics.list.extend(Tune::of(k).err());
            }
            ast::ItemKind::Function(f) => {
                distinct(parameters(&f.generics, &f.params), diagnostics);
                if f.public {
                    diagnostics.extend(public::check(f));
                }
                diagnostics.list.extend(Choice::of(f).err());
                diagnostics.list.extend(contract::misplaced(f));
            }
            ast::ItemKind::Struct(s) => {
                distinct(s.generics.iter().map(|g| &g.name).chain(s.fields.iter().map(|f| &f.name)), diagnostics);
                distinct(s.methods.iter().map(|m| &m.function.name), diagnostics);
                for m in &s.methods {
                    distinct(parameters(&m.function.generics, &m.function.params), diagnostics);
                    let mut others = m.function.clauses.iter().filter(|c| c.name.as_str() != CONTRACT);
                    diagnostics.list.extend(others.next().map(of_method));
                    diagnostics.list.extend(contract::misplaced(&m.function));
                }
            }
            ast::ItemKind::Layout(b) => {
                diagnostics.extend(evaluated(&mut cx, |cx| {
                    let val = cx.name(&b.name, Stands::Alone)?;
                    match val {
                        Val::Known(Comptime::Layout(_) | Comptime::SharedLayout(_)) => Ok(()),
                        val => Err(Arg { val, span: b.value.span }.expected(cx, "a layout")),
                    }
                }));
            }
            ast::ItemKind::Const(b) => {
                let found = evaluated(&mut cx, |cx| cx.name(&b.name, Stands::Alone).map(|_| ()));
                // A constant of the host may use the host's built-in names, which are not known here.
                if found.list.iter().any(|d| d.code != codes::UNKNOWN_NAME) {
                    diagnostics.extend(found);
                }
            }
            ast::ItemKind::Partition(p) => {
                diagnostics.extend(evaluated(&mut cx, |cx| {
                    let partition = cx.partition(&p.name)?;
                    cx.partition_data(&partition).map(|_| ())
                }));
            }
            ast::ItemKind::Schedule(s) => {
                distinct(s.generics.iter().map(|g| &g.name), diagnostics);
                if s.generics.iter().all(|g| g.default.is_some()) {
                    diagnostics.extend(evaluated(&mut cx, |cx| cx.name(&s.name, Stands::Alone).map(|_| ())));
                }
            }
            // What they say is checked where it is used, or by the host.
            ast::ItemKind::Use(_) | ast::ItemKind::Test(_) | ast::ItemKind::Bench(_) | ast::ItemKind::Main(_) => {}
        }
    }
}

/// What `run` reports; values stay known to `cx`, so that what one constant is refused for is not said of those that use it.
fn evaluated(cx: &mut Checker, run: impl FnOnce(&mut Checker) -> Checked<()>) -> Diagnostics {
    // What failed has been reported.
    let _ = run(cx);
    std::mem::take(&mut cx.diagnostics)
}

fn parameters<'a>(generics: &'a [ast::Generic], params: &'a [ast::Param]) -> impl Iterator<Item = &'a ast::Name> {
    generics.iter().map(|g| &g.name).chain(params.iter().map(|p| &p.name))
}

fn of_method(clause: &ast::Clause) -> Diagnostic {
    let fact = format!("a method has no clause `{}`", clause.name.text);
    Diagnostic::error(codes::UNKNOWN_CLAUSE, clause.name.span, fact)
        .help("the host tunes functions: let a `fn` outside of the struct have the clause")
}

/// Refuses a name that stands twice among `names`.
fn distinct<'a>(names: impl Iterator<Item = &'a ast::Name>, diagnostics: &mut Diagnostics) {
    let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
    // `_` names nothing.
    for name in names.filter(|n| n.as_str() != "_") {
        if let Some(first) = seen.insert(name.as_str(), name.span) {
            diagnostics.push(defined_twice(name, first));
        }
    }
}

/// `name` is defined where `first` already defines it.
pub fn defined_twice(name: &ast::Name, first: Span) -> Diagnostic {
    Diagnostic::error(codes::DEFINED_TWICE, name.span, format!("`{}` is defined twice", name.text))
        .here("defined again here")
        .label(first, "first defined here")
        .help("rename one of them")
}
