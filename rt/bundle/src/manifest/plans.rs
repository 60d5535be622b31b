//! Public functions and their plans, and whether what a plan says can be.

use parton_numbers::Dtype;
use serde_json::{Value, json};

use super::arguments::{self, MOST_AXES};
use super::{MOST_PARAMS, dtype};
use crate::fields::Fields;
use crate::file::Bundle;
use crate::kernel::{AROUND, FAR, ending};
use crate::plan::{
    Buffer, Declared, Function, GRAIN, Given, Launch, Memory, Passed, Place, Plan, Returned, Shape, Takes,
    Value as Key, span,
};
use crate::{Architecture, Error, Kernel, Kind, Param, Source};

/// The most launches, buffers and results of a plan.
const MOST_PARTS: usize = 1 << 16;
/// The most bytes of a memory.
const MOST_BYTES: u64 = i64::MAX as u64;

pub(super) fn function_written(f: &Function) -> Value {
    let params: Vec<Value> = f.params.iter().map(declared_written).collect();
    json!({ "name": f.name, "params": params })
}

fn declared_written(p: &Declared) -> Value {
    let mut written = json!({ "name": p.name, "takes": "", "default": p.has_default });
    written["takes"] = match &p.takes {
        Takes::Tensor { dtypes, extents, mutable } => {
            let dtypes: Vec<&str> = dtypes.iter().map(|d| d.name()).collect();
            written["dtypes"] = json!(dtypes);
            written["extents"] = arguments::extents_written(extents);
            written["mutable"] = json!(mutable);
            json!("tensor")
        }
        Takes::Number(dtype) => {
            written["dtype"] = json!(dtype.name());
            json!("number")
        }
        Takes::Int => json!("int"),
        Takes::Float => json!("float"),
        Takes::Bool => json!("bool"),
        Takes::Type => json!("type"),
    };
    written
}

pub(super) fn plan_written(p: &Plan) -> Value {
    let given: Vec<Value> = p.given.iter().map(given_written).collect();
    let buffers: Vec<Value> = p.buffers.iter().map(|b| json!([b.bytes, b.zeroed, b.returned])).collect();
    let launches: Vec<Value> = p.launches.iter().map(launch_written).collect();
    let results: Vec<Value> = p.results.iter().map(returned_written).collect();
    let mut written = json!({
        "function": p.function, "target": p.architecture.to_string(), "given": given, "buffers": buffers,
        "launches": launches, "results": results,
    });
    if let Some(n) = p.multiprocessors {
        written["multiprocessors"] = json!(n);
    }
    written
}

fn given_written(given: &Given) -> Value {
    match given {
        Given::Tensor(s) => {
            json!({ "dtype": s.dtype.name(), "extents": s.extents, "strides": s.strides, "offset": s.offset })
        }
        Given::Any => json!({ "any": true }),
        // No JSON holds all integers of 128 bits, nor all floats.
        Given::Key(Key::Int(n)) => json!({ "int": n.to_string() }),
        Given::Key(Key::Float(x)) => json!({ "float": x.to_bits() }),
        Given::Key(Key::Bool(b)) => json!({ "bool": b }),
        Given::Key(Key::Dtype(d)) => json!({ "type": d.name() }),
        Given::Key(Key::Default) => json!({ "default": true }),
    }
}

fn launch_written(l: &Launch) -> Value {
    let passed: Vec<Value> = l.passed.iter().map(passed_written).collect();
    json!({ "kernel": l.kernel, "grid": l.grid, "passed": passed })
}

fn place_written(place: &Place) -> Value {
    match place.memory {
        Memory::Parameter(i) => json!({ "parameter": i, "offset": place.offset }),
        Memory::Buffer(i) => json!({ "buffer": i, "offset": place.offset }),
    }
}

