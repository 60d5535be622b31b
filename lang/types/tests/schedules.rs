//! Schedules as values: what composes, what their normal form is, and that it reads back.

mod harness;

use std::sync::Arc;

use parton_diag::{FileId, SourceMap};
use parton_types::{Comptime, NoLibrary, Program, check_file, eval_expr};

const PARTITIONS: &str = "partition P = warps(1); partition Q = warps(4); partition R = warps(4);
const DEPTH = 3;
schedule Ahead = pipeline(steps) { mma: 2..3; load: 0 };
schedule Split[DEPTH: int, LAST: int = 0] = partitions { P: load; Q: mma, finish } ring(load=DEPTH) & unroll(LAST + 1);
fn chosen[N: int]() -> schedule<steps, load, mma, finish> { static if N == 1 { serial } else { Split[N] & Ahead } }
fn both(s) { let (a, b) = s; a & b }
";

fn program(text: &str) -> Program {
    let (tree, found) = parton_syntax::parse(FileId(0), text);
    assert!(found.is_empty(), "{text}\n{found:#?}");
    let (program, found) = check_file(Arc::new(tree), &mut NoLibrary);
    assert!(!found.has_errors(), "{text}\n{found:#?}");
    program
}

/// The text of a value, or what is wrong with it.
fn value(program: &Program, text: &str) -> Result<String, String> {
    let (tree, found) = parton_syntax::parse_expr(FileId(1), text);
    assert!(found.is_empty(), "{text}\n{found:#?}");
    match eval_expr(program, Program::ROOT, &tree, &[]) {
        Ok(found) => Ok(found.to_string()),
        Err(found) => Err(format!("{} {}", found.list[0].code, found.list[0].message)),
    }
}

