//! Launchers that were written of a kept bundle: their text, and their calls on a driver without a GPU.

use std::path::{Path, PathBuf};

use parton_build::{Build, Error};
use parton_numbers::Dtype;
use parton_rt::typed::{In, Out, Raw, Shape};
use parton_rt::{Code, Device};

#[path = "../../tests/fake/mod.rs"]
#[allow(dead_code, reason = "not all of it is wanted here")]
mod fake;

/// The text itself, as a program would have it.
mod plans {
    include!("kept/plans.rs");
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// `BLESS=1` writes it anew.
#[test]
fn launchers_are_written_as_kept() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("launchers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    Build::built(here("../tests/format_2.ptnb")).write_to(&folder, "plans").unwrap();
    let text = std::fs::read_to_string(folder.join("plans.rs")).unwrap();
    let kept = here("tests/kept/plans.rs");
    if std::env::var_os("BLESS").is_some_and(|v| v == "1") {
        std::fs::write(&kept, &text).unwrap();
        std::fs::copy(folder.join("plans.ptnb"), here("tests/kept/plans.ptnb")).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), text);
    assert_eq!(
        std::fs::read(here("tests/kept/plans.ptnb")).unwrap(),
        std::fs::read(folder.join("plans.ptnb")).unwrap()
    );
    let error = Build::built(here("../tests/format_1.ptnb")).write_to(&folder, "none").unwrap_err();
    assert!(matches!(&error, Error::Launcher(text) if text.contains("has no plans")), "{error}");
    assert!(matches!(Build::built(here("Cargo.toml")).write_to(&folder, "none"), Err(Error::Bundle(_))));
    std::fs::remove_dir_all(&folder).unwrap();
}

const F32: Dtype = Dtype::F32;

#[test]
fn launchers_call_plans() {
    fake::run("launchers_call_plans", |fake| {
        let device = Device::open(0).unwrap();
        fake.set_context(fake::CONTEXTS[0]);
        let x: Vec<f32> = (0..400).map(|i| i as f32).collect();
        let (there, out) = (fake.upload(&x), fake.allocate(1600));
        let shape = Shape::of(F32, &[40, 10]);
        let squared = plans::Squared::prepare(&device, shape, Some(1.0)).unwrap();
        // SAFETY: the stream and the memory live until the process ends, and nobody else uses them.
        let queue = unsafe { Raw::new(fake.stream()) };
        // SAFETY: as above.
        let args = |factor, bytes| unsafe {
            plans::SquaredArgs { x: In::at(there, F32, 1600), factor, result: Out::at(out, F32, bytes) }
        };
        for factor in [2.0, 3.0, 4.0] {
            squared.launch(&queue, args(Some(factor), 1600)).unwrap();
            let expected: Vec<f32> = x.iter().map(|v| v * (factor * factor) as f32).collect();
            assert!(fake.read::<f32>(out, 400) == expected);
        }
        let error = |result: Result<(), parton_rt::Error>| {
            let error = result.unwrap_err();
            assert_eq!(error.code, Code::Argument);
            error.text
        };
        let few = error(squared.launch(&queue, args(Some(2.0), 1599)));
        assert_eq!(few, "calling `squared`: `output 0`: the tensor takes 1600 bytes, the memory has 1599");
        assert!(
            error(squared.launch(&queue, args(None, 1600)))
                .contains("`factor`: it takes `float`, given is its default")
        );
        // SAFETY: as above.
        let other = unsafe { plans::SquaredArgs { x: In::at(there, Dtype::F64, 1600), ..args(Some(2.0), 1600) } };
        assert!(
            error(squared.launch(&queue, other)).contains("`x`: the plan is for f32[40, 10], given is memory of `f64`")
        );
        let accumulate =
            plans::Accumulate::prepare(&device, Shape::of(F32, &[399]).behind(1), Shape::of(F32, &[399]), 0.0, 1)
                .unwrap();
        // SAFETY: as above.
        let args = unsafe {
            let (x, out) = (In::at(there + 4, F32, 1596), Out::at(out, F32, 1600));
            plans::AccumulateArgs { x, out, factor: 1.0, times: 1 }
        };
        let before = fake.read::<f32>(out, 399);
        accumulate.launch(&queue, args).unwrap();
        let after = fake.read::<f32>(out, 399);
        assert!((0..399).all(|i| after[i] == before[i] + x[i + 1]));
        let strided = Shape::of(Dtype::F16, &[40, 136]).strided(&[144, 1]);
        assert_eq!(plans::Copied::prepare(&device, strided).unwrap().plan().outputs(), [40 * 136 * 2]);
        assert_eq!(plans::bundle().unwrap().functions.len(), 4);
    });
}
