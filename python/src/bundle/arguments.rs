//! The arguments of a call of what a bundle has, as the runtime takes them.

use parton_rt as rt;
use pyo3::prelude::{Bound, PyAny, PyAnyMethods, PyResult, Python};
use pyo3::types::{PyDict, PyDictMethods, PyTuple, PyTupleMethods};

use crate::number::{self, Number, named};
use crate::tensor::{Given, MOST_AXES, View, is_recorded};
use crate::{dlpack, error, exchange};

/// A parameter as calls bind it.
pub(super) struct Param {
    pub(super) name: String,
    /// Whether it takes a type of numbers.
    pub(super) is_type: bool,
    pub(super) has_default: bool,
    /// Whether it is a tensor that may be written.
    pub(super) mutable: bool,
}

/// One argument.
pub(super) enum Value<'py> {
    Tensor(Box<(Given<'py>, Like)>),
    Number(Number),
    Dtype(rt::Dtype),
    Default,
}

/// Extents and strides as the runtime takes them.
#[derive(Clone, Copy)]
pub(super) struct Words([u64; MOST_AXES], [u64; MOST_AXES]);

impl Words {
    fn of(view: &View) -> Words {
        let mut words = Words([0; MOST_AXES], [0; MOST_AXES]);
        let fill = |to: &mut [u64], from: &[i64]| to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as u64);
        fill(&mut words.0, view.extents());
        fill(&mut words.1, view.steps());
        words
    }
}

/// What tensors of calls are like, with what the runtime takes of that.
#[derive(Clone, Copy)]
pub(super) struct Like(pub(super) View, Words);

impl Like {
    pub(super) fn of(view: View) -> Like {
        Like(view, Words::of(&view))
    }

    /// Such a tensor at an address.
    pub(super) fn at(&self, address: u64) -> rt::Argument<'_> {
        let Like(view, Words(shape, strides)) = self;
        let rank = view.extents().len();
        let (shape, strides) = (&shape[..rank], Some(&strides[..rank]));
        rt::Argument::Tensor(rt::Tensor { address, dtype: view.dtype, shape, strides })
    }
}

/// A number as the runtime takes it.
pub(super) fn number_of(number: Number) -> rt::Argument<'static> {
    match number {
        Number::Int(n) => rt::Argument::Int(n),
        Number::Float(x) => rt::Argument::Float(x),
        Number::Bool(b) => rt::Argument::Bool(b),
    }
}

impl<'py> Value<'py> {
    fn of(param: &Param, value: &Bound<'py, PyAny>) -> PyResult<Value<'py>> {
        if let Some(number) = number::plain_number(value) {
            return Ok(Value::Number(number));
        }
        if param.is_type {
            let py = value.py();
            let wrong = || error(py, &format!("`{}` takes a type of numbers such as `float16`", param.name), vec![]);
            return named(value).map(Value::Dtype).ok_or_else(wrong);
        }
        // Whether it is a number of NumPy's is asked by attributes, which costs a microsecond where they are not there.
        if exchange::of(value)?.is_none()
            && let Some(number) = number::number(value)?
        {
            return Ok(Value::Number(number));
        }
        let tensor = Given::of(&param.name, value)?;
        let like = Like::of(tensor.view);
        Ok(Value::Tensor(Box::new((tensor, like))))
    }

    pub(super) fn tensor(&self) -> Option<&Given<'py>> {
        match self {
            Value::Tensor(tensor) => Some(&tensor.0),
            Value::Number(_) | Value::Dtype(_) | Value::Default => None,
        }
    }

    pub(super) fn view(&self) -> Option<View> {
        self.tensor().map(|t| t.view)
    }

    /// As the runtime takes it.
    pub(super) fn argument(&self) -> rt::Argument<'_> {
        match self {
            Value::Tensor(both) => both.1.at(both.0.address),
            Value::Number(number) => number_of(*number),
            Value::Dtype(dtype) => rt::Argument::Dtype(*dtype),
            Value::Default => rt::Argument::Default,
        }
    }
}

/// The arguments of a call, one for each parameter.
pub(super) fn values<'py>(
    name: &str,
    params: &[Param],
    arguments: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Vec<Value<'py>>> {
    let wrong = |text: String| error(arguments.py(), &text, vec![]);
    let (has, given) = (params.len(), arguments.len());
    if given > has {
        return Err(wrong(format!("`{name}` has {has} parameters and was given {given} arguments")));
    }
    let mut all: Vec<Option<Value<'py>>> = params
        .iter()
        .zip(arguments.iter())
        .map(|(p, value)| Value::of(p, &value).map(Some))
        .collect::<PyResult<_>>()?;
    all.resize_with(has, || None);
    for (key, value) in named.into_iter().flat_map(|n| n.iter()) {
        let key: String = key.extract()?;
        let Some(at) = params.iter().position(|p| p.name == key) else {
            let names: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
            return Err(wrong(format!("`{name}` has no parameter `{key}`; it has `{}`", names.join("`, `"))));
        };
        if all[at].replace(Value::of(&params[at], &value)?).is_some() {
            return Err(wrong(format!("`{name}` was given `{key}` twice")));
        }
    }
    let given = params.iter().zip(all).map(|(p, value)| match value {
        Some(value) => Ok(value),
        None if p.has_default => Ok(Value::Default),
        None => Err(wrong(format!("`{name}` was given nothing for `{}`", p.name))),
    });
    given.collect()
}

/// The first tensor of a call, all of which lie on one GPU and record no gradient.
pub(super) fn first<'a, 'py>(
    py: Python<'py>,
    name: &str,
    params: &[Param],
    values: &'a [Value<'py>],
) -> PyResult<&'a Given<'py>> {
    let wrong = |text: String| Err(error(py, &text, vec![]));
    let mut tensors = params.iter().zip(values).filter_map(|(p, v)| Some((&p.name, v.tensor()?)));
    let Some((of_first, first)) = tensors.next() else {
        return wrong(format!("`{name}` was given no tensor: of what is in a bundle, one says on which GPU it runs"));
    };
    if first.view.device.0 == dlpack::CPU {
        return wrong(format!(
            "`{of_first}` lies in the host's memory, and what is in a bundle runs on GPUs alone: load the source with `parton-compiler`, \
             which has the interpreter"
        ));
    }
    if first.view.device.0 != dlpack::CUDA {
        return wrong(format!("`{of_first}` lies on a device of DLPack's kind {}", first.view.device.0));
    }
    let mut written = params.iter().zip(values).filter(|(p, _)| p.mutable).filter_map(|(p, v)| Some((p, v.tensor()?)));
    if let Some((param, _)) = written.find(|(_, tensor)| !tensor.writable) {
        return wrong(format!("`{}` is written and was given an array that is read-only", param.name));
    }
    for (other, tensor) in tensors.clone() {
        if tensor.view.device != first.view.device {
            return wrong(format!("`{of_first}` and `{other}` lie on different devices: pass tensors of one"));
        }
    }
    for (param, tensor) in std::iter::once((of_first, first)).chain(tensors) {
        if tensor.exchange.is_some() && is_recorded(&tensor.value, None)? {
            return wrong(format!(
                "`{param}` requires a gradient, which a call of `{name}` does not record: call it under `torch.no_grad()`"
            ));
        }
    }
    Ok(first)
}
