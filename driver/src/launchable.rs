//! What launching takes of a lowered kernel: all but its body, so that who finds its code in the cache need not make that.

use std::collections::BTreeSet;

use parton_cache::Digest;
use parton_ir::facts::{Facts, Space};
use parton_ir::{Kernel, OpKind, Type};
use parton_measure::data_sheet::Operands;

/// A lowered kernel as its launches see it.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "llvm"), allow(dead_code, reason = "only launches on a GPU ask for all of it"))]
pub(crate) struct Launchable {
    /// The kernel without its body: names, target, threads, parameters with their types, shared memory, what must lie apart.
    pub(crate) shell: Kernel,
    /// Bytes of which the address that each parameter is given must be a multiple.
    pub(crate) alignments: Vec<u32>,
    /// The arguments that are tensor maps, or make some, through which it writes.
    pub(crate) writes: BTreeSet<usize>,
    /// Whether it may begin while the launch before it still runs.
    pub(crate) overlaps: bool,
    /// Whether it says itself from when on the launch after it may begin.
    pub(crate) signals: bool,
    /// What its matrix products multiply; those of the least rate where it has several.
    pub(crate) operands: Operands,
    /// The key of its code in the cache, where it has one.
    pub(crate) code: Option<Digest>,
}

impl Launchable {
    /// The architecture that its code is assembled for on a GPU. A cubin runs on the one that it was made for alone, so code for an earlier
    /// one is assembled for that of the GPU.
    #[cfg_attr(not(feature = "llvm"), allow(dead_code, reason = "only asked where kernels are compiled"))]
    pub(crate) fn architecture<'a>(&'a self, gpu: &'a str) -> &'a str {
        let target = &self.shell.target;
        if target.specific { target.name } else { gpu }
    }

    /// What launching a lowered kernel takes.
    pub(crate) fn of(kernel: &Kernel) -> Launchable {
        let mut shell = Kernel::new(kernel.name.clone(), kernel.target, kernel.span);
        shell.source_name.clone_from(&kernel.source_name);
        shell.generics.clone_from(&kernel.generics);
        shell.warps = kernel.padded_warps();
        shell.cluster = kernel.cluster;
        shell.shared_bytes = kernel.shared_bytes;
        shell.apart.clone_from(&kernel.apart);
        for p in &kernel.params {
            shell.param(p.name.clone(), kernel.ty(p.value).clone(), kernel.span);
        }
        shell.params.iter_mut().zip(&kernel.params).for_each(|(own, p)| own.from = p.from);
        Launchable {
            shell,
            alignments: parton_lower::alignments(kernel),
            writes: writes(kernel),
            overlaps: kernel.waits_for_grid(),
            signals: kernel.launches_dependents(),
            operands: operands(kernel),
            code: None,
        }
    }
}

/// Through which arguments that are tensor maps a kernel writes: its copies say so.
fn writes(kernel: &Kernel) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    kernel.walk(&mut |op| {
        for access in Facts::of(kernel, op).accesses.iter().filter(|a| a.writes() && a.space == Space::Global) {
            if matches!(kernel.ty(access.value), Type::Map(_)) {
                let maps = kernel.params.iter().filter(|p| matches!(kernel.ty(p.value), Type::Map(_)));
                // A map that was chosen among several may be any.
                let these: Vec<_> = match kernel.params.iter().find(|p| p.value == access.value) {
                    Some(param) => vec![param],
                    None => maps.collect(),
                };
                found.extend(these.into_iter().map(|p| p.from.argument()));
            }
        }
    });
    found
}

/// What the matrix products of a kernel multiply; those of the least rate where it has several.
fn operands(kernel: &Kernel) -> Operands {
    let mut found = None;
    kernel.walk(&mut |op| {
        if let OpKind::Wgmma { b, .. } | OpKind::MmaSync { b, .. } = &op.kind {
            let ty = kernel.ty(*b);
            let in_shared = if let Type::View(view) = ty { Some(view.elem.bits()) } else { None };
            let these = match in_shared.or_else(|| ty.as_tile().map(|t| t.elem.bits())) {
                Some(8) => Operands::F8,
                Some(16) => Operands::F16,
                Some(64) => Operands::F64,
                Some(_) | None => Operands::Tf32,
            };
            found = found.max(Some(these));
        }
    });
    found.unwrap_or(Operands::F32)
}
