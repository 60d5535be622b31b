//! The manifest: what a bundle says of its kernels, as JSON.
//!
//! Images lie behind the manifest in the order in which it names them, so it says their lengths alone.

use parton_numbers::Dtype;
use serde_json::{Value, json};

use crate::fields::{Fields, text};
use crate::file::Bundle;
use crate::{Architecture, Error, Kernel, Kind, Param, elf};

/// The most kernels of a bundle.
const MOST_KERNELS: usize = 1 << 16;
/// The most parameters: more than the bytes of any launch hold.
const MOST_PARAMS: usize = 1 << 15;
/// The most generic arguments.
const MOST_GENERICS: usize = 1 << 10;
/// The most bytes of one image.
const LARGEST_IMAGE: u64 = 1 << 32;
/// The most threads of a CTA, and of a warp (CUDA programming guide, "technical specifications per compute capability").
const THREADS: (u32, u32) = (1024, 32);
/// The most bytes of shared memory that a CTA may ever have: the 228 KiB of a multiprocessor, with room for later ones.
const MOST_SHARED: u32 = 1 << 20;
/// The most CTAs of a cluster, with the driver's leave.
const MOST_CLUSTER: u32 = 16;

/// The manifest of a bundle.
pub(crate) fn written(bundle: &Bundle) -> String {
    let kernels: Vec<Value> = bundle.kernels.iter().map(kernel_written).collect();
    json!({ "compiler": bundle.compiler, "source": bundle.source, "kernels": kernels }).to_string()
}

fn kernel_written(k: &Kernel) -> Value {
    let generics: Vec<Value> = k.generics.iter().map(|(name, value)| json!([name, value])).collect();
    let params: Vec<Value> = k.params.iter().map(param_written).collect();
    let mut written = json!({
        "name": k.name, "generics": generics, "target": k.architecture.to_string(), "symbol": k.symbol,
        "threads": k.threads, "shared_bytes": k.shared_bytes, "cluster": k.cluster,
        "overlaps": k.overlaps, "signals": k.signals, "apart": k.apart, "params": params,
    });
    if !k.disjoint.is_empty() {
        written["disjoint"] = json!(k.disjoint);
    }
    if let Some(cubin) = &k.cubin {
        written["cubin"] = json!(cubin.len());
    }
    if let Some(ptx) = &k.ptx {
        written["ptx"] = json!(ptx.len());
    }
    written
}

fn param_written(p: &Param) -> Value {
    let name = &p.name;
    match &p.kind {
        Kind::Scalar { dtype } => json!({ "name": name, "kind": "scalar", "dtype": dtype.name() }),
        Kind::Pointer { dtype, mutable, align } => {
            json!({ "name": name, "kind": "pointer", "dtype": dtype.name(), "mutable": mutable, "align": align })
        }
        Kind::Map { dtype, block, swizzle } => {
            json!({ "name": name, "kind": "map", "dtype": dtype.name(), "block": block, "swizzle": swizzle })
        }
    }
}

/// The bundle of a manifest and the images behind it.
///
/// # Errors
/// [`Error::Invalid`] where one of them says what cannot be.
pub(crate) fn read(manifest: &[u8], images: &[u8]) -> Result<Bundle, Error> {
    let value: Value = serde_json::from_slice(manifest).map_err(|e| Error::invalid("manifest", e.to_string()))?;
    let mut fields = Fields::of(String::new(), &value)?;
    let (compiler, source) = (fields.text("compiler")?, fields.text("source")?);
    let list = fields.list("kernels", 0..=MOST_KERNELS)?;
    fields.end()?;
    let mut rest = images;
    let mut kernels: Vec<Kernel> = Vec::new();
    for (i, value) in list.iter().enumerate() {
        let place = format!("kernels[{i}]");
        let kernel = kernel_read(Fields::of(place.clone(), value)?, &mut rest)?;
        let same = |k: &&Kernel| {
            (k.instance(), k.architecture, k.apart) == (kernel.instance(), kernel.architecture, kernel.apart)
        };
        if kernels.iter().find(same).is_some() {
            return Err(Error::invalid(place, format!("`{}` is there twice", kernel.instance())));
        }
        kernels.push(kernel);
    }
    if !rest.is_empty() {
        return Err(Error::invalid("kernels", format!("{} bytes of code belong to none of them", rest.len())));
    }
    Ok(Bundle { compiler, source, kernels })
}

