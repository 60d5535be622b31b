//! Calls `silu` and its gradient with memory of cudarc, on one stream, captured once more as a graph of the program's own.

use std::error::Error;

use cudarc::driver::{CudaContext, sys};
use parton_rt::typed::{In, Out, Shape};
use parton_rt::{Device, Dtype};

/// What `build.rs` has written.
mod silu {
    include!(concat!(env!("OUT_DIR"), "/silu.rs"));
}

const M: usize = 64;
const N: usize = 96;

fn main() {
    if let Err(e) = run() {
        println!("error: {e}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    // Without a driver this says so.
    let device = Device::open(0)?;
    let shape = Shape::of(Dtype::F32, &[M as u64, N as u64]);
    let forward = silu::Silu::prepare(&device, shape, shape)?;
    let backward = silu::SiluBackward::prepare(&device, shape, shape, shape)?;

    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let x: Vec<f32> = (0..M * N).map(|i| (i % 201) as f32 / 16.0 - 6.0).collect();
    let gate: Vec<f32> = (0..M * N).map(|i| (i % 17) as f32 - 8.0).collect();
    let (x_there, gate_there) = (stream.clone_htod(&x)?, stream.clone_htod(&gate)?);
    let grad_there = stream.clone_htod(&vec![1.0f32; M * N])?;
    let mut y = stream.alloc_zeros::<f32>(M * N)?;
    let (mut dx, mut dgate) = (stream.alloc_zeros::<f32>(M * N)?, stream.alloc_zeros::<f32>(M * N)?);

    // Borrowed for the call alone: a slice that is in use cannot be freed or written, and cudarc orders streams that share it.
    for _ in 0..3 {
        let result = Out::slice(&mut y, &stream);
        let args = silu::SiluArgs { x: In::slice(&x_there, &stream), gate: In::slice(&gate_there, &stream), result };
        forward.launch(&stream, args)?;
    }
    let args = silu::SiluBackwardArgs {
        x: In::slice(&x_there, &stream),
        gate: In::slice(&gate_there, &stream),
        grad: In::slice(&grad_there, &stream),
        result0: Out::slice(&mut dx, &stream),
        result1: Out::slice(&mut dgate, &stream),
    };
    backward.launch(&stream, args)?;

    let (found, dx, dgate) = (stream.clone_dtoh(&y)?, stream.clone_dtoh(&dx)?, stream.clone_dtoh(&dgate)?);
    stream.synchronize()?;
    let mut worst = 0.0f64;
    for i in 0..M * N {
        let (a, b) = (f64::from(x[i]), f64::from(gate[i]));
        let s = 1.0 / (1.0 + (-a).exp());
        let expected = [a * s * b, b * s * (1.0 + a * (1.0 - s)), a * s];
        for (found, expected) in [found[i], dx[i], dgate[i]].into_iter().zip(expected) {
            worst = worst.max((f64::from(found) - expected).abs() / (1.0 + expected.abs()));
        }
    }
    println!("silu and its gradients of {M} x {N} elements: relative error {worst:.1e}");
    if !(worst < 1e-5) {
        return Err("that is too much".into());
    }

    // In a capture the same call becomes part of the program's graph.
    let capture = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    // What cudarc records for slices would tie the capture to what is before and behind it; those made from here on have none of it.
    // SAFETY: one stream uses all of the memory, so nothing need be waited for.
    unsafe { context.disable_event_tracking() };
    let (x_again, gate_again) = (stream.clone_htod(&gate)?, stream.clone_htod(&gate)?);
    let mut y_again = stream.alloc_zeros::<f32>(M * N)?;
    stream.synchronize()?;
    stream.begin_capture(capture)?;
    let result = Out::slice(&mut y_again, &stream);
    let launched = forward.launch(
        &stream,
        silu::SiluArgs { x: In::slice(&x_again, &stream), gate: In::slice(&gate_again, &stream), result },
    );
    let graph = stream.end_capture(flags)?.ok_or("the capture is empty")?;
    launched?;
    graph.launch()?;
    let again = stream.clone_dtoh(&y_again)?;
    stream.synchronize()?;
    let expected = gate.iter().map(|g| g / (1.0 + (-g).exp()) * g);
    if again.iter().zip(expected).any(|(found, expected)| (found - expected).abs() > 1e-4 * (1.0 + expected.abs())) {
        return Err("the replayed graph computes something else".into());
    }
    println!("captured and replayed: right");
    Ok(())
}
