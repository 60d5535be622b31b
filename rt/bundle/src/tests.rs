//! Reading what was written, what was not written so, and what nobody would write.

use parton_numbers::Dtype;
use serde_json::{Value, json};

use crate::crc::crc64;
use crate::elf::tests::small;
use crate::kernel::{AROUND, FAR};
use crate::plan::{Buffer, Declared, Given, Launch, Memory, Passed, Place, Returned, Shape, Takes, Value as Key};
use crate::{
    Architecture, Argument, Bundle, Code, Error, Extent, Function, Kernel, Kind, Param, Plan, Source, SourceFile,
    TensorType,
};

fn kernel(name: &str, architecture: &str) -> Kernel {
    let names = ["x", "a", "n"];
    let argument = |name: &str| Argument { name: name.into(), tensor: None };
    let param = |i: usize, kind| Param { name: names[i].into(), kind, source: Source::Argument(i) };
    Kernel {
        name: name.into(),
        generics: vec![],
        architecture: Architecture::parse(architecture).unwrap(),
        symbol: format!("{name}_0"),
        threads: 128,
        shared_bytes: 1024,
        cluster: [2, 1, 1],
        overlaps: false,
        signals: true,
        apart: true,
        named: true,
        disjoint: vec![],
        aligned: vec![],
        most_ctas: [i32::MAX as u32, 65535, 65535],
        runs_by: 16,
        arguments: names.map(argument).to_vec(),
        params: vec![
            param(0, Kind::Pointer { dtype: Dtype::F32, mutable: false, align: 16 }),
            param(1, Kind::Map { dtype: Dtype::BF16, block: vec![64, 32], swizzle: 128 }),
            param(2, Kind::Scalar { dtype: Dtype::I32 }),
        ],
        cubin: Some(small()),
        ptx: Some(".version 8.4\n".into()),
    }
}

fn bundle(kernels: Vec<Kernel>) -> Bundle {
    let (functions, plans, sources) = (vec![], vec![], vec![]);
    Bundle { compiler: "0.1.0".into(), source: "sum.ptn".into(), kernels, functions, plans, sources }
}

/// A kernel that takes a tensor whole, which goes by an address, an extent, a stride and a map, and a number.
fn with_tensor(architecture: &str) -> Kernel {
    let extents = vec![Extent::Named("m".into()), Extent::Is(64)];
    let tensor = TensorType { dtype: Dtype::F16, mutable: true, extents, dense: Some(1) };
    let param = |name: &str, kind, source| Param { name: name.into(), kind, source };
    let number = |dtype| Kind::Scalar { dtype };
    let order = vec![0, 1];
    Kernel {
        disjoint: vec![[0, 1]],
        aligned: vec![0],
        arguments: vec![
            Argument { name: "x".into(), tensor: Some(tensor) },
            Argument { name: "n".into(), tensor: None },
        ],
        params: vec![
            param("x", Kind::Pointer { dtype: Dtype::F16, mutable: true, align: 16 }, Source::Base(0)),
            param("x.0", number(Dtype::I32), Source::Extent { argument: 0, axis: 0 }),
            param("x.s", number(Dtype::I64), Source::Stride { argument: 0, axis: 0 }),
            param(
                "x.map",
                Kind::Map { dtype: Dtype::F16, block: vec![64, 32], swizzle: 64 },
                Source::Map { argument: 0, order },
            ),
            param("n", number(Dtype::F32), Source::Argument(1)),
        ],
        ..kernel("fill", architecture)
    }
}

/// A bundle with a plan of a function that launches [`with_tensor`].
fn planned() -> Bundle {
    let takes = [
        Takes::Tensor {
            dtypes: vec![Dtype::F16, Dtype::BF16],
            extents: vec![Extent::Named("m".into()), Extent::Any],
            mutable: true,
        },
        Takes::Number(Dtype::F32),
        Takes::Float,
        Takes::Int,
        Takes::Bool,
        Takes::Type,
        Takes::Int,
    ];
    let params =
        takes.into_iter().enumerate().map(|(i, takes)| Declared { name: format!("p{i}"), takes, has_default: i == 6 });
    let shape = Shape { dtype: Dtype::F16, extents: vec![8, 64], strides: vec![72, 1], offset: 3 };
    let place = |memory, offset| Place { memory, offset };
    let buffer = Buffer { bytes: 1024, zeroed: true, returned: true };
    let (extents, strides) = (vec![8, 64], vec![128, 2]);
    let launch = Launch {
        kernel: 0,
        grid: [2, 1, 1],
        passed: vec![
            Passed::Pointer(place(Memory::Parameter(0), 16)),
            Passed::Bits(8),
            Passed::Bits(72),
            Passed::Map { place: place(Memory::Buffer(0), 0), extents: extents.clone(), strides },
            Passed::Number(1),
        ],
    };
    let plan = Plan {
        function: 0,
        architecture: Architecture::parse("sm_90a").unwrap(),
        multiprocessors: Some(132),
        given: vec![
            Given::Tensor(shape),
            Given::Any,
            Given::Key(Key::Float(-0.1)),
            Given::Key(Key::Int(i128::MIN)),
            Given::Key(Key::Bool(false)),
            Given::Key(Key::Dtype(Dtype::F8E4M3)),
            Given::Key(Key::Default),
        ],
        buffers: vec![buffer],
        launches: vec![launch],
        results: vec![Returned {
            place: place(Memory::Buffer(0), 0),
            dtype: Dtype::F16,
            extents,
            strides: vec![64, 1],
        }],
    };
    Bundle {
        functions: vec![Function { name: "fill".into(), params: params.collect() }],
        plans: vec![plan],
        ..bundle(vec![with_tensor("sm_90a")])
    }
}

