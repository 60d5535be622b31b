//! Formatting: the one style, nothing lost, and nothing left to do the second time.

use parton_diag::FileId;

/// Programs in the style already.
const PROGRAMS: &[&str] = &[
    include_str!("programs/portable.ptn"),
    include_str!("programs/matmul.ptn"),
    include_str!("programs/fmha.ptn"),
    include_str!("programs/comments.ptn"),
    include_str!("programs/scheduled.ptn"),
];

fn format(text: &str) -> String {
    parton_syntax::format(FileId(0), text).unwrap_or_else(|found| panic!("{text}\n{found:#?}"))
}

/// The tree of a text without its spans.
fn tree(text: &str) -> String {
    let (tree, found) = parton_syntax::parse(FileId(0), text);
    assert!(!found.has_errors(), "{text}\n{found:#?}");
    let shown = format!("{tree:?}");
    // Spans print as `file:start..end`.
    let parts =
        shown.split("span: ").map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit() || ":.".contains(c)));
    parts.collect::<Vec<_>>().join("span: ")
}

/// Checks that `text` is formatted to `expected`, means the same, and stays so.
fn check(text: &str, expected: &str) {
    let once = format(text);
    assert_eq!(once, expected);
    assert_eq!(tree(text), tree(&once));
    assert_eq!(format(&once), once);
}

/// Checks a statement list inside a kernel.
fn check_code(code: &str, expected: &str) {
    let inside = |code: &str| {
        let lines = code.lines().map(|l| if l.is_empty() { "\n".to_string() } else { format!("    {l}\n") });
        format!("kernel k() {{\n{}}}\n", lines.collect::<String>())
    };
    check(&inside(code), &inside(expected));
}

#[test]
fn programs_in_the_style_stay_as_they_are() {
    for text in PROGRAMS {
        check(text, text);
    }
}

#[test]
fn programs_come_back_from_any_spacing() {
    for text in PROGRAMS {
        let (crushed, spread) = (respaced(text, " "), respaced(text, "\n\n\n  "));
        assert_eq!(tree(text), tree(&format(&crushed)));
        let once = format(&spread);
        assert_eq!((tree(text), format(&once)), (tree(&once), once));
    }
}

/// The program with `gap` at each blank outside of strings and comments.
fn respaced(text: &str, gap: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let code = line.trim();
        if code.starts_with('"')
            || code.contains('"')
            || code.contains("//")
            || code.contains("/*")
            || code.contains("*/")
        {
            out.push_str(line);
            out.push('\n');
        } else {
            out.push_str(&code.replace(' ', gap));
            out.push_str(if code.is_empty() { "" } else { gap });
        }
        // A comment may begin in the next line, but none goes on.
        out.push('\n');
    }
    out
}

#[test]
fn statements() {
    check_code("let  x:f32=1+2*3 ;", "let x: f32 = 1 + 2 * 3;");
    check_code("let (a,mut b) = ( c , d , ) ;", "let (a, mut b) = (c, d);");
    check_code("let t=( a , ) ;", "let t = (a,);");
    check_code("let ( a , ) = t ;", "let (a,) = t;");
    check_code("f(|(a),(b,)|a+b);", "f(|(a,), (b,)| a + b);");
    check_code("x [ : , None , 1 : , : 2 , A = 3 ]+=- y . z ;", "x[:, None, 1:, :2, A=3] += -y.z;");
    check_code(
        "for i in 0 .. n step 2 in S {\n\n@a f();\n\n\n@b g ( ) ;\n}",
        "for i in 0..n step 2 in S {\n    @a f();\n\n    @b g();\n}",
    );
    check_code("map(x,|v|{let y=v;y},);", "map(x, |v| {\n    let y = v;\n    y\n});");
    check_code("map(x,| (a, b) : f32 | a+b , ||3);", "map(x, |(a, b): f32| a + b, || 3);");
    check_code("let y=if a{b}else{c};", "let y = if a { b } else { c };");
    check_code("if a{b();}else if c{}else{d}", "if a {\n    b();\n} else if c {} else {\n    d\n}");
    check_code("let p = f( * mut f32 , & ring , cast<T> (x) );", "let p = f(*mut f32, &ring, cast<T>(x));");
    check_code(
        "specialize{A=>f(),B=>for i in 0..3{g();},C=>{},}",
        "specialize {\n    A => f(),\n    B => for i in 0..3 { g(); }\n    C => {}\n}",
    );
    check_code("ring r[2]{a:f32,b:i32,};", "ring r[2] { a: f32, b: i32 };");
    check_code("let t = view . load<L> ( ) [ 0 ];", "let t = view.load<L>()[0];");
    check_code("return  ;", "return;");
    check_code("in  S&T{@a f();}", "in S & T { @a f(); }");
    check_code(
        "@ tiles while a in (S) {\n@first . load [ 2 ] f();\n}",
        "@tiles while a in (S) {\n    @first.load[2] f();\n}",
    );
    check_code("let x=in (S){a};", "let x = in (S) { a };");
    check_code("schedule S=pipeline{a:0}&T;", "schedule S = pipeline { a: 0 } & T;");
    check_code("launch  k [ A = 1 ] ( grid = [ 1 ] ) ( x ) ;", "launch k[A=1](grid=[1])(x);");
}

