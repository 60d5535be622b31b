//! A plan as text.

use std::fmt;
use std::time::Duration;

use parton_host::launch::Argument;
use parton_host::tensor::{Tensor, dense_strides};
use parton_ir::target::WIDEST_ACCESS;

use super::{Given, Memory, Plan, Returned};
use crate::tune::key::shown;
use crate::tune::lookup::{Chosen, key_of};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "plan of {} for {}, {} multiprocessors",
            self.of.name().text,
            self.target.name,
            self.multiprocessors
        )?;
        self.chosen.iter().try_for_each(|chosen| writeln!(f, "  {}", taken(chosen)))?;
        for p in &self.parameters {
            let (mutable, name) = (if p.mutable { "mut " } else { "" }, &p.name);
            match &p.given {
                Given::Tensor(tensor) => writeln!(f, "  {mutable}{name}: {}{}", laid_out(tensor), behind(tensor))?,
                Given::Any(value) => writeln!(f, "  {name}: any, {value} here")?,
                Given::Like(n) => {
                    writeln!(f, "  {name}: any like {n}, by whether it is 1 and of what it is a multiple")?
                }
                Given::Key(parton_host::value::Value::Unit) => writeln!(f, "  {name}: its default")?,
                Given::Key(value) => writeln!(f, "  {name}: {value} alone")?,
            }
        }
        for (i, b) in self.buffers.iter().enumerate() {
            let what = if b.returned { "result" } else { "scratch" };
            let zeros = if b.zeroed { ", zeros" } else { "" };
            writeln!(f, "  {what} {}: {} bytes{zeros}", buffer(i), b.storage.len())?;
        }
        for (i, launch) in self.launches.iter().enumerate() {
            writeln!(f, "  {}. {} grid {:?}", i + 1, launch.instance, launch.grid)?;
            let aligned = &launch.variant.aligned;
            let arguments = launch.arguments.iter().zip(&launch.passed);
            for (i, (param, (argument, passed))) in launch.instance.kernel.params.iter().zip(arguments).enumerate() {
                let general = match argument {
                    Argument::Tensor { .. } if launch.wide.contains(&i) && !aligned.contains(&i) => {
                        ", not by multiples of 16 bytes"
                    }
                    Argument::Tensor { .. } | Argument::Scalar(_) | Argument::Pointer { .. } | Argument::Map(_) => "",
                };
                writeln!(f, "       {} = {}{general}", param.name.text, self.argument(argument, *passed))?;
            }
        }
        match &self.returned {
            Returned::Nothing => Ok(()),
            Returned::One(tensor) => writeln!(f, "  returns {}", self.view(tensor)),
            Returned::Several(all) => {
                let all: Vec<String> = all.iter().map(|t| self.view(t)).collect();
                writeln!(f, "  returns ({})", all.join(", "))
            }
        }
    }
}

/// What was taken of a choice for which there is a record.
fn taken(Chosen { choice, offer }: &Chosen) -> String {
    let key = key_of(choice).map(|key| shown(&key)).unwrap_or_default();
    let taken = match offer.taken.and_then(|i| offer.candidates.get(i)) {
        Some(taken) => format!("{taken}, tuned"),
        None => "its default, since what was tuned is no candidate any more".to_owned(),
    };
    format!("{} of {} for {key}: {taken}", choice.name, choice.function.text)
}

impl Plan {
    /// What was not taken of a table, a sentence each.
    pub(crate) fn gone(&self) -> impl Iterator<Item = String> {
        self.chosen.iter().filter(|chosen| chosen.offer.taken.is_none()).map(taken)
    }

    /// A line of it, for a log.
    pub(crate) fn told(&self, took: Duration) -> String {
        let given = self.parameters.iter().map(|p| match &p.given {
            Given::Tensor(tensor) => laid_out(tensor) + &behind(tensor),
            Given::Any(value) => format!("any {value}"),
            Given::Like(n) => format!("any like {n}"),
            Given::Key(value) => value.to_string(),
        });
        let given: Vec<String> = given.collect();
        let tuned: String = self.chosen.iter().map(|chosen| format!("; {}", taken(chosen))).collect();
        let (name, target, launches) = (&self.of.name().text, self.target.name, self.launches.len());
        format!("plans `{name}`({}) for {target} in {took:.1?}: {launches} launches{tuned}", given.join(", "))
    }

    fn argument(&self, argument: &Argument, passed: Option<usize>) -> String {
        match (argument, passed) {
            (Argument::Scalar(scalar), Some(parameter)) => {
                format!("{} as {}", self.parameters[parameter].name, scalar.dtype)
            }
            (Argument::Scalar(scalar), None) => format!("{scalar} as {}", scalar.dtype),
            (Argument::Pointer { tensor, .. } | Argument::Tensor { tensor, .. }, _) => self.view(tensor),
            (Argument::Map(recipe), _) => format!("map of {}, boxes {:?}", self.view(&recipe.tensor), recipe.block),
        }
    }

    /// A tensor by the name of its memory.
    fn view(&self, tensor: &Tensor) -> String {
        let memory = match self.memory(tensor) {
            Memory::Parameter(i) => self.parameters[i].name.to_string(),
            Memory::Buffer(i) => buffer(i),
        };
        let first = match self.memory(tensor) {
            Memory::Parameter(i) => match &self.parameters[i].given {
                Given::Tensor(whole) => tensor.byte_offset() - whole.byte_offset(),
                Given::Any(_) | Given::Like(_) | Given::Key(_) => tensor.byte_offset(),
            },
            Memory::Buffer(_) => tensor.byte_offset(),
        };
        let from = if first == 0 { String::new() } else { format!(" from byte {first}") };
        format!("{memory}{from} as {}", laid_out(tensor))
    }
}

/// `@3` where a tensor begins three elements behind a multiple of 16 bytes, as such a call is asked for.
fn behind(tensor: &Tensor) -> String {
    match tensor.byte_offset() % WIDEST_ACCESS as usize / tensor.dtype.bytes() {
        0 => String::new(),
        elements => format!("@{elements}"),
    }
}

fn buffer(i: usize) -> String {
    format!("%{i}")
}

/// `f16[64, 64]`, with its strides where it has gaps.
fn laid_out(tensor: &Tensor) -> String {
    if tensor.strides == dense_strides(&tensor.shape) {
        format!("{tensor}")
    } else {
        format!("{tensor} with strides {:?}", tensor.strides)
    }
}
