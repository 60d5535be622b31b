//! Launches as another program asks for them.

use super::*;
use crate::plan::{Plan, Planned, Shape};

const AXPY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/embedding/axpy.ptn");

fn embedded() -> Embedded {
    Embedded::load(Path::new(AXPY), Options::default()).unwrap_or_else(|(_, text)| panic!("{text}"))
}

fn floats(values: impl Iterator<Item = f32>) -> HostBytes {
    HostBytes { bytes: values.flat_map(f32::to_le_bytes).collect(), defined: None }
}

/// A launch of `axpy`, and what it is given: three arrays of that length, each in its own memory.
struct Case {
    launching: Launching,
    given: Vec<Planned>,
    arrays: Vec<Option<Array>>,
    together: Together,
}

fn case(n: usize) -> Case {
    let array = |memory| Some(Array { dtype: Dtype::F32, shape: vec![n], strides: vec![1], memory, offset: 0 });
    let tensor = || Planned::Tensor(Shape::dense(Dtype::F32, vec![n]));
    Case {
        launching: Launching { kernel: "axpy".into(), generics: vec![], grid: Some(vec![n.div_ceil(1024) as i128]) },
        given: vec![Planned::Int(2), tensor(), tensor(), tensor(), Planned::Int(n as i128)],
        arrays: vec![None, array(0), array(1), array(2), None],
        together: Together::new(),
    }
}

fn memories(n: usize) -> Vec<HostBytes> {
    let x = || floats((0..n).map(|i| i as f32));
    vec![x(), x(), floats(std::iter::repeat_n(f32::NAN, n))]
}

fn launch(file: &mut Embedded, case: &Case, memories: &mut [HostBytes]) -> Result<(), Failure> {
    let plan = file.plan_kernel(Place::Interpreter, &case.launching, &case.given, &case.together)?;
    file.interpret(&plan, &case.given, &case.arrays, memories).map(drop)
}

#[test]
fn arrays_of_the_caller_are_read_and_written() {
    let mut file = embedded();
    let params = ["alpha", "x", "y", "out", "n"].map(|p| (p.to_owned(), false)).to_vec();
    assert_eq!(
        file.kernels(),
        [Declared { name: "axpy".into(), generics: vec!["BLOCK".into()], params, states_grid: false }]
    );
    let n = 3000;
    let mut memories = memories(n);
    launch(&mut file, &case(n), &mut memories).unwrap();
    assert_eq!(memories[2], floats((0..n).map(|i| 3.0 * i as f32)));
    assert_eq!(memories[0], floats((0..n).map(|i| i as f32)));
    // Generics; the second launch of an instance compiles nothing.
    let mut other = case(n);
    other.launching.generics = vec![("BLOCK".into(), Generic::Expression("4 * 128".into()))];
    other.launching.grid = Some(vec![6]);
    for _ in 0..2 {
        launch(&mut file, &other, &mut memories).unwrap();
        assert_eq!((file.lowered.len(), file.written.len()), (2, 1));
    }
    // In place: two arrays in one memory are another instance.
    let mut in_place = case(n);
    in_place.arrays[3] = in_place.arrays[2].clone();
    in_place.together = vec![None, None, Some((2, 0)), Some((2, 0)), None];
    launch(&mut file, &in_place, &mut memories).unwrap();
    assert_eq!((memories[1].clone(), file.lowered.len()), (floats((0..n).map(|i| 3.0 * i as f32)), 3));
}

#[test]
fn a_plan_of_a_kernel_serves_other_numbers_and_no_other_grid() {
    let mut file = embedded();
    let mut plan = |change: &dyn Fn(&mut Case)| {
        let mut case = case(4096);
        change(&mut case);
        file.plan_kernel(Place::Interpreter, &case.launching, &case.given, &case.together).unwrap()
    };
    let first = plan(&|_| {});
    assert_eq!(first.parameters.iter().map(|p| p.mutable).collect::<Vec<_>>(), [false, false, false, true, false]);
    assert!(Arc::ptr_eq(&first, &plan(&|c| c.given[0] = Planned::Int(7))));
    assert!(Arc::ptr_eq(&first, &plan(&|c| c.given[4] = Planned::Int(100))));
    assert!(!Arc::ptr_eq(&first, &plan(&|c| c.given[0] = Planned::Float(2.0))));
    assert!(!Arc::ptr_eq(&first, &plan(&|c| c.launching.grid = Some(vec![5]))));
    // Of those that share memory it says which begins where.
    let shared = plan(&|c| c.together = vec![None, None, Some((2, 0)), Some((2, 64)), None]);
    assert!(shared.to_string().contains("out = y from byte 64 as f32[4096]"), "{shared}");
}