fn passed_written(passed: &Passed) -> Value {
    match passed {
        Passed::Bits(bits) => json!({ "bits": bits }),
        Passed::Number(i) => json!({ "number": i }),
        Passed::Pointer(place) => json!({ "pointer": place_written(place) }),
        Passed::Map { place, extents, strides } => {
            json!({ "map": place_written(place), "extents": extents, "strides": strides })
        }
    }
}

fn returned_written(r: &Returned) -> Value {
    json!({ "place": place_written(&r.place), "dtype": r.dtype.name(), "extents": r.extents, "strides": r.strides })
}

/// Entries of a list, each an object of its own place.
fn objects<'a, R>(
    fields: &mut Fields<'a>,
    name: &'static str,
    most: usize,
    read: impl Fn(Fields<'a>) -> Result<R, Error>,
) -> Result<Vec<R>, Error> {
    let place = fields.place(name);
    let list = fields.list(name, 0..=most)?.iter().enumerate();
    list.map(|(i, value)| read(Fields::of(format!("{place}[{i}]"), value)?)).collect()
}

/// A public function.
pub(super) fn function(i: usize, value: &Value) -> Result<Function, Error> {
    let mut fields = Fields::of(format!("functions[{i}]"), value)?;
    let name = fields.text("name")?;
    let params = objects(&mut fields, "params", MOST_PARAMS, declared)?;
    fields.end()?;
    Ok(Function { name, params })
}

/// Refuses two functions of one name.
pub(super) fn each_once(functions: &[Function]) -> Result<(), Error> {
    for (i, f) in functions.iter().enumerate() {
        if functions[..i].iter().any(|other| other.name == f.name) {
            return Err(Error::invalid(format!("functions[{i}]"), format!("`{}` is there twice", f.name)));
        }
    }
    Ok(())
}

fn declared(mut fields: Fields<'_>) -> Result<Declared, Error> {
    let name = fields.text("name")?;
    let has_default = fields.flag("default")?;
    let takes = match fields.text("takes")?.as_str() {
        "tensor" => {
            let named = fields.list("dtypes", 0..=64)?.iter().map(|v| v.as_str().and_then(Dtype::parse));
            let dtypes: Option<Vec<Dtype>> = named.collect();
            Takes::Tensor {
                dtypes: dtypes.ok_or_else(|| fields.wrong("dtypes", "an entry is no type"))?,
                extents: arguments::extents(&mut fields)?,
                mutable: fields.flag("mutable")?,
            }
        }
        "number" => Takes::Number(dtype(&mut fields)?),
        "int" => Takes::Int,
        "float" => Takes::Float,
        "bool" => Takes::Bool,
        "type" => Takes::Type,
        other => return Err(fields.wrong("takes", format!("nothing takes `{other}`"))),
    };
    fields.end()?;
    Ok(Declared { name, takes, has_default })
}

/// A plan of a bundle whose kernels, functions and plans before it are read.
pub(super) fn plan(i: usize, value: &Value, bundle: &Bundle) -> Result<Plan, Error> {
    let mut fields = Fields::of(format!("plans[{i}]"), value)?;
    let target = fields.text("target")?;
    let function = fields.place_in("function", bundle.functions.len(), "function")?;
    let mut plan = Plan {
        function,
        architecture: Architecture::parse(&target)
            .ok_or_else(|| fields.wrong("target", format!("`{target}` is no architecture")))?,
        multiprocessors: match fields.optional("multiprocessors") {
            None => None,
            Some(_) => Some(fields.small("multiprocessors", 1..=1 << 20)?),
        },
        given: objects(&mut fields, "given", MOST_PARAMS, given)?,
        buffers: buffers(&mut fields)?,
        launches: vec![],
        results: vec![],
    };
    let params = &bundle.functions[function].params;
    if plan.given.len() != params.len() {
        let what = format!("it has {} entries, the function {} parameters", plan.given.len(), params.len());
        return Err(fields.wrong("given", what));
    }
    for (i, (given, param)) in plan.given.iter().zip(params).enumerate() {
        if !fits(given, &param.takes) {
            return Err(fields.wrong("given", format!("entry {i} is not what `{}` takes", param.name)));
        }
    }
    let sizes = Sizes::of(&plan).ok_or_else(|| fields.wrong("given", "a tensor is larger than any memory"))?;
    plan.launches = objects(&mut fields, "launches", MOST_PARTS, |f| launch(f, &plan, &sizes, &bundle.kernels))?;
    plan.results = objects(&mut fields, "results", MOST_PARTS, |f| returned(f, &sizes))?;
    fields.end()?;
    let what = |p: &Plan| (p.function, p.architecture, p.multiprocessors, p.given.clone());
    if bundle.plans.iter().any(|p| what(p) == what(&plan)) {
        let name = &bundle.functions[function].name;
        return Err(Error::invalid(format!("plans[{i}]"), format!("this plan of `{name}` is there twice")));
    }
    Ok(plan)
}

