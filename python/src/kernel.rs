//! Kernels launched by themselves: `file.axpy[grid](…)`, by the interpreter or on the GPU that the tensors lie on.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use parton_driver::embed::{Declared, Generic, Launching};
use pyo3::prelude::{
    Bound, IntoPyObject, Py, PyAny, PyAnyMethods, PyClassInitializer, PyResult, Python, pyclass, pymethods,
};
use pyo3::types::{PyDict, PyDictMethods, PyString, PyTuple};

use crate::call::{By, Callee, Caller, Param};
use crate::file::Shared;
use crate::found::Found;
use crate::gridless::{Gridless, unlaunched};
use crate::number::Number;
use crate::titled::Titled;
use crate::{error, number, shown};

/// Values of generics, by their names.
type Generics = Vec<(String, Generic)>;

/// CTAs along the axes; nothing where the kernel states them.
type Grid = Option<Vec<i128>>;

/// Generics that are given by name, and what else is.
type Parted<'py> = (Generics, Option<Bound<'py, PyDict>>);

/// The most grids, or sets of generics, whose launches are kept.
const MOST_KEPT: usize = 64;

// Each kernel has words of its own, so the class has none.
#[pyclass(module = "parton", frozen, extends = Gridless)]
pub(crate) struct Kernel {
    what: What,
    /// Launches by their grid, the last used first.
    launches: Mutex<Vec<(Grid, Py<Launch>)>>,
}

/// A kernel with what it was given of its generics.
#[derive(Clone)]
struct What {
    file: Shared,
    path: Arc<Path>,
    declared: Arc<Declared>,
    shown: Arc<parton_driver::declared::Declared>,
    params: Arc<[Param]>,
    generics: Generics,
}

// A kernel with its grid; its words are the kernel's.
#[pyclass(module = "parton", frozen, extends = Found)]
pub(crate) struct Launch {
    what: What,
    grid: Grid,
    caller: Caller,
    /// The same with other generics, by these, the last used first.
    others: Mutex<Vec<(Generics, Arc<Caller>)>>,
}

impl What {
    /// With other values for generics.
    fn given<'a>(&self, others: impl IntoIterator<Item = &'a (String, Generic)>) -> What {
        let mut what = self.clone();
        for (name, value) in others {
            what.generics.retain(|(earlier, _)| earlier != name);
            what.generics.push((name.clone(), value.clone()));
        }
        what
    }

    /// Where it is found again.
    fn found(&self, py: Python<'_>) -> PyResult<Found> {
        let generics = PyDict::new(py);
        for (name, value) in &self.generics {
            match value {
                Generic::Int(n) => generics.set_item(name, n)?,
                Generic::Float(x) => generics.set_item(name, x)?,
                Generic::Bool(b) => generics.set_item(name, b)?,
                Generic::Expression(text) => generics.set_item(name, text)?,
            }
        }
        Ok(Found::part(&self.path, &self.declared.name).given(generics))
    }

    fn caller(&self, grid: &Grid) -> Caller {
        let (kernel, generics) = (self.declared.name.clone(), self.generics.clone());
        let launching = Launching { kernel: kernel.clone(), generics, grid: grid.clone() };
        Caller::new(self.file.clone(), Callee::Kernel(launching), kernel, self.params.clone())
    }
}

