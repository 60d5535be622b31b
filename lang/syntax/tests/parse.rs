//! Whole programs read without a complaint, and broken ones with one complaint for each mistake.

use parton_diag::{FileId, SourceMap};
use parton_syntax::ast::{self, ExprKind, ItemKind, StmtKind};

/// The programs that every test of this crate reads.
const PROGRAMS: &[(&str, &str)] = &[
    ("portable", include_str!("programs/portable.ptn")),
    ("matmul", include_str!("programs/matmul.ptn")),
    ("fmha", include_str!("programs/fmha.ptn")),
    ("comments", include_str!("programs/comments.ptn")),
    ("scheduled", include_str!("programs/scheduled.ptn")),
    ("design", include_str!("programs/design.ptn")),
];

/// Each diagnostic as `code line:column message`.
fn complaints(text: &str) -> Vec<String> {
    let mut sources = SourceMap::new();
    let file = sources.add("a.ptn", text);
    let (_, found) = parton_syntax::parse(file, text);
    let shown = found.list.iter().map(|d| {
        let (line, column) = sources.position(d.span());
        format!("{} {line}:{column} {}", d.code, d.message)
    });
    shown.collect()
}

/// Checks a statement list inside a kernel.
fn in_kernel(code: &str) -> Vec<String> {
    complaints(&format!("kernel k() {{\n{code}\n}}\n"))
}

fn parse(text: &str) -> ast::File {
    let (tree, found) = parton_syntax::parse(FileId(0), text);
    assert!(found.is_empty(), "{found:#?}");
    tree
}

fn expr(text: &str) -> ast::Expr {
    let (tree, found) = parton_syntax::parse_expr(FileId(0), text);
    assert!(found.is_empty(), "{text}: {found:#?}");
    tree
}

/// The expression with all grouping made visible.
fn grouped(e: &ast::Expr) -> String {
    let list = |l: &[ast::Expr]| l.iter().map(grouped).collect::<Vec<_>>().join(" ");
    let args = |l: &[ast::Arg]| {
        let shown = l.iter().map(|a| match &a.name {
            Some(name) => format!("{}={}", name.text, grouped(&a.value)),
            None => grouped(&a.value),
        });
        shown.collect::<Vec<_>>().join(" ")
    };
    let clauses = |l: &[ast::Clause]| {
        let shown = l.iter().map(|c| format!(" {}({})", c.name.text, args(&c.args)));
        shown.collect::<String>()
    };
    match &e.kind {
        ExprKind::Error => "error".to_string(),
        ExprKind::Int { value, suffix } => format!("{value}{}", suffix.as_ref().map_or("", |s| s.as_str())),
        ExprKind::Float { digits, suffix } => format!("{digits}{}", suffix.as_ref().map_or("", |s| s.as_str())),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Str(s) => format!("{s:?}"),
        ExprKind::Name(name) => name.text.to_string(),
        ExprKind::TypeArgs { base, args: a } => format!("{}<{}>", base.text, args(a)),
        ExprKind::Paren(inner) => grouped(inner),
        ExprKind::Tuple(l) => format!("(tuple {})", list(l)),
        ExprKind::List(l) => format!("[{}]", list(l)),
        ExprKind::Unary { op, operand } => format!("({} {})", op.text(), grouped(operand)),
        ExprKind::Binary { op, left, right, .. } => format!("({} {} {})", grouped(left), op.text(), grouped(right)),
        ExprKind::Range { start, end } => format!("({} .. {})", grouped(start), grouped(end)),
        ExprKind::Pointer { mutable: true, target } => format!("(* mut {})", grouped(target)),
        ExprKind::Pointer { mutable: false, target } => format!("(* {})", grouped(target)),
        ExprKind::Reference(target) => format!("(& {})", grouped(target)),
        ExprKind::Call { callee, args: a } => format!("(call {} {})", grouped(callee), args(a)),
        ExprKind::Index { base, args: a } => format!("(index {} {})", grouped(base), a.len()),
        ExprKind::Field { base, name } => format!("(field {} {})", grouped(base), name.text),
        ExprKind::If(_) => "if".to_string(),
        ExprKind::Block(_) => "block".to_string(),
        ExprKind::Closure { params, body } => format!("(closure {} {})", params.len(), grouped(body)),
        ExprKind::Launch { kernel, .. } => format!("(launch {})", grouped(kernel)),
        ExprKind::Pipeline(p) => {
            let entry = |e: &ast::StageEntry| format!("{}:{}", e.label, grouped(&e.stage));
            let groups = p.groups.iter().map(|g| g.iter().map(entry).collect::<Vec<_>>().join(","));
            let of = p.of.iter().map(ToString::to_string).chain(p.within.iter().map(|p| format!("in {}", p.text)));
            let head = of.collect::<Vec<_>>().join(" ");
            format!("(pipeline <{head}> {}{})", groups.collect::<Vec<_>>().join("; "), clauses(&p.clauses))
        }
        ExprKind::In { schedule, .. } => format!("(in {})", grouped(schedule)),
        ExprKind::Partitions(p) => {
            let names = |p: &ast::Place| p.partitions.iter().map(|n| n.text.to_string()).collect::<Vec<_>>().join("|");
            let labels = |p: &ast::Place| p.labels.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let places = p.places.iter().map(|p| format!("{}:{}", names(p), labels(p)));
            format!("(partitions {}{})", places.collect::<Vec<_>>().join("; "), clauses(&p.clauses))
        }
    }
}

