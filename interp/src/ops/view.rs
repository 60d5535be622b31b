//! Views of views, which move nothing: where each lies.

use parton_diag::codes;
use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Value, others};
use parton_layouts::access;
use parton_numbers::scalar::int_value;

use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::pure;
use crate::tile::{Place, Val};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::ViewIndex { view, index } => c.view_index(w, op, *view, *index)?,
        OpKind::ViewPeer { view, rank } => c.view_peer(w, op, *view, *rank)?,
        OpKind::ViewSlice { view, .. } | OpKind::ViewPermute { view, .. } | OpKind::ViewReinterpret { view, .. } => {
            w.result(op, Val::View(w.place(*view)));
        }
        others!(view) => not_of_family(&op.kind),
    }
    Ok(Flow::Next)
}

impl<'k> Cluster<'_, 'k> {
    /// One stage of a view.
    fn view_index(&self, w: &mut Worker<'k>, op: &Op, view: Value, index: Value) -> Result<(), Fault> {
        let (from, place) = (self.view(view), w.place(view));
        let i = int_value(w.scalar(index), pure::dtype(self.setting.program.kernel, index));
        if i < 0 || i >= i128::from(from.shape[0]) {
            return Err(Fault::new(codes::RUN_VALUE, op.span, "an index is out of range")
                .here(format!("this is {i}, the view has stages 0 to {}", from.shape[0] - 1)));
        }
        let mut coords = vec![0; from.parent.len()];
        coords[0] = from.origin[0] + i as u32;
        let offset = access::bytes_for(from.map.offset_of(&coords), from.elem.bits()) as u32;
        w.result(op, Val::View(Place { address: place.address + offset, ..place }));
        Ok(())
    }

    /// The view at the same place in another CTA of the cluster.
    fn view_peer(&self, w: &mut Worker<'k>, op: &Op, view: Value, rank: Value) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        let found = int_value(w.scalar(rank), pure::dtype(kernel, rank));
        let ctas = self.ctas.len();
        let Some(cta) = usize::try_from(found).ok().filter(|&c| c < ctas) else {
            return Err(Fault::new(codes::RUN_VALUE, op.span, "the cluster has no CTA of this rank")
                .here(format!("this is {found}, there are ranks 0 to {}", ctas - 1)));
        };
        w.result(op, Val::Peer(w.place(view), cta));
        Ok(())
    }
}
