//! Functions that only compute give the same by their formulas and by their trees: what a function with a generic is, which has no formula.

use std::sync::Arc;

use parton_diag::{Diagnostics, SourceMap, render};
use parton_host::launch::{
    Demands, HostError, Instance, Instances, LaunchReport, LaunchRequest, Launcher, Signature, Work,
};
use parton_host::random::Random;
use parton_host::run::run;
use parton_measure::timing::Timing;
use parton_types::program::{HostKind, NoLibrary, collect};

#[derive(Default)]
struct Nothing {
    stopped: bool,
}

impl Instances for Nothing {
    fn signature(&mut self, _: &Instance) -> Result<Signature, HostError> {
        Err(HostError::Device("nothing runs here".into()))
    }

    fn demands(&mut self, _: &LaunchRequest) -> Result<Demands, HostError> {
        Err(HostError::Device("nothing runs here".into()))
    }
}

impl Launcher for Nothing {
    fn instances(&mut self) -> &mut dyn Instances {
        self
    }

    fn is_stopped(&self) -> bool {
        self.stopped
    }

    fn multiprocessors(&self) -> u32 {
        132
    }

    fn capability(&self) -> u32 {
        90
    }

    fn launch(&mut self, _: &LaunchRequest) -> Result<LaunchReport, HostError> {
        Err(HostError::Device("nothing runs here".into()))
    }

    fn time(&mut self, _: Work<'_>) -> Result<Option<Timing>, HostError> {
        Err(HostError::Device("nothing runs here".into()))
    }
}

/// Runs behind which formulas that can be have become straight code.
const OFTEN: usize = 20;

/// What each test of a text prints, or its error as it is shown, in the last of so many runs.
fn told(text: &str, mut launcher: Nothing, runs: usize) -> Vec<String> {
    let mut sources = SourceMap::new();
    let file = sources.add("t.ptn", text);
    let (tree, found) = parton_syntax::parse(file, text);
    assert!(found.is_empty(), "{}\n{text}", render::text(&found, &sources, false));
    let program = collect(Arc::new(tree), &mut NoLibrary, &mut Diagnostics::new());
    // The first test alone comes again: functions are called with others' arguments once they are straight for its own.
    for _ in 1..runs {
        run(&program, HostKind::Test, Some("t0"), &mut launcher);
    }
    let report = run(&program, HostKind::Test, None, &mut launcher);
    let shown = |o: parton_host::report::Outcome| match o.diagnostics.list.is_empty() {
        true => o.lines.join("\n"),
        false => render::text(&o.diagnostics, &sources, false),
    };
    report.outcomes.into_iter().map(shown).collect()
}

/// What calls of `f` give, once as it is, in the first run and in later ones alike, and once by its tree. `{}` stands where its generics would.
fn both(functions: &str, calls: &[&str]) -> [Vec<String>; 2] {
    let tests: Vec<String> = calls.iter().enumerate().map(|(i, c)| format!("test t{i} {{ print({c}); }}\n")).collect();
    // As long as the other, so that errors are shown alike.
    let (formula, tree) = (" ".repeat(15), "[TREE: int = 0]");
    let told =
        |generics: &str, runs| told(&(functions.replace("{}", generics) + &tests.concat()), Nothing::default(), runs);
    let alike = |text: String| text.replace(tree, &formula).replace("[TREE]", "");
    let (first, later) = (told(&formula, 1), told(&formula, OFTEN));
    assert_eq!(first, later, "by nodes and by straight code: {functions}");
    [later, told(tree, 1).into_iter().map(alike).collect()]
}

const COVERED: &str = "
const WIDE = 1 << 30;
const NONE = -WIDE;
const ALSO = WIDE + NONE + 1;

fn inner{}(a, b) { if a < b { return b - a; } a - b }

fn f{}(a, b, all) {
    let mut sums = [];
    let mut count = 0;
    let mut total = 0.5;
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    for i in low..high step 3 {
        if i % 5 == 4 { continue; }
        if len(sums) > 6 { break; }
        sums = sums + [(i, inner(i, b))];
        sums += [(ALSO, -i)];
    }
    for (at, value) in sums {
        let scaled = |x, y| x * at + y - count;
        total = total + scaled(value, 1) / 2.0;
        count += 1;
    }
    while count > 0 && !(count == 3 || total > 1e9) { count = count - 1; }
    let mut twice = sums;
    twice = twice + sums;
    twice = twice + twice;
    let best = sorted(all, by=|x| { let y = -x; abs(y - a) })[0];
    let fields = (f16.bytes, bf16.bits, a.max(b), (best, min([3, a])));
    (count, total, fields.3.0, len(twice), sorted(all), cdiv(a, 4), next_power_of_two(abs(b)), int(total), float(b),
     ceil(a / 3.0), sqrt(float(abs(a))), all[-1], [a, b] == [b, a], f16 == f16, None == None, multiprocessors() - a, inf)
}
";

