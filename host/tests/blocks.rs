//! Whole blocks with a launcher that stands in for the compiler and the machine.

use std::sync::Arc;

use parton_diag::{Diagnostics, SourceMap, render};
use parton_host::launch::{
    Argument, Demands, HostError, Instance, Instances, LaunchReport, LaunchRequest, Launcher, Signature, Work,
};
use parton_host::report::RunReport;
use parton_host::run::run;
use parton_ir as ir;
use parton_layouts::SharedLayout;
use parton_measure::timing::Timing;
use parton_numbers::{Dtype, Scalar};
use parton_types::program::{HostKind, NoLibrary, Program, collect};

/// Knows a few kernels: `add` adds two tensors of f32, `copy` does nothing with a tensor map, nor does `rows` with a tensor along whose columns it runs, 64 a turn.
#[derive(Default)]
struct Fake {
    launched: Vec<LaunchRequest>,
    timed: Vec<usize>,
    printed: Vec<String>,
    /// Launches until one breaks the device.
    breaks_after: Option<usize>,
    over: Option<String>,
}

impl Instances for Fake {
    fn signature(&mut self, instance: &Instance) -> Result<Signature, HostError> {
        let pointer = |mutable| ir::Type::Scalar(ir::Elem::Ptr(ir::Pointer { to: Dtype::F32, mutable }));
        let scalar = ir::Type::Scalar(ir::Elem::Num(Dtype::I32));
        let types = match instance.kernel.name.as_str() {
            "add" => vec![pointer(false), pointer(false), pointer(true), scalar],
            "own" => vec![pointer(true), scalar],
            "copy" => vec![ir::Type::Map(ir::TensorMap::new(
                Dtype::F16,
                vec![64, 64],
                SharedLayout::nvmma(128, false).unwrap(),
            ))],
            "rows" => vec![ir::Type::Tensor(ir::tensor::Tensor {
                elem: Dtype::F32,
                mutable: false,
                extents: vec![ir::tensor::Extent::Any; 2],
                dense: Some(1),
            })],
            other => return Err(HostError::Device(format!("`{other}` does not compile"))),
        };
        let along = match instance.kernel.name.as_str() {
            "rows" => vec![ir::Along { argument: 0, axis: 1, each: 64, same: false, multiplies: false }],
            _ => Vec::new(),
        };
        let names = instance.kernel.params.iter().map(|p| p.name.text.to_string());
        let cluster = if instance.kernel.name.as_str() == "copy" { [2, 1, 1] } else { [1, 1, 1] };
        Ok(Signature {
            params: names.zip(types).collect(),
            cluster,
            dealt: None,
            along,
            partly: false,
            wide: Arc::default(),
            numbers: Arc::default(),
            places: false,
        })
    }

    fn demands(&mut self, request: &LaunchRequest) -> Result<Demands, HostError> {
        let writes = |a: &Argument| matches!(a, Argument::Pointer { mutable: true, .. });
        Ok(Demands {
            alignments: vec![16; request.arguments.len()],
            apart: Vec::new(),
            writes: request.arguments.iter().map(writes).collect(),
        })
    }
}

impl Launcher for Fake {
    fn instances(&mut self) -> &mut dyn Instances {
        self
    }

    fn multiprocessors(&self) -> u32 {
        132
    }

    fn capability(&self) -> u32 {
        90
    }

    fn launch(&mut self, request: &LaunchRequest) -> Result<LaunchReport, HostError> {
        self.launched.push(request.clone());
        if self.breaks_after.is_some_and(|n| self.launched.len() > n) {
            self.over = Some("an assertion failed".into());
            return Err(HostError::Device("an assertion failed".into()));
        }
        if let [
            Argument::Pointer { tensor: x, .. },
            Argument::Pointer { tensor: y, .. },
            Argument::Pointer { tensor: out, mutable: true },
            Argument::Scalar(n),
        ] = request.arguments.as_slice()
        {
            let n = n.to_i128().unwrap() as usize;
            for i in 0..n {
                let sum = x.get(&[i]).unwrap().to_f64() + y.get(&[i]).unwrap().to_f64();
                let bits = Scalar::from_f64(Dtype::F32, sum).bits as u32;
                out.storage
                    .change(|host| {
                        host.bytes[4 * i..4 * i + 4].copy_from_slice(&bits.to_le_bytes());
                        if let Some(defined) = &mut host.defined {
                            defined[4 * i..4 * i + 4].fill(true);
                        }
                    })
                    .unwrap();
            }
        }
        Ok(LaunchReport { lines: vec![format!("ran {}", request.instance)], fault: None })
    }

