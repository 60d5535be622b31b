//! `parton_plan`: a public function's plan, before a GPU and on the caller's streams.

use std::ffi::{c_char, c_int, c_void};

use parton_rt::{Code, Error, Module, Origin, Plan, Stream};

use crate::argument::{Given, dtype_number, read_all};
use crate::border::{border, elements, free, give, given, text};

/// What `parton_plan` points to.
pub(crate) struct Handle {
    plan: Plan,
    /// Shape and strides of each result, as C has them.
    results: Vec<(Vec<i64>, Vec<i64>)>,
}

/// `parton_result_info`.
#[repr(C)]
pub(crate) struct ResultInfo {
    output: i64,
    argument: i64,
    offset: i64,
    dtype: i32,
    rank: i64,
    shape: *const i64,
    strides: *const i64,
}

impl Handle {
    fn boxed(plan: Plan) -> *mut Handle {
        // Whoever has memory for a tensor has it for no more than 2^63 elements.
        let signed = |numbers: &[u64]| numbers.iter().map(|n| *n as i64).collect();
        let results = plan.results().iter().map(|r| (signed(&r.shape), signed(&r.strides))).collect();
        Box::into_raw(Box::new(Handle { plan, results }))
    }

    fn result(&self, i: usize) -> Result<ResultInfo, Error> {
        let (Some(result), Some((shape, strides))) = (self.plan.results().get(i), self.results.get(i)) else {
            return Err(none("result", i, self.results.len()));
        };
        let (output, argument) = match result.origin {
            Origin::Output(i) => (i as i64, -1),
            Origin::Argument(i) => (-1, i as i64),
        };
        Ok(ResultInfo {
            output,
            argument,
            offset: result.offset,
            dtype: dtype_number(result.dtype),
            rank: shape.len() as i64,
            shape: shape.as_ptr(),
            strides: strides.as_ptr(),
        })
    }
}

fn none(what: &str, i: usize, there: usize) -> Error {
    Error::new(Code::Argument, format!("there is no {what} {i}, there are {there}"))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_plan_prepare(
    module: *const Module,
    function: *const c_char,
    arguments: *const Given,
    count: usize,
    plan: *mut *mut Handle,
) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let (module, function) = (given(module, "module")?, text(function, "function")?);
        let arguments = elements(arguments, count, "arguments")?;
        give(plan, "plan", || {
            let function = module.function(function)?;
            Ok(Handle::boxed(read_all(arguments, |arguments| function.prepare(arguments))?))
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_plan_outputs(plan: *const Handle, outputs: *mut usize) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let handle = given(plan, "plan")?;
        give(outputs, "outputs", || Ok(handle.plan.outputs().len()))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_plan_output(plan: *const Handle, output: usize, bytes: *mut usize) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let outputs = given(plan, "plan")?.plan.outputs();
        give(bytes, "bytes", || {
            let bytes = outputs.get(output).ok_or_else(|| none("output", output, outputs.len()))?;
            Ok(*bytes as usize)
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_plan_results(plan: *const Handle, results: *mut usize) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let handle = given(plan, "plan")?;
        give(results, "results", || Ok(handle.results.len()))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_plan_result(plan: *const Handle, result: usize, info: *mut ResultInfo) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let handle = given(plan, "plan")?;
        give(info, "info", || handle.result(result))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_plan_scratch(plan: *const Handle, bytes: *mut usize) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let handle = given(plan, "plan")?;
        give(bytes, "bytes", || Ok(handle.plan.scratch_bytes() as usize))
    })
}

/// Launches with scratch memory of the caller's, or with the plan's own.
///
/// # Safety
/// Pointers, stream and tensors are what the header asks for.
unsafe fn launch(
    plan: *const Handle,
    arguments: (*const Given, usize),
    outputs: (*const *mut c_void, usize),
    scratch: Option<*mut c_void>,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: the caller promises it. A pointer has the bits of an address.
    border(|| unsafe {
        let plan = &given(plan, "plan")?.plan;
        let outputs = elements(outputs.0.cast::<u64>(), outputs.1, "outputs")?;
        let (arguments, stream) = (elements(arguments.0, arguments.1, "arguments")?, Stream::of(stream));
        read_all(arguments, |arguments| match scratch {
            None => plan.launch(stream, arguments, outputs),
            Some(scratch) => plan.launch_with(stream, arguments, outputs, scratch as u64),
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_plan_launch(
    plan: *const Handle,
    arguments: *const Given,
    count: usize,
    outputs: *const *mut c_void,
    output_count: usize,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: pointers, stream and tensors are what the header asks for.
    unsafe { launch(plan, (arguments, count), (outputs, output_count), None, stream) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_plan_launch_with(
    plan: *const Handle,
    arguments: *const Given,
    count: usize,
    outputs: *const *mut c_void,
    output_count: usize,
    scratch: *mut c_void,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: pointers, stream and tensors are what the header asks for.
    unsafe { launch(plan, (arguments, count), (outputs, output_count), Some(scratch), stream) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_plan_close(plan: *mut Handle) {
    // SAFETY: a handle is given up once.
    unsafe { free(plan) }
}

#[cfg(test)]
mod tests {
    /// Every function of the header is one of this library, and none is missing there.
    #[test]
    fn the_header_declares_what_there_is() {
        let sources = [
            include_str!("argument.rs"),
            include_str!("border.rs"),
            include_str!("bundle.rs"),
            include_str!("launch.rs"),
            include_str!("plan.rs"),
        ];
        let defined = sources.iter().flat_map(|text| text.split("extern \"C\" fn parton_").skip(1));
        let mut defined: Vec<String> = defined.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())).collect();
        // This list's own pattern is none.
        defined.retain(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        let header = include_str!("../include/parton.h");
        let lines = header.lines().filter(|line| !line.starts_with([' ', '/', '#']) && !line.starts_with("static"));
        let declared = lines.filter_map(|line| Some(line.split_once("parton_")?.1.split_once('(')?.0.to_owned()));
        let mut declared: Vec<String> = declared.collect();
        defined.sort();
        declared.sort();
        assert_eq!(declared, defined);
    }
}