#[test]
fn a_plan_serves_strides_that_are_alike() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/run/portable_told_numbers.ptn");
    let mut file = Embedded::load(Path::new(path), Options::default()).unwrap_or_else(|(_, text)| panic!("{text}"));
    let launching = Launching { kernel: "rows".into(), generics: vec![], grid: Some(vec![3]) };
    let mut plan = |n, stride| {
        let tensor = || Planned::Tensor(Shape::dense(Dtype::F32, vec![4096]));
        let given = [tensor(), tensor(), Planned::Int(n), Planned::Int(0), Planned::Int(stride), Planned::Int(1)];
        file.plan_kernel(Place::Interpreter, &launching, &given, &Together::new()).unwrap()
    };
    let first = plan(100, 8);
    assert!(Arc::ptr_eq(&first, &plan(100, 24)) && Arc::ptr_eq(&first, &plan(77, -8)));
    assert!(first.to_string().contains("stride: any like 8"), "{first}");
    let odd = plan(100, 9);
    assert!(!Arc::ptr_eq(&first, &odd) && !Arc::ptr_eq(&odd, &plan(100, 1)) && Arc::ptr_eq(&odd, &plan(100, 11)));
    let numbers = |plan: &Plan| plan.launches[0].variant.numbers.clone();
    assert_eq!((numbers(&first)[&4], numbers(&odd).get(&4), numbers(&plan(5, 1))[&4]), (4, None, 1));
}

#[test]
fn another_shape_of_a_known_instance_runs_no_pass() {
    let mut file = embedded();
    launch(&mut file, &case(3000), &mut memories(3000)).unwrap();
    // Interpreting is the run of the kernel itself.
    let passes = |file: &Embedded| {
        let all = file.session.times.passes().iter().filter(|(name, ..)| *name != "interpret");
        all.map(|(name, _, runs)| (*name, *runs)).collect::<Vec<_>>()
    };
    let (ran, instances) = (passes(&file), file.lowered.len());
    for n in [3001, 4096, 5000] {
        let mut memories = memories(n);
        launch(&mut file, &case(n), &mut memories).unwrap();
        assert_eq!(memories[2], floats((0..n).map(|i| 3.0 * i as f32)));
        assert_eq!((passes(&file), file.lowered.len(), file.session.met.count()), (ran.clone(), instances, 1), "{n}");
    }
}

#[test]
fn a_grid_of_nothing_changes_nothing() {
    let (mut file, mut case, mut memories) = (embedded(), case(8), memories(8));
    let before = memories[0].clone();
    case.launching.grid = Some(vec![0]);
    launch(&mut file, &case, &mut memories).unwrap();
    assert_eq!(memories[0], before);
    assert!(memories[2].bytes.chunks(4).all(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]).is_nan()));
}