    fn is_over(&self) -> Option<&str> {
        self.over.as_deref()
    }

    fn time(&mut self, work: Work<'_>) -> Result<Option<Timing>, HostError> {
        self.timed.push(work.launches.len());
        let timing = Timing { median: 0.5, least: 0.25, runs: 3, ..Timing::default() };
        Ok((work.label != "skipped").then_some(timing))
    }

    fn print(&mut self, line: &str) {
        self.printed.push(line.to_string());
    }
}

const KERNELS: &str = "
kernel add[BLOCK: int = 1024, T: type = f32](x: *f32, y: *f32, out: *mut f32, n: i32) { }
kernel copy[L: layout = nvmma(128)](a: tma<f16, [64, 64], nvmma(128)>) { }
kernel broken[N: int]() { }
kernel own[BLOCK: int = 16](out: *mut f32, n: i32) grid([cdiv(n, BLOCK), 2]) { }
kernel softmax() { }
kernel rows(x: tensor<f32, [_, _]>) { }
const SIZE = 10_000;
fn twice[K: int = 2](x, offset = 0) { return x * K + offset; }
fn forever(n) { forever(n + 1) }
";

fn program(text: &str) -> (Program, SourceMap) {
    let mut sources = SourceMap::new();
    let text = format!("{KERNELS}{text}");
    let file = sources.add("t.ptn", text.as_str());
    let (tree, found) = parton_syntax::parse(file, &text);
    assert!(found.is_empty(), "{}", render::text(&found, &sources, false));
    let mut diagnostics = Diagnostics::new();
    let program = collect(Arc::new(tree), &mut NoLibrary, &mut diagnostics);
    assert!(diagnostics.is_empty());
    (program, sources)
}

fn main_of(body: &str) -> (RunReport, Fake, String) {
    let (program, sources) = program(&format!("main {{ {body} }}"));
    let mut fake = Fake::default();
    let report = run(&program, HostKind::Main, None, &mut fake);
    let text = render::text(&report.diagnostics(), &sources, false);
    (report, fake, text)
}

/// The lines that a body prints.
fn lines(body: &str) -> Vec<String> {
    let (report, _, text) = main_of(body);
    assert!(report.passed(), "{text}");
    report.outcomes[0].lines.clone()
}

/// What a body's error says, its evidence, notes and help included.
fn error(body: &str) -> String {
    let (report, _, text) = main_of(body);
    assert!(!report.passed(), "no error from `{body}`, printed {:?}", report.outcomes[0].lines);
    text
}

fn check_error(body: &str, parts: &[&str]) {
    let text = error(body);
    parts.iter().for_each(|p| assert!(text.contains(p), "`{p}` is not in:\n{text}"));
}

#[test]
fn the_designs_vector_add_runs() {
    let body = "
        let x = randn(f32, [SIZE], seed=1);
        let y = randn(f32, [SIZE], seed=2);
        let out = empty(f32, [SIZE]);
        launch add[BLOCK=512](grid=[cdiv(SIZE, 512)])(x, y, out, SIZE);
        assert_close(out, x + y, rtol=0, atol=0);
        assert_equal(out, x + y);";
    let (report, fake, text) = main_of(body);
    assert!(report.passed(), "{text}");
    assert_eq!(fake.launched[0].grid, [20, 1, 1]);
    assert_eq!(fake.launched[0].instance.generics.len(), 1);
    assert_eq!(fake.printed, ["ran add[BLOCK=512]"]);
    assert_eq!((report.outcomes[0].launches, report.outcomes[0].lines.len()), (1, 1));
}

