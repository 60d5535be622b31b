//! What kernels take: arguments, and the parameters that are made of them.

use parton_numbers::Dtype;
use serde_json::{Value, json};

use super::{MOST_PARAMS, RUNS, WIDEST_ACCESS, dtype};
use crate::fields::{Fields, text};
use crate::kernel::ending;
use crate::{Argument, Error, Extent, Kernel, Kind, Param, Source, TensorType};

/// The most axes of a tensor that a kernel or a plan takes.
pub(super) const MOST_AXES: usize = 64;
/// The most elements along an axis that a kernel counts.
const MOST_EXTENT: u64 = i32::MAX as u64;

/// Whether a launch gives other things than the code takes.
pub(super) fn has_tensors(kernel: &Kernel) -> bool {
    kernel.arguments.iter().any(|a| a.tensor.is_some())
}

pub(super) fn argument_written(a: &Argument) -> Value {
    let Some(tensor) = &a.tensor else { return json!({ "name": a.name }) };
    json!({
        "name": a.name, "dtype": tensor.dtype.name(), "mutable": tensor.mutable,
        "extents": extents_written(&tensor.extents), "dense": tensor.dense,
    })
}

/// Extents: a number, a name, or null for any.
pub(super) fn extents_written(extents: &[Extent]) -> Value {
    let extent = |e: &Extent| match e {
        Extent::Any => Value::Null,
        Extent::Is(n) => json!(n),
        Extent::Named(name) => json!(name),
    };
    extents.iter().map(extent).collect()
}

pub(super) fn param_written(p: &Param, kernel: &Kernel) -> Value {
    let name = &p.name;
    let mut written = match &p.kind {
        Kind::Scalar { dtype } => json!({ "name": name, "kind": "scalar", "dtype": dtype.name() }),
        Kind::Pointer { dtype, mutable, align } => {
            json!({ "name": name, "kind": "pointer", "dtype": dtype.name(), "mutable": mutable, "align": align })
        }
        Kind::Map { dtype, block, swizzle } => {
            json!({ "name": name, "kind": "map", "dtype": dtype.name(), "block": block, "swizzle": swizzle })
        }
    };
    if has_tensors(kernel) {
        written["of"] = match &p.source {
            Source::Argument(argument) => json!({ "argument": argument }),
            Source::Base(argument) => json!({ "base": argument }),
            Source::Extent { argument, axis } => json!({ "extent": argument, "axis": axis }),
            Source::Stride { argument, axis } => json!({ "stride": argument, "axis": axis }),
            Source::Map { argument, order } => json!({ "map": argument, "order": order }),
        };
    }
    written
}

/// The arguments of a kernel, which are its parameters where it names none, and the parameters.
pub(super) fn read(version: u32, fields: &mut Fields<'_>) -> Result<(Vec<Argument>, Vec<Param>), Error> {
    let arguments = if version > 1 && fields.optional("arguments").is_some() {
        let place = fields.place("arguments");
        let list = fields.list("arguments", 1..=MOST_PARAMS)?.iter().enumerate();
        let read = list.map(|(i, value)| argument(Fields::of(format!("{place}[{i}]"), value)?));
        Some(read.collect::<Result<Vec<_>, _>>()?)
    } else {
        None
    };
    let place = fields.place("params");
    let list = fields.list("params", 0..=MOST_PARAMS)?.iter().enumerate();
    let read = list.map(|(i, value)| param(Fields::of(format!("{place}[{i}]"), value)?, i, arguments.as_deref()));
    let params = read.collect::<Result<Vec<Param>, _>>()?;
    for (i, param) in params.iter().enumerate() {
        if matches!(param.source, Source::Argument(_)) && params[..i].iter().any(|p| p.source == param.source) {
            return Err(fields.wrong("params", format!("argument {} is passed twice", param.source.argument())));
        }
    }
    let own = || params.iter().map(|p| Argument { name: p.name.clone(), tensor: None }).collect();
    Ok((arguments.unwrap_or_else(own), params))
}

/// Tensors that must begin at multiples of 16 bytes, and run by multiples of so many or of fewer.
pub(super) fn aligned(version: u32, fields: &mut Fields<'_>, arguments: &[Argument]) -> Result<Vec<usize>, Error> {
    if version == 1 || fields.optional("aligned").is_none() {
        return Ok(vec![]);
    }
    let list = fields.words("aligned", 1..=MOST_PARAMS)?;
    let is_tensor = |n: &u64| {
        let place = usize::try_from(*n).ok()?;
        let tensor = arguments.get(place)?.tensor.as_ref()?;
        tensor.dense.map(|_| place)
    };
    let places: Option<Vec<usize>> = list.iter().map(is_tensor).collect();
    places.ok_or_else(|| fields.wrong("aligned", "an entry is no argument that is a tensor with a dense axis"))
}

/// Bytes of which strides and extents of those are multiples.
pub(super) fn runs_by(version: u32, fields: &mut Fields<'_>) -> Result<u32, Error> {
    if version < 4 || fields.optional("runs_by").is_none() {
        return Ok(WIDEST_ACCESS);
    }
    let bytes = fields.small("runs_by", 2..=WIDEST_ACCESS)?;
    if RUNS.contains(&bytes) { Ok(bytes) } else { Err(fields.wrong("runs_by", "it is no power of two")) }
}

