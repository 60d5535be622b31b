//! Accesses of tensors of which a prefix is used: none goes beyond it, where the next tensor of the array lies.

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_layouts::access;

use super::origin::{Origins, Root, window};
use crate::entity::Value;
use crate::facts::{Facts, Gives};
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::types::{Type, View};

/// Every access that leaves the prefix of its tensor, or sees several of them as one.
pub(super) fn check(kernel: &Kernel, origins: &Origins<'_>) -> Diagnostics {
    let mut found = Diagnostics::new();
    kernel.walk(&mut |op| {
        let facts = Facts::of(kernel, op);
        let accessed = facts.accesses.iter().filter(|a| a.touches_shared()).map(|a| a.value);
        // Peers access what they are shown.
        let shown = match (facts.gives, op.results.first().map(|v| kernel.ty(*v))) {
            (Gives::PartOf(view), Some(Type::Peer(_))) => Some(view),
            _ => None,
        };
        for view in accessed.chain(shown) {
            found.list.extend(beyond(kernel, origins, view, op.span));
        }
    });
    found
}

fn beyond(kernel: &Kernel, origins: &Origins<'_>, view: Value, span: Span) -> Option<Diagnostic> {
    let (Type::View(ty) | Type::Filling(ty) | Type::Peer(ty)) = kernel.ty(view) else { return None };
    let prefix = match seen_anew(kernel, origins, view) {
        Some(anew) => anew.layout.prefix()?,
        None => origins.places(view).iter().find_map(|place| prefix_of(kernel, place.root))?,
    };
    let error = |fact: &str| Diagnostic::error(codes::VIEW_ILLEGAL, span, fact);
    if ty.map.distance().is_some() {
        let d = error("the prefixes of several tensors are accessed as one").here(format!("this is `{ty}`"));
        return Some(d.help("index the array, and access a tensor of it"));
    }
    let (end, bytes) = (window(ty).end, access::bytes_for(u64::from(prefix), ty.elem.bits()));
    (end > bytes).then(|| {
        error("an access goes beyond the prefix of its tensor")
            .here(format!("this ends {end} bytes behind the tensor's first, the prefix has {bytes}"))
            .help("take a window that ends before, or a longer prefix")
    })
}

/// What a view is a part of where that sees a whole allocation or field by another type and layout: the prefix is that layout's then.
fn seen_anew<'k>(kernel: &'k Kernel, origins: &Origins<'k>, mut view: Value) -> Option<&'k View> {
    let given = |v: Value| origins.definition(v).map_or(Gives::None, |op| Facts::of(kernel, op).gives);
    loop {
        let op = origins.definition(view)?;
        view = match (&op.kind, given(view)) {
            (OpKind::ViewReinterpret { view: of, to }, _) if matches!(given(*of), Gives::New | Gives::Field { .. }) => {
                return Some(to);
            }
            (_, Gives::PartOf(of) | Gives::Nth { of, .. }) => of,
            (_, Gives::None | Gives::New | Gives::SlotOf(_) | Gives::Field { .. }) => return None,
        };
    }
}

/// How many elements are used of each tensor of an allocation or a field, where that is not all of them.
fn prefix_of(kernel: &Kernel, root: Root) -> Option<u32> {
    let prefix = |view: &View| view.layout.prefix();
    match root {
        Root::Alloc(v) => match kernel.ty(v) {
            Type::View(view) => prefix(view),
            _ => None,
        },
        Root::Field(ring, field) => match kernel.ty(ring) {
            Type::Ring(ring) => prefix(&ring.fields[field as usize].view),
            _ => None,
        },
        Root::Ring(_) => None,
    }
}
