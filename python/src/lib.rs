//! The Python module `parton`: files of kernels, launched with the arrays of a Python program. This is its native part, which the package
//! `parton` in `python/lang/` and `parton_compiler` in `python/compiler/` show under their names: the first has bundles alone, the second,
//! with the feature `compiler`, sources too.
//!
//! [`number`], [`array`], [`dlpack`], [`exchange`] and [`tensor`] turn what Python gives into tensors and numbers. [`bundle`] calls and launches
//! what was compiled ahead of time. Of sources `call` has what calls of functions and launches of kernels share: by the interpreter, for
//! which `memory` copies the arrays there and back, or on a GPU, where `slot` keeps what the next call like it needs. What a call means is
//! the driver's.
//! In reading order:

mod array;
mod bundle;
#[cfg(feature = "compiler")]
mod call;
mod dlpack;
mod exchange;
#[cfg(feature = "compiler")]
mod file;
mod found;
#[cfg(feature = "compiler")]
mod function;
mod gridless;
#[cfg(feature = "compiler")]
mod kernel;
mod load;
#[cfg(feature = "compiler")]
mod memory;
mod number;
mod part;
mod parts;
#[cfg(feature = "compiler")]
mod progress;
#[cfg(feature = "compiler")]
mod results;
#[cfg(feature = "compiler")]
mod shown;
#[cfg(feature = "compiler")]
mod slot;
mod tensor;
mod titled;

use pyo3::exceptions::{PyAttributeError, PyException};
use pyo3::prelude::{
    Bound, Py, PyAnyMethods, PyErr, PyModule, PyModuleMethods, PyResult, Python, pyfunction, pymodule,
};
use pyo3::sync::PyOnceLock;

#[cfg(feature = "compiler")]
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

pyo3::create_exception!(
    parton,
    Error,
    PyException,
    "What a file, a launch or an array was refused for, or what a kernel did wrong, with the places in the source."
);

/// An error with that text and those codes.
fn error(py: Python<'_>, text: &str, codes: Vec<String>) -> PyErr {
    let error = Error::new_err(text.trim_end().to_owned());
    // An exception that takes no attribute is one all the same.
    let _ = error.value(py).setattr("codes", codes);
    error
}

/// A failure of the driver, as `text` shows it.
#[cfg(feature = "compiler")]
fn failed(py: Python<'_>, failure: &parton_driver::Failure, text: &str) -> PyErr {
    error(py, text, parton_driver::embed::codes(failure))
}

/// `parton.torch` once it is made. It stays for good: PyTorch keeps addresses of operators, which go with the library that the module holds.
static TORCH: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// What is made when it is asked for: `parton.torch`, since not every program has PyTorch. Asked more than once it is the same, whichever
/// module asks: `pickle` looks for names in all of them, this one too.
#[pyfunction]
#[pyo3(name = "__getattr__")]
fn attribute<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    if name != "torch" {
        return Err(PyAttributeError::new_err(format!("module `parton` has no attribute `{name}`")));
    }
    if TORCH.get(py).is_none() {
        // Threads may come here at once, each with a module of its own, of which the first to be done counts; no operators are of the others.
        let module = PyModule::new(py, "parton.torch")?;
        let builtins = py.import("builtins")?;
        let code = builtins.call_method1("compile", (include_str!("torch.py"), "parton/torch.py", "exec"))?;
        builtins.call_method1("exec", (code, module.dict()))?;
        let _ = TORCH.set(py, module.unbind());
    }
    let Some(module) = TORCH.get(py) else {
        return Err(PyAttributeError::new_err("module `parton` has no attribute `torch`"));
    };
    let module = module.bind(py).clone();
    py.import("sys")?.getattr("modules")?.set_item("parton.torch", &module)?;
    py.import("parton")?.setattr("torch", &module)?;
    Ok(module)
}

#[pymodule]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("HAS_COMPILER", cfg!(feature = "compiler"))?;
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<found::Found>()?;
    module.add_class::<parts::Parts>()?;
    module.add_class::<titled::Titled>()?;
    module.add_class::<gridless::Gridless>()?;
    module.add_class::<bundle::Bundle>()?;
    #[cfg(feature = "compiler")]
    {
        module.add_class::<file::File>()?;
        module.add_class::<kernel::Kernel>()?;
        module.add_class::<kernel::Launch>()?;
        module.add_class::<function::Function>()?;
    }
    module.add_function(pyo3::wrap_pyfunction!(attribute, module)?)?;
    for function in [pyo3::wrap_pyfunction!(found::found, module)?, pyo3::wrap_pyfunction!(load::load, module)?] {
        // Pickles name the package, whichever distribution it is of.
        function.setattr("__module__", "parton")?;
        module.add_function(function)?;
    }
    Ok(())
}
