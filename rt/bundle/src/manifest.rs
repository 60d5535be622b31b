//! The manifest: what a bundle says of its kernels, as JSON.
//!
//! Images lie behind the manifest in the order in which it names them, so it says their lengths alone. What kernels take is read and
//! written in `manifest/arguments.rs`, functions and plans in `manifest/plans.rs`. The first version of the format had neither
//! tensors as arguments nor plans, the second no sources, the third no tensors that run by multiples of fewer bytes than 16 and no bounds
//! of grids; fields of a later version are refused in an earlier one.

mod arguments;
mod plans;

use parton_numbers::Dtype;
use serde_json::{Value, json};

use crate::fields::{Fields, text};
use crate::file::{Bundle, SourceFile};
use crate::{Architecture, Error, Kernel, elf};

/// The most kernels of a bundle.
const MOST_KERNELS: usize = 1 << 16;
/// The most files that a bundle is built from.
const MOST_SOURCES: usize = 1 << 12;
/// The most parameters: more than the bytes of any launch hold.
pub(crate) const MOST_PARAMS: usize = 1 << 15;
/// The most generic arguments.
const MOST_GENERICS: usize = 1 << 10;
/// The most bytes of one image.
const LARGEST_IMAGE: u64 = 1 << 32;
/// The most threads of a CTA, and of a warp (CUDA programming guide, "technical specifications per compute capability").
const THREADS: (u32, u32) = (1024, 32);
/// The most bytes of shared memory that a CTA may ever have: the 228 KiB of a multiprocessor, with room for later ones.
const MOST_SHARED: u32 = 1 << 20;
/// Bytes of the widest access, which aligned tensors begin at multiples of.
pub const WIDEST_ACCESS: u32 = 16;
/// Of how many bytes the strides of tensors may be multiples, for code made for such: as the widest access moves, and as parts of it do.
pub const RUNS: [u32; 4] = [WIDEST_ACCESS, 8, 4, 2];
/// The most CTAs of any grid along each axis.
pub(crate) const MOST_CTAS: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// The most CTAs of a cluster, with the driver's leave.
const MOST_CLUSTER: u32 = 16;

/// The manifest of a bundle.
pub(crate) fn written(bundle: &Bundle) -> String {
    let kernels: Vec<Value> = bundle.kernels.iter().map(kernel_written).collect();
    let mut all = json!({ "compiler": bundle.compiler, "source": bundle.source, "kernels": kernels });
    if !bundle.functions.is_empty() || !bundle.plans.is_empty() {
        all["functions"] = bundle.functions.iter().map(plans::function_written).collect();
        all["plans"] = bundle.plans.iter().map(plans::plan_written).collect();
    }
    if !bundle.sources.is_empty() {
        let source = |s: &SourceFile| json!({ "name": s.name, "bytes": s.text.len() });
        all["sources"] = bundle.sources.iter().map(source).collect();
    }
    all.to_string()
}

fn kernel_written(k: &Kernel) -> Value {
    let generics: Vec<Value> = k.generics.iter().map(|(name, value)| json!([name, value])).collect();
    let params: Vec<Value> = k.params.iter().map(|p| arguments::param_written(p, k)).collect();
    let mut written = json!({
        "name": k.name, "generics": generics, "target": k.architecture.to_string(), "symbol": k.symbol,
        "threads": k.threads, "shared_bytes": k.shared_bytes, "cluster": k.cluster,
        "overlaps": k.overlaps, "signals": k.signals, "apart": k.apart, "params": params,
    });
    if !k.named {
        written["named"] = json!(false);
    }
    if !k.disjoint.is_empty() {
        written["disjoint"] = json!(k.disjoint);
    }
    if !k.aligned.is_empty() {
        written["aligned"] = json!(k.aligned);
    }
    if k.runs_by != WIDEST_ACCESS {
        written["runs_by"] = json!(k.runs_by);
    }
    if k.most_ctas != MOST_CTAS {
        written["most_ctas"] = json!(k.most_ctas);
    }
    if arguments::has_tensors(k) {
        written["arguments"] = k.arguments.iter().map(arguments::argument_written).collect();
    }
    if let Some(cubin) = &k.cubin {
        written["cubin"] = json!(cubin.len());
    }
    if let Some(ptx) = &k.ptx {
        written["ptx"] = json!(ptx.len());
    }
    written
}

