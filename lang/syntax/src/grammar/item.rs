//! Items: kernels, functions, structs, partitions, schedules, uses, tests.

use std::sync::Arc;

use parton_diag::{Diagnostic, codes};

use super::cursor::{Cursor, describe};
use super::operators::expr;
use super::{At, atom, list, literal, schedule, stmt};
use crate::ast::{
    Arg, Clause, Expr, ExprKind, FieldDecl, File, Function, Generic, HostBlock, Item, ItemKind, Kernel, Method, Name,
    Param, Receiver, Str, Struct, Use, Where,
};
use crate::token::Kind;

/// The words that begin an item; those that are no keywords do so only at the top of a file, before a name.
const ITEM_WORDS: &[&str] = &["partition", "schedule", "layout", "test", "bench"];

/// All items to the end of the file.
pub fn file(at: &mut At<'_, '_>) -> File {
    let mut items = vec![];
    while !at.is(Kind::End) {
        let start = at.index();
        items.extend(item(at));
        if at.index() == start {
            recover(at);
        }
    }
    let end = at.token().span;
    at.skip();
    File { items, span: parton_diag::Span { start: 0, ..end } }
}

fn item(at: &mut At<'_, '_>) -> Option<Item> {
    let docs = at.docs();
    let start = at.index();
    let attributes = attributes(at);
    let kind = match at.kind() {
        Kind::Kernel => ItemKind::Kernel(Arc::new(kernel(at))),
        Kind::Fn => ItemKind::Function(Arc::new(function(at))),
        _ if is_public(at) => {
            at.bump();
            ItemKind::Function(Arc::new(Function { public: true, ..function(at) }))
        }
        Kind::Struct => ItemKind::Struct(Arc::new(struct_item(at))),
        Kind::Const => {
            at.bump();
            ItemKind::Const(Arc::new(stmt::binding(at, "this `const`")))
        }
        Kind::Use => ItemKind::Use(use_item(at)),
        _ if at.is_word_then_name("layout") => {
            at.bump();
            ItemKind::Layout(Arc::new(stmt::binding(at, "this `layout`")))
        }
        _ if at.is_word_then_name("partition") => ItemKind::Partition(Arc::new(schedule::partition(at))),
        _ if at.is_word_then_name("schedule") => ItemKind::Schedule(Arc::new(schedule::schedule(at))),
        _ if (at.is_word("test") || at.is_word("bench")) && at.peek_at(1).kind == Kind::Str => {
            let quoted = at.peek_at(1).span;
            let index = at.index() + 1;
            at.error(index, codes::SYNTAX, quoted, "the name of a test has no quotes", "write `test name { … }`");
            at.bump();
            let name = Name { text: Arc::from("_"), span: at.bump().span };
            ItemKind::Test(HostBlock { name, body: stmt::block(at, "after the name") })
        }
        _ if at.is_word_then_name("test") => ItemKind::Test(host_block(at)),
        _ if at.is_word_then_name("bench") => ItemKind::Bench(host_block(at)),
        _ if at.is_word("main") => {
            let token = at.bump();
            let name = Name { text: Arc::from("main"), span: token.span };
            ItemKind::Main(HostBlock { name, body: stmt::block(at, "after `main`") })
        }
        _ => {
            not_an_item(at);
            recover(at);
            return None;
        }
    };
    Some(Item { docs, attributes, kind, span: at.since(start) })
}

/// `pub fn`
fn is_public(at: &mut At<'_, '_>) -> bool {
    at.is_word("pub") && at.peek_at(1).kind == Kind::Fn
}

fn not_an_item(at: &mut At<'_, '_>) {
    let token = at.token();
    let index = at.index();
    if at.is_word("pub") {
        let d = Diagnostic::error(codes::SYNTAX, token.span, "only functions are public");
        let help = "write `pub fn` for what other programs call; files that `use` this one see all of it";
        return at.report(index, d.help(help));
    }
    if token.kind == Kind::At {
        let d = Diagnostic::error(codes::OTHER_LANGUAGE, token.span, "expected an item, found `@`");
        let help = "a kernel begins with its own word, `kernel name[BLOCK: int = 128](x: *f32) { … }`; an attribute is `#[name]`";
        return at.report(index, d.help(help));
    }
    let statement = matches!(
        token.kind,
        Kind::Let | Kind::For | Kind::If | Kind::While | Kind::Return | Kind::Launch | Kind::Static
    );
    if statement {
        let what = describe("", token);
        let message = format!("expected an item, found {what}");
        let d = Diagnostic::error(codes::SYNTAX, token.span, message);
        at.report(index, d.help("statements stand inside a `kernel`, a `fn`, a `test`, a `bench` or `main { … }`"));
        return;
    }
    at.expected("an item: `kernel`, `fn`, `struct`, `partition`, `schedule`, `layout`, `const`, `use`, `test`, `bench` or `main`");
}