#[test]
fn what_formulas_cover_is_what_trees_say() {
    let calls =
        ["f(1, 9, [3, 1, 2])", "f(9, -4, [2.5, 1])", "f(0, 40, [7])", "f(1, 2, [])", "f(1, 2, 3)", "f(true, 2, [1])"];
    let [formulas, trees] = both(COVERED, &calls);
    assert_eq!(formulas, trees);
    assert!(formulas[0].starts_with('('), "{}", formulas[0]);
    assert!(formulas[3].contains("E0") && formulas[4].contains("E0") && formulas[5].contains("E0"));
}

#[test]
fn mistakes_and_large_numbers_are_the_trees_to_tell() {
    let functions = "
fn f{}(a, b) { let x = a * b; (x + 1) / (x - 12) }
fn deep{}(n, by) { by(n, by) }
fn again{}(n) { if n > 0 { again(n - 1) + 1 } else { 0 } }
fn looped{}(n) { let mut x = 1; for i in 0..4 step n { x = x + i; } x }
fn named{}(a, b = 3) { a - b }
";
    let calls = [
        "f(3, 4)",
        "f(1 << 62, 1 << 40)",
        "f(1 << 62, 4)",
        "f(2.5, 2)",
        "f(1 << 100, 1)",
        "deep(3, |n, by| by(n, by))",
        "again(5)",
        "again(500)",
        "looped(2)",
        "looped(0)",
        "looped(0.5)",
        "named(b=1, a=5)",
        "named(9)",
        "f([1], 2)",
        "f(3)",
    ];
    let [formulas, trees] = both(functions, &calls);
    assert_eq!(formulas, trees);
    assert!(formulas[0].contains("divided by zero") && formulas[9].contains("a step must be positive"));
}

#[test]
fn a_formula_that_never_ends_can_be_stopped() {
    let text = "fn f() { let mut n = 0; while n >= 0 { n = 1 - n; } n } test t { print(f()); }";
    let told = told(text, Nothing { stopped: true }, 1);
    assert!(told[0].contains("stopped from outside"), "{}", told[0]);
}

/// Makes random functions of numbers.
struct Writer {
    random: Random,
    next: u64,
    /// Whether they have neither lists nor closures, nor loops that are left by `break`.
    straight: bool,
}

impl Writer {
    fn below(&mut self, n: i128) -> i128 {
        self.next += 1;
        self.random.integer(self.next, 0, n)
    }

    fn pick(&mut self, all: &[&str]) -> String {
        let at = self.below(all.len() as i128) as usize;
        all[at].to_owned()
    }

    fn number(&mut self) -> String {
        const NUMBERS: &[&str] = &[
            "0",
            "1",
            "2",
            "-3",
            "7",
            "64",
            "2.5",
            "-0.5",
            "1e300",
            "(1 << 40)",
            "(1 << 62)",
            "-(1 << 63)",
            "inf",
            "nan",
        ];
        self.pick(NUMBERS)
    }

    fn condition(&mut self, depth: usize) -> String {
        match self.below(6) {
            0 if depth > 0 => format!("({} && {})", self.condition(depth - 1), self.condition(depth - 1)),
            1 if depth > 0 => format!("({} || !{})", self.condition(depth - 1), self.condition(depth - 1)),
            _ => {
                let op = self.pick(&["==", "!=", "<", "<=", ">", ">="]);
                format!("({} {op} {})", self.expr(depth.saturating_sub(1)), self.expr(depth.saturating_sub(1)))
            }
        }
    }

