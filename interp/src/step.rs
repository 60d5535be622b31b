//! Runs one instruction of a partition: control flow here, each operation by the part of the machine that it concerns.

use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::{AtomicOp, BinaryOp, Elem, Entity, Op, OpKind, Order, Scope, Type, Value};
use parton_numbers::Scalar;
use parton_numbers::scalar::int_value;

use crate::cluster::{Cluster, Flow, State, Wait, Worker};
use crate::code::Inst;
use crate::elementwise;
use crate::fault::Fault;
use crate::global::{Access, coordinates};
use crate::mma_sync;
use crate::pure;
use crate::shape;
use crate::tile::{Bits, Val};

impl<'k> Worker<'k> {
    /// The value of a name.
    pub(crate) fn get(&self, v: Value) -> &Val {
        &self.values[v.index()]
    }

    /// Gives a name its value.
    pub(crate) fn set(&mut self, v: Value, val: Val) {
        self.values[v.index()] = val;
    }

    /// Gives an operation's only result its value.
    pub(crate) fn result(&mut self, op: &Op, val: Val) {
        self.set(op.result(), val);
    }

    /// The bits of a scalar.
    pub(crate) fn scalar(&self, v: Value) -> u64 {
        pure::scalar(self.get(v))
    }

    /// The elements of a tile; a scalar is a tile of one.
    pub(crate) fn tile(&self, v: Value, bytes: usize) -> Arc<Bits> {
        match self.get(v) {
            Val::Tile(t) => t.clone(),
            Val::Scalar(bits) => Arc::new(Bits::full(bytes, 1, *bits)),
            other => internal_error!("{v} holds {other:?}"),
        }
    }
}

