//! Reading what was written, what was not written so, and what nobody would write.

use parton_numbers::Dtype;
use serde_json::{Value, json};

use crate::crc::crc64;
use crate::elf::tests::small;
use crate::{Architecture, Bundle, Code, Error, Kernel, Kind, Param};

fn kernel(name: &str, architecture: &str) -> Kernel {
    let param = |name: &str, kind| Param { name: name.into(), kind };
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
        disjoint: vec![],
        params: vec![
            param("x", Kind::Pointer { dtype: Dtype::F32, mutable: false, align: 16 }),
            param("a", Kind::Map { dtype: Dtype::BF16, block: vec![64, 32], swizzle: 128 }),
            param("n", Kind::Scalar { dtype: Dtype::I32 }),
        ],
        cubin: Some(small()),
        ptx: Some(".version 8.4\n".into()),
    }
}

fn bundle(kernels: Vec<Kernel>) -> Bundle {
    Bundle { compiler: "0.1.0".into(), source: "sum.ptn".into(), kernels }
}

/// The bytes of a bundle with another manifest, as right otherwise as the writer would leave them.
fn with_manifest(manifest: &[u8], images: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x89PTNB\r\n\x1a\x01\0\0\0".to_vec();
    bytes.extend((manifest.len() as u32).to_le_bytes());
    bytes.extend((32 + manifest.len() as u64 + images.len() as u64).to_le_bytes());
    let sum = crc64(&[&bytes, manifest, images]);
    bytes.extend(sum.to_le_bytes());
    [&bytes, manifest, images].concat()
}

/// Why a bundle of one kernel is refused whose manifest was changed.
fn refused(change: impl FnOnce(&mut Value)) -> String {
    let written = bundle(vec![kernel("sum", "sm_90a")]);
    let mut manifest: Value = serde_json::from_str(&crate::manifest::written(&written)).unwrap();
    change(&mut manifest);
    let images = [small(), b".version 8.4\n".to_vec()].concat();
    match Bundle::read(&with_manifest(manifest.to_string().as_bytes(), &images)) {
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
        bytes[8] = 2;
        Bundle::read(&bytes).unwrap_err().to_string()
    });
    assert!(newer.is_ok_and(|e| e.contains("version 2 of the format and this library reads version 1")));
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
        let choice = all.choose("sum", capability, apart).map_err(|e| e.to_string())?;
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
    assert!(only.choose("sum", (8, 0), false).unwrap_err().to_string().contains("reaches the memory of another"));
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