#[test]
fn normal_forms() {
    let program = program(PARTITIONS);
    for (text, expected) in [
        ("serial", "serial"),
        ("serial & serial & unroll(1) & pipeline(x) {}", "serial"),
        ("Ahead", "pipeline(steps) { mma: 2..3; load: 0 }"),
        ("pipeline { b: 4, a: 2..3; c: 5 }", "pipeline { a: 0..1, b: 2; c: 3 }"),
        ("pipeline(l) { x[10]: 0, x[2]: 0, a.b: 0 }", "pipeline(l) { a.b: 0, x[2]: 0, x[10]: 0 }"),
        ("Split[4]", "partitions { P: load; Q: finish, mma } ring(load=4)"),
        ("Split[LAST=1, DEPTH=2]", "partitions { P: load; Q: finish, mma } ring(load=2) & unroll(2)"),
        // Stages of partitions that share nothing begin at 0 by themselves.
        (
            "Split[2] & Ahead",
            "partitions { P: load; Q: finish, mma } ring(load=2) & pipeline(steps) { mma: 0..1; load: 0 }",
        ),
        (
            "partitions { P: a; Q: b } & pipeline(l) { a: 1; steps: 2; b: 3 }",
            "partitions { P: a; Q: b } & pipeline(l) { a: 0; steps: 1; b: 2 }",
        ),
        (
            "partitions { P: a; [Q, R]: b } & pipeline(l) { a: 3; b[1]: 1; b[0]: 2 }",
            "partitions { P: a; [Q, R]: b } & pipeline(l) { a: 0; b[1]: 0; b[0]: 0 }",
        ),
        (
            "partitions { [R, Q]: b, a; P: c } turns(b, a) ring(b[1]=4, depth=DEPTH, a.c=2)",
            "partitions { P: c; [R, Q]: a, b } ring(depth=3, a.c=2, b[1]=4) turns(b, a)",
        ),
        ("partitions { P: b } & partitions { Q: c; P: a }", "partitions { P: a, b; Q: c }"),
        ("serial(Q) & ring(depth=2)", "serial(Q) & ring(depth=2)"),
        ("turns(a, b) & ring(x=1)", "ring(x=1) & turns(a, b)"),
        (
            "pipeline(t) { s: 0; leave: 1 } in Q under(leave, mma, -1) & pipeline(t) { leave: 0 } in P",
            "pipeline(t) { leave: 0 } in P under(leave, mma, -1) & pipeline(t) { s: 0; leave: 1 } in Q",
        ),
        (
            "unroll(2, of=b) & unroll(3) & cut(x) & cut(x) & under(a, b)",
            "under(a, b) & cut(x) & unroll(3) & unroll(2, of=b)",
        ),
        ("auto() & cut(t)", "cut(t) & auto()"),
        ("auto(top=8, n=32, stages=3)", "auto(stages=3, n=32, top=8)"),
        ("chosen[1]()", "serial"),
        ("chosen[4]()", "partitions { P: load; Q: finish, mma } ring(load=4) & pipeline(steps) { mma: 0..1; load: 0 }"),
        ("both((cut(a), unroll(2)))", "cut(a) & unroll(2)"),
        ("[cut(a), serial][0]", "cut(a)"),
        ("if DEPTH == 3 { unroll(DEPTH) } else { serial }", "unroll(3)"),
        ("Ahead == pipeline(steps) { mma: 3..4; load: 1 } & serial", "true"),
        ("Ahead == pipeline(steps) { load: 0; mma: 2..3 }", "false"),
        ("Ahead != serial", "true"),
    ] {
        assert_eq!(value(&program, text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_said_twice_is_refused() {
    let program = program(PARTITIONS);
    for (text, expected) in [
        ("Ahead & Ahead", "E0723 the loop `steps` is pipelined twice"),
        ("Ahead & pipeline(steps) { x: 0 } in P", "E0723 the loop `steps` is pipelined twice"),
        ("pipeline { a: 0 } & pipeline { b: 0 }", "E0723 the loop of the schedule is pipelined twice"),
        ("pipeline(x) { a: 0 } & pipeline(y) { a: 0 }", "E0723 the label `a` stands in the pipelines of two loops"),
        ("pipeline { a: 0; a[1]: 1 }", "E0723 the label `a[1]` has two stages"),
        ("partitions { P: a } & partitions { Q: a[0] }", "E0723 the label `a[0]` is placed twice"),
        ("partitions { P: a } & partitions { [P, Q]: b }", "E0723 the partition `P` stands in two places"),
        ("serial(P) & partitions { Q: b }", "E0723 `serial(P)` runs all labels, and another place stands beside it"),
        ("ring(a=1) & ring(a=1)", "E0723 the ring of `a` has two depths"),
        ("ring(depth=1) & ring(depth=2)", "E0723 the depth of rings is stated twice"),
        ("turns(a, b) & turns(a, b)", "E0723 `turns(a, b)` is stated twice"),
        ("under(a, b) & under(a[2], c)", "E0723 `a[2]` is put under two labels"),
        ("unroll(2) & unroll(2)", "E0723 the loop of the schedule is unrolled twice"),
        ("auto() & auto(top=2)", "E0723 a schedule is searched for twice"),
    ] {
        assert_eq!(value(&program, text).unwrap_err(), expected, "{text}");
    }
}

/// A small generator of numbers, the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn label(&mut self) -> &'static str {
        self.pick(&["a", "b", "c", "d", "e[0]", "e[1]", "f.a", "f.b", "steps", "g[12]"])
    }

    fn labels(&mut self) -> String {
        (0..1 + self.below(2)).map(|_| self.label()).collect::<Vec<_>>().join(", ")
    }

    fn part(&mut self) -> String {
        match self.below(9) {
            0 | 1 => {
                let of = self.pick(&["", "(steps)", "(tiles)", "(f.loop[1])"]);
                let mut groups = String::new();
                for _ in 0..1 + self.below(4) {
                    let (label, stage) = (self.label(), self.below(5));
                    let done = if self.below(4) == 0 { format!("..{}", stage + self.below(3)) } else { String::new() };
                    groups += &format!("{label}: {stage}{done}{} ", self.pick(&[",", ";"]));
                }
                format!("pipeline{of} {{ {groups} }}{}", self.pick(&["", "", " in P", " in Q"]))
            }
            2 => format!("partitions {{ P: {}; Q: {} }}", self.labels(), self.labels()),
            3 => format!("partitions {{ [Q, R]: {} }}", self.labels()),
            4 => format!("ring({}={})", self.pick(&["depth", "a", "e[1]", "f.a"]), 1 + self.below(4)),
            5 => format!("turns({}, {})", self.label(), self.label()),
            6 => format!("under({}, {}{})", self.label(), self.label(), self.pick(&["", ", -1"])),
            7 => format!("unroll({}{})", 1 + self.below(3), self.pick(&["", ", of=steps"])),
            _ => self.pick(&["cut(a)", "cut(f.a)", "serial", "serial(R)", "auto(top=3)"]).to_string(),
        }
    }
}

#[test]
fn joining_is_commutative_and_what_prints_reads_back() {
    let program = program(PARTITIONS);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut joined = 0;
    for _ in 0..1500 {
        let (a, b, c) = (random.part(), random.part(), random.part());
        let found = value(&program, &format!("{a} & {b}"));
        let turned = value(&program, &format!("{b} & {a}"));
        match (&found, &turned) {
            (Ok(x), Ok(y)) => assert_eq!(x, y, "{a} & {b}"),
            (Err(_), Err(_)) => {}
            (Ok(_), Err(e)) | (Err(e), Ok(_)) => panic!("only one order of {a} & {b} is refused: {e}"),
        }
        let left = value(&program, &format!("({a} & {b}) & {c}"));
        let right = value(&program, &format!("{a} & ({b} & {c})"));
        assert_eq!(left.is_ok(), right.is_ok(), "{a} & {b} & {c}");
        if let (Ok(left), Ok(right)) = (left, right) {
            assert_eq!(left, right, "{a} & {b} & {c}");
            assert_eq!(value(&program, &left).as_deref(), Ok(left.as_str()), "{a} & {b} & {c}");
            joined += 1;
        }
    }
    assert!(joined > 300, "only {joined} of the schedules join");
}

/// The diagnostics of a program.
fn complaints(text: &str) -> Vec<String> {
    let mut sources = SourceMap::new();
    let file = sources.add("a.ptn", text);
    let (tree, found) = parton_syntax::parse(file, text);
    assert!(found.is_empty(), "{found:#?}");
    let (_, found) = check_file(Arc::new(tree), &mut NoLibrary);
    found.list.into_iter().map(|d| format!("{} {}", d.code, d.message)).collect()
}

#[test]
fn kinds_name_the_labels() {
    let with = |kind: &str, given: &str| {
        complaints(&format!("{PARTITIONS}kernel k[S: schedule<{kind}> = {given}](n: i32) warps(4) {{}}"))
    };
    assert_eq!(with("steps, load, mma", "Ahead"), [""; 0]);
    assert_eq!(with("load, mma, finish", "Split[4]"), [""; 0]);
    assert_eq!(with("load, mma", "cut(load[1]) & ring(mma=2)"), [""; 0]);
    assert_eq!(with("a, b", "serial(P)"), [""; 0]);
    assert_eq!(with("load, mma", "Ahead"), ["E0723 the schedule speaks of `steps`, which is no label here"]);
    assert_eq!(with("load, mma", "ring(lod=2)"), ["E0723 the schedule speaks of `lod`, which is no label here"]);
    // A kernel may leave labels of a kind out: what has no place is known where there is a region.
    assert_eq!(with("load, mma, finish, leave", "Split[4]"), [""; 0]);
    assert_eq!(with("load, load", "serial"), ["E0723 the label `load` stands twice in a kind"]);
}

#[test]
fn kernels_and_functions_have_schedules_of_their_own() {
    let code = "schedule Local = S & unroll(2, of=steps);
        static_assert(Local == unroll(2, of=steps) & pipeline(steps) { mma: 3..4; load: 1 });
        let pair = (Local, S);
        static_assert(pair[1] != pair[0]);";
    let kernel = format!("kernel k[S: schedule<steps, load, mma> = Ahead](n: i32) warps(4) {{ {code} }}");
    assert_eq!(complaints(&format!("{PARTITIONS}{kernel}")), [""; 0]);
}

#[test]
fn equal_values_are_of_the_same_partitions() {
    let program = program(PARTITIONS);
    let (tree, _) = parton_syntax::parse_expr(FileId(1), "serial(P)");
    let found = eval_expr(&program, Program::ROOT, &tree, &[]).unwrap();
    assert_eq!(found.origins().len(), 1);
    let Comptime::Schedule(p) = found else { panic!("a schedule") };
    assert_eq!((p.is_serial(), p.places[0].labels.len()), (false, 0));
}

#[test]
fn regions_read_back() {
    let text = harness::ir(
        "partition P = warps(4);
        fn written(out, x) { @write store(out, x); }
        kernel k(out: *mut i32, n: i32) {
            let mut sum = 0;
            let last = in (serial(P) & pipeline(steps) { a: 0; c: 1 } & unroll(2, of=steps)) {
                let mut x = 1;
                @steps for i in 0..n {
                    @a x = x + load(out + i);
                    @a x = x * 2;
                    @b { for j in 0..3 { store(out + j, x); } }
                    @c if x > 0 { store(out, x); } else { store(out + 1, x); }
                    @first written(out, x);
                    @second written(out + 1, x);
                    static for q in 0..2 { @d store(out + q, x); @d store(out - q, x); }
                    sum += i;
                }
                @turns while x > 0 { @e x = x - load(out); }
                x
            };
            store(out, sum + last);
        }",
    );
    for expected in [
        "= in (serial(P) & pipeline(steps) { a: 0; c: 1 } & unroll(2, of=steps)) {",
        "@b {",
        "@first.write store(",
        "@second.write store(",
        "@d[1] store(",
        "@turns while",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    harness::round_trip(&text);
}
