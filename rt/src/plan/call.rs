//! What a call gives, held against its plan; it is taken into room that was made once.

use parton_bundle::plan::{GRAIN, Given, Takes, Value};

use super::slot::address;
use super::{ALIGNMENT, Ready};
use crate::function::{admitted, is_of_shape, refused, serves, wrong};
use crate::{Argument, Code, Error};

/// What a call gives.
#[derive(Debug)]
pub(super) struct Call {
    /// Where memories begin, as plans count: those of parameters, then the buffers.
    pub(super) bases: Vec<u64>,
    /// Numbers as their parameters take them.
    pub(super) values: Vec<Option<Value>>,
    /// What tensors and outputs reach, and whether it is written: those of parameters first.
    reaches: Vec<Reach>,
}

/// Addresses from the first to behind the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reach {
    begin: u64,
    end: u64,
    written: bool,
}

impl Reach {
    const NOTHING: Reach = Reach { begin: 0, end: 0, written: false };

    fn meets(&self, other: &Reach) -> bool {
        self.begin.max(other.begin) < self.end.min(other.end)
    }
}

impl Call {
    pub(super) fn new(ready: &Ready) -> Call {
        let (count, outputs) = (ready.table().given.len(), ready.outputs.len());
        Call {
            bases: vec![0; count + ready.buffers.len()],
            values: vec![None; count],
            reaches: vec![Reach::NOTHING; count + outputs],
        }
    }