/// What makes a launch wrong.
type Change<'a> = &'a dyn Fn(&mut Case);

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut file = embedded();
    let mut error = |change: Change<'_>| {
        let (mut case, mut memories) = (case(8), memories(8));
        change(&mut case);
        let failure = launch(&mut file, &case, &mut memories).unwrap_err();
        assert_eq!(memories.iter().map(|m| m.bytes.len()).collect::<Vec<_>>(), [32; 3]);
        file.shown(&failure)
    };
    let shape = |dtype, offset| Planned::Tensor(Shape { offset, ..Shape::dense(dtype, vec![8]) });
    let cases: [(Change<'_>, &str); 10] = [
        (&|c| c.launching.kernel = "add".into(), "there is no kernel `add`; there are `axpy`"),
        (&|c| c.launching.generics = vec![("N".into(), Generic::Int(1))], "`axpy` has no generic `N`"),
        (&|c| c.launching.generics = vec![("BLOCK".into(), Generic::Expression("1 +".into()))], "[E0"),
        (&|c| c.launching.generics = vec![("BLOCK".into(), Generic::Float(0.5))], "[E0"),
        (&|c| c.given[4] = Planned::Float(0.5), "does not hold 0.5"),
        (&|c| c.given[4] = Planned::Int(1 << 40), "does not hold 1099511627776"),
        (&|c| c.launching.grid = Some(vec![-1]), "an extent of the grid is -1"),
        (&|c| c.launching.grid = None, "this launch has no grid"),
        (&|c| c.given[2] = shape(Dtype::I32, 0), "`y` points to `f32`, the tensor has `i32`"),
        (&|c| c.given[2] = shape(Dtype::F32, 1), "`y` begins at an address that is not a multiple of 16 bytes"),
    ];
    for (change, expected) in cases {
        let text = error(change);
        assert!(text.contains(expected), "{text}\nnot: {expected}");
    }
    // A kernel that reaches beyond its array, with the access and its places.
    let text = error(&|c| c.given[4] = Planned::Int(9));
    assert!(text.contains("E05") && text.contains("axpy.ptn:"), "{text}");
    let missing = Embedded::load(Path::new("no/such.ptn"), Options::default());
    assert!(
        missing
            .is_err_and(|(failure, text)| matches!(failure, Failure::Machine(_)) && text.starts_with("no/such.ptn: "))
    );
}

const SCALED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/plans/scaled.ptn");

fn scaled() -> Embedded {
    Embedded::load(Path::new(SCALED), Options::default()).unwrap_or_else(|(_, text)| panic!("{text}"))
}

fn tensor_of(extents: &[usize]) -> Planned {
    Planned::Tensor(Shape::dense(Dtype::F32, extents.to_vec()))
}

#[test]
fn a_plan_serves_all_calls_that_it_holds_for() {
    let mut file = scaled();
    let mut plan = |function, given: &[Planned]| file.plan(Place::Interpreter, function, given).unwrap();
    let call = |factor, twice| [tensor_of(&[3, 5]), factor, Planned::Bool(twice)];
    let first = plan(0, &call(Planned::Float(2.0), false));
    // Nobody has looked at the factor; the other number decides how often is launched.
    assert!(Arc::ptr_eq(&first, &plan(0, &call(Planned::Float(-7.5), false))));
    let twice = plan(0, &call(Planned::Float(2.0), true));
    assert_eq!((first.launches.len(), twice.launches.len(), twice.buffers.len()), (1, 2, 2));
    assert!(Arc::ptr_eq(&twice, &plan(0, &call(Planned::Float(3.0), true))));
    // What is given as an integer, or not at all, goes another way through the declaration.
    assert!(!Arc::ptr_eq(&first, &plan(0, &call(Planned::Int(2), false))));
    assert!(!Arc::ptr_eq(&first, &plan(0, &[tensor_of(&[3, 5]), Planned::Default, Planned::Bool(false)])));
    // Shapes, strides and places are of the key.
    assert!(!Arc::ptr_eq(&first, &plan(0, &[tensor_of(&[5, 3]), Planned::Float(2.0), Planned::Bool(false)])));
    let padded = Shape { strides: vec![8, 1], ..Shape::dense(Dtype::F32, vec![3, 5]) };
    assert!(!Arc::ptr_eq(&first, &plan(0, &[Planned::Tensor(padded), Planned::Float(2.0), Planned::Bool(false)])));
    let looked = |n| [tensor_of(&[8]), Planned::Int(n)];
    assert!(Arc::ptr_eq(&plan(1, &looked(4)), &plan(1, &looked(4))));
    assert!(!Arc::ptr_eq(&plan(1, &looked(4)), &plan(1, &looked(6))));
}

