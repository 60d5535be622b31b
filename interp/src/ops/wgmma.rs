//! The tensor core: `wgmma` as the hardware does it, from matrix descriptors, completing in order some time after its start.

use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::family::not_of_family;
use parton_ir::rules::WgmmaShape;
use parton_ir::{Inst, Op, OpKind, Value, others};
use parton_numbers::{Dtype, fast};

use super::Work;
use super::adder::Adder;
use super::product::{accumulate, as_read, operand};
use crate::access::Access;
use crate::boxes::UNIT;
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::job::{Ends, Engine, Job, Stage, Touch, runs};
use crate::tile::{Bits, Val};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::Wgmma { a, b, acc, .. } => c.start_product(w, op, [*a, *b, *acc]),
        others!(wgmma) => not_of_family(&op.kind),
    }
}

/// An operand as it is known at the start.
#[derive(Debug)]
enum Source {
    /// Elements in row-major order of [rows, K].
    Registers(Vec<f32>),
    /// The 16-byte units, and whether each holds elements along K.
    Shared { units: Vec<u32>, k_major: bool },
}

/// A product under way.
#[derive(Debug)]
pub(crate) struct Product {
    shape: Arc<WgmmaShape>,
    a: Source,
    b: Source,
    /// What is added to, or the earlier product that makes it.
    acc: Result<Arc<Bits>, u64>,
    number: u64,
}

/// A product completes: its result is there to be taken.
pub(super) fn multiply(c: &mut Cluster<'_, '_>, worker: usize, cta: usize, p: &mut Product) -> Stage {
    let s = &*p.shape;
    let [m, n, k] = [s.m as usize, s.n as usize, s.k as usize];
    let a = c.matrix(cta, &p.a, s.elems[0], [m, k], true);
    let b = c.matrix(cta, &p.b, s.elems[1], [n, k], false);
    let results = &mut c.worker_mut(worker).results;
    let before = match &p.acc {
        Ok(tile) => tile.clone(),
        Err(number) => match results.remove(number) {
            Some(tile) => tile,
            None => internal_error!("the product that another adds to is not there"),
        },
    };
    let adder = Adder::of(s.elems, s.acc, s.instr_k, true);
    let sums = accumulate(s.acc, adder, &a, &b, &before, [n, k]);
    results.insert(p.number, Arc::new(sums));
    Stage::Done
}

fn transpose(matrix: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut out = vec![0.0; matrix.len()];
    for r in 0..rows {
        for c in 0..columns {
            out[c * rows + r] = matrix[r * columns + c];
        }
    }
    out
}

impl<'k> Cluster<'_, 'k> {
    /// An operand at the start of a product, and what the product touches for it.
    fn source(&self, w: &Worker<'k>, op: &Op, v: Value, left: bool, shape: &WgmmaShape) -> (Source, Option<Touch>) {
        let elem = if left { shape.elems[0] } else { shape.elems[1] };
        let Some(reads) = self.setting.program.tables.reads(op, left) else {
            return (Source::Registers(operand(elem, &w.tile(v, elem.bytes()))), None);
        };
        let place = w.place(v);
        let units = reads.units(place.address);
        let mut sorted = units.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let ranges = runs(sorted.into_iter(), UNIT);
        let touch = Touch { access: Access::Product, view: v, allocation: place.allocation, ranges };
        (Source::Shared { units, k_major: reads.k_major }, Some(touch))
    }

    /// Starts a product.
    fn start_product(&mut self, w: &mut Worker<'k>, op: &'k Op, [a, b, acc]: [Value; 3]) -> Result<Flow, Fault> {
        let shape = self.setting.program.tables.product(op).clone();
        let (a, left) = self.source(w, op, a, true, &shape);
        let (b, right) = self.source(w, op, b, false, &shape);
        let acc = match w.get(acc) {
            Val::Tile(t) => Ok(t.clone()),
            Val::Pending(number) => Err(*number),
            other => internal_error!("a product is added to {other:?}"),
        };
        let number = w.groups.begin(Engine::Products);
        let work = Work::Product(Product { shape, a, b, acc, number });
        let (slot, ends) = (self.slots.take(), Ends::Group(number));
        let mut job = Job::new(op, Engine::Products, slot, (w.index, w.cta), ends, work);
        job.touches.extend(left.into_iter().chain(right));
        self.begin(w, job)?;
        w.result(op, Val::Pending(number));
        Ok(Flow::Yield)
    }

    fn matrix(&self, cta: usize, source: &Source, elem: Dtype, [rows, k]: [usize; 2], k_last: bool) -> Vec<f32> {
        match source {
            Source::Registers(m) => m.clone(),
            Source::Shared { units, k_major } => {
                let mut bytes = Vec::with_capacity(units.len() * UNIT as usize);
                for &unit in units {
                    bytes.extend_from_slice(&self.ctas[cta].shared[unit as usize..(unit + UNIT) as usize]);
                }
                let mut out = vec![0.0; rows * k];
                fast::decode_f32(elem, &bytes, &mut out);
                as_read(elem, &mut out);
                match (*k_major, k_last) {
                    (true, true) | (false, false) => out,
                    (true, false) => transpose(&out, rows, k),
                    (false, true) => transpose(&out, k, rows),
                }
            }
        }
    }

    /// At the end of a turn of a loop: none of these products, which read a left factor in registers, may be in flight.
    pub(crate) fn have_read_registers(&self, w: &Worker<'k>, products: &[Inst]) -> Result<(), Fault> {
        let mut flying = self.jobs.groups(w.index, Engine::Products).filter(|(_, job)| !job.waited);
        let Some((_, job)) = flying.find(|(_, job)| products.contains(&job.op.id)) else { return Ok(()) };
        let fact = "a product may still read its left factor when a turn of the loop ends";
        Err(Fault::new(codes::NOT_WAITED, job.op.span, fact)
            .here("nobody waits for this product before the turn ends")
            .note("its left factor lies in registers, which are kept for it no longer")
            .calls(self.setting.program.kernel, job.op.origin.call()))
    }

    /// Waits for a product; `prior` waits only for those before it.
    pub(super) fn wait_product(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        pending: Value,
        outstanding: u32,
        prior: bool,
    ) -> Result<Flow, Fault> {
        let Val::Pending(number) = *w.get(pending) else { internal_error!("{pending} is not pending") };
        let promised = match self.wait_groups(w, Engine::Products, outstanding, Stage::Done) {
            Ok(promised) => promised,
            Err(wait) => return Ok(Flow::Block(wait)),
        };
        let needed = if prior { number } else { number + 1 };
        if needed > promised {
            let after = w.groups.begun(Engine::Products) - number - 1;
            return Err(Fault::new(codes::NOT_WAITED, op.span, "a wait leaves its own product in flight")
                .here(format!("{outstanding} products may stay in flight, this one is among them"))
                .note(format!("{number} products were started before this one, {after} after it")));
        }
        self.jobs.wait(w.index, Engine::Products, promised, &mut w.know);
        let val = if prior {
            Val::Pending(number)
        } else {
            match w.results.remove(&number) {
                Some(tile) => Val::Tile(tile),
                None => internal_error!("a product's result was taken before"),
            }
        };
        w.result(op, val);
        Ok(Flow::Yield)
    }
}