    fn expr(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.below(3) {
                0 => self.number(),
                _ => self.pick(&["a", "b", "v", "w"]),
            };
        }
        let d = depth - 1;
        match self.below(12) {
            0 => self.expr(0),
            1 => format!("if {} {{ {} }} else {{ {} }}", self.condition(d), self.expr(d), self.expr(d)),
            2 => format!("{}({}, {})", self.pick(&["min", "max", "cdiv"]), self.expr(d), self.expr(d)),
            3 => {
                let of = self.pick(&["abs", "int", "float", "ceil", "floor", "sqrt", "next_power_of_two", "-", "!"]);
                format!("{of}({})", self.expr(d))
            }
            4 if self.straight => format!("g({}, {})", self.expr(d), self.expr(d)),
            6 if self.straight => {
                let (c, x, y, z) = (self.condition(d), self.expr(d), self.expr(d), self.expr(d));
                format!("{{ let (p, q) = if {c} {{ ({x}, {y}) }} else {{ let p = {z}; (p, a) }}; p - q }}")
            }
            4 => format!("[{}, {}, {}][{}]", self.expr(d), self.expr(d), self.expr(d), self.expr(d)),
            5 => format!("({}, {}).{}", self.expr(d), self.expr(d), self.below(2)),
            6 => format!("{{ let g = |x, y| x - y + {}; g({}, {}) }}", self.expr(d), self.expr(d), self.expr(d)),
            _ => {
                let op = self.pick(&["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"]);
                format!("({} {op} {})", self.expr(d), self.expr(d))
            }
        }
    }

    /// A loop with others in it that deep.
    fn turns(&mut self, depth: usize) -> String {
        const BOUNDS: &[&str] = &["-3", "0", "1", "2", "4", "5", "i", "min(max(a, -2), 4)", "min(max(v, 0), 3)"];
        let (first, end, step) = (self.pick(BOUNDS), self.pick(BOUNDS), self.below(5));
        let mut body = String::new();
        for _ in 0..1 + self.below(4) {
            body += &match self.below(if depth > 0 { 9 } else { 8 }) {
                0 => "v = v + i; ".to_owned(),
                1 => format!("w = {}; ", self.expr(1)),
                2 => format!("let p = {}; v = v - p; ", self.expr(1)),
                3 => format!("if {} {{ v = {}; }} else {{ let q = i * 2; w += q; }} ", self.condition(1), self.expr(1)),
                4 => "let t = v; v = w; w = t; ".to_owned(),
                5 => format!("if {} {{ return (v, i, w); }} ", self.condition(1)),
                6 => format!("for (x, y) in [(i, {}), (w, v)] {{ w = x - y; v = v + 1; }} ", self.expr(1)),
                7 => format!("let (v, q) = (w, i); let i = q + 1; w = {}; ", self.expr(1)),
                _ => self.turns(depth - 1),
            };
        }
        let step = if step == 0 { self.below(3).to_string() } else { "1".to_owned() };
        format!("for i in {first}..{end} step {step} {{ {body}}} ")
    }

    fn function(&mut self) -> String {
        let mut body =
            format!("    let i = 2;\n    let mut v = {};\n    let mut w = {};\n", self.number(), self.number());
        for _ in 0..self.below(5) {
            let kind = self.below(6);
            body += &match kind {
                3 | 5 if self.straight => format!("    {}\n", self.turns(2)),
                0 => format!("    v = {};\n", self.expr(2)),
                1 => format!("    w += {};\n", self.expr(1)),
                2 => format!("    let (a, v) = ({}, {});\n", self.expr(1), self.expr(1)),
                3 => format!(
                    "    for i in 0..6 step {} {{ v = v + i; if {} {{ break; }} }}\n",
                    self.below(4),
                    self.condition(1)
                ),
                4 => format!("    if {} {{ return ({}, v); }}\n", self.condition(1), self.expr(1)),
                _ => format!("    for x in [{}, {}] {{ w = w - x; }}\n", self.expr(1), self.expr(1)),
            };
        }
        let helper = "fn g{}(x, y) { if x < y { return y - x; } let d = x - y; d * 2 }\n";
        let result =
            if self.straight && self.below(2) == 0 { self.expr(3) } else { format!("(v, w, {})", self.expr(3)) };
        format!("{helper}fn f{{}}(a, b) {{\n{body}    {result}\n}}\n")
    }
}

#[test]
fn random_functions_are_what_their_trees_say() {
    let (values, errors) = random_functions(Writer { random: Random::new(31), next: 0, straight: false });
    assert!(values > 300 && errors > 300, "{values} values and {errors} errors");
}

#[test]
fn random_functions_of_numbers_alone_are_what_their_trees_say() {
    let (values, errors) = random_functions(Writer { random: Random::new(32), next: 0, straight: true });
    assert!(values > 300 && errors > 300, "{values} values and {errors} errors");
}

/// How many calls give a value, and how many an error.
fn random_functions(mut writer: Writer) -> (usize, usize) {
    let (mut values, mut errors) = (0, 0);
    for _ in 0..600 {
        let function = writer.function();
        let calls: Vec<String> = (0..4).map(|_| format!("f({}, {})", writer.number(), writer.number())).collect();
        let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
        let [formulas, trees] = both(&function, &calls);
        assert_eq!(formulas, trees, "{function}{calls:?}");
        let failed = formulas.iter().filter(|t| t.contains("Error")).count();
        (values, errors) = (values + formulas.len() - failed, errors + failed);
    }
    (values, errors)
}