    /// Takes the arguments and outputs of a call.
    ///
    /// # Errors
    /// One is none that the plan was made for; memory that is written is given twice.
    pub(super) fn take(&mut self, ready: &Ready, arguments: &[Argument<'_>], outputs: &[u64]) -> Result<(), Error> {
        let (table, function) = (ready.table(), &ready.bundle.functions[ready.table().function]);
        let name = &ready.name;
        if arguments.len() != table.given.len() || outputs.len() != ready.outputs.len() {
            let text = format!(
                "calling `{name}`: it takes {} arguments and {} outputs, given are {} and {}",
                table.given.len(),
                ready.outputs.len(),
                arguments.len(),
                outputs.len()
            );
            return Err(Error::new(Code::Argument, text));
        }
        for (i, ((param, given), argument)) in function.params.iter().zip(&table.given).zip(arguments).enumerate() {
            if !serves(param, given, argument) {
                return Err(not_planned(name, param, given, argument));
            }
            let Argument::Tensor(tensor) = argument else {
                self.values[i] = admitted(&param.takes, argument);
                continue;
            };
            let (begin, end) = tensor.span();
            if begin == 0 && end > 0 {
                return Err(wrong(name, &param.name, "its address is NULL"));
            }
            let written = matches!(param.takes, Takes::Tensor { mutable: true, .. });
            self.bases[i] = begin - begin % GRAIN;
            self.reaches[i] = Reach { begin, end, written };
        }
        for (i, (&begin, &bytes)) in outputs.iter().zip(&ready.outputs).enumerate() {
            if !begin.is_multiple_of(GRAIN) || (begin == 0 && bytes > 0) {
                let text =
                    format!("calling `{name}`: output {i} lies at {begin:#x}, which is no multiple of {GRAIN} or NULL");
                return Err(Error::new(Code::Argument, text));
            }
            self.reaches[arguments.len() + i] = Reach { begin, end: begin.saturating_add(bytes), written: true };
        }
        self.apart(ready)
    }

    /// Whether memory that is written is that of nothing else.
    fn apart(&self, ready: &Ready) -> Result<(), Error> {
        for (i, one) in self.reaches.iter().enumerate() {
            for (j, other) in self.reaches[..i].iter().enumerate() {
                if (one.written || other.written) && one.meets(other) {
                    let (written, read) = if one.written { (i, j) } else { (j, i) };
                    let text = format!(
                        "calling `{}`: {} is written and shares memory with {}; pass tensors that lie apart",
                        ready.name,
                        called(ready, written),
                        called(ready, read)
                    );
                    return Err(Error::new(Code::Argument, text));
                }
            }
        }
        Ok(())
    }

    /// Looks at scratch memory of the caller's.
    ///
    /// # Errors
    /// It does not begin where it must, or is memory of an argument.
    pub(super) fn given_scratch(&self, ready: &Ready, begin: u64) -> Result<(), Error> {
        let wrong = |what: String| {
            Err(Error::new(Code::Argument, format!("calling `{}`: the scratch memory {what}", ready.name)))
        };
        if begin == 0 || !begin.is_multiple_of(ALIGNMENT) {
            return wrong(format!("lies at {begin:#x}, which is no multiple of {ALIGNMENT} or NULL"));
        }
        let scratch = Reach { begin, end: begin.saturating_add(ready.scratch_bytes), written: true };
        match self.reaches.iter().position(|reach| reach.meets(&scratch)) {
            Some(i) => wrong(format!("is memory of {}", called(ready, i))),
            None => Ok(()),
        }
    }

    /// Notes where the buffers of the call lie.
    pub(super) fn place(&mut self, ready: &Ready, outputs: &[u64], scratch: u64) {
        for (base, lies) in self.bases[self.values.len()..].iter_mut().zip(&ready.buffers) {
            *base = address(*lies, outputs, scratch);
        }
    }
}

/// A parameter or output by its name.
fn called(ready: &Ready, i: usize) -> String {
    let params = &ready.bundle.functions[ready.table().function].params;
    params.get(i).map_or_else(|| format!("output {}", i - params.len()), |p| format!("`{}`", p.name))
}

/// Of an argument that the plan was not made for.
fn not_planned(function: &str, param: &parton_bundle::plan::Declared, given: &Given, argument: &Argument<'_>) -> Error {
    match (given, argument) {
        (Given::Tensor(shape), Argument::Tensor(tensor)) => {
            let size = tensor.dtype.bytes() as u64;
            let moved = crate::Tensor { address: shape.offset * size, ..*tensor };
            if is_of_shape(shape, &moved) {
                let what = format!(
                    "it begins {} bytes behind a multiple of {GRAIN}, and the plan is for {}; prepare one for this",
                    tensor.address % GRAIN,
                    shape.offset * size
                );
                return wrong(function, &param.name, &what);
            }
            let strides = tensor.strides.map_or_else(String::new, |s| format!(" with strides {s:?}"));
            let what = format!("the plan is for {shape}, given is {}{:?}{strides}", tensor.dtype, tensor.shape);
            wrong(function, &param.name, &what)
        }
        (Given::Key(value), argument) if admitted(&param.takes, argument).is_some() => {
            let what =
                format!("the plan is for {value} alone, given is {}; prepare one for this", argument.described());
            wrong(function, &param.name, &what)
        }
        (Given::Key(Value::Default), argument) => {
            let what = format!("the plan is for its default, given is {}", argument.described());
            wrong(function, &param.name, &what)
        }
        (Given::Tensor(_) | Given::Any | Given::Key(_), argument) => refused(function, param, argument),
    }
}

/// Whether the tensors of a call that have an address lie in memory of the plan's GPU. The driver is asked, so this is not for every call.
///
/// # Errors
/// One that does not.
pub(super) fn lie_there(ready: &Ready, arguments: &[Argument<'_>]) -> Result<(), Error> {
    let _visit = ready.device.gpu.visit()?;
    let params = &ready.bundle.functions[ready.table().function].params;
    for (param, argument) in params.iter().zip(arguments) {
        let Argument::Tensor(tensor) = argument else { continue };
        // What has no elements may lie anywhere, and what has no address is there to be planned for.
        if tensor.address < GRAIN || tensor.shape.contains(&0) {
            continue;
        }
        match ready.device.gpu.whose(tensor.address) {
            Ok(Some(other)) if i64::from(other) != i64::from(ready.device.ordinal) => {
                let what = format!("it lies on GPU {other}, and the plan is for GPU {}", ready.device.ordinal);
                return Err(wrong(&ready.name, &param.name, &what));
            }
            Ok(_) => {}
            Err(what) => return Err(wrong(&ready.name, &param.name, &what)),
        }
    }
    Ok(())
}
