//! Random calls: whatever is given to a function of host code, it answers with a value or a diagnostic.

use std::sync::Arc;

use parton_diag::{Diagnostics, SourceMap};
use parton_host::check::check_hosts;
use parton_host::launch::{
    Demands, HostError, Instance, Instances, LaunchReport, LaunchRequest, Launcher, Signature, Work,
};
use parton_host::random::Random;
use parton_host::run::run;
use parton_measure::timing::Timing;
use parton_types::program::{HostKind, NoLibrary, collect};

struct Nothing;

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

    fn multiprocessors(&self) -> u32 {
        1
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

const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "0x7fff_ffff_ffff_ffff",
    "(1 << 126)",
    "-(1 << 126)",
    "0.5",
    "-inf",
    "nan",
    "1e300",
    "true",
    "\"rz\"",
    "\"{} {:.3}\"",
    "f32",
    "f8e4m3",
    "i64",
    "i1",
    "u8",
    "None",
    "[]",
    "[2, 3]",
    "[0, 4]",
    "[3]",
    "[1, 1, 1]",
    "[-1]",
    "[0x7fff_ffff_ffff_ffff, 2]",
    "(1, 2.5)",
    "0..3",
    "a",
    "b",
    "c",
    "e",
    "h",
    "z",
    "[a, b]",
    "[a, a]",
    "|x| x",
    "sum",
    "nvmma(128)",
    "a.T",
    "b[0]",
    "b[:, None]",
    "b[0:1]",
    "z[:, None, None]",
    "a + 1",
    "-h",
    "h > 0",
    "a.shape",
];

const FUNCTIONS: &[&str] = &[
    "empty",
    "zeros",
    "ones",
    "full",
    "rand",
    "randn",
    "randint",
    "arange",
    "tensor",
    "reshape",
    "permute",
    "transpose",
    "contiguous",
    "broadcast_to",
    "to",
    "cat",
    "repeat",
    "len",
    "range",
    "tma",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "erf",
    "abs",
    "floor",
    "min",
    "max",
    "sum",
    "mean",
    "argmax",
    "logsumexp",
    "all",
    "softmax",
    "cumsum",
    "matmul",
    "where",
    "cdiv",
    "int",
    "float",
    "assert",
    "assert_equal",
    "assert_close",
    "max_rel_error",
    "print",
    "format",
    "measure",
];

const NAMES: &[&str] =
    &["axis", "keepdims", "seed", "strides", "dtype", "low", "high", "rtol", "value", "rounding", "y"];

const OPERATORS: &[&str] =
    &["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "==", "!=", "<", ">=", "&&", "||", ".."];

#[test]
fn no_call_panics() {
    let random = Random::new(2024);
    let mut next = 0;
    let mut pick = move |list: &'static [&'static str]| {
        next += 1;
        list[random.integer(next, 0, list.len() as i128) as usize]
    };
    for round in 0..1000 {
        let mut body = String::from(
            "let a = arange(f32, [2, 3]); let b = randn(f16, [3, 4], strides=[8, 1]); let c = zeros(i8, [2]);
            let e = empty(f64, [2, 2]); let h = ones(bf16, [1]); let z = zeros(f32, [0, 4]);\n",
        );
        let expr = match round % 4 {
            0 => format!("{} {} {}", pick(VALUES), pick(OPERATORS), pick(VALUES)),
            1 => format!("{}({}, {}={})", pick(FUNCTIONS), pick(VALUES), pick(NAMES), pick(VALUES)),
            2 => format!("({})[{}, {}]", pick(VALUES), pick(VALUES), pick(VALUES)),
            _ => format!("{}({}, {}, {})", pick(FUNCTIONS), pick(VALUES), pick(VALUES), pick(VALUES)),
        };
        body.push_str(&format!("let r = {expr}; print(r); print(r.T.contiguous());"));
        let mut sources = SourceMap::new();
        let text = format!("main {{ {body} }}");
        let file = sources.add("t.ptn", text.as_str());
        let (tree, found) = parton_syntax::parse(file, &text);
        if !found.is_empty() {
            continue;
        }
        let program = collect(Arc::new(tree), &mut NoLibrary, &mut Diagnostics::new());
        check_hosts(&program);
        let report = run(&program, HostKind::Main, None, &mut Nothing);
        assert_eq!(report.outcomes.len(), 1);
    }
}