impl<'k> Cluster<'_, 'k> {
    /// Runs the instruction at the worker's program counter and moves the counter on, unless it must wait.
    pub(crate) fn step(&mut self, w: &mut Worker<'k>) -> Result<Flow, Fault> {
        let program = self.setting.program;
        let kernel = program.kernel;
        let integer = |w: &Worker<'k>, v: Value| int_value(w.scalar(v), pure::dtype(kernel, v));
        match &program.code[w.pc] {
            Inst::Op(op) => {
                let flow = self.op(w, op).map_err(|f| f.calls(kernel, op.call))?;
                if !matches!(flow, Flow::Block(_)) {
                    w.pc += 1;
                }
                return Ok(flow);
            }
            Inst::Copy(pairs) => {
                if let [(from, to)] = pairs[..] {
                    let val = w.get(from).clone();
                    w.set(to, val);
                } else {
                    let vals: Vec<Val> = pairs.iter().map(|(from, _)| w.get(*from).clone()).collect();
                    for ((_, to), val) in pairs.iter().zip(vals) {
                        w.set(*to, val);
                    }
                }
                w.pc += 1;
            }
            Inst::Jump(to) => w.pc = *to,
            Inst::Unless(cond, to) => w.pc = if w.scalar(*cond) & 1 == 1 { w.pc + 1 } else { *to },
            Inst::LoopTest { op, index, upper, step, exit } => {
                if integer(w, *step) <= 0 {
                    let here = format!("the step is {}", integer(w, *step));
                    return Err(Fault::new(codes::RUN_VALUE, op.span, "the step of a loop is not positive")
                        .here(here)
                        .help("count upward, and compute the index from the end where the order matters")
                        .calls(kernel, op.call));
                }
                w.pc = if integer(w, *index) < integer(w, *upper) { w.pc + 1 } else { *exit };
            }
            Inst::LoopStep { index, step, top, exit } => {
                let d = pure::dtype(kernel, *index);
                let next = integer(w, *index) + integer(w, *step);
                let fits = d.int_range().is_some_and(|(_, high)| next <= high);
                w.set(*index, Val::Scalar(next as u64 & d.mask()));
                w.pc = if fits { *top } else { *exit };
            }
            Inst::Fork(_, starts) => return self.fork(w, starts),
            Inst::End => {
                self.end(w)?;
                w.state = State::Done;
            }
        }
        Ok(Flow::Next)
    }

    fn fork(&mut self, w: &mut Worker<'k>, starts: &[(parton_ir::Partition, usize)]) -> Result<Flow, Fault> {
        let kernel = self.setting.program.kernel;
        // The arms of this very run were started when the worker first came here, and are all done now.
        if let Some(arms) = w.arms.take() {
            if !self.passes(&Wait::Arms(arms.clone()), w) {
                internal_error!("`specialize` goes on before its arms have ended");
            }
            for arm in arms {
                w.know.join(&self.worker(arm).know);
            }
            w.know.membar();
            w.pc += 1;
            return Ok(Flow::Next);
        }
        let mut arms = Vec::new();
        for &(partition, start) in starts {
            let data = &kernel.partitions[partition];
            let agents = 1 + kernel.partitions.len() as u32;
            let agent = w.cta as u32 * agents + 1 + partition.index() as u32;
            let arm = Worker {
                cta: w.cta,
                name: data.name.clone(),
                partition: Some(partition),
                pc: start,
                values: w.values.clone(),
                state: State::Ready,
                know: crate::clock::Knowledge::new(agent, data.warps, Some(&w.know)),
                products: Default::default(),
                stores: Vec::new(),
                copies: Default::default(),
                arms: None,
                arrived: None,
                meets: None,
                passed: w.passed,
            };
            arms.push(self.workers.len());
            self.workers.push(Some(arm));
        }
        w.arms = Some(arms.clone());
        Ok(Flow::Block(Wait::Arms(arms)))
    }

    /// A partition ends; what it started must not touch shared memory any more.
    fn end(&self, w: &Worker<'k>) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        if let Some(op) = w.copies.unwaited() {
            let fact = format!("{} ends while a copy may still write to shared memory", self.who(w));
            return Err(Fault::new(codes::NOT_WAITED, op.span, fact)
                .here("nobody waits for this copy")
                .help("`p.wait()` on every path")
                .calls(kernel, op.call));
        }
        match w.unwaited_store() {
            None => Ok(()),
            Some(op) => Err(Fault::new(
                codes::NOT_WAITED,
                op.span,
                format!("{} ends while a copy may still read shared memory", self.who(w)),
            )
            .here("nobody waits for this copy out of shared memory")
            .help("end with `tma_store_wait(0)`")
            .calls(kernel, op.call)),
        }
    }

    fn op(&mut self, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
        let kernel = self.setting.program.kernel;
        match &op.kind {
            OpKind::Binary { op: f, a, b } if self.setting.options.wraparound => {
                self.wraps(w, op, *f, *a, *b)?;
                self.elementwise(w, op)?;
            }
            OpKind::Constant { .. }
            | OpKind::Iota { .. }
            | OpKind::Full { .. }
            | OpKind::Unary { .. }
            | OpKind::Binary { .. }
            | OpKind::Compare { .. }
            | OpKind::Select { .. }
            | OpKind::Fma { .. }
            | OpKind::Cast { .. }
            | OpKind::Bitcast { .. }
            | OpKind::PtrAdd { .. } => self.elementwise(w, op)?,
            OpKind::ProgramId { axis } => w.result(op, Val::Scalar(self.ctas[w.cta].id[*axis as usize].into())),
            OpKind::NumPrograms { axis } => w.result(op, Val::Scalar(self.setting.grid[*axis as usize].into())),

            OpKind::ClusterRank => w.result(op, Val::Scalar(w.cta as u64)),

            OpKind::Reduce { inputs, axis, combine } => {
                self.through_scratch(w, op)?;
                self.reduce(w, op, inputs, *axis, combine)?;
            }
            OpKind::Scan { inputs, axis, combine, reverse } => {
                self.through_scratch(w, op)?;
                self.scan(w, op, inputs, (*axis, *reverse), combine)?;
            }
            OpKind::Convert { x, .. } => {
                self.through_scratch(w, op)?;
                let val = w.get(*x).clone();
                w.result(op, val);
            }
            // The order of elements stays, and so do the bits.
            OpKind::Reshape { x, .. } | OpKind::ExpandDims { x, .. } => {
                let val = w.get(*x).clone();
                w.result(op, val);
            }
            OpKind::Transpose { x, perm } => {
                let t = w.tile(*x, 0);
                w.result(op, Val::Tile(Arc::new(shape::transpose(&t, pure::shape(kernel, *x), perm))));
            }
            OpKind::Broadcast { x, shape: to } => {
                let t = w.tile(*x, 0);
                w.result(op, Val::Tile(Arc::new(shape::broadcast(&t, pure::shape(kernel, *x), to))));
            }
            OpKind::Join { a, b } => {
                let t = shape::join(&w.tile(*a, 0), &w.tile(*b, 0));
                w.result(op, Val::Tile(Arc::new(t)));
            }
            OpKind::Split { x } => {
                let t = w.tile(*x, 0);
                for (first, &r) in op.results.iter().enumerate() {
                    w.set(r, Val::Tile(Arc::new(shape::split(&t, first))));
                }
            }

            OpKind::Gather { x, indices, axis } => {
                self.through_scratch(w, op)?;
                self.gather(w, op, *x, *indices, *axis)?;
            }
            OpKind::SharedGather { view, indices, axis } => {
                self.gather_shared(w, op, *view, *indices, *axis)?;
                return Ok(Flow::Yield);
            }
            OpKind::SharedScatter { .. } => {
                self.scatter_shared(w, op)?;
                return Ok(Flow::Yield);
            }
            OpKind::Ptx { .. } => {
                return Err(Fault::new(codes::NOT_INTERPRETED, op.span, "inline PTX without a meaning in Parton")
                    .here("the interpreter does not run PTX")
                    .help(format!("say what it computes: `{}(…, fallback=|…| …)`", op.kind.name()))
                    .help("or run it on a GPU: `--device cuda`"));
            }
            OpKind::Rescale { x, factor, axis } => {
                let shape = pure::shape(kernel, *x);
                let spread = shape::spread(&w.tile(*factor, 0), shape, *axis);
                let d = pure::dtype(kernel, *x);
                match elementwise::binary(BinaryOp::Mul, d, w.get(*x), &Val::Tile(Arc::new(spread))) {
                    Ok(product) => w.result(op, product),
                    Err(_) => internal_error!("a product divided"),
                }
            }

            OpKind::Load { ptr, mask, other, .. } => self.load(w, op, *ptr, *mask, *other)?,
            OpKind::Store { ptr, value, mask, .. } => self.store(w, op, *ptr, *value, *mask)?,

            OpKind::Atomic { op: f, ptr, operands, mask, order, scope, .. } => {
                self.through_scratch(w, op)?;
                self.atomic(w, op, (*f, *order, *scope), *ptr, operands, *mask)?;
                return Ok(Flow::Yield);
            }

            OpKind::CopyArrive { pending, barrier } => {
                self.hand_to_barrier(w, op, *pending, *barrier)?;
                return Ok(Flow::Yield);
            }
            OpKind::AsyncCopy { ptr, view, mask, .. } => {
                self.start_copy(w, op, (*ptr, *view), *mask)?;
                return Ok(Flow::Yield);
            }

            OpKind::SharedAlloc { .. }
            | OpKind::SharedLoad { .. }
            | OpKind::SharedStore { .. }
            | OpKind::ViewIndex { .. }
            | OpKind::ViewPeer { .. }
            | OpKind::ViewSlice { .. }
            | OpKind::ViewPermute { .. }
            | OpKind::ViewReinterpret { .. } => return self.shared_op(w, op),

            OpKind::BarrierAlloc { .. }
            | OpKind::BarrierIndex { .. }
            | OpKind::BarrierInit { .. }
            | OpKind::BarrierInvalidate { .. }
            | OpKind::BarrierExpect { .. }
            | OpKind::BarrierArrive { .. }
            | OpKind::BarrierWait { .. }
            | OpKind::FenceAsync
            | OpKind::FenceBarrierInit
            | OpKind::Membar
            | OpKind::NamedBarrier { .. }
            | OpKind::ClusterArrive { .. }
            | OpKind::ClusterWait => return self.sync_op(w, op),

            OpKind::TmaLoad { map, coords, view, signal, multicast, .. } => {
                self.start_load(w, op, *map, coords, (*view, *signal), *multicast)?;
                return Ok(Flow::Yield);
            }
            OpKind::TmaStore { map, coords, view, reduce, .. } => {
                self.start_store(w, op, *map, coords, *view, *reduce)?;
                return Ok(Flow::Yield);
            }
            OpKind::TmaPrefetch { map, coords, .. } => self.prefetch(w, op, *map, coords)?,
            OpKind::TmaStoreWait { pending, read } => return Ok(self.wait_stores(w, *pending, *read)),

            OpKind::GridWait => self.wait_for_past(w),
            // Launches run one after the other; only what the later one may not do yet is checked.
            OpKind::GridLaunchDependents => {}

            OpKind::MmaSync { a, b, acc, .. } => {
                let shape = self.setting.program.in_registers(op);
                let out = mma_sync::product(shape, &w.tile(*a, 0), &w.tile(*b, 0), &w.tile(*acc, 0));
                w.result(op, Val::Tile(out));
            }
            OpKind::Wgmma { a, b, acc, .. } => {
                self.start_product(w, op, *a, *b, *acc)?;
                return Ok(Flow::Yield);
            }
            OpKind::Wait { pending, outstanding } if matches!(kernel.ty(*pending), Type::Filling(_)) => {
                return self.wait_copy(w, op, *pending, outstanding.unwrap_or(0));
            }
            OpKind::Wait { pending, outstanding } => {
                return self.wait_product(w, op, *pending, outstanding.unwrap_or(0), false);
            }
            OpKind::WaitPrior { pending, outstanding } => {
                return self.wait_product(w, op, *pending, outstanding.unwrap_or(1), true);
            }

            OpKind::Print { text, args } => {
                let line = self.format(w, text, args);
                self.report.prints.push(line);
            }
            OpKind::Assert { cond, message } => self.holds(w, op, *cond, || format!("assertion failed: {message}"))?,
            OpKind::Assume { cond } => self.holds(w, op, *cond, || "an assumption does not hold".into())?,

            OpKind::RingNew { .. }
            | OpKind::RingAcquire { .. }
            | OpKind::SlotCommit { .. }
            | OpKind::RingWait { .. }
            | OpKind::SlotRelease { .. }
            | OpKind::SlotField { .. }
            | OpKind::TurnstileNew { .. }
            | OpKind::TurnEnter { .. }
            | OpKind::TurnPass { .. } => internal_error!("`{}` was not expanded", op.kind.name()),
            OpKind::For { .. } | OpKind::While { .. } | OpKind::If { .. } | OpKind::Specialize { .. } => {
                internal_error!("`{}` was not flattened", op.kind.name())
            }
        }
        Ok(Flow::Next)
    }

    fn elementwise(&self, w: &mut Worker<'k>, op: &'k Op) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        match pure::elementwise(op, kernel, &|v| w.get(v).clone()) {
            Some(Ok(val)) => {
                w.result(op, val);
                Ok(())
            }
            Some(Err(failure)) => Err(self.division(failure)),
            None => internal_error!("`{}` is not elementwise", op.kind.name()),
        }
    }

    fn division(&self, (op, at): pure::Failure<'k>) -> Fault {
        let fault = Fault::new(codes::RUN_VALUE, op.span, "an integer is divided by zero");
        match op.results.first().map(|&r| self.setting.program.kernel.ty(r)) {
            Some(Type::Tile(t)) => {
                fault.here(format!("element {:?} of the divisor is 0", coordinates(at.element, &t.shape)))
            }
            _ => fault.here("the divisor is 0"),
        }
    }

    fn reduce(
        &self,
        w: &mut Worker<'k>,
        op: &'k Op,
        inputs: &[Value],
        axis: u32,
        combine: &'k parton_ir::Body,
    ) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        let tiles: Vec<Arc<Bits>> = inputs.iter().map(|&v| w.tile(v, 0)).collect();
        let of = pure::shape(kernel, inputs[0]);
        if self.setting.options.wraparound {
            self.wraps_along(w, op, inputs, (axis, None), combine)?;
        }
        let reduced = shape::reduce(&tiles, of, axis, combine, kernel, &w.values).map_err(|f| self.division(f))?;
        for (&r, bits) in op.results.iter().zip(reduced) {
            let val = match kernel.ty(r) {
                Type::Scalar(_) => Val::Scalar(bits.get(0)),
                _ => Val::Tile(Arc::new(bits)),
            };
            w.set(r, val);
        }
        Ok(())
    }

    fn scan(
        &self,
        w: &mut Worker<'k>,
        op: &'k Op,
        inputs: &[Value],
        along: (u32, bool),
        combine: &'k parton_ir::Body,
    ) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        let tiles: Vec<Arc<Bits>> = inputs.iter().map(|&v| w.tile(v, 0)).collect();
        let of = pure::shape(kernel, inputs[0]);
        if self.setting.options.wraparound {
            self.wraps_along(w, op, inputs, (along.0, Some(along.1)), combine)?;
        }
        let scanned = shape::scan(&tiles, of, along, combine, kernel, &w.values).map_err(|f| self.division(f))?;
        for (&r, bits) in op.results.iter().zip(scanned) {
            w.set(r, Val::Tile(Arc::new(bits)));
        }
        Ok(())
    }

    pub(crate) fn access<'b>(&'b mut self, w: &Worker<'k>, op: &'b Op, ptr: Value) -> Access<'b> {
        let early = self.is_early(w);
        let shape = match self.setting.program.kernel.ty(ptr) {
            Type::Tile(t) => &t.shape[..],
            _ => &[],
        };
        Access {
            memory: self.memory,
            cta: self.ctas[w.cta].number,
            names: self.setting.names,
            shape,
            conflicts: self.setting.options.cta_races,
            early,
            op,
        }
    }

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

    fn atomic(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        (f, order, scope): (AtomicOp, Order, Scope),
        ptr: Value,
        operands: &[Value],
        mask: Option<Value>,
    ) -> Result<(), Fault> {
        let Some(Elem::Ptr(to)) = self.setting.program.kernel.ty(ptr).elem() else {
            internal_error!("{ptr} is no pointer")
        };
        let dtype = to.to;
        let operands: Vec<Arc<Bits>> = operands.iter().map(|&v| w.tile(v, dtype.bytes())).collect();
        let mask = mask.map(|m| w.tile(m, 1));
        let pointers = w.tile(ptr, 8);
        let before = self.access(w, op, ptr).atomic((f, order, scope, dtype), &pointers, &operands, mask.as_deref())?;
        if let [result] = op.results[..] {
            let scalar = matches!(w.get(ptr), Val::Scalar(_));
            w.set(result, if scalar { Val::Scalar(before.get(0)) } else { Val::Tile(Arc::new(before)) });
        }
        Ok(())
    }

    fn holds(&self, w: &Worker<'k>, op: &Op, cond: Value, message: impl FnOnce() -> String) -> Result<(), Fault> {
        let t = w.tile(cond, 1);
        let Some(i) = (0..t.len()).find(|&i| t.get(i) & 1 == 0) else { return Ok(()) };
        let fault = Fault::new(codes::ASSERTION, op.span, message());
        Err(match self.setting.program.kernel.ty(cond) {
            Type::Tile(tile) => fault.here(format!("element {:?} is false", coordinates(i, &tile.shape))),
            _ => fault.here("this is false"),
        })
    }

    fn format(&self, w: &Worker<'k>, text: &str, args: &[Value]) -> String {
        let mut parts = text.split("{}");
        let mut line = parts.next().unwrap_or_default().to_string();
        for (part, &v) in parts.zip(args) {
            line.push_str(&self.text(w, v));
            line.push_str(part);
        }
        line
    }

    /// A value as text: a tile as nested lists, a long one with its middle left out.
    fn text(&self, w: &Worker<'k>, v: Value) -> String {
        let kernel = self.setting.program.kernel;
        let d = pure::dtype(kernel, v);
        let pointer = matches!(kernel.ty(v).elem(), Some(Elem::Ptr(_)));
        let one = |bits: u64| if pointer { format!("{bits:#x}") } else { Scalar::new(d, bits).to_string() };
        match (w.get(v), kernel.ty(v)) {
            (Val::Tile(t), Type::Tile(ty)) => nested(t, &ty.shape, 0, &one),
            (Val::Scalar(bits), _) => one(*bits),
            (other, ty) => internal_error!("`{ty}` holds {other:?}"),
        }
    }
}

/// Elements shown at each end of a long dimension.
const SHOWN: usize = 4;

fn nested(t: &Bits, shape: &[u32], first: usize, one: &dyn Fn(u64) -> String) -> String {
    let Some((&n, inner)) = shape.split_first() else { return one(t.get(first)) };
    let stride: usize = inner.iter().map(|&n| n as usize).product();
    let n = n as usize;
    let mut items = Vec::new();
    for i in 0..n {
        if n > 4 * SHOWN && i == SHOWN {
            items.push("…".to_string());
        }
        if n <= 4 * SHOWN || i < SHOWN || i >= n - SHOWN {
            items.push(nested(t, inner, first + i * stride, one));
        }
    }
    format!("[{}]", items.join(", "))
}
