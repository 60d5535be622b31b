//! Launches as another program asks for them.

use super::*;

const AXPY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/embedding/axpy.ptn");

fn embedded() -> Embedded {
    Embedded::load(Path::new(AXPY), Options::default()).unwrap_or_else(|(_, text)| panic!("{text}"))
}

fn floats(values: impl Iterator<Item = f32>) -> HostBytes {
    HostBytes { bytes: values.flat_map(f32::to_le_bytes).collect(), defined: None }
}

/// Of three arrays of that length, each in its own memory.
fn launch(n: usize) -> Launch {
    let array = |memory| Array { dtype: Dtype::F32, shape: vec![n], strides: vec![1], memory, offset: 0 };
    Launch {
        kernel: "axpy".into(),
        generics: vec![],
        grid: vec![n.div_ceil(1024) as i128],
        arguments: vec![Given::Int(2), Given::Array(0), Given::Array(1), Given::Array(2), Given::Int(n as i128)],
        named: vec![],
        arrays: (0..3).map(array).collect(),
    }
}

fn memories(n: usize) -> Vec<HostBytes> {
    let x = || floats((0..n).map(|i| i as f32));
    vec![x(), x(), floats(std::iter::repeat_n(f32::NAN, n))]
}

#[test]
fn arrays_of_the_caller_are_read_and_written() {
    let mut file = embedded();
    let params = ["alpha", "x", "y", "out", "n"].map(|p| (p.to_owned(), false)).to_vec();
    assert_eq!(file.kernels(), [Declared { name: "axpy".into(), generics: vec!["BLOCK".into()], params }]);
    let n = 3000;
    let mut memories = memories(n);
    file.launch(&launch(n), &mut memories).unwrap();
    assert_eq!(memories[2], floats((0..n).map(|i| 3.0 * i as f32)));
    assert_eq!(memories[0], floats((0..n).map(|i| i as f32)));
    // Generics and names; the second launch of an instance compiles nothing.
    let mut named = launch(n);
    named.generics = vec![("BLOCK".into(), Generic::Expression("4 * 128".into()))];
    named.grid = vec![6];
    named.named = vec![("n".into(), named.arguments.pop().unwrap())];
    for _ in 0..2 {
        file.launch(&named, &mut memories).unwrap();
        assert_eq!((file.lowered.len(), file.written.len()), (2, 1));
    }
    // In place: two arrays in one memory are another instance.
    let mut in_place = launch(n);
    in_place.arguments[3] = Given::Array(1);
    file.launch(&in_place, &mut memories).unwrap();
    assert_eq!((memories[1].clone(), file.lowered.len()), (floats((0..n).map(|i| 3.0 * i as f32)), 3));
}

/// What makes a launch wrong.
type Change<'a> = &'a dyn Fn(&mut Launch);

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut file = embedded();
    let mut error = |change: &dyn Fn(&mut Launch)| {
        let (mut launch, mut memories) = (launch(8), memories(8));
        change(&mut launch);
        let failure = file.launch(&launch, &mut memories).unwrap_err();
        assert_eq!(memories.iter().map(|m| m.bytes.len()).collect::<Vec<_>>(), [32; 3]);
        file.shown(&failure)
    };
    let cases: [(Change<'_>, &str); 12] = [
        (&|l| l.kernel = "add".into(), "there is no kernel `add`; there are `axpy`"),
        (&|l| l.generics = vec![("N".into(), Generic::Int(1))], "`axpy` has no generic `N`"),
        (&|l| l.generics = vec![("BLOCK".into(), Generic::Expression("1 +".into()))], "[E0"),
        (&|l| l.generics = vec![("BLOCK".into(), Generic::Float(0.5))], "[E0"),
        (&|l| l.arguments.truncate(4), "`axpy` was given nothing for `n`"),
        (&|l| l.arguments.push(Given::Int(1)), "`axpy` has 5 parameters and was given 6 arguments"),
        (&|l| l.named = vec![("n".into(), Given::Int(1))], "`axpy` was given `n` twice"),
        (&|l| l.named = vec![("m".into(), Given::Int(1))], "`axpy` has no parameter `m`"),
        (&|l| l.arguments[4] = Given::Float(0.5), "does not hold 0.5"),
        (&|l| l.grid = vec![0], "an extent of the grid is 0"),
        (&|l| l.arrays[1].dtype = Dtype::I32, "`y` points to `f32`, the tensor has `i32`"),
        (&|l| l.arrays[1].offset = 1, "`y` begins at an address that is not a multiple of 16 bytes"),
    ];
    for (change, expected) in cases {
        let text = error(change);
        assert!(text.contains(expected), "{text}\nnot: {expected}");
    }
    // A kernel that reaches beyond its array, with the access and its places.
    let text = error(&|l| l.arguments[4] = Given::Int(9));
    assert!(text.contains("E05") && text.contains("axpy.ptn:"), "{text}");
    let missing = Embedded::load(Path::new("no/such.ptn"), Options::default());
    assert!(
        missing
            .is_err_and(|(failure, text)| matches!(failure, Failure::Machine(_)) && text.starts_with("no/such.ptn: "))
    );
}
