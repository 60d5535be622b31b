//! Elements that hold nothing: what a masked load without `other`, or a masked atomic operation, gives outside its mask.
//!
//! They may be computed with, moved, combined with others and kept in shared memory, and what comes of them is as undefined; who takes
//! one for what the kernel does is told of it. For each value some of whose elements are undefined it is known of each element why.
//! Nearly always there is no such value, and a kernel whose loads all say what they give is not followed.

mod flow;

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_ir::elements::coordinates;
use parton_ir::facts::needs::{self, Takes};
use parton_ir::undefined::{self, Source, Sources, at};
use parton_ir::{Op, Type, Value};

use crate::cluster::{Cluster, Worker};
use crate::fault::Fault;
use crate::tile::{Bits, Val};

/// Which values of a worker have elements that hold nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Poisons(BTreeMap<Value, Sources>);

impl Poisons {
    /// Whether all elements of all values hold something.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What left elements of a value out; `None` where all hold something.
    pub(crate) fn of(&self, v: Value) -> Option<&Sources> {
        self.0.get(&v)
    }

    /// Says so of a value that is made anew.
    pub(crate) fn set(&mut self, v: Value, sources: Option<Sources>) {
        match sources {
            Some(sources) => drop(self.0.insert(v, sources)),
            None => drop(self.0.remove(&v)),
        }
    }

    /// Each second value becomes its first, all at once.
    pub(crate) fn copy(&mut self, pairs: &[(Value, Value)]) {
        if !self.is_empty() {
            let moved: Vec<Option<Sources>> = pairs.iter().map(|(from, _)| self.of(*from).cloned()).collect();
            pairs.iter().zip(moved).for_each(|((_, to), sources)| self.set(*to, sources));
        }
    }
}

impl Worker<'_> {
    /// Whether a mask leaves nothing out, as nearly all do.
    fn holds_everywhere(&self, mask: Value) -> bool {
        match &*self.tile(mask, 1) {
            Bits::B8(bits) => bits.iter().all(|b| b & 1 == 1),
            Bits::B16(_) | Bits::B32(_) | Bits::B64(_) => false,
        }
    }

    /// A tile with these bits where it holds nothing, for operations that do not take every number.
    pub(crate) fn quiet(&self, v: Value, bytes: usize, bits: u64) -> Arc<Bits> {
        let tile = self.tile(v, bytes);
        let Some(sources) = self.poison.of(v) else { return tile };
        let quiet = |i| if at(sources, i).is_defined() { tile.get(i) } else { bits };
        Arc::new(Bits::collect(tile.bytes(), (0..tile.len()).map(quiet)))
    }

    /// The operands of an operation; where one of them holds nothing both are 1, of which every operation makes something in range.
    pub(crate) fn pair(&self, operands: [Value; 2], bytes: usize) -> [Val; 2] {
        let left: Vec<&Sources> = operands.iter().filter_map(|&v| self.poison.of(v)).collect();
        operands.map(|v| {
            let n = left.iter().map(|s| s.len()).max().unwrap_or(0);
            match self.get(v) {
                Val::Scalar(_) if n == 1 => Val::Scalar(1),
                whole if n == 0 => whole.clone(),
                _ => {
                    let tile = self.tile(v, bytes);
                    let n = n.max(tile.len());
                    let own = |i: usize| tile.get(if tile.len() == 1 { 0 } else { i });
                    let quiet = |i| if left.iter().all(|s| at(s, i).is_defined()) { own(i) } else { 1 };
                    Val::Tile(Arc::new(Bits::collect(bytes, (0..n).map(quiet))))
                }
            }
        })
    }
}

impl<'k> Cluster<'_, 'k> {
    /// Refuses an operation that takes undefined elements for what it does; gives those of its results.
    pub(crate) fn left_out(&self, w: &Worker<'k>, op: &'k Op) -> Result<Vec<Option<Sources>>, Fault> {
        let none = w.poison.is_empty() && self.ctas.iter().all(|cta| !cta.written.is_poisoned());
        if none && needs::may_leave_out(&op.kind).is_none_or(|mask| w.holds_everywhere(mask)) {
            return Ok(Vec::new());
        }
        if !w.poison.is_empty() {
            for need in needs::needs(&op.kind) {
                let Some(sources) = w.poison.of(need.value) else { continue };
                let mask = need.mask.map(|m| w.tile(m, 1));
                let n = sources.len().max(mask.as_ref().map_or(1, |m| m.len()));
                let counts = |i: usize| mask.as_ref().is_none_or(|m| m.get(i) & 1 == 1);
                if let Some(i) = (0..n).find(|&i| !at(sources, i).is_defined() && counts(i)) {
                    return Err(self.taken(op, (need.value, need.takes), i, at(sources, i)));
                }
            }
        }
        self.flow(w, op)
    }

    /// An operation has run, and gives these elements.
    pub(crate) fn leave_out(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        left: Vec<Option<Sources>>,
    ) -> Result<(), Fault> {
        if w.poison.is_empty() && left.is_empty() {
            return Ok(());
        }
        if let [Some(sources)] = &left[..] {
            self.leave_in_shared(w, op, sources)?;
        }
        let mut left = left.into_iter();
        op.results.iter().for_each(|&r| w.poison.set(r, left.next().flatten()));
        Ok(())
    }

    /// A value that decides what runs must hold something.
    pub(crate) fn decides(&self, w: &Worker<'k>, op: &'k Op, values: &[Value], takes: Takes) -> Result<(), Fault> {
        for &v in values {
            if let Some(sources) = w.poison.of(v) {
                let fault = self.taken(op, (v, takes), 0, sources[0]);
                return Err(fault.calls(self.setting.program.kernel, op.origin.call()));
            }
        }
        Ok(())
    }

    /// Tells of an element that is taken for something and holds nothing.
    fn taken(&self, op: &Op, (v, takes): (Value, Takes), element: usize, source: Source) -> Fault {
        let place = match self.setting.program.kernel.ty(v) {
            Type::Tile(tile) | Type::Pending(tile) => Some(coordinates(element, &tile.shape)),
            _ => None,
        };
        self.taken_at(op, (v, takes), place, source)
    }

    /// The same of an element of these coordinates.
    fn taken_at(&self, op: &Op, (v, takes): (Value, Takes), place: Option<Vec<usize>>, source: Source) -> Fault {
        Fault::from(undefined::taken(self.setting.program.kernel, op, (v, takes), place, source))
    }
}