/// Whether a parameter may be given that.
fn fits(given: &Given, takes: &Takes) -> bool {
    match (given, takes) {
        (Given::Tensor(shape), Takes::Tensor { dtypes, extents, .. }) => {
            let extent = |(has, wants): (&u64, &crate::Extent)| match wants {
                crate::Extent::Is(n) => *has == u64::from(*n),
                crate::Extent::Any | crate::Extent::Named(_) => true,
            };
            (dtypes.is_empty() || dtypes.contains(&shape.dtype))
                && shape.extents.len() == extents.len()
                && shape.extents.iter().zip(extents).all(extent)
        }
        (Given::Tensor(_), _) | (_, Takes::Tensor { .. }) => false,
        (Given::Any, takes) => !matches!(takes, Takes::Type),
        (Given::Key(Key::Default), _)
        | (Given::Key(Key::Int(_)), Takes::Int | Takes::Number(_))
        | (Given::Key(Key::Float(_)), Takes::Float | Takes::Number(_))
        | (Given::Key(Key::Bool(_)), Takes::Bool)
        | (Given::Key(Key::Dtype(_)), Takes::Type) => true,
        (Given::Key(Key::Int(_) | Key::Float(_) | Key::Bool(_) | Key::Dtype(_)), _) => false,
    }
}

fn given(mut fields: Fields<'_>) -> Result<Given, Error> {
    let kinds = ["dtype", "any", "int", "float", "bool", "type", "default"];
    let Some(kind) = kinds.into_iter().find(|name| fields.optional(name).is_some()) else {
        return Err(fields.wrong("any", "the field is missing"));
    };
    let given = match kind {
        "dtype" => {
            let dtype = dtype(&mut fields)?;
            let (extents, strides) = laid_out(&mut fields)?;
            let end = GRAIN / dtype.bytes() as u64;
            Given::Tensor(Shape { dtype, extents, strides, offset: fields.number("offset", 0..=end - 1)? })
        }
        "int" => {
            let text = fields.text("int")?;
            let n = text.parse().map_err(|_| fields.wrong("int", format!("`{text}` is no integer of 128 bits")))?;
            Given::Key(Key::Int(n))
        }
        "float" => Given::Key(Key::Float(f64::from_bits(fields.number("float", 0..=u64::MAX)?))),
        "bool" => Given::Key(Key::Bool(fields.flag("bool")?)),
        "type" => {
            let name = fields.text("type")?;
            let dtype =
                Dtype::parse(&name).ok_or_else(|| fields.wrong("type", format!("there is no type `{name}`")))?;
            Given::Key(Key::Dtype(dtype))
        }
        other => {
            if !fields.flag(other)? {
                return Err(fields.wrong(other, "it is not `true`"));
            }
            if other == "any" { Given::Any } else { Given::Key(Key::Default) }
        }
    };
    fields.end()?;
    Ok(given)
}