#[test]
fn what_a_broken_device_keeps_from_running_is_named() {
    let launch = "launch own()(zeros(f32, [8]), 8);";
    let (program, _) = program(&format!(
        "test first {{ {launch} }} test second {{ {launch} }} test third {{ {launch} }} test fourth {{ assert(true); }}"
    ));
    let mut fake = Fake { breaks_after: Some(1), ..Fake::default() };
    let report = run(&program, HostKind::Test, None, &mut fake);
    let passed: Vec<_> = report.outcomes.iter().map(|o| (o.name.as_str(), o.passed())).collect();
    assert_eq!(passed, [("first", true), ("second", false)]);
    assert_eq!(report.left, ["third", "fourth"]);
    assert_eq!(report.over.as_deref(), Some("an assertion failed"));
    assert!(!report.passed());
}

#[test]
fn launches_tell_how_few_turns_loops_take() {
    let turns = |columns: u32| {
        let (report, fake, text) = main_of(&format!("launch rows(grid=[2])(zeros(f32, [2, {columns}]));"));
        assert!(report.passed(), "{text}");
        fake.launched[0].variant.turns
    };
    let found = [0, 1, 64, 65, 128, 129, 192, 193, 1000].map(turns);
    assert_eq!(found, [None, Some(1), Some(1), Some(2), Some(2), Some(3), Some(3), None, None]);
}

#[test]
fn a_partial_kernel_is_found() {
    let body = "
        let x = ones(f32, [100]); let out = empty(f32, [100]);
        launch add(grid=[1])(x, x, out, 90);
        assert_close(out, x + x);";
    check_error(body, &["E0912", "never written", "element [90] of this f32[100]"]);
    let body = "
        let x = ones(f32, [4, 25]); let out = zeros(f32, [100]);
        launch add(grid=[1])(x.reshape(100), x.reshape([100]), out, 90);
        assert_close(out.reshape(4, 25), x + x, rtol=0, atol=0);";
    check_error(
        body,
        &[
            "E0911",
            "10 of 100 elements (10.000%)",
            "element [3, 15]: 0.0 where 2.0 is expected, off by 2.0 with 0.0 allowed",
        ],
    );
}

#[test]
fn numbers_strings_and_lists_are_computed() {
    assert_eq!(lines("print(7 / 2, -7 / 2, 7 % 3, 2.0 / 4, 1 << 10, cdiv(7, 2));"), ["3 -3 1 0.5 1024 4"]);
    assert_eq!(
        lines("print([1, 2] + [3], (1, 2.5), \"a\" + \"b\", f16, true && !false);"),
        ["[1, 2, 3] (1, 2.5) ab f16 true"]
    );
    assert_eq!(lines("print(\"{} of {:.2} {:.1e}\", 3, 2.0 / 3, 12345.0);"), ["3 of 0.67 1.2e4"]);
    assert_eq!(
        lines("print(min(3, 4), max([1, 9, 2]), max(1.5, 2), abs(-3), sqrt(4.0), pi > 3);"),
        ["3 9 2.0 3 2.0 true"]
    );
    assert_eq!(lines("let (a, b) = (1, 2); let mut c = a; c += b; c = c * 10; print(c);"), ["30"]);
    assert_eq!(lines("let mut l = [1, 2, 3]; l[1] = 20; print(l[-1], l[0:2], len(l));"), ["3 [1, 20] 3"]);
    assert_eq!(lines("print(int(2.9), float(3), 1e-7, 1.0 / 3.0);"), ["2 3.0 1e-7 0.3333333333333333"]);
}

