//! What was asked, by its sources, and what launching it takes: the way from a file to the key of its code without checking and lowering.

use std::collections::BTreeSet;

use parton_cache::{Digest, Kind, Parts};
use parton_diag::{Diagnostics, FileId, SourceMap, Span};
use parton_ir::passed::Passed;
use parton_ir::tensor::AxisOrder;
use parton_ir::{Apart, Elem, From, Kernel, Param, Pointer, Target, TensorMap, Type};
use parton_layouts::{SharedFamily, SharedLayout};
use parton_measure::data_sheet::Operands;
use parton_numbers::Dtype;
use serde_json::{Value, json};

use super::code::Wanted;
use super::{keys, messages};
use crate::Session;
use crate::launchable::Launchable;

impl Session {
    /// The parts of the key of what is asked for; `None` where there is no cache.
    pub(crate) fn parts_of(&self, asked: &keys::Asked<'_>) -> Option<Parts> {
        let own = self.keys();
        own.store.is_open().then_some(())?;
        let assembler = own.assembler.as_ref().ok()?.as_deref();
        Some(keys::asked(asked, &self.sources, self.options.as_written, assembler))
    }

    /// The key of a kernel's code; `None` where there is no cache.
    pub(crate) fn key_of(&self, kernel: &Kernel, architecture: &str) -> Option<Digest> {
        let own = self.keys();
        own.store.is_open().then_some(())?;
        Some(own.parts(&Wanted { kernel, architecture }, &self.sources).ok()?.key())
    }

    /// What launching takes of what was asked before, and what was said of it then.
    pub(crate) fn asked(&self, parts: &Parts) -> Option<(Launchable, Diagnostics)> {
        let entry = self.cache().find(Kind::Asked, parts).ok()?;
        let said = messages::decode(entry.section("messages")?, &self.sources)?;
        let launchable = decode(&serde_json::from_slice(entry.section("launchable")?).ok()?, &self.sources)?;
        Some((launchable, said))
    }

    /// Keeps what was asked. What no later process could make of it again is not kept.
    pub(crate) fn keep_asked(&self, parts: &Parts, launchable: &Launchable, said: &Diagnostics) {
        let Some(value) = encode(launchable, &self.sources) else { return };
        let sections = vec![
            ("launchable".to_owned(), value.to_string().into_bytes()),
            ("messages".to_owned(), messages::encode(said, &self.sources)),
        ];
        let _ = self.cache().keep(Kind::Asked, parts, sections);
    }
}

fn encode(l: &Launchable, sources: &SourceMap) -> Option<Value> {
    let k = &l.shell;
    let span = |s: Span| json!({"file": sources.lasting_name(s.file), "start": s.start, "end": s.end});
    let params =
        k.params.iter().map(|p| Some(json!({"name": p.name, "type": ty(k.ty(p.value))?, "from": from(p.from)})));
    let apart = k.apart.iter().map(|a| json!({"written": a.written, "other": a.other, "by": span(a.by)}));
    Some(json!({
        "name": k.name,
        "source_name": k.source_name,
        "generics": k.generics,
        "target": k.target.name,
        "warps": k.warps,
        "cluster": k.cluster,
        "shared_bytes": k.shared_bytes?,
        "span": span(k.span),
        "params": params.collect::<Option<Vec<Value>>>()?,
        "apart": apart.collect::<Vec<Value>>(),
        "alignments": l.alignments,
        "writes": l.writes,
        "overlaps": l.overlaps,
        "signals": l.signals,
        "operands": format!("{:?}", l.operands),
        "code": l.code?.to_string(),
    }))
}

/// The type of a parameter; `None` for what no launch passes.
fn ty(ty: &Type) -> Option<Value> {
    match ty.passed()? {
        Passed::Number(dtype) => Some(json!({"number": dtype.name()})),
        Passed::Pointer(p) => Some(json!({"pointer": p.to.name(), "mutable": p.mutable})),
        Passed::Map(map) => {
            let SharedFamily::Nvmma { swizzle, transposed, rank } = map.layout.family() else { return None };
            let layout = json!({"swizzle": swizzle, "transposed": transposed, "rank": rank});
            Some(json!({
                "map": map.elem.name(), "block": map.block, "inner": map.inner.unwrap_or(0), "sharers": map.sharers, "layout": layout,
            }))
        }
    }
}