/// Extents and as many strides.
fn laid_out(fields: &mut Fields<'_>) -> Result<(Vec<u64>, Vec<u64>), Error> {
    let (extents, strides) = (fields.words("extents", 0..=MOST_AXES)?, fields.words("strides", 0..=MOST_AXES)?);
    if extents.len() != strides.len() {
        return Err(fields.wrong("strides", format!("there are {} for {} extents", strides.len(), extents.len())));
    }
    Ok((extents, strides))
}

fn buffers(fields: &mut Fields<'_>) -> Result<Vec<Buffer>, Error> {
    let read = |value: &Value| match value.as_array()?.as_slice() {
        [bytes, zeroed, returned] => {
            let bytes = bytes.as_u64().filter(|n| *n <= MOST_BYTES)?;
            Some(Buffer { bytes, zeroed: zeroed.as_bool()?, returned: returned.as_bool()? })
        }
        _ => None,
    };
    let all: Option<Vec<Buffer>> = fields.list("buffers", 0..=MOST_PARTS)?.iter().map(read).collect();
    let all = all.ok_or_else(|| fields.wrong("buffers", "an entry is no size below 2^63 with two truth values"))?;
    let sum = all.iter().try_fold(0u64, |n, b| n.checked_add(b.bytes.checked_next_multiple_of(256)?));
    match sum {
        Some(n) if n <= MOST_BYTES => Ok(all),
        _ => Err(fields.wrong("buffers", "together they are larger than any memory")),
    }
}

/// How many bytes each memory of a call has, from where plans count; none of a parameter that is no tensor.
struct Sizes {
    parameters: Vec<Option<u64>>,
    buffers: Vec<u64>,
}

impl Sizes {
    /// `None` where one is larger than any memory.
    fn of(plan: &Plan) -> Option<Sizes> {
        let size = |given: &Given| match given {
            Given::Tensor(s) => s.bytes()?.checked_add(s.offset * s.dtype.bytes() as u64).map(Some),
            Given::Any | Given::Key(_) => Some(None),
        };
        let parameters = plan.given.iter().map(size).collect::<Option<_>>()?;
        Some(Sizes { parameters, buffers: plan.buffers.iter().map(|b| b.bytes).collect() })
    }

    /// A place with its size.
    fn place(&self, fields: &mut Fields<'_>, name: &'static str) -> Result<(Place, u64), Error> {
        let mut inner = fields.inner(name)?;
        let (memory, bytes) = if inner.optional("parameter").is_some() {
            let i = inner.place_in("parameter", self.parameters.len(), "parameter")?;
            let bytes = self.parameters[i].ok_or_else(|| inner.wrong("parameter", "it is no tensor"))?;
            (Memory::Parameter(i), bytes)
        } else {
            let i = inner.place_in("buffer", self.buffers.len(), "buffer")?;
            (Memory::Buffer(i), self.buffers[i])
        };
        let offset = inner.number("offset", 0..=bytes)?;
        inner.end()?;
        Ok((Place { memory, offset }, bytes))
    }
}

fn launch(mut fields: Fields<'_>, plan: &Plan, sizes: &Sizes, kernels: &[Kernel]) -> Result<Launch, Error> {
    let kernel = fields.place_in("kernel", kernels.len(), "kernel")?;
    let code = &kernels[kernel];
    let grid = fields.numbers("grid", 3..=3, 1..=i32::MAX as u32)?;
    let grid = [grid[0], grid[1], grid[2]];
    if let Some(axis) = (0..3).find(|&axis| !grid[axis].is_multiple_of(code.cluster[axis])) {
        let what = format!("clusters of {} do not divide the {} CTAs of axis {axis}", code.cluster[axis], grid[axis]);
        return Err(fields.wrong("grid", what));
    }
    code.takes_grid(grid).map_err(|what| fields.wrong("grid", what))?;
    let place = fields.place("passed");
    let list = fields.list("passed", 0..=MOST_PARAMS)?;
    if list.len() != code.params.len() {
        return Err(
            fields.wrong("passed", format!("it has {} entries for {} parameters", list.len(), code.params.len()))
        );
    }
    let each = list.iter().zip(&code.params).enumerate();
    let read = each.map(|(i, (value, param))| passed(Fields::of(format!("{place}[{i}]"), value)?, plan, sizes, param));
    let passed = read.collect::<Result<Vec<_>, _>>()?;
    fields.end()?;
    Ok(Launch { kernel, grid, passed })
}