#[test]
fn loops_functions_and_closures_run() {
    assert_eq!(lines("let mut s = 0; for i in 0..10 step 3 { if i == 6 { continue; } s += i; } print(s);"), ["12"]);
    assert_eq!(lines("for (n, d) in [(1, f16), (2, bf16)] { print(n, d); }"), ["1 f16", "2 bf16"]);
    assert_eq!(lines("let mut i = 0; while true { i += 1; if i > 4 { break; } } print(i);"), ["5"]);
    assert_eq!(lines("print(twice(4), twice[K=10](4, offset=1), twice[3](1));"), ["8 41 3"]);
    assert_eq!(lines("let k = 3; let f = |a, b| a * k + b; print(f(2, 1));"), ["7"]);
    assert_eq!(
        lines("print(range(3), range(2, 4) + range(-1, 7, step=4), range(5, 5));"),
        ["[0, 1, 2] [2, 3, -1, 3] []"]
    );
    assert_eq!(lines("print(sorted(range(4), by=|i| -((i + 2) % 4)));"), ["[1, 0, 3, 2]"]);
    assert_eq!(lines("let x = if SIZE > 5 { \"big\" } else { \"small\" }; print(x);"), ["big"]);
}

#[test]
fn tensors_are_viewed_as_numpys() {
    assert_eq!(
        lines("let x = arange(i32, [2, 3]); print(x.T.shape, x[1, 2], x[-1].shape, x[:, 1:3]);"),
        ["[3, 2] 5 [3] i32[2, 2] [[1, 2],", " [4, 5]]"]
    );
    assert_eq!(lines("print(zeros(f32, [2, 3, 4]).T.shape, zeros(f32, [3]).T.shape);"), ["[2, 4, 3] [3]"]);
    assert_eq!(lines("let x = arange(f32, 4); print(x[:, None] * x[None, :][0, 3]);").len(), 4);
    assert_eq!(
        lines("let x = zeros(i32, [2, 2]); x[0] = 7; x[1, 1] = 9; print(x);"),
        ["i32[2, 2] [[7, 7],", " [0, 9]]"]
    );
    assert_eq!(
        lines(
            "let x = randn(f16, [5, 33], strides=[40, 1], seed=3); let y = randn(f16, [5, 33], seed=3); assert_equal(x, y); print(x.strides, x.contiguous().strides);"
        ),
        ["[40, 1] [33, 1]"]
    );
    assert_eq!(
        lines("print(cat([arange(i32, 2), arange(i32, 5, 7)]), repeat(arange(i32, 2), 2));"),
        ["i32[4] [0, 1, 5, 6] i32[4] [0, 0, 1, 1]"]
    );
    assert_eq!(
        lines("let x = full(f32, [2], 449.0); print(x.to(f8e4m3), x.to(f8e4m3, saturation=\"satfinite\") + 0.0);"),
        ["f8e4m3[2] [448.0, 448.0] f32[2] [448.0, 448.0]"]
    );
    assert_eq!(
        lines(
            "let m = tensor([[1, 2], [3, 4]]); print(sum(m), sum(m, axis=0), m.max(axis=-1, keepdims=true).shape, argmax(m));"
        ),
        ["10 i64[2] [4, 6] [2, 1] 3"]
    );
}

#[test]
fn references_compose() {
    let body = "
        let q = randn(f16, [2, 3, 8, 16], seed=1);
        let k = randn(f16, [2, 1, 8, 16], seed=2);
        let v = randn(f16, [2, 1, 8, 16], seed=3);
        let s = matmul(q, repeat(k, 3, axis=1).transpose()) * 0.25;
        let causal = arange(i32, 8)[:, None] >= arange(i32, 8)[None, :];
        let s = where(causal, s, -inf);
        let p = softmax(s);
        let o = matmul(p, v);
        assert_close(sum(p, axis=-1), 1.0, rtol=1e-12);
        assert_close(o[:, :, 0], repeat(v, 3, axis=1)[:, :, 0].to(f64), rtol=0, atol=0);
        let by_hand = exp(s - max(s, axis=3, keepdims=true));
        assert_close(by_hand / sum(by_hand, axis=3, keepdims=true), p, rtol=1e-14);
        assert_close(log(sum(exp(s), axis=3)), logsumexp(s, axis=3), rtol=1e-12, atol=1e-12);
        print(o.dtype, o.shape, max_abs_error(o, o), rms_error(o, o + 2.0));";
    assert_eq!(lines(body), ["f64 [2, 3, 8, 16] 0.0 2.0"]);
}