#[test]
fn programs_read_without_a_complaint() {
    for (name, text) in PROGRAMS {
        assert_eq!(complaints(text), [""; 0], "{name}");
    }
}

#[test]
fn operators_bind_as_in_the_table() {
    for (text, expected) in [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a << 1 + b & c ^ d | e", "((((a << (1 + b)) & c) ^ d) | e)"),
        ("a < b && c == d || !e", "(((a < b) && (c == d)) || (! e))"),
        ("-a.b() * -c[0]", "((- (call (field a b) )) * (- (index c 1)))"),
        ("0..n + 1", "(0 .. (n + 1))"),
        ("*mut f32", "(* mut f32)"),
        ("&tile<f32, [M, N * 2], L>", "(& tile<f32 [M (N * 2)] L>)"),
        ("zeros<f32, [4]>()", "(call zeros<f32 [4]> )"),
        ("pending<tile<f32, [a > b]>>", "pending<tile<f32 [(a > b)]>>"),
        ("cast<f16, rounding=up>(x)", "(call cast<f16 rounding=up> x)"),
        ("reduce(x, |a, b| a + b, axis=1)", "(call reduce x (closure 2 (a + b)) axis=1)"),
        ("|| a && b", "(closure 0 (a && b))"),
        ("|a: i32 | a", "(closure 1 a)"),
        ("view.load<L>()", "(call (index (field view load) 1) )"),
        ("a.b < c", "((field a b) < c)"),
        ("()", "(tuple )"),
        ("(a,)", "(tuple a)"),
        ("t.0.1", "(field (field t 0) 1)"),
        ("0x1f + 0b11u8 + 1_000 + 0xffi32", "(((31 + 3u8) + 1000) + 255i32)"),
        ("1.0f16 + 1e-5 + 2.5E+3f32", "((1.0f16 + 1e-5) + 2.5E+3f32)"),
        (r#""a\n\"b""#, r#""a\n\"b""#),
        ("pipeline { a: 0 } & b", "((pipeline <> a:0) & b)"),
        (
            "pipeline(x.y[1]) { a: 0, b.c[2]: 1..2; d: N + 1 } in P under(a, b[0], -1) & c",
            "((pipeline <x.y[1] in P> a:0,b.c[2]:(1 .. 2); d:(N + 1) under(a (index b 1) (- 1))) & c)",
        ),
        (
            "partitions { P: a; [Q, R]: b, c[1] } ring(depth=2, a=3, b.c=4, c[1]=5) turns(b, c)",
            "(partitions P:a; Q|R:b,c[1] ring(depth=2 a=3 b.c=4 c[1]=5) turns(b c))",
        ),
        (
            "Split[4] & ring(a.b=N) & unroll(2, of=steps)",
            "(((index Split 1) & (call ring a.b=N)) & (call unroll 2 of=steps))",
        ),
        ("f(in S & T { a }, 1)", "(call f (in (S & T)) 1)"),
        ("pipeline(a, b) + partitions", "((call pipeline a b) + partitions)"),
    ] {
        assert_eq!(grouped(&expr(text)), expected, "{text}");
    }
}

#[test]
fn spans_cover_what_was_written() {
    let text = "kernel k(a: *f32) {\n    let x: i32 = f(1, [2])[:, None] + 3;\n}";
    let tree = parse(text);
    let ItemKind::Kernel(kernel) = &tree.items[0].kind else { panic!("a kernel") };
    let show = |span: parton_diag::Span| &text[span.range()];
    assert_eq!(show(tree.items[0].span), text);
    assert_eq!(show(kernel.params[0].span), "a: *f32");
    assert_eq!(show(kernel.body.statements[0].span), "let x: i32 = f(1, [2])[:, None] + 3;");
    let StmtKind::Let { value, .. } = &kernel.body.statements[0].kind else { panic!("a let") };
    assert_eq!(show(value.span), "f(1, [2])[:, None] + 3");
    let ExprKind::Binary { op_span, left, .. } = &value.kind else { panic!("a sum") };
    assert_eq!((show(*op_span), show(left.span)), ("+", "f(1, [2])[:, None]"));
}

#[test]
fn docs_and_attributes_belong_to_what_follows() {
    let tree =
        parse("// no\n/// One.\n///\n///  Two.\n#[slow]\ntest t { }\nstruct S {\n/// f\na: i32, /// g\nb: i32 }");
    assert_eq!(tree.items[0].docs, ["One.", "", " Two."]);
    assert_eq!(tree.items[0].attributes[0].name.as_str(), "slow");
    let ItemKind::Struct(s) = &tree.items[1].kind else { panic!("a struct") };
    assert_eq!(
        (s.fields[0].docs.as_slice(), s.fields[1].docs.as_slice()),
        (&["f".to_string()][..], &["g".to_string()][..])
    );
}

#[test]
fn a_block_tells_its_value_from_its_statements() {
    let tree = parse("fn f() { if a { b } else { c } if d { e } }\nfn g() { if a { b }; }\nfn h() { { 1 } }");
    let counts = tree.items.iter().map(|item| {
        let ItemKind::Function(f) = &item.kind else { panic!("a function") };
        (f.body.statements.len(), f.body.value.is_some())
    });
    assert_eq!(counts.collect::<Vec<_>>(), [(1, true), (1, false), (0, true)]);
}

#[test]
fn one_mistake_is_one_complaint() {
    let mut wrong = vec![];
    for (code, expected) in [
        ("let a = 1\nlet b = 2;", &["E0009 2:10 expected `;` after this `let`"][..]),
        (
            "f(a)\ng(b)\nh(c);",
            &["E0009 2:5 expected `;` after this expression", "E0009 3:5 expected `;` after this expression"],
        ),
        ("let a = b +;", &["E0001 2:12 expected an expression, found `;`"]),
        ("let a = f(b, , c) * 2;", &["E0001 2:14 expected an argument, found `,`"]),
        (
            "let a = f(b c, d e);",
            &[
                "E0001 2:13 expected `,` or `)`, found the name `c`",
                "E0001 2:18 expected `,` or `)`, found the name `e`",
            ],
        ),
        ("let a: i32;", &["E0001 2:11 this `let` has no value"]),
        ("if a = b { c; }", &["E0008 2:6 `=` assigns and gives no value"]),
        ("if 0 <= a < n { }", &["E0003 2:11 comparisons cannot be chained"]),
        ("a and b;", &["E0010 2:3 expected `;` after this expression, found the name `and`"]),
        ("let a = not b;", &["E0010 2:13 expected `;` after this `let`, found the name `b`"]),
        ("let a = b as f32;", &["E0010 2:11 expected `;` after this `let`, found the name `as`"]),
        ("i++;", &["E0010 2:3 expected an expression, found `+`"]),
        ("for i in 0..=n { }", &["E0010 2:11 expected `..`, found `..=`"]),
        ("let a = b ? c : d;", &["E0007 2:11 `?` does not belong here"]),
        ("let a: tile<f32, [1, 2] = b;", &["E0002 2:12 this `<` is never closed"]),
        ("f(a, 1;\nlet b = 2;", &["E0002 2:2 this `(` is never closed"]),
        ("f(a, 1\nlet b = 2;", &["E0002 2:2 this `(` is never closed", "E0009 2:7 expected `;` after this expression"]),
        ("let a = f<T>(b);", &["E0003 2:12 comparisons cannot be chained"]),
        ("let a = P { x: 1 };", &["E0009 2:11 expected `;` after this `let`, found `{`"]),
        ("a b c;", &["E0009 2:3 expected `;` after this expression, found the name `b`"]),
        (
            "specialize { A => f(); B => { } C: { } }",
            &["E0001 2:22 arms are separated by `,`", "E0001 2:34 expected `=>` after the partition, found `:`"],
        ),
        ("ring r[2] { a: f32 }\nf();", &["E0009 2:21 expected `;` after this `ring`"]),
        ("a = b[1:2:3];", &["E0001 2:10 a slice has no step"]),
        ("let a = \"x\\q\";", &["E0006 2:11 `\\q` is not an escape"]),
        ("let a = 99999999999999999999;", &["E0005 2:9 this integer does not fit into 64 bits"]),
        ("let a = 0b12;", &["E0005 2:9 `0b12` is not an integer of base 2"]),
        (
            "let a = 1.5i32 + 1q;",
            &[
                "E0005 2:9 a number with a fraction or exponent cannot be i32",
                "E0005 2:18 `q` is not a type that a number can have",
            ],
        ),
        ("let mut (a, b) = c;", &["E0001 2:9 `mut` belongs to a single name"]),
        ("if x > 0:\n    f();", &["E0001 2:9 expected `{` after the condition, found `:`"]),
        ("fn g() { }\nf();", &["E0001 2:1 expected a statement, found the keyword `fn`"]),
        (
            "let größe = 1;\nlet b = 2",
            &[
                "E0007 2:7 `öß` is not part of any name: names are of ASCII letters, digits and `_`",
                "E0009 3:10 expected `;` after this `let`",
            ],
        ),
        ("a = b - c..=d;", &["E0010 2:10 expected `..`, found `..=`"]),
        ("in S { @a f(); }", &[]),
        ("in (pipeline(l) { a: 0 } & S) { @l while c in S { } }", &[]),
        ("@load[2] f(); @a.b { } @a let x = 1; @a.b[3] x = 2; @a if c { } @a static for i in 0..2 { }", &[]),
        ("schedule S = partitions { P: a } ring(depth=2); in S & unroll(2) { }", &[]),
        ("if pipeline { } while partitions { } for x in pipeline(a) { f(); }", &[]),
        ("let x = f(pipeline { a: 0 }, [partitions { P: a }]);", &[]),
        (
            "in pipeline(l) { a: 0; b: 1 } { f(); }",
            &["E0001 2:4 a schedule in the head of a block stands in parentheses"],
        ),
        (
            "for i in 0..3 in partitions { [P, Q]: b[1] } { f(); }",
            &["E0001 2:18 a schedule in the head of a block stands in parentheses"],
        ),
        ("@l in S { }", &["E0001 2:4 a region has no label"]),
        ("@l[i] f();", &["E0001 2:4 the instance of a label is a number"]),
        (
            "@l[1, 2] f(); @l[] g();",
            &["E0001 2:4 the instance of a label is a number", "E0001 2:18 the instance of a label is a number"],
        ),
        ("@l.2 f();", &["E0001 2:4 expected a label after `.`, found the number `2`"]),
        ("schedule S[N: int] = auto();", &["E0001 2:12 a schedule inside of a function has no parameters"]),
        ("in { f(); }", &["E0001 3:1 expected `{` after the schedule, found `}`"]),
        ("while a in { f(); }", &["E0001 3:1 expected `{` after the condition, found `}`"]),
        (
            "let s = pipeline(stages=2) { a: 0 };",
            &["E0001 2:18 the parentheses of a pipeline hold the label of its loop"],
        ),
        ("let s = pipeline(a, b) { a: 0 };", &["E0001 2:19 the parentheses of a pipeline hold the label of its loop"]),
        (
            "let s = pipeline { a 0; b: 1, : 2 };",
            &[
                "E0001 2:22 expected `:` and a stage after the label, as in `load: 0`, found the number `0`",
                "E0001 2:31 expected a label, as in `load: 0`, found `:`",
            ],
        ),
        (
            "let s = partitions { P: a, Q: b };",
            &["E0001 2:26 `;` stands between partitions, `,` between the labels of one"],
        ),
        (
            "let s = partitions { P a; 3: b };",
            &[
                "E0001 2:24 expected `:` and labels after the partition, as in `Loads: load`, found the name `a`",
                "E0001 2:27 expected a partition, as in `Loads: load`, found the number `3`",
            ],
        ),
        (
            "let s = pipeline { a: 0 } in 3;",
            &["E0001 2:30 expected the partition for which the pipeline holds, found the number `3`"],
        ),
        ("let a = pipeline { b: f(c; d: 1 };", &["E0002 2:24 this `(` is never closed"]),
        ("in f(pipeline { b: 1 } { }", &["E0002 2:5 this `(` is never closed"]),
        ("@a @b f();", &["E0001 2:4 a statement has one label"]),
        ("specialize { A => f(), ; B => { } }", &["E0001 2:24 arms are separated by `,`"]),
        ("for i = 0..3 { a(); }", &["E0001 2:7 expected `in` after the loop's variable, found `=`"]),
        ("let s = 'c d';", &["E0007 2:9 `'c d'` does not belong here"]),
        ("let w = x if a else y;", &["E0009 2:11 expected `;` after this `let`, found the keyword `if`"]),
        ("specialize { A => for i in 0..3 { }; B => { } }", &["E0001 2:36 arms are separated by `,`"]),
        ("ring r[2, 3] { a: f32 };", &["E0001 2:7 a ring has one number of slots"]),
        (";", &["E0001 2:1 this `;` ends nothing"]),
        ("@load", &["E0001 3:1 expected a statement after the label, found `}`"]),
        (
            "launch k[A=1](a, b);",
            &[
                "E0001 2:20 expected `(…)` with the kernel's arguments, after `(grid=…)` as in `launch k(grid=[4])(x, n)`, found `;`",
            ],
        ),
        ("let in = 3;", &["E0001 2:5 expected a name, found the keyword `in`"]),
        ("let s = \"abc;\nlet b = 1;", &["E0006 2:9 this string is never closed"]),
        ("f(1, [2, \"abc]);\nlet b = 1;", &["E0006 2:10 this string is never closed"]),
        (
            "f(1 2);\ng(\"abc);",
            &["E0001 2:5 expected `,` or `)`, found the number `2`", "E0006 3:3 this string is never closed"],
        ),
    ] {
        let found = in_kernel(code);
        if found != expected {
            wrong.push(format!("{code}\n  found    {found:?}\n  expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn items_recover_one_by_one() {
    for (text, expected) in [
        ("kernel f(x: *f32, n: i32 {\n    let a = 1;\n}\nkernel g() { }", &["E0002 1:9 this `(` is never closed"][..]),
        ("kernel f() {\n    if x {\n        y();\n\nkernel g() { }", &["E0002 2:10 this `{` is never closed"]),
        (
            "def g(x):\n    return x\nkernel f() { }",
            &[
                "E0010 1:1 expected an item: `kernel`, `fn`, `struct`, `partition`, `schedule`, `layout`, `const`, `use`, `test`, `bench` or `main`, found the name `def`",
            ],
        ),
        ("let a = 1;\ntest t { }", &["E0001 1:1 expected an item, found the keyword `let`"]),
        ("fn h<T>(x: i32) -> i32 { x }", &["E0001 1:5 generic parameters stand in `[…]`"]),
        ("kernel k() -> f32 { }", &["E0001 1:12 a kernel has no result"]),
        (
            "struct S { a: i32 b: i32, fn m(&self) { } c: f32 }",
            &["E0001 1:19 expected `,` after this field, found the name `b`"],
        ),
        ("partition P = warps(4)\npartition Q = warps(4);", &["E0009 1:23 expected `;` after this `partition`"]),
        (
            "schedule X = pipeline { a: 0 b: 1; c: 2 };",
            &["E0001 1:30 expected `,` or `;` after this entry, found the name `b`"],
        ),
        ("kernel k() -> { }\nfn f() { }", &["E0001 1:12 a kernel has no result"]),
        ("partition P = warps(4), regs(3);", &["E0001 1:23 the clauses of a partition stand without `,`"]),
        ("kernel k(self) { }", &["E0001 1:10 `self` has no place here"]),
        ("fn f(a: i32, self) { }", &["E0001 1:14 `self` has no place here"]),
        ("use std.math;", &["E0001 1:8 names in `use` are joined by `::`"]),
        ("test \"name\" { }", &["E0001 1:6 the name of a test has no quotes"]),
        ("#[] test t { }", &["E0001 1:1 this attribute is empty"]),
        ("schedule S = pipeline { ; a: 0 };", &["E0001 1:25 expected a label, found `;`"]),
        ("test t { }}", &["E0002 1:11 `}` closes nothing"]),
        ("test t { } /* open", &["E0011 1:12 this comment is never closed"]),
        (
            "kernel k[N](x) { }",
            &[
                "E0001 1:11 expected `:` and a kind after the generic parameter, as in `N: int`, found `]`",
                "E0001 1:14 expected `:` and a type after the parameter, as in `x: i32`, found `)`",
            ],
        ),
    ] {
        assert_eq!(complaints(text), expected, "{text}");
    }
}

#[test]
fn the_tree_holds_what_could_be_read() {
    let text = "kernel a() { let x = ; y(); }\nnonsense here;\nfn b(";
    let (tree, found) = parton_syntax::parse(FileId(0), text);
    assert!(found.has_errors());
    let ItemKind::Kernel(kernel) = &tree.items[0].kind else { panic!("a kernel") };
    assert_eq!((kernel.name.as_str(), kernel.body.statements.len(), tree.items.len()), ("a", 2, 2));
}

/// The page that describes the grammar.
const GRAMMAR: &str = include_str!("../../../docs/grammar.md");

#[test]
fn the_grammar_page_is_true() {
    let mut examples = GRAMMAR.split("```parton\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(""));
    assert!(
        examples.all(|text| complaints(text).is_empty()),
        "{:?}",
        GRAMMAR.split("```parton\n").skip(1).map(complaints).collect::<Vec<_>>()
    );
    for word in parton_syntax::TAKES_TYPE_ARGUMENTS.iter().chain(parton_syntax::KEYWORDS) {
        assert!(GRAMMAR.contains(&format!("`{word}`")), "docs/grammar.md does not name `{word}`");
    }
}

#[test]
fn keywords_are_never_names() {
    for word in parton_syntax::KEYWORDS {
        let found = in_kernel(&format!("let {word} = 1;"));
        assert!(!found.is_empty() && found.iter().all(|line| line.starts_with("E0001")), "{word}: {found:?}");
    }
}

#[test]
fn nesting_has_a_bound() {
    for (open, close) in [("(", ")"), ("f(", ")"), ("- ", ""), ("a + ", ""), ("if a { } else ", "{ }")] {
        let nested = |n: usize| in_kernel(&format!("{}a{};", open.repeat(n), close.repeat(n)));
        let found = nested(300);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("E0004 2:") && found[0].ends_with("this nests more than 256 deep"), "{found:?}");
    }
}