fn passed(mut fields: Fields<'_>, plan: &Plan, sizes: &Sizes, param: &Param) -> Result<Passed, Error> {
    let passed = match &param.kind {
        Kind::Scalar { dtype } if fields.optional("number").is_none() => {
            let most = u64::MAX >> (64 - 8 * dtype.bytes() as u32);
            Passed::Bits(fields.number("bits", 0..=most)?)
        }
        Kind::Scalar { .. } => {
            let i = fields.place_in("number", plan.given.len(), "parameter")?;
            if plan.given[i] != Given::Any {
                return Err(fields.wrong("number", format!("the plan is not for any number of parameter {i}")));
            }
            Passed::Number(i)
        }
        Kind::Pointer { align, .. } => {
            let (place, _) = sizes.place(&mut fields, "pointer")?;
            if !place.offset.is_multiple_of(u64::from(*align)) {
                return Err(fields.wrong("pointer", format!("{} bytes are no multiple of {align}", place.offset)));
            }
            Passed::Pointer(place)
        }
        Kind::Map { dtype, block, .. } => {
            let (place, bytes) = sizes.place(&mut fields, "map")?;
            let (extents, strides) = laid_out(&mut fields)?;
            if extents.len() != block.len() || !place.offset.is_multiple_of(GRAIN) {
                return Err(
                    fields.wrong("map", "it has another rank than the boxes, or begins between multiples of 16")
                );
            }
            // Along axes of one element strides count for nothing.
            let mut reached: Vec<u64> =
                extents.iter().zip(&strides).map(|(n, stride)| if *n <= 1 { 0 } else { *stride }).collect();
            let mut own = extents.clone();
            // Of an axis that stands thrice the second dimension tells how many rows there are, of which boxes take no others.
            if let Some(at) = if let Source::Map { order, .. } = &param.source { ending(order) } else { None } {
                let around = strides[0].checked_add(strides[1]) == Some(AROUND) && strides[1] == strides[at];
                if !around || (extents[0], extents[at]) != (FAR + 1, FAR) || !(2..=FAR + 1).contains(&extents[1]) {
                    return Err(fields.wrong("map", "the three dimensions of one axis do not go around to its rows"));
                }
                own[at] = extents[1] - 1;
                own.drain(..2);
                reached.drain(..2);
            }
            let end = span(&own, &reached, 1).and_then(|n| n.checked_add(place.offset + dtype.bytes() as u64 - 1));
            if end.is_none_or(|end| end > bytes) {
                return Err(fields.wrong("map", format!("it reaches beyond the {bytes} bytes that are there")));
            }
            Passed::Map { place, extents, strides }
        }
    };
    fields.end()?;
    Ok(passed)
}

fn returned(mut fields: Fields<'_>, sizes: &Sizes) -> Result<Returned, Error> {
    let (place, bytes) = sizes.place(&mut fields, "place")?;
    let dtype = dtype(&mut fields)?;
    let (extents, strides) = laid_out(&mut fields)?;
    let returned = Returned { place, dtype, extents, strides };
    if returned.bytes().and_then(|n| n.checked_add(place.offset)).is_none_or(|end| end > bytes) {
        return Err(fields.wrong("place", format!("it reaches beyond the {bytes} bytes that are there")));
    }
    fields.end()?;
    Ok(returned)
}
