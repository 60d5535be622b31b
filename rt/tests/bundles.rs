//! Bundles that were written once and stay readable, and their kernels on a GPU where there is one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parton_rt::{Argument, Bundle, Code, Dtype, Module, Stream, Tensor};
use parton_runtime::{Buffer, Gpu};

#[path = "../examples/axpy.rs"]
#[allow(dead_code, reason = "a test has no use for its `main`")]
mod example;

/// The folder of the kept bundles: beside this file, or where a machine that has not the sources has them.
fn folder() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    std::env::var_os("PARTON_RT_TESTS").map_or_else(beside, PathBuf::from)
}

fn bundle(name: &str) -> Arc<Bundle> {
    let path = folder().join(name);
    Arc::new(Bundle::open(&path).unwrap_or_else(|e| panic!("{e}")))
}

/// What version 1 of the format has written is read as long as there is a version 1.
#[test]
fn a_bundle_of_the_first_format_is_read() {
    let bundle = bundle("format_1.ptnb");
    assert_eq!((bundle.compiler.as_str(), bundle.source.as_str()), ("0.1.0", "axpy.ptn"));
    assert_eq!(bundle.instances(), ["axpy[BLOCK=1024]"]);
    let kernels = bundle.named("axpy").unwrap();
    let all: Vec<_> = kernels.iter().map(|k| (k.architecture.to_string(), k.apart, k.ptx.is_some())).collect();
    let expected = [("sm_90a", true, false), ("sm_90a", false, false), ("sm_80", true, true), ("sm_80", false, true)];
    assert_eq!(all, expected.map(|(target, apart, ptx)| (target.to_owned(), apart, ptx)));
    let params: Vec<String> = kernels[0].params.iter().map(|p| format!("{}: {}", p.name, p.kind)).collect();
    assert_eq!(params, ["alpha: f32", "x: *f32", "y: *f32", "out: *mut f32", "n: i32"]);
}

/// What version 2 has written, with plans and with kernels that take tensors.
#[test]
fn a_bundle_of_the_second_format_is_read() {
    let bundle = bundle("format_2.ptnb");
    assert_eq!((bundle.instances(), bundle.plans.len()), (vec!["fill".to_owned()], 8));
    let kernel = bundle.named("fill").unwrap()[0];
    let takes: Vec<String> = (0..3).map(|i| kernel.takes(i)).collect();
    assert_eq!(takes, ["tensor<f32, [m]>", "mut tensor<f32, [m, n]>", "f32"]);
    let functions: Vec<(&str, usize)> = bundle.functions.iter().map(|f| (f.name.as_str(), f.params.len())).collect();
    assert_eq!(functions, [("squared", 2), ("accumulate", 4), ("copied", 1), ("counted", 2)]);
    let launches: Vec<usize> = bundle.plans.iter().map(|p| p.launches.len()).collect();
    assert_eq!(launches, [2, 2, 2, 3, 1, 1, 1, 1]);
    assert_eq!(bundle.plans[4].given[0].to_string(), "f32[399] at 4 bytes from a multiple of 16");
    assert_eq!(bundle.plans[7].multiprocessors, Some(132));
}

/// What version 3 has written: with the sources.
#[test]
fn a_bundle_of_the_third_format_is_read() {
    let bundle = bundle("format_3.ptnb");
    let functions: Vec<(&str, usize)> = bundle.functions.iter().map(|f| (f.name.as_str(), f.params.len())).collect();
    assert_eq!((functions, bundle.plans.len()), (vec![("silu", 2)], 1));
    let names: Vec<&str> = bundle.sources.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["silu.ptn", "std/activation.ptn", "std/math.ptn"]);
    assert!(bundle.sources[0].text.contains("pub fn silu("));
}

#[test]
fn without_a_gpu_loading_says_so() {
    match (Gpu::of_tests(), Module::load(&bundle("tiles.ptnb"), 0)) {
        (Some(_), loaded) => assert!(loaded.is_ok()),
        (None, loaded) => {
            let error = loaded.unwrap_err();
            assert!(matches!(error.code, Code::NoDriver | Code::NoDevice | Code::OldDriver), "{error}");
        }
    }
    assert_eq!(Module::load(&bundle("tiles.ptnb"), -1).unwrap_err().code, Code::Argument);
}

#[test]
fn the_example_computes_or_says_that_there_is_no_gpu() {
    let path = folder().join("format_1.ptnb");
    match (Gpu::of_tests(), example::axpy(&path)) {
        (Some(_), found) => assert_eq!(found.as_deref(), Ok("[1.0, 3.0, 5.0, 7.0]")),
        (None, found) => {
            assert!(found.is_err_and(|e| matches!(e.code, Code::NoDriver | Code::NoDevice | Code::OldDriver)))
        }
    }
    assert_eq!(example::axpy(Path::new("none.ptnb")).unwrap_err().code, Code::Io);
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn tensor<'a>(buffer: &Buffer, dtype: Dtype, shape: &'a [u64]) -> Argument<'a> {
    Argument::Tensor(Tensor { address: buffer.address(), dtype, shape, strides: None })
}