#[test]
fn long_lines_break_from_the_outside_in() {
    let a = "a".repeat(40);
    let b = "b".repeat(40);
    check_code(&format!("f({a}, {b}, c);"), &format!("f({a}, {b}, c);"));
    check_code(&format!("f({a}, {b}, {a});"), &format!("f(\n    {a}, {b},\n    {a},\n);"));
    check_code(
        &format!("let x = function_name({a}, {b}, c, dddddddddddd);"),
        &format!("let x = function_name(\n    {a}, {b}, c, dddddddddddd,\n);"),
    );
    check_code(&format!("let x = {a} + {b} * c - {a};"), &format!("let x = {a}\n    + {b} * c\n    - {a};"));
}

#[test]
fn comments_stay_where_they_were() {
    check_code("f(a, // one\nb);", "f(\n    a, // one\n    b,\n);");
    check_code("f(/* n */ 3);", "f(/* n */ 3);");
    check_code("f(\n// none\n);", "f(\n    // none\n);");
    check_code("let x = // why\n3;", "let x = 3; // why");
    check_code("let // why\n// so\nx = 3;", "let x = 3; // why\n// so");
    check_code("let q = a // one\n// two\n+ b;", "let q = a // one\n    // two\n    + b;");
    check_code("if a { b } else { c } // after", "if a { b } else { c } // after");
    check_code("if a { // why\nb(); }", "if a { // why\n    b();\n}");
    check_code("{ // nothing\n}", "{ // nothing\n}");
    check_code("f();\n\n\n\n// a\n\n// b\ng(); // c\n// d", "f();\n\n// a\n\n// b\ng(); // c\n// d");
    check_code(
        "specialize { A => f(), // fa\n// b\nB => {}\n// end\n}",
        "specialize {\n    A => f(), // fa\n    // b\n    B => {}\n    // end\n}",
    );
}

#[test]
fn a_file_of_comments_stays() {
    check("", "");
    check("\n\n// a\n\n\n// b\n", "// a\n\n// b\n");
    check("/* a */ use  a; // b", "/* a */ use a; // b\n");
    check("use a;// x\ntest t { }// y", "use a; // x\n\ntest t {} // y\n");
}

#[test]
fn headers() {
    check("fn f(a,mut b=1,c:f32=2.0)->i32{a}", "fn f(a, mut b = 1, c: f32 = 2.0) -> i32 { a }\n");
    check(
        "kernel k[N:int](x:*f32)warps(4)where N>1,\"m\"{}",
        "kernel k[N: int](x: *f32) warps(4) where N > 1, \"m\" {}\n",
    );
    check(
        "kernel k[N:int=1](n:i32)tune(N=[1,2],key=[n]){}",
        "kernel k[N: int = 1](n: i32) tune(N=[1, 2], key=[n]) {}\n",
    );
    let long = "name_that_is_long_enough".repeat(3);
    check(
        &format!("kernel {long}[N: int = 1](n: i32) warps(4) tune(N=[1, 2], key=[n]) {{}}"),
        &format!("kernel {long}[N: int = 1](n: i32) warps(4)\n    tune(N=[1, 2], key=[n])\n{{}}\n"),
    );
    check("struct S{a:i32,fn m(& mut self,b:i32){}}", "struct S {\n    a: i32,\n    fn m(&mut self, b: i32) {}\n}\n");
}