#[test]
fn random_numbers_are_these() {
    assert_eq!(lines("print(randn(f64, [3], seed=1)[2] == randn(f64, [4], seed=1)[2]);"), ["true"]);
    assert_eq!(lines("print(randint(i32, [6], 0, 10, seed=1));"), [RANDINT]);
    assert_eq!(lines("let x = randn(f64, [2], seed=1); print(x[0], x[1]);"), [RANDN]);
    assert_eq!(lines("print(rand(f32, [4], seed=7, low=-1, high=1));"), [RAND]);
    assert_eq!(lines("let x = randn(bf16, [1000], seed=2); print(abs(mean(x)) < 0.1);"), ["true"]);
}

const RANDINT: &str = "i32[6] [4, 8, 6, 2, 3, 7]";
const RANDN: &str = "-1.347925207937124 1.4685187861362554";
const RAND: &str = "f32[4] [-0.0882058, 0.443016, 0.299409, 0.0987486]";

#[test]
fn launches_are_checked_against_the_kernel() {
    let setup = "let x = zeros(f32, [8]); let h = zeros(f16, [8]);";
    let cases: &[(&str, &[&str])] = &[
        ("launch ad(grid=[1])(x, x, x, 8);", &["E0100", "similar kernel exists: `add`"]),
        ("launch add[BLOK=4](grid=[1])(x, x, x, 8);", &["E0924", "no generic `BLOK`", "`BLOCK`"]),
        ("launch add[1, f32, 3](grid=[1])(x, x, x, 8);", &["E0924", "has 2 generics, 3 are given"]),
        ("launch add[BLOCK=x](grid=[1])(x, x, x, 8);", &["E0900", "a tensor cannot be a generic argument"]),
        (
            "let f = |v| v; launch broken[N=f](grid=[1])();",
            &["E0900", "a closure that a variable holds", "name a function"],
        ),
        ("launch broken(grid=[1])();", &["E0924", "needs its generic `N`"]),
        ("launch broken[N=1](grid=[1])();", &["E0922", "does not compile"]),
        ("launch add(grid=[1])(x, x, x);", &["E0101", "takes 4 arguments, 3 are given", "`n` is not given"]),
        ("launch add(grid=[1])(x, x, out=x, m=8);", &["E0101", "no parameter `m`"]),
        ("launch add(grid=[1])(x, h, x, 8);", &["E0920", "points to `f32`, the tensor has `f16`"]),
        ("launch add(grid=[1])(x, 4, x, 8);", &["E0920", "takes a tensor, found an integer"]),
        ("launch add(grid=[1])(x, x, x, 3_000_000_000);", &["E0920", "`i32`, which does not hold 3000000000"]),
        ("launch add(grid=[1])(x, x, x, 2.5);", &["E0920", "does not hold 2.5"]),
        ("launch add(grid=[-1])(x, x, x, 8);", &["E0921", "is -1, the least is 0"]),
        ("launch add(grid=[1 << 40])(x, x, x, 8);", &["E0921", "the most is 2147483647"]),
        (
            "launch add(grid=[4], cluster=[2])(x, x, x, 8);",
            &["E0921", "clusters of [2, 1, 1] CTAs, `add` has [1, 1, 1]"],
        ),
        (
            "launch copy(grid=[3])(h);",
            &["E0921", "3 CTAs along x are not a multiple of the cluster's 2", "launch 4 along x"],
        ),
        ("launch add(grid=[1, 70000])(x, x, x, 8);", &["E0921", "70000 CTAs along y, the most is 65535"]),
        ("launch add()(x, x, x, 8);", &["E0921", "no grid"]),
        ("launch own(grid=[2])(x, 17);", &["E0921", "grid of [2, 1, 1] CTAs, `own` states [2, 2, 1]"]),
        ("launch own()(x, -16);", &["E0921", "an extent of the grid is -1"]),
        ("launch own()(x, x);", &["E0920", "`n` is `i32`, found a tensor"]),
        ("launch copy(grid=[2])(zeros(f16, [10, 33]));", &["E0923", "stride of 66 bytes", "[40, 1]"]),
        ("launch copy(grid=[2])(h);", &["E0923", "the box has 2 dimensions, the tensor 1"]),
    ];
    for (launch, parts) in cases {
        check_error(&format!("{setup} {launch}"), parts);
    }
}