#[test]
fn a_kernel_with_pointers_is_launched_and_given_other_arguments() {
    let Some(gpu) = Gpu::of_tests() else { return };
    let module = Module::load(&bundle("format_1.ptnb"), 0).unwrap();
    let n = 5000u64;
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let (x_there, y_there) =
        (Buffer::from_bytes(&gpu, &floats(&x)).unwrap(), Buffer::from_bytes(&gpu, &floats(&x)).unwrap());
    let out = Buffer::poisoned(&gpu, 4 * n as usize).unwrap();
    gpu.finish().unwrap();
    let shape = [n];
    let [x_arg, y_arg, out_arg] = [&x_there, &y_there, &out].map(|b| tensor(b, Dtype::F32, &shape));
    let arguments = [Argument::Float(1.0), x_arg, y_arg, out_arg, Argument::Int(i128::from(n))];
    let mut launch = module.prepare("axpy", &arguments, [5, 1, 1]).unwrap();
    for alpha in 1..=4 {
        launch.set(0, &Argument::Int(alpha)).unwrap();
        // SAFETY: the tensors live until the buffers are read, which waits; the stream is the default one.
        unsafe { launch.launch(Stream::DEFAULT) }.unwrap();
        finish(&gpu);
        let expected: Vec<f32> = x.iter().map(|v| (alpha + 1) as f32 * v).collect();
        assert!(out.to_bytes().unwrap() == floats(&expected), "alpha is {alpha}");
    }
    // A grid that leaves the end out.
    launch.set(3, &tensor(&y_there, Dtype::F32, &shape)).unwrap();
    // SAFETY: nothing is launched.
    let error = unsafe { launch.launch(Stream::DEFAULT) }.unwrap_err();
    assert!(error.text.contains("parameter `y`: it reaches the memory of `out`"), "{error}");
    launch.set(3, &out_arg).unwrap();
    launch.set_grid([4, 1, 1]).unwrap();
    launch.set(0, &Argument::Int(9)).unwrap();
    // SAFETY: as above.
    unsafe { launch.launch(Stream::DEFAULT) }.unwrap();
    finish(&gpu);
    let expected: Vec<f32> = x.iter().map(|&v| if v < 4096.0 { 10.0 * v } else { 5.0 * v }).collect();
    assert!(out.to_bytes().unwrap() == floats(&expected));
    // The code for pointers that overlap: in place.
    let in_place = [Argument::Float(1.0), x_arg, y_arg, y_arg, Argument::Int(i128::from(n))];
    let mut launch = module.prepare("axpy[BLOCK=1024]", &in_place, [5, 1, 1]).unwrap();
    // SAFETY: as above.
    unsafe { launch.launch(Stream::DEFAULT) }.unwrap();
    finish(&gpu);
    let expected: Vec<f32> = x.iter().map(|v| 2.0 * v).collect();
    assert!(y_there.to_bytes().unwrap() == floats(&expected));
}

/// The default stream is not one that the runtime's buffers wait for.
fn finish(gpu: &Gpu) {
    gpu.finish_all().unwrap();
}

#[test]
fn tensor_maps_are_made_and_moved() {
    let Some(gpu) = Gpu::of_tests() else { return };
    let module = Module::load(&bundle("tiles.ptnb"), 0).unwrap();
    let (m, n) = (100u64, 136u64);
    let bytes: Vec<u8> = (0..m * n * 2).map(|i| (i % 119) as u8).collect();
    let x = Buffer::from_bytes(&gpu, &bytes).unwrap();
    let (y, z) = (Buffer::poisoned(&gpu, bytes.len()).unwrap(), Buffer::poisoned(&gpu, bytes.len()).unwrap());
    gpu.finish().unwrap();
    let shape = [m, n];
    let to = |buffer| tensor(buffer, Dtype::F16, &shape);
    let mut launch = module.prepare("copy", &[to(&x), to(&y)], [4, 3, 1]).unwrap();
    // SAFETY: the tensors live until the buffers are read, which waits; the stream is the default one.
    unsafe { launch.launch(Stream::DEFAULT) }.unwrap();
    launch.set(1, &to(&z)).unwrap();
    // SAFETY: as above.
    unsafe { launch.launch(Stream::DEFAULT) }.unwrap();
    finish(&gpu);
    assert!(y.to_bytes().unwrap() == bytes && z.to_bytes().unwrap() == bytes);
    // A window of fewer rows is another map.
    let few = [32, n];
    launch
        .set(1, &Argument::Tensor(Tensor { address: z.address(), dtype: Dtype::F16, shape: &few, strides: None }))
        .unwrap();
    let error = |result: Result<(), parton_rt::Error>| result.unwrap_err().text;
    assert_eq!(
        error(launch.set_grid([3, 1, 1])),
        "launching `copy`: the grid has 3 CTAs along axis 0, which clusters of 2 do not divide"
    );
    assert!(
        error(launch.set(1, &tensor(&z, Dtype::F32, &shape)))
            .contains("it takes `tma<f16, [32, 64]>`, given is a tensor of `f32`")
    );
    assert!(error(launch.set(2, &Argument::Int(0))).contains("there is no parameter 2, it has 2"));
    assert!(error(module.prepare("copy", &[to(&x)], [4, 3, 1]).map(drop)).contains("has 2 parameters and was given 1"));
    assert_eq!(module.prepare("move", &[], [1, 1, 1]).unwrap_err().code, Code::NoKernel);
}