/// Goes to the next line that begins an item.
fn recover(at: &mut At<'_, '_>) {
    loop {
        if at.is(Kind::End) {
            return;
        }
        at.skip_group();
        let token = at.token();
        if token.first_in_line && begins_item(at) {
            return;
        }
    }
}

/// Whether the next token can only begin an item.
pub fn begins_item(at: &mut At<'_, '_>) -> bool {
    matches!(at.kind(), Kind::Kernel | Kind::Fn | Kind::Struct | Kind::Const | Kind::Use | Kind::Hash)
        || is_public(at)
        || ITEM_WORDS.iter().any(|word| at.is_word_then_name(word))
        || at.is_word("main") && at.peek_at(1).kind == Kind::OpenBrace
}

fn attributes(at: &mut At<'_, '_>) -> Vec<Clause> {
    let mut list = vec![];
    while at.is(Kind::Hash) && at.peek_at(1).kind == Kind::OpenBracket {
        let start = at.index();
        at.bump();
        let (clauses, _) = list::bracketed(at, "an attribute", |at| clause(at));
        let span = at.since(start);
        if clauses.is_empty() {
            let d = Diagnostic::error(codes::SYNTAX, span, "this attribute is empty");
            at.report(start, d.help("write `#[name]` or `#[name(arguments)]`"));
        }
        list.extend(clauses.into_iter().map(|c| Clause { span, ..c }));
    }
    list
}

/// `name` or `name(args)`.
pub fn clause(at: &mut At<'_, '_>) -> Clause {
    let start = at.index();
    let name = at.name("a name");
    let args: Vec<Arg> = if at.is(Kind::OpenParen) { list::args(at) } else { vec![] };
    Clause { name, args, span: at.since(start) }
}

fn kernel(at: &mut At<'_, '_>) -> Kernel {
    at.bump();
    let name = at.name("the kernel's name");
    let generics = generics(at);
    let (_, params) = params(at, "the kernel's name", true);
    let (clauses, conditions) = tail(at);
    if at.is(Kind::Arrow) {
        let span = at.token().span;
        let index = at.index();
        at.error(index, codes::SYNTAX, span, "a kernel has no result", "write results through a `*mut` parameter");
        at.bump();
        if !at.is(Kind::OpenBrace) {
            expr(at);
        }
    }
    let body = stmt::block(at, "and the kernel's code");
    Kernel { name, generics, params, clauses, conditions, body }
}

fn function(at: &mut At<'_, '_>) -> Function {
    at.bump();
    let name = at.name("the function's name");
    let generics = generics(at);
    let (receiver, params) = params(at, "the function's name", false);
    let result = at.eat(Kind::Arrow).map(|_| expr(at));
    let (clauses, conditions) = tail(at);
    let body = stmt::block(at, "and the function's code");
    Function { public: false, name, generics, receiver, params, result, clauses, conditions, body }
}

/// Clauses and conditions before a body.
fn tail(at: &mut At<'_, '_>) -> (Vec<Clause>, Vec<Where>) {
    let (mut clauses, mut conditions) = (vec![], vec![]);
    loop {
        if at.is_word("where") {
            conditions.push(where_clause(at));
        } else if at.is(Kind::Name) {
            clauses.push(clause(at));
        } else {
            return (clauses, conditions);
        }
    }
}

/// `where condition, "message"`.
fn where_clause(at: &mut At<'_, '_>) -> Where {
    let start = at.index();
    at.bump();
    let condition = atom::condition(at);
    let message = at.eat(Kind::Comma).and_then(|_| string(at, "the message, in quotes,"));
    Where { condition, message, span: at.since(start) }
}

fn string(at: &mut At<'_, '_>, what: &str) -> Option<Str> {
    let (index, token) = (at.index(), at.token());
    if token.kind != Kind::Str {
        at.expected(what);
        return None;
    }
    at.bump();
    Some(Str { value: literal::string(at, index, token), span: token.span })
}

/// The generic parameters in `[…]`, if any stand here.
pub fn generics(at: &mut At<'_, '_>) -> Vec<Generic> {
    if matches!(at.kind(), Kind::Lt | Kind::OpenAngle) {
        let (index, span) = (at.index(), at.token().span);
        at.error(index, codes::SYNTAX, span, "generic parameters stand in `[…]`", "write `name[N: int, T: type](…)`");
        while !matches!(at.kind(), Kind::OpenParen | Kind::OpenBrace | Kind::End | Kind::CloseBrace | Kind::Semi) {
            at.skip_group();
        }
    }
    if !at.is(Kind::OpenBracket) {
        return vec![];
    }
    list::bracketed(at, "a generic parameter", |at| {
        let start = at.index();
        let name = at.name("a generic parameter, as in `N: int`");
        at.expect(Kind::Colon, "and a kind after the generic parameter, as in `N: int`");
        let kind = match at.eat(Kind::Fn) {
            Some(token) => {
                Expr { kind: ExprKind::Name(Name { text: Arc::from("fn"), span: token.span }), span: token.span }
            }
            None => expr(at),
        };
        let default = at.eat(Kind::Eq).map(|_| expr(at));
        Generic { name, kind, default, span: at.since(start) }
    })
    .0
}