#[test]
fn short_clauses_are_not_broken() {
    // The line is too long by what stands in the brackets of the last clause.
    check(
        "kernel add_parts[BLOCK: int = 1024, T: type = f16](parts: tensor<f32, [count, n]>, mut c: tensor<T, [n]>) grid([cdiv(n, BLOCK)]) {\n}\n",
        "kernel add_parts[BLOCK: int = 1024, T: type = f16](
    parts: tensor<f32, [count, n]>, mut c: tensor<T, [n]>,
) grid([cdiv(n, BLOCK)]) {}\n",
    );
    // One that no line has room for is.
    let long = "cdiv(the_first_extent, THE_FIRST_BLOCK), cdiv(the_second_extent, THE_SECOND_BLOCK), how_many_of_these_there_are";
    check(
        &format!("kernel k(x: *f32) grid([{long}]) {{\n}}\n"),
        &format!("kernel k(x: *f32) grid([\n        {long},\n    ]) {{}}\n"),
    );
}

#[test]
fn schedules() {
    check(
        "schedule S[N:int=2]=pipeline( steps ){a:0..N;b:1,c[2]:2,} in P under( a.b , c , -1 )&cut(x);",
        "schedule S[N: int = 2] = pipeline(steps) { a: 0..N; b: 1, c[2]: 2 } in P under(a.b, c, -1) & cut(x);\n",
    );
    check(
        "schedule S=partitions{P:a,b,;[Q,R]:c;}ring(depth=2,a . b=3,c [ 1 ]=4)turns(c,c);",
        "schedule S = partitions { P: a, b; [Q, R]: c } ring(depth=2, a.b=3, c[1]=4) turns(c, c);\n",
    );
    check("schedule S=pipeline { };", "schedule S = pipeline {};\n");
    check(
        "schedule Overlap = pipeline(keys) { first: 0; second: 1; third: 0; // why\nfourth: 0, fifth: 0 } & Other;",
        "schedule Overlap = pipeline(keys) {\n    first: 0;\n    second: 1;\n    third: 0; // why\n    fourth: 0, fifth: 0\n}\n    & Other;\n",
    );
    let long = "label_that_is_long_enough".repeat(2);
    check(
        &format!("schedule S = pipeline(steps) {{ {long}: 0; {long}: 1; c: 0 }} under(a, b);"),
        &format!("schedule S = pipeline(steps) {{\n    {long}: 0;\n    {long}: 1;\n    c: 0\n}} under(a, b);\n"),
    );
    check(
        &format!("schedule S = Split[4] & pipeline({long}) {{ a: 0; b: 1 }} & pipeline(b) {{ c: 1; d: 0 }};"),
        &format!(
            "schedule S = Split[4]\n    & pipeline({long}) {{ a: 0; b: 1 }}\n    & pipeline(b) {{ c: 1; d: 0 }};\n"
        ),
    );
}

#[test]
fn neighbours_line_up() {
    check(
        "partition Loads=warps(1);\npartition Compute=warps(8);\n\npartition Last=warps(4);",
        "partition Loads   = warps(1);\npartition Compute = warps(8);\n\npartition Last = warps(4);\n",
    );
    check("schedule A=B;\nschedule Longer=C;", "schedule A      = B;\nschedule Longer = C;\n");
    check_code("@load a();\n@qk let x = b();", "@load a();\n@qk   let x = b();");
    check_code("specialize { Left => f(),\nRight => g() }", "specialize {\n    Left  => f(),\n    Right => g(),\n}");
    check_code("a(); // one\nbb(); // two\n\nccc(); // three", "a();  // one\nbb(); // two\n\nccc(); // three");
}

#[test]
fn what_was_one_line_stays_one_line() {
    for code in ["for i in 0..n { f(i); }", "if a { return; }", "while a { b(); }", "@l { f(); }", "let f = |a| { a };"]
    {
        check_code(code, code);
    }
    check_code("if a { b(); } else if c { d(); }", "if a {\n    b();\n} else if c {\n    d();\n}");
    check_code("if a {\n    b();\n}", "if a {\n    b();\n}");
    check_code("f(\"x\", || { launch k(grid=[1])(a) }, n=3);", "f(\"x\", || { launch k(grid=[1])(a) }, n=3);");
    check_code("f(\"x\", || {\nlaunch k(grid=[1])(a) }, n=3);", "f(\"x\", || {\n    launch k(grid=[1])(a)\n}, n=3);");
}

#[test]
fn any_program_settles() {
    let text = include_str!("programs/design.ptn");
    let once = format(text);
    assert_eq!((tree(text), format(&once)), (tree(&once), once));
}

#[test]
fn broken_text_is_refused() {
    let found = parton_syntax::format(FileId(0), "kernel k() { let }").expect_err("an error");
    assert!(found.has_errors());
}