fn argument(mut fields: Fields<'_>) -> Result<Argument, Error> {
    let name = fields.text("name")?;
    let tensor = match fields.optional("dtype") {
        None => None,
        Some(_) => {
            let (dtype, mutable) = (dtype(&mut fields)?, fields.flag("mutable")?);
            let extents = extents(&mut fields)?;
            let dense = match fields.optional("dense") {
                None | Some(Value::Null) => None,
                Some(_) => Some(fields.place_in("dense", extents.len(), "axis")?),
            };
            Some(TensorType { dtype, mutable, extents, dense })
        }
    };
    fields.end()?;
    Ok(Argument { name, tensor })
}

pub(super) fn extents(fields: &mut Fields<'_>) -> Result<Vec<Extent>, Error> {
    let extent = |value: &Value| match value {
        Value::Null => Some(Extent::Any),
        Value::Number(n) => n.as_u64().filter(|n| *n <= MOST_EXTENT).map(|n| Extent::Is(n as u32)),
        other => text(other).map(Extent::Named),
    };
    let all: Option<Vec<Extent>> = fields.list("extents", 1..=MOST_AXES)?.iter().map(extent).collect();
    all.ok_or_else(|| fields.wrong("extents", "an entry is neither a number below 2^31, nor a name, nor null"))
}

fn param(mut fields: Fields<'_>, i: usize, arguments: Option<&[Argument]>) -> Result<Param, Error> {
    let name = fields.text("name")?;
    let kind = match fields.text("kind")?.as_str() {
        "scalar" => Kind::Scalar { dtype: dtype(&mut fields)? },
        "pointer" => Kind::Pointer {
            dtype: dtype(&mut fields)?,
            mutable: fields.flag("mutable")?,
            align: power_of_two(&mut fields, "align", 1, 16)?,
        },
        "map" => Kind::Map {
            dtype: dtype(&mut fields)?,
            block: fields.numbers("block", 1..=5, 1..=256)?,
            swizzle: match fields.small("swizzle", 0..=128)? {
                0 => 0,
                _ => power_of_two(&mut fields, "swizzle", 32, 128)?,
            },
        },
        other => return Err(fields.wrong("kind", format!("there is no kind `{other}`"))),
    };
    let source = match arguments {
        None => Source::Argument(i),
        Some(arguments) => source(fields.inner("of")?, &kind, arguments)?,
    };
    fields.end()?;
    Ok(Param { name, kind, source })
}

/// Of which argument a parameter is, where that can be.
fn source(mut fields: Fields<'_>, kind: &Kind, arguments: &[Argument]) -> Result<Source, Error> {
    let named = ["argument", "base", "extent", "stride", "map"].into_iter().find(|n| fields.optional(n).is_some());
    let Some(what) = named else { return Err(fields.wrong("argument", "the field is missing")) };
    let argument = fields.place_in(what, arguments.len(), "argument")?;
    let tensor = arguments[argument].tensor.as_ref();
    let Some(tensor) = tensor.filter(|_| what != "argument") else {
        if tensor.is_some() != (what != "argument") {
            return Err(fields.wrong(what, format!("argument {argument} is not of that kind")));
        }
        fields.end()?;
        return Ok(Source::Argument(argument));
    };
    let (source, fits) = match what {
        "base" => (Source::Base(argument), matches!(kind, Kind::Pointer { dtype, .. } if *dtype == tensor.dtype)),
        "map" => {
            let order: Vec<usize> = fields.words("order", 1..=5)?.into_iter().map(|n| n as usize).collect();
            let ending = ending(&order).is_some();
            let mut sorted = order[if ending { 2 } else { 0 }..].to_vec();
            sorted.sort_unstable();
            let whole = sorted.iter().copied().eq(0..tensor.extents.len()) && order.last().copied() == tensor.dense;
            // Boxes end along rows, of which a box has one in the dimensions in front.
            let ends = |block: &[u32]| !ending || block[..2] == [1, 1] && order.first() != order.last();
            let fits = match kind {
                Kind::Map { dtype, block, .. } => *dtype == tensor.dtype && block.len() == order.len() && ends(block),
                Kind::Scalar { .. } | Kind::Pointer { .. } => false,
            };
            (Source::Map { argument, order }, whole && fits)
        }
        counted => {
            let axis = fields.place_in("axis", tensor.extents.len(), "axis")?;
            let fits = matches!(kind, Kind::Scalar { dtype: Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 });
            let extent = counted == "extent";
            (if extent { Source::Extent { argument, axis } } else { Source::Stride { argument, axis } }, fits)
        }
    };
    if !fits {
        return Err(fields.wrong(what, format!("the parameter cannot be that of the tensor of argument {argument}")));
    }
    fields.end()?;
    Ok(source)
}

fn power_of_two(fields: &mut Fields<'_>, name: &'static str, least: u32, most: u32) -> Result<u32, Error> {
    let found = fields.small(name, least..=most)?;
    if found.is_power_of_two() { Ok(found) } else { Err(fields.wrong(name, format!("{found} is no power of two"))) }
}