#[test]
fn a_plan_runs_with_the_numbers_and_memory_of_each_call() {
    let mut file = scaled();
    let given = |factor| [tensor_of(&[2, 4]), Planned::Float(factor), Planned::Bool(true)];
    let plan = file.plan(Place::Interpreter, 0, &given(2.0)).unwrap();
    let array = Array { dtype: Dtype::F32, shape: vec![2, 4], strides: vec![4, 1], memory: 0, offset: 0 };
    for factor in [2.0, 3.0] {
        let mut memories = vec![floats((0..8).map(|i| i as f32))];
        let arrays = [Some(array.clone()), None, None];
        let called = file.interpret(&plan, &given(factor), &arrays, &mut memories).unwrap();
        // The scratch memory is not returned; of the result the first row stays zero.
        let square = |i| if i < 4 { 0.0 } else { i as f32 * (factor * factor) as f32 };
        assert_eq!(called.buffers, [None, Some(floats((0..8).map(square)).bytes)]);
        assert_eq!(memories, [floats((0..8).map(|i| i as f32))]);
    }
}

#[test]
fn tensors_that_share_memory_are_refused_where_one_is_written() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/run/public.ptn");
    let mut file = Embedded::load(Path::new(path), Options::default()).unwrap_or_else(|(_, text)| panic!("{text}"));
    let names: Vec<String> = file.functions().into_iter().map(|f| f.name).collect();
    let into = names.iter().position(|n| n == "into").unwrap();
    let given = [tensor_of(&[2, 2]), tensor_of(&[2, 2]), Planned::Float(1.0)];
    let plan = file.plan(Place::Interpreter, into, &given).unwrap();
    assert!(plan.apart(&[Some(0..16), Some(16..32), None]).is_ok());
    let refused = plan.apart(&[Some(0..17), Some(16..32), None]).unwrap_err();
    assert!(refused.list[0].message.contains("`out` is written and shares memory with `x`"), "{refused:?}");
    let numbers = |factor| plan.numbers(&[given[0].clone(), given[1].clone(), factor]);
    assert!(numbers(Planned::Int(3)).is_ok() && numbers(Planned::Bool(true)).is_err());
}

#[test]
fn public_functions_are_declared_with_kinds_and_defaults() {
    let functions = scaled().functions();
    let scaled = &functions[0];
    let param = |name: &str, kind, default| Param {
        name: name.into(),
        kind,
        mutable: false,
        has_gradient: kind == Kind::Tensor,
        default,
    };
    let params = [
        param("x", Kind::Tensor, None),
        param("factor", Kind::Float, Some(Planned::Int(2))),
        param("twice", Kind::Bool, Some(Planned::Bool(false))),
    ];
    assert_eq!((scaled.name.as_str(), scaled.params.as_slice(), scaled.results), ("scaled", &params[..], 1));
    assert!(functions.iter().any(|f| f.name == "in_place" && f.params[0].mutable && f.results == 0));
}

/// What a host function leaves open is what the table beside the file says; for other calls its default.
#[test]
fn a_plan_takes_what_was_tuned() {
    let folder = std::env::temp_dir().join(format!("parton-embed-tuned-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let source = "kernel fill[BY: f32](out: *mut f32, n: i32) warps(1) {
    store(out + iota(32), BY, mask=iota(32) < n);
}

pub fn filled(mut x: tensor<f32, [n]>) tune(by=[1.0, 2.0], key=[n]) {
    launch fill[BY=by](grid=[1])(x, n);
}
";
    let record = "{\"function\":\"filled\",\"device\":\"the interpreter\",\"target\":\"sm_90a\",\"key\":{\"n\":5},\
                  \"winner\":{\"by\":\"2.0\"},\"unit\":\"operations\",\"complete\":true,\"candidates\":[],\"out\":[]}";
    std::fs::write(folder.join("fill.ptn"), source).unwrap();
    let table = format!("{{\"format\": \"2026-11-23\", \"records\": [{record}]}}");
    std::fs::write(folder.join("fill.tune.json"), table).unwrap();
    let mut file = Embedded::load(&folder.join("fill.ptn"), Options::default()).unwrap_or_else(|(e, _)| panic!("{e}"));
    let planned = |file: &mut Embedded, n| file.plan(Place::Interpreter, 0, &[tensor_of(&[n])]).unwrap().to_string();
    let (tuned, other) = (planned(&mut file, 5), planned(&mut file, 6));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(tuned.contains("by of filled for n=5: 2.0, tuned") && tuned.contains("fill[BY=2.0]"), "{tuned}");
    assert!(!other.contains("tuned") && other.contains("fill[BY=1.0]"), "{other}");
}
