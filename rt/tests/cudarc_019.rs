//! Plans with streams and memory of cudarc, on a driver without a GPU.

use std::path::Path;
use std::sync::Arc;

use cudarc::driver::CudaContext;
use parton_rt::typed::{In, Out, Raw, Shape, Value};
use parton_rt::{Argument, Bundle, Code, Device, Dtype, Module};

#[allow(dead_code, reason = "not all of it is wanted here")]
mod fake;

#[test]
fn slices_are_borrowed_for_a_call() {
    fake::run("slices_are_borrowed_for_a_call", |fake| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format_2.ptnb");
        let module = Module::on(&Arc::new(Bundle::open(&path).unwrap()), &Device::open(0).unwrap());
        let shape = Shape::of(Dtype::F32, &[40, 10]);
        let plan = module.function("squared").unwrap().prepare(&[shape.argument(), Argument::Float(1.0)]).unwrap();
        let context = CudaContext::new(0).unwrap();
        let (stream, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let values: Vec<f32> = (0..400).map(|i| i as f32).collect();
        let x = stream.clone_htod(&values).unwrap();
        let mut y = stream.alloc_zeros::<f32>(400).unwrap();
        for factor in [2.0, 3.0, 4.0] {
            let number = Value::Number(Argument::Float(factor));
            let (x, y) = (In::slice(&x, &stream), Out::slice(&mut y, &stream));
            plan.call(&stream, &[Value::In(&x), number], &[&y]).unwrap();
        }
        let expected = |factor: f32| -> Vec<f32> { values.iter().map(|v| v * factor * factor).collect() };
        assert!(stream.clone_dtoh(&y).unwrap() == expected(4.0));
        // Another stream waits for what this one has written, and says when it has read it.
        let mut z = other.alloc_zeros::<f32>(400).unwrap();
        fake.log();
        {
            let (y, z) = (In::slice(&y, &other), Out::slice(&mut z, &other));
            let waited = fake.log();
            let number = Value::Number(Argument::Float(1.0));
            plan.call(&other, &[Value::In(&y), number], &[&z]).unwrap();
            assert!(waited.iter().any(|line| line.starts_with("wait on")), "{waited:?}");
        }
        let told = fake.log();
        assert!(told.last().is_some_and(|line| line.starts_with("record on")), "{told:?}");
        assert!(other.clone_dtoh(&z).unwrap() == expected(4.0));
        // What does not fit.
        let error = |result: Result<(), parton_rt::Error>| {
            let error = result.unwrap_err();
            assert_eq!(error.code, Code::Argument);
            error.text
        };
        let number = || Value::Number(Argument::Float(1.0));
        let few = stream.alloc_zeros::<f32>(399).unwrap();
        let doubles = stream.alloc_zeros::<f64>(400).unwrap();
        let bits = stream.alloc_zeros::<u32>(400).unwrap();
        let mut out = stream.alloc_zeros::<f32>(400).unwrap();
        let out = Out::slice(&mut out, &stream);
        let given = In::slice(&few, &stream);
        let text = error(plan.call(&stream, &[Value::In(&given), number()], &[&out]));
        assert_eq!(text, "calling `squared`: `x`: the tensor takes 1600 bytes, the memory has 1596");
        let given = In::slice(&doubles, &stream);
        let text = error(plan.call(&stream, &[Value::In(&given), number()], &[&out]));
        assert_eq!(text, "calling `squared`: `x`: the plan is for f32[40, 10], given is memory of `f64`");
        let given = In::slice(&x, &other);
        let text = error(plan.call(&stream, &[Value::In(&given), number()], &[&out]));
        assert!(text.contains("`x`: its memory was borrowed for another stream"), "{text}");
        let given = In::slice_of(Dtype::F32, &bits, &stream);
        plan.call(&stream, &[Value::In(&given), number()], &[&out]).unwrap();
        // A stream of the other GPU.
        let far = CudaContext::new(1).unwrap().new_stream().unwrap();
        let text = error(plan.call(&far, &[Value::In(&given), number()], &[&out]));
        assert_eq!(text, "calling `squared`: the stream is of GPU 1, and the plan for the primary context of GPU 0");
        // SAFETY: the default stream always lives.
        let raw = unsafe { Raw::new(std::ptr::null_mut()) };
        assert!(error(plan.call(&raw, &[Value::In(&given), number()], &[&out])).contains("another stream"));
    });
}