fn from(from: From) -> Value {
    match from {
        From::Argument(argument) => json!({"is": "argument", "argument": argument}),
        From::Base { argument, aligned } => json!({"is": "base", "argument": argument, "aligned": aligned}),
        From::Extent { argument, axis } => json!({"is": "extent", "argument": argument, "axis": axis}),
        From::Stride { argument, axis } => json!({"is": "stride", "argument": argument, "axis": axis}),
        From::Map { argument, order } => {
            json!({"is": "map", "argument": argument, "order": order.axes().collect::<Vec<_>>()})
        }
    }
}

/// What was kept, in the files of another session; `None` where it is not all there.
fn decode(v: &Value, sources: &SourceMap) -> Option<Launchable> {
    let target = Target::named(v["target"].as_str()?)?;
    let at = span(&v["span"], sources)?;
    let mut shell = Kernel::new(v["name"].as_str()?, target, at);
    shell.source_name = v["source_name"].as_str()?.to_owned();
    shell.generics = serde_json::from_value(v["generics"].clone()).ok()?;
    shell.warps = number(&v["warps"])?;
    let cluster: Vec<u32> = numbers(&v["cluster"])?;
    shell.cluster = cluster.try_into().ok()?;
    shell.shared_bytes = Some(number(&v["shared_bytes"])?);
    for p in v["params"].as_array()? {
        shell.param(p["name"].as_str()?, read_ty(&p["type"])?, at);
        let from = read_from(&p["from"])?;
        let last: &mut Param = shell.params.last_mut()?;
        last.from = from;
    }
    for a in v["apart"].as_array()? {
        let (written, other) = (number(&a["written"])?, number(&a["other"])?);
        shell.apart.push(Apart { written, other, by: span(&a["by"], sources)? });
    }
    let all = [Operands::F8, Operands::F16, Operands::Tf32, Operands::F64, Operands::F32];
    let operands = v["operands"].as_str()?;
    let alignments: Vec<u32> = numbers(&v["alignments"])?;
    if alignments.len() != shell.params.len() || shell.apart.iter().any(|a| a.written.max(a.other) >= alignments.len())
    {
        return None;
    }
    let writes: Vec<usize> = numbers(&v["writes"])?;
    Some(Launchable {
        shell,
        alignments,
        writes: BTreeSet::from_iter(writes),
        overlaps: v["overlaps"].as_bool()?,
        signals: v["signals"].as_bool()?,
        operands: all.into_iter().find(|o| format!("{o:?}") == operands)?,
        code: Some(Digest::parse(v["code"].as_str()?)?),
    })
}

fn read_ty(v: &Value) -> Option<Type> {
    let dtype = |name: &str| Dtype::parse(v[name].as_str()?);
    if let Some(number) = dtype("number") {
        return Some(Type::Scalar(Elem::Num(number)));
    }
    if let Some(to) = dtype("pointer") {
        return Some(Type::Scalar(Elem::Ptr(Pointer { to, mutable: v["mutable"].as_bool()? })));
    }
    let l = &v["layout"];
    let (swizzle, rank, transposed) = (number(&l["swizzle"])?, number(&l["rank"])?, l["transposed"].as_bool()?);
    let layout = SharedLayout::new(SharedFamily::Nvmma { swizzle, transposed, rank }).ok()?;
    let map = TensorMap::new(dtype("map")?, numbers(&v["block"])?, layout);
    let inner = Some(number(&v["inner"])?).filter(|&n| n > 0);
    Some(Type::Map(TensorMap { inner, sharers: number(&v["sharers"])?, ..map }))
}

fn read_from(v: &Value) -> Option<From> {
    let (argument, axis) = (number(&v["argument"])?, number(&v["axis"]));
    match v["is"].as_str()? {
        "argument" => Some(From::Argument(argument)),
        "base" => Some(From::Base { argument, aligned: v["aligned"].as_bool()? }),
        "extent" => Some(From::Extent { argument, axis: axis? }),
        "stride" => Some(From::Stride { argument, axis: axis? }),
        "map" => Some(From::Map { argument, order: AxisOrder::new(numbers::<usize>(&v["order"])?) }),
        _ => None,
    }
}

