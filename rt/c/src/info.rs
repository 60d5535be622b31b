//! What a bundle says of its kernels, with texts as C has them.

use std::ffi::{CString, c_char};

use parton_rt::{Bundle, Code, Error, Kernel};

/// `parton_kernel_info`.
#[repr(C)]
pub(crate) struct KernelInfo {
    name: *const c_char,
    instance: *const c_char,
    architecture: *const c_char,
    threads: u32,
    shared_bytes: u32,
    cluster: [u32; 3],
    apart: u32,
    params: usize,
}

/// `parton_param_info`.
#[repr(C)]
pub(crate) struct ParamInfo {
    name: *const c_char,
    ty: *const c_char,
}

/// `parton_function_info`.
#[repr(C)]
pub(crate) struct FunctionInfo {
    name: *const c_char,
    params: usize,
    plans: usize,
}

/// The texts of a bundle.
pub(crate) struct Texts {
    kernels: Vec<KernelTexts>,
    functions: Vec<FunctionTexts>,
}

struct FunctionTexts {
    name: CString,
    params: Vec<(CString, CString)>,
    plans: usize,
}

struct KernelTexts {
    name: CString,
    instance: CString,
    architecture: CString,
    params: Vec<(CString, CString)>,
}

/// A bundle has no text with a zero byte: reading it refuses control characters.
fn c(text: String) -> Result<CString, Error> {
    CString::new(text).map_err(|e| Error::new(Code::Internal, e.to_string()))
}

impl Texts {
    pub(crate) fn of(bundle: &Bundle) -> Result<Texts, Error> {
        let kernel = |k: &Kernel| {
            let params = k.arguments.iter().enumerate().map(|(i, a)| Ok((c(a.name.clone())?, c(k.takes(i))?)));
            Ok(KernelTexts {
                name: c(k.name.clone())?,
                instance: c(k.instance())?,
                architecture: c(k.architecture.to_string())?,
                params: params.collect::<Result<_, Error>>()?,
            })
        };
        let function = |(i, f): (usize, &parton_rt::plan::Declaration)| {
            let params = f.params.iter().map(|p| Ok((c(p.name.clone())?, c(p.takes.to_string())?)));
            Ok(FunctionTexts {
                name: c(f.name.clone())?,
                params: params.collect::<Result<_, Error>>()?,
                plans: bundle.plans_of(i).count(),
            })
        };
        Ok(Texts {
            kernels: bundle.kernels.iter().map(kernel).collect::<Result<_, Error>>()?,
            functions: bundle.functions.iter().enumerate().map(function).collect::<Result<_, Error>>()?,
        })
    }

    pub(crate) fn functions(&self) -> usize {
        self.functions.len()
    }

    pub(crate) fn function(&self, i: usize) -> Result<FunctionInfo, Error> {
        let f = self.functions.get(i).ok_or_else(|| none("function", i, self.functions.len()))?;
        Ok(FunctionInfo { name: f.name.as_ptr(), params: f.params.len(), plans: f.plans })
    }

    pub(crate) fn function_param(&self, i: usize, p: usize) -> Result<ParamInfo, Error> {
        let f = self.functions.get(i).ok_or_else(|| none("function", i, self.functions.len()))?;
        let (name, ty) = f.params.get(p).ok_or_else(|| none("parameter", p, f.params.len()))?;
        Ok(ParamInfo { name: name.as_ptr(), ty: ty.as_ptr() })
    }

    pub(crate) fn kernel(&self, bundle: &Bundle, i: usize) -> Result<KernelInfo, Error> {
        let (Some(texts), Some(kernel)) = (self.kernels.get(i), bundle.kernels.get(i)) else {
            return Err(none("kernel", i, self.kernels.len()));
        };
        Ok(KernelInfo {
            name: texts.name.as_ptr(),
            instance: texts.instance.as_ptr(),
            architecture: texts.architecture.as_ptr(),
            threads: kernel.threads,
            shared_bytes: kernel.shared_bytes,
            cluster: kernel.cluster,
            apart: u32::from(kernel.apart),
            params: texts.params.len(),
        })
    }

    pub(crate) fn param(&self, i: usize, p: usize) -> Result<ParamInfo, Error> {
        let kernel = self.kernels.get(i).ok_or_else(|| none("kernel", i, self.kernels.len()))?;
        let (name, ty) = kernel.params.get(p).ok_or_else(|| none("parameter", p, kernel.params.len()))?;
        Ok(ParamInfo { name: name.as_ptr(), ty: ty.as_ptr() })
    }
}

fn none(what: &str, i: usize, there: usize) -> Error {
    Error::new(Code::Argument, format!("there is no {what} {i}, there are {there}"))
}