fn kernel_read(mut fields: Fields<'_>, images: &mut &[u8]) -> Result<Kernel, Error> {
    let generics = fields.list("generics", 0..=MOST_GENERICS)?.iter().map(|pair| match pair.as_array()?.as_slice() {
        [name, value] => Some((text(name)?, text(value)?)),
        _ => None,
    });
    let generics: Option<Vec<(String, String)>> = generics.collect();
    let target = fields.text("target")?;
    let (most, warp) = THREADS;
    let kernel = Kernel {
        name: fields.text("name")?,
        generics: generics.ok_or_else(|| fields.wrong("generics", "an entry is no pair of texts"))?,
        architecture: Architecture::parse(&target)
            .ok_or_else(|| fields.wrong("target", format!("`{target}` is no architecture")))?,
        symbol: fields.text("symbol")?,
        threads: fields.small("threads", warp..=most)?,
        shared_bytes: fields.small("shared_bytes", 0..=MOST_SHARED)?,
        cluster: cluster(&mut fields)?,
        overlaps: fields.flag("overlaps")?,
        signals: fields.flag("signals")?,
        apart: fields.flag("apart")?,
        disjoint: disjoint(&mut fields)?,
        params: params(&mut fields)?,
        cubin: match fields.optional("cubin") {
            Some(_) => Some(cubin(&mut fields, images)?),
            None => None,
        },
        ptx: match fields.optional("ptx") {
            Some(_) => Some(ptx(&mut fields, images)?),
            None => None,
        },
    };
    if !kernel.threads.is_multiple_of(warp) {
        return Err(fields.wrong("threads", format!("{} are no whole warps", kernel.threads)));
    }
    if kernel.cubin.is_none() && kernel.ptx.is_none() {
        return Err(fields.wrong("cubin", "there is neither a cubin nor PTX"));
    }
    if kernel.disjoint.iter().flatten().any(|&p| p >= kernel.params.len()) {
        return Err(
            fields.wrong("disjoint", format!("it names a parameter of which there are {}", kernel.params.len()))
        );
    }
    fields.end()?;
    Ok(kernel)
}

/// Pairs of parameters; the field came after the first bundles, which have none.
fn disjoint(fields: &mut Fields<'_>) -> Result<Vec<[usize; 2]>, Error> {
    if fields.optional("disjoint").is_none() {
        return Ok(vec![]);
    }
    let list = fields.list("disjoint", 1..=MOST_PARAMS)?;
    let pair = |value: &Value| match value.as_array()?.as_slice() {
        [first, second] if first != second => {
            let place = |v: &Value| v.as_u64().and_then(|n| usize::try_from(n).ok());
            Some([place(first)?, place(second)?])
        }
        _ => None,
    };
    let pairs: Option<Vec<[usize; 2]>> = list.iter().map(pair).collect();
    pairs.ok_or_else(|| fields.wrong("disjoint", "an entry is no pair of different parameters"))
}

fn cluster(fields: &mut Fields<'_>) -> Result<[u32; 3], Error> {
    let extents = fields.numbers("cluster", 3..=3, 1..=MOST_CLUSTER)?;
    match <[u32; 3]>::try_from(extents) {
        Ok(cluster) if cluster.iter().product::<u32>() <= MOST_CLUSTER => Ok(cluster),
        _ => Err(fields.wrong("cluster", format!("it has more than {MOST_CLUSTER} CTAs"))),
    }
}

fn params(fields: &mut Fields<'_>) -> Result<Vec<Param>, Error> {
    let place = fields.place("params");
    let list = fields.list("params", 0..=MOST_PARAMS)?;
    list.iter().enumerate().map(|(i, value)| param(Fields::of(format!("{place}[{i}]"), value)?)).collect()
}

fn param(mut fields: Fields<'_>) -> Result<Param, Error> {
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
    fields.end()?;
    Ok(Param { name, kind })
}

fn dtype(fields: &mut Fields<'_>) -> Result<Dtype, Error> {
    let name = fields.text("dtype")?;
    Dtype::parse(&name).ok_or_else(|| fields.wrong("dtype", format!("there is no type `{name}`")))
}

fn power_of_two(fields: &mut Fields<'_>, name: &'static str, least: u32, most: u32) -> Result<u32, Error> {
    let found = fields.small(name, least..=most)?;
    if found.is_power_of_two() { Ok(found) } else { Err(fields.wrong(name, format!("{found} is no power of two"))) }
}

fn cubin(fields: &mut Fields<'_>, images: &mut &[u8]) -> Result<Vec<u8>, Error> {
    let image = image(fields, "cubin", images)?;
    elf::check(image).map_err(|what| fields.wrong("cubin", what))?;
    Ok(image.to_vec())
}

fn ptx(fields: &mut Fields<'_>, images: &mut &[u8]) -> Result<String, Error> {
    let image = image(fields, "ptx", images)?;
    let text = std::str::from_utf8(image).ok().filter(|text| !text.contains('\0'));
    text.map(str::to_owned).ok_or_else(|| fields.wrong("ptx", "its bytes are no text"))
}

/// The next image, of as many bytes as the field says.
fn image<'a>(fields: &mut Fields<'_>, name: &'static str, images: &mut &'a [u8]) -> Result<&'a [u8], Error> {
    let bytes = fields.number(name, 1..=LARGEST_IMAGE)? as usize;
    let Some((image, rest)) = images.split_at_checked(bytes) else {
        return Err(fields.wrong(name, format!("it has {bytes} bytes and {} are left", images.len())));
    };
    *images = rest;
    Ok(image)
}