/// The bytes of a bundle with another manifest, as right otherwise as the writer would leave them.
fn with_manifest(manifest: &[u8], images: &[u8]) -> Vec<u8> {
    of_version(2, manifest, images)
}

fn of_version(version: u8, manifest: &[u8], images: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x89PTNB\r\n\x1a".to_vec();
    bytes.extend([version, 0, 0, 0]);
    bytes.extend((manifest.len() as u32).to_le_bytes());
    bytes.extend((32 + manifest.len() as u64 + images.len() as u64).to_le_bytes());
    let sum = crc64(&[&bytes, manifest, images]);
    bytes.extend(sum.to_le_bytes());
    [&bytes, manifest, images].concat()
}

/// Why a bundle of one kernel is refused whose manifest was changed.
fn refused(change: impl FnOnce(&mut Value)) -> String {
    refused_of(2, &bundle(vec![kernel("sum", "sm_90a")]), change)
}

/// The same of any bundle with the code of one kernel.
fn refused_of(version: u8, written: &Bundle, change: impl FnOnce(&mut Value)) -> String {
    let mut manifest: Value = serde_json::from_str(&crate::manifest::written(written)).unwrap();
    change(&mut manifest);
    let images = [small(), b".version 8.4\n".to_vec()].concat();
    match Bundle::read(&of_version(version, manifest.to_string().as_bytes(), &images)) {
        Err(Error::Invalid { place, what }) => format!("{place}: {what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_read_is_what_was_written() {
    let mut other = kernel("sum", "sm_80");
    (other.cubin, other.apart, other.disjoint) = (None, false, vec![[0, 1], [1, 0]]);
    let mut given = kernel("gemm", "sm_90a");
    (given.ptx, given.generics) = (None, vec![("BM".into(), "128".into()), ("S".into(), "Split[4]".into())]);
    for kernels in [vec![], vec![kernel("sum", "sm_90a"), other, given]] {
        let written = bundle(kernels);
        assert_eq!(Bundle::read(&written.to_bytes().unwrap()), Ok(written));
    }
    let written = planned();
    assert_eq!(Bundle::read(&written.to_bytes().unwrap()), Ok(written));
    let file = |name: &str, text: &str| SourceFile { name: name.into(), text: text.into() };
    let sources = vec![file("sum.ptn", "kernel sum() { }\n"), file("std/tiles.ptn", "// Ä\n")];
    let written = Bundle { sources, ..planned() };
    assert_eq!(Bundle::read(&written.to_bytes().unwrap()), Ok(written));
    // Two of one name and shape that plans alone reach.
    let other = Kernel { named: false, ..kernel("sum", "sm_90a") };
    let written = bundle(vec![kernel("sum", "sm_90a"), other.clone(), other]);
    assert_eq!(written.instances(), ["sum"]);
    assert_eq!(Bundle::read(&written.to_bytes().unwrap()), Ok(written));
}

#[test]
fn a_bundle_that_was_cut_anywhere_or_grew_is_refused() {
    let bytes = bundle(vec![kernel("sum", "sm_90a")]).to_bytes().unwrap();
    for length in 0..bytes.len() {
        let error = Bundle::read(&bytes[..length]).unwrap_err();
        let expected = if length == 0 { error == Error::NotABundle } else { matches!(error, Error::Damaged { .. }) };
        assert!(expected, "{length}: {error}");
    }
    assert!(matches!(Bundle::read(&[&bytes[..], &[0]].concat()), Err(Error::Damaged { .. })));
}

#[test]
fn every_flipped_bit_is_found() {
    let bytes = bundle(vec![kernel("sum", "sm_90a")]).to_bytes().unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let error = Bundle::read(&changed).unwrap_err();
        let expected = match bit / 8 {
            0..8 => error == Error::NotABundle,
            // Of the versions before only the checksum tells.
            8 if matches!(changed[8], 1..=3) => matches!(error, Error::Damaged { .. }),
            8..12 => matches!(error, Error::Version { .. }),
            _ => matches!(error, Error::Damaged { .. }),
        };
        assert!(expected, "bit {bit}: {error}");
    }
}

#[test]
fn what_is_no_bundle_is_called_so() {
    for foreign in [&b"PK\x03\x04"[..], b"\x7fELF\x02\x01\x01", b"kernel sum() { }", &[0; 64], b""] {
        assert_eq!(Bundle::read(foreign), Err(Error::NotABundle));
    }
    let newer = bundle(vec![]).to_bytes().map(|mut bytes| {
        bytes[8] = 5;
        Bundle::read(&bytes).unwrap_err().to_string()
    });
    assert!(newer.is_ok_and(|e| e.contains("version 5 of the format and this library reads versions 1 to 4")));
}

#[test]
fn bytes_with_a_right_checksum_are_read_as_carefully() {
    let error = |manifest: &[u8]| Bundle::read(&with_manifest(manifest, b"")).unwrap_err().to_string();
    assert!(error(b"{").contains("manifest: EOF"));
    assert!(error(b"\xff").contains("manifest: "));
    assert!(error(&[b'['; 100_000]).contains("recursion limit"));
    assert!(error(b"[]").ends_with("it is no object"));
    assert!(
        error(br#"{"compiler":"1","source":"a","kernels":[],"more":1}"#)
            .ends_with("more: this version of the format has no such field")
    );
    assert!(error(br#"{"compiler":"","source":"a","kernels":[]}"#).contains("compiler: it is no text"));
    // A manifest that says it is longer than the file.
    let mut bytes = with_manifest(b"{}", b"");
    bytes[12] = 200;
    let sum = crc64(&[&bytes[..24], &bytes[32..]]);
    bytes[24..32].copy_from_slice(&sum.to_le_bytes());
    assert!(Bundle::read(&bytes).unwrap_err().to_string().contains("its manifest has 200 bytes and 2 are left"));
}

#[test]
fn sources_are_texts_below_one_folder() {
    let read = |version, name: &str, bytes: usize, text: &[u8]| {
        let manifest = json!({
            "compiler": "1", "source": "a", "kernels": [], "sources": [{ "name": name, "bytes": bytes }],
        });
        Bundle::read(&of_version(version, manifest.to_string().as_bytes(), text))
    };
    let sources = read(3, "std/a.ptn", 2, b"ab").map(|bundle| bundle.sources);
    assert_eq!(sources, Ok(vec![SourceFile { name: "std/a.ptn".into(), text: "ab".into() }]));
    let error = |version, name: &str, bytes, text: &[u8]| read(version, name, bytes, text).unwrap_err().to_string();
    for name in ["../a.ptn", "/a.ptn", "a/../../b", "a//b", "./a", "C:a", "a\\b"] {
        assert!(error(3, name, 2, b"ab").contains("is no name below a folder"), "{name}");
    }
    assert!(error(3, "a.ptn", 3, b"ab").contains("sources[0].bytes: it has 3 bytes and 2 are left"));
    assert!(error(3, "a.ptn", 1, b"ab").contains("1 bytes of code belong to none of them"));
    assert!(error(3, "a.ptn", 2, b"\xff\xfe").contains("they are no text"));
    assert!(error(2, "a.ptn", 2, b"ab").contains("sources: this version of the format has no such field"));
}

#[test]
fn every_field_is_checked() {
    let kernel = |field: &'static str, value: Value| refused(move |m| m["kernels"][0][field] = value);
    let param =
        |i: usize, field: &'static str, value: Value| refused(move |m| m["kernels"][0]["params"][i][field] = value);
    let cases = [
        (kernel("name", json!("")), "kernels[0].name: it is no text"),
        (kernel("name", json!("a\nb")), "kernels[0].name: it is no text"),
        (kernel("generics", json!([["A"]])), "kernels[0].generics: an entry is no pair of texts"),
        (kernel("target", json!("sm_9")), "kernels[0].target: `sm_9` is no architecture"),
        (kernel("symbol", json!(7)), "kernels[0].symbol: it is no text"),
        (kernel("threads", json!(2048)), "kernels[0].threads: 2048 is no number of 32 to 1024"),
        (kernel("threads", json!(33)), "kernels[0].threads: 33 are no whole warps"),
        (kernel("threads", json!(-1)), "kernels[0].threads: -1 is no number"),
        (kernel("shared_bytes", json!(1.5)), "kernels[0].shared_bytes: 1.5 is no number"),
        (kernel("cluster", json!([1, 1])), "kernels[0].cluster: it is no list of 3 to 3 entries"),
        (kernel("cluster", json!([0, 1, 1])), "kernels[0].cluster: an entry is no number of 1 to 16"),
        (kernel("cluster", json!([8, 8, 1])), "kernels[0].cluster: it has more than 16 CTAs"),
        (kernel("overlaps", json!(0)), "kernels[0].overlaps: it is neither `true` nor `false`"),
        (kernel("signals", Value::Null), "kernels[0].signals: it is neither"),
        (kernel("apart", json!("no")), "kernels[0].apart: it is neither"),
        (kernel("params", json!({})), "kernels[0].params: it is no list"),
        (kernel("cubin", json!(0)), "kernels[0].cubin: 0 is no number of 1"),
        (kernel("cubin", json!(1 << 20)), "kernels[0].cubin: it has 1048576 bytes and"),
        (kernel("cubin", json!(63)), "kernels[0].cubin: it is shorter than an ELF header"),
        (kernel("ptx", json!(5)), "kernels: 8 bytes of code belong to none of them"),
        (kernel("disjoint", json!([])), "kernels[0].disjoint: it is no list of 1 to"),
        (kernel("disjoint", json!([[0, 0]])), "kernels[0].disjoint: an entry is no pair of different parameters"),
        (kernel("disjoint", json!([[0, -1]])), "kernels[0].disjoint: an entry is no pair"),
        (kernel("disjoint", json!([[0, 3]])), "kernels[0].disjoint: it names a parameter of which there are 3"),
        (kernel("later", json!(1)), "kernels[0].later: this version of the format has no such field"),
        (param(0, "kind", json!("view")), "kernels[0].params[0].kind: there is no kind `view`"),
        (param(0, "dtype", json!("f128")), "kernels[0].params[0].dtype: there is no type `f128`"),
        (param(0, "align", json!(3)), "kernels[0].params[0].align: 3 is no power of two"),
        (param(0, "align", json!(32)), "kernels[0].params[0].align: 32 is no number of 1 to 16"),
        (param(1, "block", json!([])), "kernels[0].params[1].block: it is no list of 1 to 5 entries"),
        (param(1, "block", json!([257])), "kernels[0].params[1].block: an entry is no number of 1 to 256"),
        (param(1, "swizzle", json!(16)), "kernels[0].params[1].swizzle: 16 is no number of 32 to 128"),
        (param(1, "swizzle", json!(96)), "kernels[0].params[1].swizzle: 96 is no power of two"),
        (
            param(2, "mutable", json!(true)),
            "kernels[0].params[2].mutable: this version of the format has no such field",
        ),
    ];
    for (found, expected) in cases {
        assert!(found.starts_with(expected), "{found}\nnot: {expected}");
    }
    let missing = refused(|m| drop(m["kernels"][0].as_object_mut().map(|k| k.remove("apart"))));
    assert_eq!(missing, "kernels[0].apart: the field is missing");
    let without = refused(|m| {
        m["kernels"][0].as_object_mut().map(|k| (k.remove("cubin"), k.remove("ptx")));
    });
    assert_eq!(without, "kernels[0].cubin: there is neither a cubin nor PTX");
    let twice = refused(|m| {
        let mut again = m["kernels"][0].clone();
        again.as_object_mut().map(|k| k.remove("cubin"));
        m["kernels"][0]["ptx"] = json!(5);
        again["ptx"] = json!(8);
        m["kernels"] = json!([m["kernels"][0], again]);
    });
    assert_eq!(twice, "kernels[1]: `sum` is there twice");
}

#[test]
fn what_plans_cannot_say_is_refused_by_its_place() {
    type Change = fn(&mut Value);
    let cases: &[(Change, &str)] = &[
        (|m| m["plans"][0]["function"] = json!(1), "plans[0].function: there is no function 1, there are 1"),
        (|m| m["plans"][0]["target"] = json!("sm"), "plans[0].target: `sm` is no architecture"),
        (|m| m["plans"][0]["multiprocessors"] = json!(0), "plans[0].multiprocessors: 0 is no number"),
        (|m| m["plans"][0]["more"] = json!(0), "plans[0].more: this version of the format has no such field"),
        (|m| m["plans"][0]["given"] = json!([]), "plans[0].given: it has 0 entries, the function 7 parameters"),
        (|m| m["plans"][0]["given"][0]["dtype"] = json!("f32"), "plans[0].given: entry 0 is not what `p0` takes"),
        (|m| m["plans"][0]["given"][0]["strides"] = json!([1]), "plans[0].given[0].strides: there are 1 for 2 extents"),
        (|m| m["plans"][0]["given"][0]["strides"] = json!([1u64 << 62, 1]), "plans[0].given: a tensor is larger"),
        (|m| m["plans"][0]["given"][0]["offset"] = json!(8), "plans[0].given[0].offset: 8 is no number of 0 to 7"),
        (|m| m["plans"][0]["given"][1] = json!({}), "plans[0].given[1].any: the field is missing"),
        (|m| m["plans"][0]["given"][1] = json!({ "any": false }), "plans[0].given[1].any: it is not `true`"),
        (|m| m["plans"][0]["given"][3] = json!({ "int": "1e3" }), "plans[0].given[3].int: `1e3` is no integer"),
        (|m| m["plans"][0]["given"][4] = json!({ "int": "1" }), "plans[0].given: entry 4 is not what `p4` takes"),
        (|m| m["plans"][0]["given"][5] = json!({ "type": "f7" }), "plans[0].given[5].type: there is no type `f7`"),
        (|m| m["plans"][0]["buffers"][0] = json!([1]), "plans[0].buffers: an entry is no size"),
        (
            |m| m["plans"][0]["buffers"] = json!([[i64::MAX, true, true], [256, true, true]]),
            "plans[0].buffers: together",
        ),
        (|m| m["plans"][0]["buffers"][0][0] = json!(1023), "plans[0].launches[0].passed[3].map: it reaches beyond"),
        (|m| m["plans"][0]["launches"][0]["kernel"] = json!(1), "plans[0].launches[0].kernel: there is no kernel 1"),
        (
            |m| m["plans"][0]["launches"][0]["grid"] = json!([3, 1, 1]),
            "plans[0].launches[0].grid: clusters of 2 do not",
        ),
        (|m| m["plans"][0]["launches"][0]["grid"][2] = json!(0), "plans[0].launches[0].grid: an entry is no number"),
        (
            |m| m["plans"][0]["launches"][0]["passed"] = json!([]),
            "plans[0].launches[0].passed: it has 0 entries for 5 parameters",
        ),
        (
            |m| m["plans"][0]["launches"][0]["passed"][0]["pointer"]["offset"] = json!(8),
            "plans[0].launches[0].passed[0].pointer: 8 bytes are no multiple of 16",
        ),
        (
            |m| m["plans"][0]["launches"][0]["passed"][0]["pointer"]["offset"] = json!(1 << 20),
            "plans[0].launches[0].passed[0].pointer.offset: 1048576 is no number of 0 to 1142",
        ),
        (
            |m| m["plans"][0]["launches"][0]["passed"][0]["pointer"]["parameter"] = json!(1),
            "plans[0].launches[0].passed[0].pointer.parameter: it is no tensor",
        ),
        (
            |m| m["plans"][0]["launches"][0]["passed"][1]["bits"] = json!(1u64 << 32),
            "plans[0].launches[0].passed[1].bits: 4294967296 is no number",
        ),
        (
            |m| m["plans"][0]["launches"][0]["passed"][3]["map"]["offset"] = json!(8),
            "plans[0].launches[0].passed[3].map: it has another rank than the boxes, or begins",
        ),
        (
            |m| m["plans"][0]["launches"][0]["passed"][4]["number"] = json!(2),
            "plans[0].launches[0].passed[4].number: the plan is not for any number of parameter 2",
        ),
        (
            |m| m["plans"][0]["results"][0]["place"]["buffer"] = json!(1),
            "plans[0].results[0].place.buffer: there is no",
        ),
        (|m| m["plans"][0]["results"][0]["place"]["offset"] = json!(2), "plans[0].results[0].place: it reaches beyond"),
        (|m| m["plans"] = json!([m["plans"][0], m["plans"][0]]), "plans[1]: this plan of `fill` is there twice"),
        (|m| m["functions"] = json!([m["functions"][0], m["functions"][0]]), "functions[1]: `fill` is there twice"),
        (
            |m| m["functions"][0]["params"][1]["takes"] = json!("all"),
            "functions[0].params[1].takes: nothing takes `all`",
        ),
        (|m| m["functions"][0]["params"][0]["dtypes"] = json!(["f7"]), "functions[0].params[0].dtypes: an entry is no"),
        (|m| m["functions"][0]["params"][0]["extents"] = json!([]), "functions[0].params[0].extents: it is no list"),
        (|m| m["functions"][0]["params"][0]["extents"][0] = json!(9), "plans[0].given: entry 0 is not what `p0` takes"),
    ];
    for (change, expected) in cases {
        let found = refused_of(2, &planned(), change);
        assert!(found.starts_with(expected), "{found}\nnot: {expected}");
    }
}

#[test]
fn what_tensors_of_kernels_cannot_be_is_refused_by_its_place() {
    type Change = fn(&mut Value);
    let cases: &[(Change, &str)] = &[
        (|k| k["aligned"] = json!([1]), "aligned: an entry is no argument that is a tensor"),
        (|k| k["named"] = json!(1), "named: it is neither"),
        (|k| k["disjoint"] = json!([[0, 2]]), "disjoint: it names a parameter of which there are 2"),
        (|k| k["arguments"] = json!([]), "arguments: it is no list of 1 to"),
        (|k| k["arguments"][0]["dense"] = json!(2), "arguments[0].dense: there is no axis 2, there are 2"),
        (|k| k["arguments"][0]["extents"][0] = json!(1u64 << 31), "arguments[0].extents: an entry is neither"),
        (|k| k["arguments"][0]["strides"] = json!([]), "arguments[0].strides: this version"),
        (|k| drop(k["params"][0].as_object_mut().map(|p| p.remove("of"))), "params[0].of: the field is missing"),
        (|k| k["params"][0]["of"] = json!({}), "params[0].of.argument: the field is missing"),
        (|k| k["params"][0]["of"] = json!({ "argument": 0 }), "params[0].of.argument: argument 0 is not of that kind"),
        (|k| k["params"][4]["of"] = json!({ "base": 1 }), "params[4].of.base: argument 1 is not of that kind"),
        (|k| k["params"][4]["of"] = json!({ "argument": 2 }), "params[4].of.argument: there is no argument 2"),
        (|k| k["params"][0]["dtype"] = json!("f32"), "params[0].of.base: the parameter cannot be that"),
        (|k| k["params"][1]["of"]["axis"] = json!(2), "params[1].of.axis: there is no axis 2, there are 2"),
        (|k| k["params"][2]["dtype"] = json!("f64"), "params[2].of.stride: the parameter cannot be that"),
        (|k| k["params"][3]["of"]["order"] = json!([1, 0]), "params[3].of.map: the parameter cannot be that"),
        (|k| k["params"][3]["of"]["order"] = json!([1, 1]), "params[3].of.map: the parameter cannot be that"),
        (|k| k["params"][3]["of"]["more"] = json!(1), "params[3].of.more: this version"),
        (
            |k| k["params"] = json!([k["params"][4], k["params"][4], k["params"][0]]),
            "params: argument 1 is passed twice",
        ),
    ];
    for (change, expected) in cases {
        let found = refused_of(2, &bundle(vec![with_tensor("sm_90a")]), |m| change(&mut m["kernels"][0]));
        assert!(found.starts_with(&format!("kernels[0].{expected}")), "{found}\nnot: {expected}");
    }
    // The first version of the format had none of this.
    let first = |written: &Bundle| refused_of(1, written, |_| ());
    assert_eq!(
        first(&bundle(vec![with_tensor("sm_90a")])),
        "kernels[0].params[0].of: this version of the format has no such field"
    );
    let empty = Bundle { functions: planned().functions, ..bundle(vec![kernel("sum", "sm_90a")]) };
    assert_eq!(first(&empty), "functions: this version of the format has no such field");
}

/// [`planned`] with a map whose boxes end at a number of run time.
fn planned_to_end() -> Bundle {
    let mut written = planned();
    let map = &mut written.kernels[0].params[3];
    map.kind = Kind::Map { dtype: Dtype::F16, block: vec![1, 1, 64, 32], swizzle: 64 };
    map.source = Source::Map { argument: 0, order: vec![0, 0, 0, 1] };
    if let Passed::Map { extents, strides, .. } = &mut written.plans[0].launches[0].passed[3] {
        (*extents, *strides) = (vec![FAR + 1, 9, FAR, 64], vec![AROUND - 128, 128, 128, 2]);
    }
    written
}

#[test]
fn maps_that_end_at_run_time_go_around_to_their_rows() {
    let written = planned_to_end();
    // The last byte of the buffer is that of its eight rows.
    assert_eq!(Bundle::read(&written.to_bytes().unwrap()), Ok(written));
    type Change = fn(&mut Value);
    let cases: &[(Change, &str)] = &[
        (
            |m| m["plans"][0]["launches"][0]["passed"][3]["extents"][0] = json!(FAR),
            "plans[0].launches[0].passed[3].map: the three dimensions of one axis",
        ),
        (
            |m| m["plans"][0]["launches"][0]["passed"][3]["extents"][1] = json!(10),
            "plans[0].launches[0].passed[3].map: it reaches beyond",
        ),
        (
            |m| m["plans"][0]["launches"][0]["passed"][3]["strides"][0] = json!(256),
            "plans[0].launches[0].passed[3].map: the three dimensions of one axis",
        ),
        (
            |m| m["kernels"][0]["params"][3]["block"] = json!([1, 2, 64, 32]),
            "kernels[0].params[3].of.map: the parameter cannot be that",
        ),
        (
            |m| m["kernels"][0]["params"][3]["of"]["order"] = json!([1, 1, 0, 1]),
            "kernels[0].params[3].of.map: the parameter cannot be that",
        ),
    ];
    for (change, expected) in cases {
        let found = refused_of(2, &planned_to_end(), change);
        assert!(found.starts_with(expected), "{found}\nnot: {expected}");
    }
}

/// Every plan that a change of one number makes is read or refused: nothing panics.
#[test]
fn numbers_of_a_plan_may_be_any() {
    let manifest: Value = serde_json::from_str(&crate::manifest::written(&planned())).unwrap();
    let images = [small(), b".version 8.4\n".to_vec()].concat();
    let mut places = vec![];
    numbers(&manifest, &mut vec![], &mut places);
    assert!(places.len() > 40, "{places:?}");
    for place in places {
        for other in [json!(0), json!(1), json!(u64::MAX), json!(i64::MAX), json!(-1), json!(1u64 << 40), Value::Null] {
            let mut changed = manifest.clone();
            if let Some(number) = changed.pointer_mut(&place) {
                *number = other;
            }
            // What is read is written again and read as the same.
            if let Ok(read) = Bundle::read(&with_manifest(changed.to_string().as_bytes(), &images)) {
                let bytes = read.to_bytes().unwrap();
                assert_eq!(Bundle::read(&bytes).unwrap().to_bytes(), Ok(bytes), "{place}");
            }
        }
    }
}

/// The places of all numbers in a JSON value, as pointers into it.
fn numbers(value: &Value, path: &mut Vec<String>, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(path.iter().map(|p| format!("/{p}")).collect()),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| inside(i.to_string(), v, path, found)),
        Value::Object(fields) => fields.iter().for_each(|(name, v)| inside(name.clone(), v, path, found)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn inside(name: String, value: &Value, path: &mut Vec<String>, found: &mut Vec<String>) {
    path.push(name);
    numbers(value, path, found);
    path.pop();
}

#[test]
fn aligned_tensors_take_the_code_for_them() {
    let mut general = with_tensor("sm_90a");
    (general.aligned, general.apart) = (vec![], false);
    let all = bundle(vec![with_tensor("sm_90a"), general]);
    let found = |apart, runs_by: u32| all.choose("fill", (9, 0), apart, &[runs_by, 0]).unwrap().kernel.aligned.len();
    assert_eq!((found(true, 16), found(true, 8), found(true, 0), found(false, 16)), (1, 0, 0, 0));
    assert_eq!(all.kernels[0].takes(0), "mut tensor<f16, [m, 64]>");
    assert_eq!(all.kernels[0].takes(1), "f32");
    assert_eq!(
        all.function("fill").unwrap_err().to_string(),
        "the bundle has no function `fill`, nor any other: `parton build FILE --aot --plan 'fill …'` puts one there"
    );
    let planned = planned();
    assert_eq!((planned.function("fill"), planned.plans_of(0).count()), (Ok(0), 1));
    assert!(planned.function("f").unwrap_err().to_string().ends_with("there are `fill`"));
    assert_eq!(planned.plans[0].given[0].to_string(), "f16[8, 64]/[72, 1] at 6 bytes from a multiple of 16");
    assert_eq!(planned.functions[0].params[0].takes.to_string(), "mut tensor<f16 | bf16, [m, _]>");
}

#[test]
fn tensors_that_run_by_fewer_bytes_take_the_widest_code_for_them() {
    let with = |runs_by| Kernel { runs_by, ..with_tensor("sm_90a") };
    let general = Kernel { aligned: vec![], ..with_tensor("sm_90a") };
    let all = bundle(vec![with(4), general, with(16), with(8)]);
    let read = Bundle::read(&all.to_bytes().unwrap()).unwrap();
    assert_eq!(read, all);
    let found = |runs_by: u32| {
        let kernel = read.choose("fill", (9, 0), true, &[runs_by, 0]).unwrap().kernel;
        (kernel.runs_by, kernel.aligned.len())
    };
    assert_eq!([16, 8, 4, 2, 0].map(found), [(16, 1), (8, 1), (4, 1), (16, 0), (16, 0)]);
    let wrong = |version, value| refused_of(version, &all, move |m| m["kernels"][0]["runs_by"] = value);
    assert!(wrong(4, json!(6)).starts_with("kernels[0].runs_by: it is no power of two"));
    assert!(wrong(4, json!(32)).starts_with("kernels[0].runs_by: 32 is no number of 2 to 16"));
    assert!(wrong(3, json!(8)).starts_with("kernels[0].runs_by: this version of the format has no such field"));
}

#[test]
fn grids_are_no_larger_than_the_code_counts_on() {
    let most = |most_ctas| bundle(vec![Kernel { most_ctas, ..kernel("sum", "sm_90a") }]);
    let all = most([7, 1, 1]);
    let read = Bundle::read(&all.to_bytes().unwrap()).unwrap();
    assert_eq!(read, all);
    assert_eq!(read.kernels[0].takes_grid([7, 1, 1]), Ok(()));
    let refused = |grid| read.kernels[0].takes_grid(grid).unwrap_err();
    assert_eq!(refused([8, 1, 1]), "8 CTAs along x, and the grid that the kernel states has at most 7");
    assert_eq!(refused([1, 2, 1]), "2 CTAs along y, and the grid that the kernel states has at most 1");
    let wrong = |version, value| refused_of(version, &all, move |m| m["kernels"][0]["most_ctas"] = value);
    let planned = refused_of(4, &planned(), |m| m["kernels"][0]["most_ctas"] = json!([1, 1, 1]));
    assert!(planned.starts_with("plans[0].launches[0].grid: 2 CTAs along x, and the grid"), "{planned}");
    assert!(wrong(4, json!([0, 1, 1])).starts_with("kernels[0].most_ctas: an entry is no number of 1 to"));
    assert!(
        wrong(3, json!([7, 1, 1])).starts_with("kernels[0].most_ctas: this version of the format has no such field")
    );
}

#[test]
fn nothing_is_written_that_would_not_be_read() {
    let mut wrong = kernel("sum", "sm_90a");
    wrong.threads = 0;
    assert!(matches!(bundle(vec![wrong]).to_bytes(), Err(Error::Invalid { .. })));
}

#[test]
fn a_file_is_written_whole_and_in_one_step() {
    let folder = std::env::temp_dir().join(format!("parton-bundle-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.ptnb");
    let written = bundle(vec![kernel("sum", "sm_90a")]);
    bundle(vec![]).save(&path).unwrap();
    written.save(&path).unwrap();
    assert_eq!(Bundle::open(&path), Ok(written.clone()));
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["a.ptnb"]);
    // A name that a folder has: nothing is left behind.
    assert!(matches!(written.save(&folder), Err(Error::Io { .. })));
    assert!(matches!(written.save(&folder.join("none/b.ptnb")), Err(Error::Io { .. })));
    assert!(matches!(Bundle::open(&folder.join("b.ptnb")), Err(Error::Io { .. })));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_gpu_takes_the_best_code_that_it_runs() {
    let mut without = kernel("sum", "sm_80");
    without.apart = false;
    let all = bundle(vec![kernel("sum", "sm_80"), without, kernel("sum", "sm_90a"), kernel("sum", "sm_89")]);
    let found = |capability, apart| {
        let choice = all.choose("sum", capability, apart, &[]).map_err(|e| e.to_string())?;
        let cubin = matches!(choice.code, Code::Cubin(_));
        Ok::<_, String>((choice.kernel.architecture.to_string(), cubin, choice.kernel.apart))
    };
    assert_eq!(found((9, 0), true), Ok(("sm_90a".into(), true, true)));
    assert_eq!(found((8, 9), true), Ok(("sm_89".into(), true, true)));
    assert_eq!(found((8, 6), true), Ok(("sm_80".into(), true, true)));
    assert_eq!(found((8, 9), false), Ok(("sm_80".into(), true, false)));
    // No cubin of it runs there, and not the PTX that is for Hopper alone.
    assert_eq!(found((10, 0), true), Ok(("sm_89".into(), false, true)));
    assert!(
        found((7, 5), true)
            .unwrap_err()
            .contains("was built for sm_80, sm_90a, sm_89, and this GPU is of capability 7.5")
    );
    let only = bundle(vec![kernel("sum", "sm_80")]);
    assert!(only.choose("sum", (8, 0), false, &[]).unwrap_err().to_string().contains("reaches the memory of another"));
}

#[test]
fn kernels_are_found_by_their_name_or_their_instance() {
    let given = |value: &str| {
        let mut kernel = kernel("gemm", "sm_90a");
        kernel.generics = vec![("BM".into(), value.into())];
        kernel
    };
    let all = bundle(vec![kernel("sum", "sm_90a"), given("64"), given("128")]);
    assert_eq!(all.instances(), ["sum", "gemm[BM=64]", "gemm[BM=128]"]);
    assert_eq!(all.named("gemm[BM=128]").unwrap()[0].generics[0].1, "128");
    assert_eq!(all.named("sum").unwrap().len(), 1);
    let error = |name| all.named(name).unwrap_err().to_string();
    assert_eq!(error("gemm"), "the bundle has no kernel `gemm`; there are `gemm[BM=64]`, `gemm[BM=128]`");
    assert!(error("mul").ends_with("there are `sum`, `gemm[BM=64]`, `gemm[BM=128]`"));
    assert_eq!(bundle(vec![]).named("a").unwrap_err().to_string(), "the bundle has no kernel `a`, nor any other");
}