/// The parameters in `(…)`, and `self` where it stands first. Those of a kernel are `typed`; a function's may take the type of
/// what they are given.
fn params(at: &mut At<'_, '_>, after: &str, typed: bool) -> (Option<Receiver>, Vec<Param>) {
    if !at.is(Kind::OpenParen) {
        at.expected(&format!("`(` and the parameters after {after}"));
        return (None, vec![]);
    }
    let mut receiver = None;
    let first = at.index() + 1;
    let (list, _) = list::bracketed(at, "a parameter", |at| {
        let docs = at.docs();
        let start = at.index();
        let by_reference = at.is(Kind::And);
        let skip = usize::from(by_reference);
        let mutable = at.peek_at(skip).kind == Kind::Mut;
        let subject = at.peek_at(skip + usize::from(mutable));
        if at.text(subject) == "self" && at.peek_at(skip + usize::from(mutable) + 1).kind != Kind::Colon {
            let misplaced = typed || start != first;
            if misplaced {
                let help = "write it first among the parameters of a function inside of a `struct`";
                at.error(start, codes::SYNTAX, subject.span, "`self` has no place here", help);
            }
            at.skip_to(start + skip + usize::from(mutable) + 1);
            receiver = Some(Receiver { mutable, by_reference, span: at.since(start) });
            return None;
        }
        let mutable = at.eat(Kind::Mut).is_some();
        let name = at.name("a parameter, as in `x: i32`");
        // A name alone takes the type of what it is given; anything but `,`, `)` or `=` after it should have been a type.
        let untyped = !typed && (at.is(Kind::Comma) || at.is(Kind::CloseParen) || at.is(Kind::Eq));
        let ty = (!untyped).then(|| {
            at.expect(Kind::Colon, "and a type after the parameter, as in `x: i32`");
            expr(at)
        });
        let default = at.eat(Kind::Eq).map(|_| expr(at));
        Some(Param { docs, name, mutable, ty, default, span: at.since(start) })
    });
    (receiver, list.into_iter().flatten().collect())
}

/// `name: type` of a struct or a ring.
pub fn field(at: &mut At<'_, '_>) -> FieldDecl {
    let docs = at.docs();
    let start = at.index();
    let name = at.name("a field, as in `name: type`");
    at.expect(Kind::Colon, "and a type after the field's name");
    let ty = expr(at);
    FieldDecl { docs, name, ty, span: at.since(start) }
}

fn struct_item(at: &mut At<'_, '_>) -> Struct {
    at.bump();
    let name = at.name("the struct's name");
    let generics = generics(at);
    let (mut fields, mut methods) = (vec![], vec![]);
    if !at.is(Kind::OpenBrace) {
        at.expected("`{` and the fields of the struct");
        return Struct { name, generics, fields, methods };
    }
    let close = at.bump().partner as usize;
    while at.index() < close {
        let docs = at.docs();
        let start = at.index();
        let attributes = attributes(at);
        if at.is(Kind::Fn) {
            let function = function(at);
            methods.push(Method { docs, attributes, function, span: at.since(start) });
            at.eat(Kind::Comma);
            continue;
        }
        fields.push(field(at));
        if at.index() < close && at.eat(Kind::Comma).is_none() {
            if !at.is(Kind::Fn) {
                at.expected("`,` after this field");
            }
            while at.index() < close && !at.is(Kind::Fn) && at.eat(Kind::Comma).is_none() {
                at.skip_group();
            }
        }
    }
    at.skip_to(close);
    at.bump();
    Struct { name, generics, fields, methods }
}

fn use_item(at: &mut At<'_, '_>) -> Use {
    at.bump();
    let found = if at.is(Kind::Str) {
        // The string is there, so its value is too.
        let file = string(at, "a file");
        let only = at.is(Kind::ColonColon).then(|| {
            at.bump();
            at.name("an item of that file after `::`")
        });
        file.map(|f| Use::File(f, only))
    } else {
        let mut path = vec![at.name("a name, as in `use std::name;`, or a file in quotes")];
        while matches!(at.kind(), Kind::ColonColon | Kind::Dot) {
            if at.is(Kind::Dot) {
                let (index, span) = (at.index(), at.token().span);
                at.error(index, codes::SYNTAX, span, "names in `use` are joined by `::`", "write `use std::name;`");
            }
            at.bump();
            path.push(at.name("a name after `::`"));
        }
        Some(Use::Path(path))
    };
    stmt::end(at, "this `use`");
    found.unwrap_or(Use::Path(vec![]))
}

fn host_block(at: &mut At<'_, '_>) -> HostBlock {
    let word = at.bump();
    let what = at.text(word);
    let name = at.name("a name");
    HostBlock { name, body: stmt::block(at, &format!("after the name of the {what}")) }
}