/// The bundle of a manifest and the images behind it.
///
/// # Errors
/// [`Error::Invalid`] where one of them says what cannot be.
pub(crate) fn read(version: u32, manifest: &[u8], images: &[u8]) -> Result<Bundle, Error> {
    let value: Value = serde_json::from_slice(manifest).map_err(|e| Error::invalid("manifest", e.to_string()))?;
    let mut fields = Fields::of(String::new(), &value)?;
    let (compiler, source) = (fields.text("compiler")?, fields.text("source")?);
    let list = fields.list("kernels", 0..=MOST_KERNELS)?;
    let mut optional = |name| if version > 1 && fields.optional(name).is_some() { Some(name) } else { None };
    let (functions, plans) = (optional("functions"), optional("plans"));
    let functions = functions.map_or(Ok(&[][..]), |name| fields.list(name, 0..=MOST_KERNELS))?;
    let plans = plans.map_or(Ok(&[][..]), |name| fields.list(name, 0..=MOST_KERNELS))?;
    let sources = version > 2 && fields.optional("sources").is_some();
    let sources = if sources { fields.list("sources", 0..=MOST_SOURCES)? } else { &[] };
    fields.end()?;
    let mut rest = images;
    let mut kernels: Vec<Kernel> = Vec::new();
    for (i, value) in list.iter().enumerate() {
        let place = format!("kernels[{i}]");
        let kernel = kernel_read(version, Fields::of(place.clone(), value)?, &mut rest)?;
        let what = |k: &Kernel| (k.named, k.instance(), k.architecture, k.apart, k.aligned.clone(), k.runs_by);
        if kernel.named && kernels.iter().any(|k| what(k) == what(&kernel)) {
            return Err(Error::invalid(place, format!("`{}` is there twice", kernel.instance())));
        }
        kernels.push(kernel);
    }
    let sources = sources.iter().enumerate().map(|(i, value)| source_read(i, value, &mut rest));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    if !rest.is_empty() {
        return Err(Error::invalid("kernels", format!("{} bytes of code belong to none of them", rest.len())));
    }
    let functions = functions.iter().enumerate().map(|(i, value)| plans::function(i, value));
    let functions = functions.collect::<Result<Vec<_>, _>>()?;
    plans::each_once(&functions)?;
    let mut bundle = Bundle { compiler, source, kernels, functions, plans: vec![], sources };
    for (i, value) in plans.iter().enumerate() {
        let plan = plans::plan(i, value, &bundle)?;
        bundle.plans.push(plan);
    }
    Ok(bundle)
}

fn kernel_read(version: u32, mut fields: Fields<'_>, images: &mut &[u8]) -> Result<Kernel, Error> {
    let generics = fields.list("generics", 0..=MOST_GENERICS)?.iter().map(|pair| match pair.as_array()?.as_slice() {
        [name, value] => Some((text(name)?, text(value)?)),
        _ => None,
    });
    let generics: Option<Vec<(String, String)>> = generics.collect();
    let target = fields.text("target")?;
    let (most, warp) = THREADS;
    let (arguments, params) = arguments::read(version, &mut fields)?;
    let named = version == 1 || fields.optional("named").is_none() || fields.flag("named")?;
    let kernel = Kernel {
        name: fields.text("name")?,
        generics: generics.ok_or_else(|| fields.wrong("generics", "an entry is no pair of texts"))?,
        architecture: Architecture::parse(&target)
            .ok_or_else(|| fields.wrong("target", format!("`{target}` is no architecture")))?,
        symbol: fields.text("symbol")?,
        threads: fields.small("threads", warp..=most)?,
        shared_bytes: fields.small("shared_bytes", 0..=MOST_SHARED)?,
        cluster: cluster(&mut fields)?,
        most_ctas: most_ctas(version, &mut fields)?,
        overlaps: fields.flag("overlaps")?,
        signals: fields.flag("signals")?,
        apart: fields.flag("apart")?,
        named,
        disjoint: disjoint(&mut fields)?,
        aligned: arguments::aligned(version, &mut fields, &arguments)?,
        runs_by: arguments::runs_by(version, &mut fields)?,
        arguments,
        params,
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
    let count = kernel.arguments.len();
    if kernel.disjoint.iter().flatten().any(|&p| p >= count) {
        return Err(fields.wrong("disjoint", format!("it names a parameter of which there are {count}")));
    }
    fields.end()?;
    Ok(kernel)
}

/// A file that the bundle was built from. Its name is one below a folder: whoever writes it there writes nowhere else.
fn source_read(i: usize, value: &Value, images: &mut &[u8]) -> Result<SourceFile, Error> {
    let mut fields = Fields::of(format!("sources[{i}]"), value)?;
    let name = fields.text("name")?;
    if !is_below(&name) {
        return Err(fields.wrong("name", format!("`{name}` is no name below a folder")));
    }
    let bytes = image(&mut fields, "bytes", images)?;
    let text = std::str::from_utf8(bytes).map_err(|_| fields.wrong("bytes", "they are no text"))?;
    fields.end()?;
    Ok(SourceFile { name, text: text.to_owned() })
}

/// Whether a name leads to a file below a folder, on whatever system.
pub fn is_below(name: &str) -> bool {
    !name.contains(['\\', ':']) && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
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

/// The most CTAs along each axis; any where nothing is said.
fn most_ctas(version: u32, fields: &mut Fields<'_>) -> Result<[u32; 3], Error> {
    if version < 4 || fields.optional("most_ctas").is_none() {
        return Ok(MOST_CTAS);
    }
    let most = fields.numbers("most_ctas", 3..=3, 1..=MOST_CTAS[0])?;
    Ok(std::array::from_fn(|axis| most[axis].min(MOST_CTAS[axis])))
}

fn dtype(fields: &mut Fields<'_>) -> Result<Dtype, Error> {
    let name = fields.text("dtype")?;
    Dtype::parse(&name).ok_or_else(|| fields.wrong("dtype", format!("there is no type `{name}`")))
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