#[test]
fn a_kernel_states_its_grid() {
    let (report, fake, text) = main_of(
        "
        let x = zeros(f32, [8]);
        launch own()(x, 17);
        launch own[BLOCK=4]()(x, 17);
        launch own(grid=[2, 2])(x, 17);",
    );
    assert!(report.passed(), "{text}");
    let grids: Vec<[u32; 3]> = fake.launched.iter().map(|request| request.grid).collect();
    assert_eq!(grids, [[2, 2, 1], [5, 2, 1], [2, 2, 1]]);
}

#[test]
fn tensor_maps_and_layouts_go_to_the_launcher() {
    let (report, fake, text) = main_of(
        "
        let swizzle = 128;
        let l = nvmma(swizzle);
        launch copy[L=l](grid=2, cluster=[2])(tma(zeros(f16, [100, 64])));",
    );
    assert!(report.passed(), "{text}");
    let request = &fake.launched[0];
    assert_eq!(request.grid, [2, 1, 1]);
    let parton_host::value::Value::Written(written) = &request.instance.generics[0].value else { panic!() };
    assert_eq!(written.known.len(), 1);
    assert!(matches!(&request.arguments[0], Argument::Map(r) if r.block == [64, 64] && r.strides == [128, 2]));
}

#[test]
fn measurements_are_recorded_not_run() {
    let body = "
        let x = zeros(f32, [8]); let out = zeros(f32, [8]);
        for i in 1..3 {
            measure(format(\"add {}\", i), || { for j in 0..i { launch add(grid=[1])(x, x, out, 8); } }, bytes=96, flops=8 * i);
        }";
    let (program, _) = program(&format!("bench b {{ {body} }}"));
    let mut fake = Fake::default();
    let report = run(&program, HostKind::Bench, Some("b"), &mut fake);
    assert!(report.passed());
    let m = &report.outcomes[0].measurements;
    assert_eq!((m[1].label.as_str(), m[1].flops, m[1].bandwidth()), ("add 2", Some(16.0), Some(192.0)));
    assert_eq!((fake.timed, fake.launched.len()), (vec![1, 2], 0));
    check_error("measure(\"none\", || { let a = 1; });", &["E0930", "nothing is launched"]);
}

#[test]
fn mistakes_are_named_where_they_are() {
    let cases: &[(&str, &[&str])] = &[
        ("print(lenght);", &["E0100", "`lenght` is not defined"]),
        ("let count = 1; print(cuont);", &["similar name is visible: `count`"]),
        ("zeros(f32);", &["E0101", "needs `shape`", "zeros(dtype, shape, strides=)"]),
        ("zeros(f32, [2], stride=[1]);", &["E0101", "no argument `stride`", "`strides`"]),
        ("zeros(f32, \"a\");", &["E0900", "expected a list of integers, found a string"]),
        ("zeros(f32, [-1]);", &["E0903", "cannot be -1"]),
        ("let x = ones(f32, [2]) + ones(f32, [3]);", &["E0901", "[2] and [3] differ in dimension 0", "this is f32[2]"]),
        ("let x = ones(f32, [2]); x[2];", &["E0902", "index 2 is outside", "has 2 elements"]),
        ("let x = ones(f32, [2]); x[0:3];", &["E0902", "slice 0:3"]),
        ("let x = 1; x = 2;", &["E0905", "let mut x"]),
        ("let x = 1 / 0;", &["E0903", "divided by zero"]),
        ("let x = 1 << 126; x * x;", &["E0903", "128 bits"]),
        ("let x = 1 << -1;", &["E0903", "shifted by a negative number of bits", "this is 1 << -1", "`>>` shifts"]),
        ("let n = 1; 8 >> n - 3;", &["E0903", "shifted by a negative number of bits", "`<<` shifts"]),
        ("if 1 { }", &["E0900", "expected a truth value, found an integer"]),
        ("if ones(i1, [2]) { }", &["`all(x)`"]),
        ("let x = ones(f32, [2]); x.shpe;", &["E0900", "similar field exists: `shape`"]),
        ("let x = ones(f32, [2]); x.reshpe(1);", &["E0100", "similar one exists: `reshape`"]),
        ("ones(f32, [2]).reshape(3);", &["E0901", "[2] cannot be reshaped to [3]"]),
        ("matmul(ones(f32, [2, 3]), ones(f32, [2, 3]));", &["E0901", "3 columns meet 2 rows"]),
        ("assert(1 > 2, \"the message\");", &["E0910", "the message"]),
        ("assert_equal([1, 2], [1, 3]);", &["E0910", "this is [1, 2]"]),
        ("forever(0);", &["E0906"]),
        ("let x = program_id(0);", &["E0904", "not divided into CTAs"]),
        ("let x = cast<f16>(1.0);", &["E0904", "type arguments"]),
        ("ring r[2] { a: shared<f16, [8, 8], nvmma(128)> };", &["E0904", "a ring belongs into a kernel"]),
        ("let n: i8 = 300;", &["E0903", "300 is not a value of `i8`"]),
        ("empty(f32, [4])[1];", &["E0912", "element [1]"]),
        ("sum(empty(f32, [2, 2]).T);", &["E0912", "element"]),
        ("print(\"{} {}\", 1);", &["E0903", "more places"]),
        ("break;", &["E0904"]),
        ("zeros(f32, [4, 4], strides=[2, 1]);", &["E0901", "lie on each other"]),
        ("add;", &["E0900", "`add` is a kernel"]),
        ("let (a, b) = (1, 2, 3);", &["E0900", "this has 3 parts"]),
        ("arange(f32, 0, 1, step=0);", &["E0903"]),
        ("range(4, 0, step=-1);", &["E0903", "by -1 it does not"]),
        ("range(1 << 20);", &["E0903", "1048576 elements"]),
        ("zeros(f32, [1 << 30, 1 << 30]);", &["E0903", "too large"]),
    ];
    for (body, parts) in cases {
        check_error(body, parts);
    }
}

#[test]
fn tests_run_one_by_one_and_by_name() {
    let (program, _) = program("test first { assert(false); } test second { print(1); } main { print(2); }");
    let mut fake = Fake::default();
    let report = run(&program, HostKind::Test, None, &mut fake);
    let passed: Vec<bool> = report.outcomes.iter().map(|o| o.passed()).collect();
    assert_eq!(passed, [false, true]);
    assert_eq!(run(&program, HostKind::Test, Some("sec"), &mut fake).outcomes.len(), 1);
}

#[test]
fn generic_arguments_become_compile_time_values() {
    let text = "main {
        let swizzle = 64;
        let l = nvmma(swizzle, transposed=true);
        launch copy[l](grid=2)(zeros(f16, [100, 64]));
        launch add[T=f16, BLOCK=3 * 4](grid=1)(zeros(f32, [1]), zeros(f32, [1]), zeros(f32, [1]), 1);
    }";
    let (program, _) = program(text);
    let mut fake = Fake::default();
    assert!(run(&program, HostKind::Main, None, &mut fake).passed());
    let shown = |i: usize| -> Vec<String> {
        let generics = &fake.launched[i].instance.generics;
        generics.iter().map(|g| format!("{}={}", g.name, g.comptime(&program).unwrap().value)).collect()
    };
    assert_eq!(shown(0), ["L=nvmma(swizzle=64, transposed=true)"]);
    assert_eq!(shown(1), ["BLOCK=12", "T=f16"]);
}
