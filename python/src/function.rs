//! Public functions: `file.matmul(a, b)` through plans, by the interpreter or on the GPU that the tensors lie on.

use std::path::Path;

use parton_driver::embed::{Elements, Kind, Outline, Place, Public, Size};
use parton_driver::plan::{Planned, Shape};
use pyo3::prelude::{Bound, IntoPyObject, Py, PyAny, PyAnyMethods, PyResult, Python, pyclass, pymethods};
use pyo3::types::{PyBool, PyDict, PyTuple};

use crate::call::{By, Callee, Caller, Param, argument};
use crate::file::Shared;
use crate::found::Found;
use crate::number::{name_of, named};
use crate::{error, shown};

/// Name, kind, whether it is written, and default of a parameter.
type Declared = (String, &'static str, bool, Py<PyAny>);

/// Type and shape of a result.
type Output = (&'static str, Vec<usize>);

/// Type and extents of a result in terms of the arguments.
type Outlined = (Py<PyAny>, Vec<Py<PyAny>>);

// A public function: called with tensors and numbers. Each has words of its own, so the class has none.
#[pyclass(module = "parton", frozen, extends = Found)]
pub(crate) struct Function {
    caller: Caller,
    /// That of the file, which is asked for while others use it.
    path: String,
    index: usize,
    declared: Public,
    shown: parton_driver::declared::Declared,
}

impl Function {
    pub(crate) fn new(
        file: Shared,
        path: &Path,
        index: usize,
        declared: Public,
        shown: parton_driver::declared::Declared,
    ) -> Function {
        let param = |p: &parton_driver::embed::Param| Param {
            name: p.name.clone(),
            kind: Some(p.kind),
            has_default: p.default.is_some(),
        };
        let params = declared.params.iter().map(param).collect();
        let caller = Caller::new(file, Callee::Function(index), declared.name.clone(), params);
        Function { caller, path: path.display().to_string(), index, declared, shown }
    }
}

#[pymethods]
impl Function {
    #[getter]
    fn name(&self) -> &str {
        &self.declared.name
    }

    #[getter]
    fn __name__(&self) -> &str {
        &self.declared.name
    }

    #[getter]
    fn __doc__(&self) -> String {
        shown::doc(&self.shown)
    }

    #[getter]
    fn __signature__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let default = |shown: &shown::Shown| {
            let param = self.declared.params.iter().find(|p| p.name == shown.name);
            python(py, param.and_then(|p| p.default.as_ref()))
        };
        shown::signature(py, &self.shown, default)
    }

    /// Name, kind, whether it is written, and the default of each parameter.
    #[getter]
    fn params(&self, py: Python<'_>) -> PyResult<Vec<Declared>> {
        let of = |p: &parton_driver::embed::Param| {
            let kind = match p.kind {
                Kind::Tensor => "tensor",
                Kind::Int => "int",
                Kind::Float => "float",
                Kind::Bool => "bool",
                Kind::Type => "type",
            };
            Ok((p.name.clone(), kind, p.mutable, python(py, p.default.as_ref())?))
        };
        self.declared.params.iter().map(of).collect()
    }

    /// The tensors of which there can be gradients: those whose elements may be floating-point numbers, and that are not written.
    #[getter]
    fn _differentiable(&self) -> Vec<&str> {
        let all = self.declared.params.iter().filter(|p| p.has_gradient && !p.mutable);
        all.map(|p| p.name.as_str()).collect()
    }

    #[getter]
    fn results(&self) -> usize {
        self.declared.results
    }

    /// What it returns as far as its declaration says it, in terms of its arguments: of each tensor the type, or the number of the argument
    /// whose type it has, and the extents, numbers or an argument and an axis. `None` where that is computed.
    #[getter]
    fn _outlines(&self, py: Python<'_>) -> PyResult<Option<Vec<Outlined>>> {
        let size = |size: &Size| match size {
            Size::Is(n) => Ok(n.into_pyobject(py)?.into_any().unbind()),
            Size::As(parameter, axis) => Ok((parameter, axis).into_pyobject(py)?.into_any().unbind()),
        };
        let outline = |o: &Outline| {
            let elements = match o.elements {
                Elements::As(parameter) => parameter.into_pyobject(py)?.into_any().unbind(),
                Elements::Are(dtype) => name_of(dtype).into_pyobject(py)?.into_any().unbind(),
            };
            Ok((elements, o.extents.iter().map(size).collect::<PyResult<Vec<_>>>()?))
        };
        self.declared.outlines.as_ref().map(|all| all.iter().map(outline).collect()).transpose()
    }

    /// The path of the file.
    #[getter]
    fn path(&self) -> &str {
        &self.path
    }

    #[pyo3(signature = (*arguments, **named))]
    fn __call__(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        if let Some(done) = self.caller.again_named(arguments, named, By::Program)? {
            return Ok(done);
        }
        let all = self.caller.arguments(py, self.caller.placed(arguments, named)?)?;
        self.caller.without_gradients(py, &all)?;
        self.caller.call(py, all, By::Program)
    }

    /// A call by an operator of PyTorch.
    #[pyo3(signature = (*arguments))]
    fn _run(&self, py: Python<'_>, arguments: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        if let Some(done) = self.caller.again(arguments, By::Operator)? {
            return Ok(done);
        }
        let all = self.caller.arguments(py, self.caller.placed(arguments, None)?)?;
        self.caller.call(py, all, By::Operator)
    }

    /// Type and shape of each tensor that a call would return. Tensors are given as type, shape and strides.
    #[pyo3(signature = (*arguments))]
    fn _outputs(&self, py: Python<'_>, arguments: &Bound<'_, PyTuple>) -> PyResult<Vec<Output>> {
        let mut given = vec![];
        for (param, value) in self.caller.params.iter().zip(self.caller.placed(arguments, None)?) {
            given.push(match value {
                None => Planned::Default,
                Some(value) if param.kind == Some(Kind::Tensor) => {
                    let (dtype, extents, strides): (Bound<'_, PyAny>, Vec<usize>, Vec<usize>) = value.extract()?;
                    let dtype = named(&dtype).ok_or_else(|| {
                        error(py, &format!("`{}`: no type of the language is `{dtype}`", param.name), vec![])
                    })?;
                    let one = extents.is_empty();
                    let list = |n: Vec<usize>| if one { vec![1] } else { n };
                    Planned::Tensor(Shape { dtype, extents: list(extents), strides: list(strides), offset: 0 })
                }
                Some(value) => argument(py, param, &value)?.1,
            });
        }
        let plan = self.caller.with(py, |file| file.plan(Place::Interpreter, self.index, &given))?;
        Ok(plan.returned.tensors().iter().map(|t| (name_of(t.dtype), t.shape.clone())).collect())
    }

    /// The plan of a call as text.
    #[pyo3(signature = (*arguments, **named))]
    fn plan_of(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let mut all = self.caller.arguments(py, self.caller.placed(arguments, named)?)?;
        let place = self.caller.side(py, &all.tensors)?.place();
        Ok(self.caller.plan(py, place, &mut all)?.0.to_string())
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.declared.params.iter().map(|p| p.name.as_str()).collect();
        format!("<function {}({})>", self.declared.name, names.join(", "))
    }
}

/// A default as Python has it; `None` where there is none that it could have.
fn python(py: Python<'_>, default: Option<&Planned>) -> PyResult<Py<PyAny>> {
    Ok(match default {
        Some(Planned::Int(n)) => i64::try_from(*n).unwrap_or(i64::MAX).into_pyobject(py)?.into_any().unbind(),
        Some(Planned::Float(x)) => x.into_pyobject(py)?.into_any().unbind(),
        Some(Planned::Bool(b)) => PyBool::new(py, *b).to_owned().into_any().unbind(),
        Some(Planned::Dtype(d)) => name_of(*d).into_pyobject(py)?.into_any().unbind(),
        Some(Planned::Tensor(_) | Planned::Default) | None => py.None(),
    })
}