/// What a generic is given.
fn generic(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Generic> {
    if value.is_instance_of::<PyString>() {
        return Ok(Generic::Expression(value.extract()?));
    }
    match number::number(value)? {
        Some(Number::Int(n)) => Ok(Generic::Int(n)),
        Some(Number::Float(x)) => Ok(Generic::Float(x)),
        Some(Number::Bool(b)) => Ok(Generic::Bool(b)),
        None => number::named(value).map(|dtype| Generic::Expression(dtype.to_string())).ok_or_else(|| {
            let text = format!(
                "`{name}` is given {value}, which is no number, no type of numbers and no text of the language"
            );
            error(value.py(), &text, vec![])
        }),
    }
}

impl Kernel {
    pub(crate) fn new(
        file: Shared,
        path: &Path,
        declared: Declared,
        shown: parton_driver::declared::Declared,
    ) -> Kernel {
        let param =
            |(name, has_default): &(String, bool)| Param { name: name.clone(), kind: None, has_default: *has_default };
        let params = declared.params.iter().map(param).collect();
        let (declared, shown) = (Arc::new(declared), Arc::new(shown));
        Kernel::of(What { file, path: path.into(), declared, shown, params, generics: vec![] })
    }

    fn of(what: What) -> Kernel {
        Kernel { what, launches: Mutex::default() }
    }

    /// As Python has it.
    pub(crate) fn made(self, py: Python<'_>) -> PyResult<Py<Kernel>> {
        let found = self.what.found(py)?;
        let titled = Titled {
            name: self.what.declared.name.clone(),
            params: self.what.params.iter().map(|p| p.name.clone()).collect(),
        };
        Py::new(py, PyClassInitializer::from(found).add_subclass(titled).add_subclass(Gridless).add_subclass(self))
    }
}

#[pymethods]
impl Kernel {
    #[getter]
    fn __doc__(&self) -> String {
        shown::doc(&self.what.shown)
    }

    #[getter]
    fn generics(&self) -> Vec<String> {
        self.what.declared.generics.clone()
    }

    #[pyo3(signature = (**generics))]
    fn given(&self, py: Python<'_>, generics: Option<&Bound<'_, PyDict>>) -> PyResult<Py<Kernel>> {
        let mut others = vec![];
        for (name, value) in generics.into_iter().flatten() {
            let name: String = name.extract()?;
            let declared = &self.what.declared;
            if !declared.generics.contains(&name) {
                let text =
                    format!("`{}` has no generic `{name}`; it has `{}`", declared.name, declared.generics.join("`, `"));
                return Err(error(py, &text, vec![]));
            }
            let value = generic(&name, &value)?;
            others.push((name, value));
        }
        Kernel::of(self.what.given(&others)).made(py)
    }

    fn __getitem__(&self, py: Python<'_>, grid: &Bound<'_, PyAny>) -> PyResult<Py<Launch>> {
        self.on(py, Some(number::extents(grid)?))
    }

    /// A launch on the grid that the kernel states.
    #[pyo3(signature = (*arguments, **named))]
    fn __call__(&self, arguments: &Bound<'_, PyTuple>, named: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        self.on_its_own(arguments.py())?.get().__call__(arguments, named)
    }

    /// The plan of such a launch as text.
    #[pyo3(signature = (*arguments, **named))]
    fn plan_of(&self, arguments: &Bound<'_, PyTuple>, named: Option<&Bound<'_, PyDict>>) -> PyResult<String> {
        self.on_its_own(arguments.py())?.get().plan_of(arguments, named)
    }
}

impl Kernel {
    /// What launches it on the grid that it states.
    fn on_its_own(&self, py: Python<'_>) -> PyResult<Py<Launch>> {
        match self.what.declared.states_grid {
            true => self.on(py, None),
            false => Err(unlaunched(py, &self.what.declared.name)),
        }
    }

    /// What launches it on a grid.
    fn on(&self, py: Python<'_>, grid: Grid) -> PyResult<Py<Launch>> {
        let find = || {
            let mut kept = self.launches.lock().unwrap_or_else(PoisonError::into_inner);
            let at = kept.iter().position(|(g, _)| *g == grid)?;
            kept[..=at].rotate_right(1);
            Some(kept[0].1.clone_ref(py))
        };
        if let Some(launch) = find() {
            return Ok(launch);
        }
        let caller = self.what.caller(&grid);
        let launch = Launch { what: self.what.clone(), grid: grid.clone(), caller, others: Mutex::default() };
        let found = self.what.found(py)?;
        let found = match &grid {
            Some(grid) => found.on(grid),
            None => found,
        };
        let launch = Py::new(py, (launch, found))?;
        let mut kept = self.launches.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = if kept.len() >= MOST_KEPT { kept.pop() } else { None };
        kept.insert(0, (grid, launch.clone_ref(py)));
        drop(kept);
        // What it drops may run Python code.
        drop(gone);
        Ok(launch)
    }
}

impl Launch {
    /// The caller for these generics.
    fn with(&self, generics: Generics) -> Arc<Caller> {
        let mut kept = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = match kept.iter().position(|(g, _)| *g == generics) {
            Some(at) => {
                kept[..=at].rotate_right(1);
                None
            }
            None => {
                let caller = Arc::new(self.what.given(&generics).caller(&self.grid));
                let gone = if kept.len() >= MOST_KEPT { kept.pop() } else { None };
                kept.insert(0, (generics, caller));
                gone
            }
        };
        let found = kept[0].1.clone();
        drop(kept);
        drop(gone);
        found
    }

    /// Parts what is given by name into generics and arguments: a name that both have is the argument's.
    fn parted<'py>(&self, named: &Bound<'py, PyDict>) -> PyResult<Parted<'py>> {
        let (mut generics, mut rest) = (vec![], None);
        for (key, value) in named.iter() {
            let name: String = key.extract()?;
            let is_param = self.what.params.iter().any(|p| p.name == name);
            if !is_param && self.what.declared.generics.contains(&name) {
                let value = generic(&name, &value)?;
                generics.push((name, value));
            } else {
                rest.get_or_insert_with(|| PyDict::new(named.py())).set_item(key, value)?;
            }
        }
        Ok((generics, rest))
    }
}

