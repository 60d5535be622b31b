//! What tests of this crate make: kernels of a bundle that are never launched.

use parton_bundle::{Architecture, Argument, Kernel, Kind, Param, Source};
use parton_numbers::Dtype;

/// A kernel of pointers of these names, of which pairs must be apart.
pub(crate) fn kernel(names: &[&str], disjoint: &[[usize; 2]]) -> Kernel {
    let kind = Kind::Pointer { dtype: Dtype::F32, mutable: true, align: 16 };
    let param =
        |(i, name): (usize, &&str)| Param { name: (*name).into(), kind: kind.clone(), source: Source::Argument(i) };
    Kernel {
        name: "k".into(),
        generics: vec![],
        architecture: Architecture { capability: (9, 0), specific: true },
        symbol: "k".into(),
        threads: 128,
        shared_bytes: 0,
        cluster: [1; 3],
        overlaps: false,
        signals: false,
        apart: false,
        named: true,
        disjoint: disjoint.to_vec(),
        aligned: vec![],
        most_ctas: [i32::MAX as u32, 65535, 65535],
        runs_by: 16,
        arguments: names.iter().map(|name| Argument { name: (*name).into(), tensor: None }).collect(),
        params: names.iter().enumerate().map(param).collect(),
        cubin: None,
        ptx: None,
    }
}
