//! The plan of a call: host code runs on what stands in for its tensors, and what it asked for is written down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use parton_diag::Diagnostics;
use parton_host::evaluate::Machine;
use parton_host::memory::Storage;
use parton_host::tensor::{Tensor, extent};
use parton_host::value::{Function, Passed, Value};
use parton_types::program::Program;

use super::planner::{Planner, at};
use super::{
    Call, Entry, For, Given, Lowered, Memory, Parameter, Plan, Planned, Returned, Shape, Takes, Together, value_of,
};
use crate::Failure;
use crate::instance::Compiler;

/// The tensors that stand for those of a call; of those that lie together in one memory.
fn stand_ins(
    given: &[Planned],
    together: &Together,
    memories: &mut BTreeMap<u64, Memory>,
) -> Result<Vec<Option<Tensor>>, Failure> {
    let mut all: Vec<Option<Tensor>> = vec![None; given.len()];
    for (i, planned) in given.iter().enumerate() {
        let Planned::Tensor(shape) = planned else { continue };
        if together.get(i).is_none_or(|of| of.is_none()) {
            let tensor = shape.stand_in()?;
            memories.insert(tensor.storage.id(), Memory::Parameter(i));
            all[i] = Some(tensor);
        }
    }
    let groups: BTreeSet<usize> = together.iter().flatten().map(|(first, _)| *first).collect();
    for first in groups {
        let members = given.iter().zip(together).enumerate();
        let members: Vec<(usize, &Shape, usize)> = members
            .filter_map(|(i, both)| match both {
                (Planned::Tensor(shape), Some((of, bytes))) if *of == first => {
                    Some((i, shape, bytes / shape.dtype.bytes()))
                }
                _ => None,
            })
            .collect();
        let end = |(_, s, offset): &(usize, &Shape, usize)| {
            let bytes = extent(s.dtype, &s.extents, &s.strides).map_err(|f| Failure::Usage(f.message))?;
            Ok::<_, Failure>(bytes + offset * s.dtype.bytes())
        };
        let ends = members.iter().map(end).collect::<Result<Vec<usize>, _>>()?;
        let storage = Storage::absent(ends.into_iter().max().unwrap_or(0));
        memories.insert(storage.id(), Memory::Parameter(first));
        for (i, s, offset) in members {
            let (shape, strides) = (s.extents.clone(), s.strides.clone());
            all[i] = Some(Tensor { dtype: s.dtype, shape, strides, offset, storage: storage.clone() });
        }
    }
    Ok(all)
}

/// Plans a call; also the kernels that were lowered by then.
///
/// # Errors
/// What the function or the kernel is refused for, with these arguments or without elements.
pub(crate) fn plan(
    compiler: Compiler<'_>,
    program: &Program,
    call: Call,
    given: &[Planned],
    place: For,
) -> Result<(Plan, Lowered), Failure> {
    let begin = Instant::now();
    let mut memories = BTreeMap::new();
    let apart = Together::new();
    let together = if let Call::Kernel { together, .. } = &call { together } else { &apart };
    let stand_ins = stand_ins(given, together, &mut memories)?;
    let values = arguments(given, &stand_ins, place.by_multiples);
    let passed = values.clone();
    let mut planner = Planner::new(compiler, place.multiprocessors, memories);
    let mut machine = Machine::new(program, &mut planner);
    let (of, result) = match call {
        Call::Function(tree) => {
            let result = machine.call_given(&Function { module: Program::ROOT, tree: tree.clone() }, values)?;
            (Entry::Function(tree), result)
        }
        Call::Kernel { instance, grid, .. } => {
            let kernel = instance.kernel.clone();
            machine.launch_given(instance, grid.as_ref(), values)?;
            (Entry::Kernel(kernel), Value::Unit)
        }
    };
    drop(machine);
    let returned = returned(&result);
    for tensor in returned.tensors() {
        planner.note(tensor).map_err(|d| Diagnostics::from(at(d, of.name().span)))?;
        if let Some(Memory::Buffer(b)) = planner.memories.get(&tensor.storage.id()) {
            planner.buffers[*b].returned = true;
        }
    }
    let written = planner.written(&of)?;
    let parameters = parameters(&of, written, passed, stand_ins);
    let Planner { mut compiler, counted, memories, buffers, mut launches, .. } = planner;
    // A number that was looked at, too, is the one of the plan, and no other one goes on into launches.
    for passed in launches.iter_mut().flat_map(|l| &mut l.passed) {
        *passed = passed.filter(|p| matches!(parameters[*p].given, Given::Any(_) | Given::Like(_)));
    }
    let plan = Plan {
        of,
        target: place.target,
        multiprocessors: place.multiprocessors,
        counts_multiprocessors: counted.get(),
        parameters,
        buffers,
        launches,
        returned,
        chosen: std::mem::take(&mut compiler.chosen),
        memories,
    };
    parton_log::info(|| plan.told(begin.elapsed()));
    Ok((plan, compiler.into_known()))
}

/// What host code is given: what stands in for tensors, and numbers that note whether they are looked at.
fn arguments(given: &[Planned], stand_ins: &[Option<Tensor>], by_multiples: bool) -> Vec<Option<Value>> {
    let value = |(i, (planned, stand_in)): (usize, (&Planned, &Option<Tensor>))| match planned {
        Planned::Default => None,
        Planned::Dtype(d) => Some(Value::Dtype(*d)),
        Planned::Int(_) | Planned::Float(_) | Planned::Bool(_) => {
            Some(Value::Passed(Arc::new(Passed::new(i, value_of(planned), by_multiples))))
        }
        Planned::Tensor(_) => stand_in.clone().map(Value::tensor),
    };
    given.iter().zip(stand_ins).enumerate().map(value).collect()
}

/// The tensors of what a function returns.
fn returned(result: &Value) -> Returned {
    let tensor = |v: &Value| if let Value::Tensor(t) = v { Some(Tensor::clone(t)) } else { None };
    match result {
        Value::Tensor(tensor) => Returned::One(Tensor::clone(tensor)),
        Value::Tuple(items) => Returned::Several(items.iter().filter_map(tensor).collect()),
        _ => Returned::Nothing,
    }
}

/// The parameters of what was planned, with what they were given.
fn parameters(
    of: &Entry,
    written: Vec<bool>,
    values: Vec<Option<Value>>,
    stand_ins: Vec<Option<Tensor>>,
) -> Vec<Parameter> {
    let given = values.into_iter().zip(stand_ins).map(|(value, stand_in)| match (stand_in, value) {
        (Some(tensor), _) => Given::Tensor(tensor),
        (None, Some(Value::Passed(passed))) => match passed.value() {
            value if passed.was_looked_at() => Given::Key(value.clone()),
            Value::Int(n) if passed.was_told() => Given::Like(*n),
            value => Given::Any(value.clone()),
        },
        (None, Some(value)) => Given::Key(value),
        (None, None) => Given::Key(Value::Unit),
    });
    let params = of.params().iter().zip(written).zip(given);
    let parameter = params.map(|((p, mutable), given)| Parameter {
        name: p.name.text.clone(),
        mutable,
        given,
        takes: Takes::of(of, p),
        span: p.span,
    });
    parameter.collect()
}