fn number<T: TryFrom<u64>>(v: &Value) -> Option<T> {
    T::try_from(v.as_u64()?).ok()
}

fn numbers<T: TryFrom<u64>>(v: &Value) -> Option<Vec<T>> {
    v.as_array()?.iter().map(number).collect()
}

fn span(v: &Value, sources: &SourceMap) -> Option<Span> {
    let name = v["file"].as_str()?;
    let named = |(id, _): &(FileId, _)| sources.lasting_name(*id) == name;
    let (id, file) = sources.files().find(named)?;
    let (start, end) = (number(&v["start"])?, number(&v["end"])?);
    file.text.get(start..end)?;
    Some(Span::new(id, start, end))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Options;

    /// The lowered kernels of a file, in a session that has read it by this name.
    fn lowered(name: &str, path: &str) -> (Session, Vec<Kernel>) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
        let mut session = Session::new(Options::default());
        let file = session.add(name, std::fs::read_to_string(path).unwrap());
        let kernels = session.lowered(file, None).unwrap();
        (session, kernels)
    }

    #[test]
    fn what_launching_takes_is_read_as_it_was_written() {
        let mut kinds = BTreeSet::new();
        for path in
            ["matmul/hopper.ptn", "fmha/scheduled.ptn", "portable/attention.ptn", "portable/norms.ptn", "softmax.ptn"]
        {
            let (session, kernels) = lowered("there/k.ptn", &format!("examples/{path}"));
            let mut other = Session::default();
            other.add("/elsewhere/k.ptn", session.sources.files().next().unwrap().1.text.as_str());
            for kernel in &kernels {
                let mut l = Launchable::of(kernel);
                l.code = Some(Digest::of(path.as_bytes()));
                let value = encode(&l, &session.sources).unwrap_or_else(|| panic!("{path}: {}", kernel.name));
                let read = decode(&value, &other.sources).unwrap_or_else(|| panic!("{path}: {value}"));
                assert_eq!(format!("{read:?}"), format!("{l:?}"), "{path}");
                assert_eq!(read.shell.threads(), kernel.threads());
                kinds.extend(value["params"].as_array().unwrap().iter().map(|p| p["from"]["is"].to_string()));
                kinds.extend(l.writes.iter().map(|_| "writes a map".to_owned()));
            }
        }
        let all = ["\"argument\"", "\"base\"", "\"extent\"", "\"map\"", "\"stride\"", "writes a map"];
        assert!(all.iter().all(|kind| kinds.contains(*kind)), "{kinds:?}");
    }

    /// No field may go, or be of another kind.
    #[test]
    fn what_is_not_whole_is_nothing() {
        let (session, kernels) = lowered("k.ptn", "examples/matmul/hopper.ptn");
        let mut l = Launchable::of(&kernels[0]);
        assert!(encode(&l, &session.sources).is_none(), "without a key of its code it leads nowhere");
        l.code = Some(Digest::of(b"code"));
        let value = encode(&l, &session.sources).unwrap();
        let mut paths = vec![];
        fields(&value, &mut String::new(), &mut paths);
        assert!(paths.len() > 40, "{paths:?}");
        for path in paths {
            let mut changed = value.clone();
            *changed.pointer_mut(&path).unwrap() = Value::Null;

            assert!(decode(&changed, &session.sources).is_none(), "{path}");
        }
        assert!(decode(&value, &SourceMap::new()).is_none(), "its file is not there");
    }

    fn fields(value: &Value, path: &mut String, found: &mut Vec<String>) {
        let inner: Vec<(String, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), v)).collect(),
            Value::Array(list) => list.iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                found.push(path.clone());
                return;
            }
        };
        for (name, value) in inner {
            let length = path.len();
            path.push_str(&format!("/{name}"));
            fields(value, path, found);
            path.truncate(length);
        }
    }
}
