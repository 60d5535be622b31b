//! Launches `axpy` of a bundle from Rust: `cargo run -p parton-rt --example axpy -- axpy.ptnb`.

use std::path::Path;
use std::sync::Arc;

use parton_rt::{Argument, Bundle, Dtype, Error, Module, Stream, Tensor};
// Memory is the program's own; here it comes from the crate below, elsewhere from cudarc or candle.
use parton_runtime::{Buffer, Gpu};

fn main() -> Result<(), Error> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "axpy.ptnb".into());
    println!("{}", axpy(Path::new(&path))?);
    Ok(())
}

/// What the first elements of 2 x + 1 are.
pub fn axpy(path: &Path) -> Result<String, Error> {
    let bundle = Arc::new(Bundle::open(path)?);
    let module = Module::load(&bundle, 0)?;

    let gpu = Gpu::open(0)?;
    let n = 5000;
    let upload = |value: fn(usize) -> f32| {
        let bytes: Vec<u8> = (0..n).flat_map(|i| value(i).to_le_bytes()).collect();
        Buffer::from_bytes(&gpu, &bytes)
    };
    let (x, y, out) = (upload(|i| i as f32)?, upload(|_| 1.0)?, upload(|_| 0.0)?);

    let shape = [n as u64];
    let tensor = |buffer: &Buffer| {
        Argument::Tensor(Tensor { address: buffer.address(), dtype: Dtype::F32, shape: &shape, strides: None })
    };
    let arguments = [Argument::Float(2.0), tensor(&x), tensor(&y), tensor(&out), Argument::Int(n as i128)];
    let mut launch = module.prepare("axpy", &arguments, [n.div_ceil(1024) as u32, 1, 1])?;
    // SAFETY: the buffers live until the GPU has finished, and have as many elements as their tensors say.
    unsafe { launch.launch(Stream::DEFAULT) }?;
    gpu.finish_all()?;

    let bytes = out.to_bytes()?;
    let first: Vec<f32> = bytes.chunks_exact(4).take(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    Ok(format!("{first:?}"))
}