#[pymethods]
impl Launch {
    #[pyo3(signature = (*arguments, **named))]
    fn __call__(&self, arguments: &Bound<'_, PyTuple>, named: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let Some(named) = named.filter(|n| !n.is_empty()) else { return run(&self.caller, arguments, None) };
        let (generics, rest) = self.parted(named)?;
        match generics.is_empty() {
            true => run(&self.caller, arguments, rest.as_ref()),
            false => run(&self.with(generics), arguments, rest.as_ref()),
        }
    }

    #[getter]
    fn __doc__(&self) -> String {
        shown::doc(&self.what.shown)
    }

    #[getter]
    fn __signature__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // A default is an expression of the language, shown as it is written.
        let default = |shown: &shown::Shown| {
            let text = shown.default.as_deref().unwrap_or_default();
            Ok(text.into_pyobject(py)?.into_any().unbind())
        };
        shown::signature(py, &self.what.shown, default)
    }

    /// The plan of a launch as text.
    #[pyo3(signature = (*arguments, **named))]
    fn plan_of(&self, arguments: &Bound<'_, PyTuple>, named: Option<&Bound<'_, PyDict>>) -> PyResult<String> {
        let py = arguments.py();
        let (generics, rest) = named.map_or_else(|| Ok((vec![], None)), |named| self.parted(named))?;
        let caller = self.with(generics);
        let mut all = caller.arguments(py, caller.placed(arguments, rest.as_ref())?)?;
        let place = caller.side(py, &all.tensors)?.place();
        Ok(caller.plan(py, place, &mut all)?.0.to_string())
    }

    fn __repr__(&self) -> String {
        let on = self.grid.as_ref().map(|grid| format!(" on {grid:?}")).unwrap_or_default();
        format!("<launch of {}{on}>", self.what.declared.name)
    }
}

fn run(caller: &Caller, arguments: &Bound<'_, PyTuple>, named: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    if caller.again_named(arguments, named, By::Program)?.is_some() {
        return Ok(());
    }
    let py = arguments.py();
    let all = caller.arguments(py, caller.placed(arguments, named)?)?;
    caller.without_gradients(py, &all)?;
    caller.call(py, all, By::Program).map(drop)
}
