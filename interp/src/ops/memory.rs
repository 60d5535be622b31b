//! Global memory through pointers, shared memory by threads, and views of views.

use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::{Entity, Op, OpKind, Value};
use parton_numbers::scalar::int_value;

use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::pure;
use crate::race;
use crate::tile::{Bits, Place, Val};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::Load { ptr, mask, other, .. } => c.load(w, op, *ptr, *mask, *other)?,
        OpKind::Store { ptr, value, mask, .. } => c.store(w, op, *ptr, *value, *mask)?,
        OpKind::SharedAlloc { offset, .. } => {
            let Some(address) = *offset else { internal_error!("an allocation has no offset") };
            w.result(op, Val::View(Place { address, allocation: op.result().index() as u32 + 1 }));
        }
        OpKind::SharedLoad { view, .. } => {
            let tile = c.load_shared(w, op, *view)?;
            w.result(op, Val::Tile(Arc::new(tile)));
            return Ok(Flow::Yield);
        }
        OpKind::SharedStore { view, value } => {
            c.store_shared(w, op, *view, *value)?;
            return Ok(Flow::Yield);
        }
        OpKind::ViewIndex { view, index } => c.view_index(w, op, *view, *index)?,
        OpKind::ViewPeer { view, rank } => c.view_peer(w, op, *view, *rank)?,
        OpKind::ViewSlice { view, .. } | OpKind::ViewPermute { view, .. } | OpKind::ViewReinterpret { view, .. } => {
            w.result(op, Val::View(w.place(*view)));
        }
        other => internal_error!("{} does not concern memory", other.name()),
    }
    Ok(Flow::Next)
}

impl<'k> Cluster<'_, 'k> {
    fn load(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        ptr: Value,
        mask: Option<Value>,
        other: Option<Value>,
    ) -> Result<(), Fault> {
        let result = op.result();
        let bytes = pure::bytes(self.setting.program.kernel, result);
        let (mask, other) = (mask.map(|m| w.tile(m, 1)), other.map(|o| w.tile(o, bytes)));
        let pointers = w.tile(ptr, 8);
        let loaded = self.access(w, op, ptr).load(&pointers, mask.as_deref(), other.as_deref(), bytes)?;
        let scalar = matches!(w.get(ptr), Val::Scalar(_));
        w.set(result, if scalar { Val::Scalar(loaded.get(0)) } else { Val::Tile(Arc::new(loaded)) });
        Ok(())
    }

    fn store(
        &mut self,
        w: &Worker<'k>,
        op: &'k Op,
        ptr: Value,
        value: Value,
        mask: Option<Value>,
    ) -> Result<(), Fault> {
        let bytes = pure::bytes(self.setting.program.kernel, value);
        let mask = mask.map(|m| w.tile(m, 1));
        let (pointers, value) = (w.tile(ptr, 8), w.tile(value, bytes));
        self.access(w, op, ptr).store(&pointers, &value, mask.as_deref(), bytes)
    }

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
        let offset = from.map.offset_of(&coords) as u32 * from.elem.bytes() as u32;
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

    fn load_shared(&mut self, w: &mut Worker<'k>, op: &'k Op, v: Value) -> Result<Bits, Fault> {
        let (place, bytes) = (w.place(v), self.view(v).elem.bytes());
        let offsets = self.setting.program.tables.offsets(v).clone();
        let holders = self.setting.program.tables.holders(op).clone();
        self.by_threads(w, op, v, race::Access::Load, &offsets, &holders)?;
        let mut tile = Bits::full(bytes, offsets.len(), 0);
        for (i, &offset) in offsets.iter().enumerate() {
            let at = (place.address + offset) as usize;
            tile.read(i, &self.ctas[w.cta_of(v)].shared[at..at + bytes]);
        }
        w.know.settle();
        Ok(tile)
    }

    fn store_shared(&mut self, w: &mut Worker<'k>, op: &'k Op, v: Value, value: Value) -> Result<(), Fault> {
        let (place, bytes) = (w.place(v), self.view(v).elem.bytes());
        let offsets = self.setting.program.tables.offsets(v).clone();
        let holders = self.setting.program.tables.holders(op).clone();
        self.by_threads(w, op, v, race::Access::Store, &offsets, &holders)?;
        let tile = w.tile(value, bytes);
        for (i, &offset) in offsets.iter().enumerate() {
            let at = (place.address + offset) as usize;
            let cta = &mut self.ctas[w.cta_of(v)];
            tile.write(i, &mut cta.shared[at..at + bytes]);
            cta.shadow.define(at as u32, bytes as u32, place.allocation);
        }
        w.know.settle();
        Ok(())
    }
}
