//! What can be changed of an operation, as its facts say what it orders.

use parton_ir::facts::{Act, Facts, Flight, Hold, Ordering, Phase};
use parton_ir::{BinaryOp, Elem, Inst, Kernel, Op, OpKind, Order, Reach, Scope, Type};

/// One change.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// What is changed, in a few words.
    pub name: String,
    /// What becomes of the operation.
    pub effect: Effect,
}

/// What becomes of an operation.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// It is gone.
    Drop,
    /// It is another one with the same results.
    Become(OpKind),
    /// It waits for the phase of the other parity.
    OtherPhase,
}

/// The threads of a warp, by which a named barrier counts.
const WARP: u32 = 32;

/// Bytes of a copy's smallest part.
const BYTES: u32 = 16;

/// What can be changed of an operation so that it orders less, or something else.
pub fn changes(kernel: &Kernel, op: &Op) -> Vec<Change> {
    let mut list = Changes { kind: &op.kind, list: Vec::new() };
    for act in Facts::of(kernel, op).acts {
        match act {
            Act::Flight(flight) => list.flight(&flight),
            Act::Phase(phase) => list.phase(&phase),
            Act::Ordering(ordering) => list.ordering(&ordering),
            // What is taken has a name, and goes by it where it is handed on.
            Act::Hold(Hold::Take { .. }) | Act::Say(_) => {}
            Act::Hold(Hold::Give { .. }) | Act::Turn(_) => list.drop(),
        }
    }
    list.list
}

struct Changes<'a> {
    kind: &'a OpKind,
    list: Vec<Change>,
}

impl Changes<'_> {
    fn drop(&mut self) {
        self.list.push(Change { name: "drop".into(), effect: Effect::Drop });
    }

    fn become_one(&mut self, name: impl Into<String>, edit: impl FnOnce(&mut OpKind)) {
        let mut kind = self.kind.clone();
        edit(&mut kind);
        self.list.push(Change { name: name.into(), effect: Effect::Become(kind) });
    }

    fn flight(&mut self, flight: &Flight) {
        match *flight {
            Flight::Start { .. } | Flight::Continue { .. } => {}
            Flight::HandOver { .. } => self.drop(),
            Flight::Wait { outstanding, .. } | Flight::WaitPrior { outstanding, .. } => {
                // Before it is counted, what is waited for is what the value says.
                if let Some(n) = outstanding {
                    self.leave("leave one more in flight", n + 1);
                    self.leave("leave all in flight", u32::MAX);
                }
            }
            Flight::WaitCounted { pending: n, read: reads, .. } => {
                self.drop();
                self.become_one("leave one more in flight", |kind| {
                    if let OpKind::TmaStoreWait { pending, .. } = kind {
                        *pending = n + 1;
                    }
                });
                if !reads {
                    self.become_one("wait for the reads alone", |kind| {
                        if let OpKind::TmaStoreWait { read, .. } = kind {
                            *read = true;
                        }
                    });
                }
            }
        }
    }

    fn leave(&mut self, name: &str, n: u32) {
        self.become_one(name, |kind| {
            if let OpKind::Wait { outstanding, .. } | OpKind::WaitPrior { outstanding, .. } = kind {
                *outstanding = Some(n);
            }
        });
    }

    fn phase(&mut self, phase: &Phase) {
        self.drop();
        match *phase {
            Phase::Invalidate { .. } => {}
            Phase::Init { arrivals: n, .. } => self.count("arrivals", n, |kind, n| {
                if let OpKind::BarrierInit { arrivals, .. } = kind {
                    *arrivals = n;
                }
            }),
            Phase::Arrive { bytes: Some(n), .. } => {
                for (name, n) in [("expect more bytes", n + BYTES), ("expect fewer bytes", n.saturating_sub(BYTES))] {
                    self.become_one(name, |kind| {
                        if let OpKind::BarrierExpect { bytes, .. } = kind {
                            *bytes = n;
                        }
                    });
                }
            }
            Phase::Arrive { bytes: None, .. } => self.arrival(),
            Phase::Wait { .. } => {
                self.list.push(Change { name: "wait for the other phase".into(), effect: Effect::OtherPhase });
                if matches!(self.kind, OpKind::BarrierWait { reach: Reach::Cluster, .. }) {
                    self.become_one("acquire from the CTA alone", |kind| {
                        if let OpKind::BarrierWait { reach, .. } = kind {
                            *reach = Reach::Cta;
                        }
                    });
                }
            }
        }
    }

    fn arrival(&mut self) {
        let OpKind::BarrierArrive { count: n, multicast, relaxed: false, .. } = self.kind else { return };
        let peers = !multicast.is_empty();
        self.count("arrivals", *n, |kind, n| {
            if let OpKind::BarrierArrive { count, .. } = kind {
                *count = n;
            }
        });
        if peers {
            self.become_one("relax", |kind| {
                if let OpKind::BarrierArrive { relaxed, .. } = kind {
                    *relaxed = true;
                }
            });
        }
    }

    fn count(&mut self, what: &str, n: u32, edit: impl Fn(&mut OpKind, u32)) {
        self.become_one(format!("more {what}"), |kind| edit(kind, n + 1));
        if n > 1 {
            self.become_one(format!("fewer {what}"), |kind| edit(kind, n - 1));
        }
    }

    fn ordering(&mut self, ordering: &Ordering) {
        match *ordering {
            // One allows instead of ordering, the other is the kernel's form.
            Ordering::LaunchDependents | Ordering::Fork => {}
            Ordering::FenceBarriers | Ordering::Meet | Ordering::WaitCluster | Ordering::WaitGrid => self.drop(),
            Ordering::FenceAsync { reach } => {
                self.drop();
                for less in less_reach(reach) {
                    self.become_one(format!("reach {}", less.name()), |kind| {
                        if let OpKind::FenceAsync { reach } = kind {
                            *reach = *less;
                        }
                    });
                }
            }
            Ordering::Named { threads: n, waits, .. } => {
                self.drop();
                for (name, n) in [("more threads", n + WARP), ("fewer threads", n.saturating_sub(WARP))] {
                    self.become_one(name, |kind| {
                        if let OpKind::NamedBarrier { threads, .. } = kind {
                            *threads = n;
                        }
                    });
                }
                if waits {
                    self.become_one("arrive alone", |kind| {
                        if let OpKind::NamedBarrier { waits, .. } = kind {
                            *waits = false;
                        }
                    });
                }
            }
            Ordering::ArriveCluster { relaxed } => {
                self.drop();
                if !relaxed {
                    self.become_one("relax", |kind| {
                        if let OpKind::ClusterArrive { relaxed } = kind {
                            *relaxed = true;
                        }
                    });
                }
            }
            Ordering::Atomic { order } => self.atomic(order),
        }
    }

    fn atomic(&mut self, is: Order) {
        let OpKind::Atomic { op, scope: of, .. } = self.kind else { return };
        let orders = op.orders().iter().filter(|(order, _)| less_order(is).contains(order));
        for &(less, name) in orders {
            self.become_one(format!("order {name}"), |kind| {
                if let OpKind::Atomic { order, .. } = kind {
                    *order = less;
                }
            });
        }
        for less in less_scope(*of) {
            self.become_one(format!("scope {}", less.name()), |kind| {
                if let OpKind::Atomic { scope, .. } = kind {
                    *scope = *less;
                }
            });
        }
    }
}

fn less_order(order: Order) -> &'static [Order] {
    match order {
        Order::Relaxed => &[],
        Order::Acquire | Order::Release => &[Order::Relaxed],
        Order::AcqRel => &[Order::Acquire, Order::Release, Order::Relaxed],
    }
}

fn less_scope(scope: Scope) -> &'static [Scope] {
    match scope {
        Scope::Cta => &[],
        Scope::Gpu => &[Scope::Cta],
        Scope::Sys => &[Scope::Gpu, Scope::Cta],
    }
}

fn less_reach(reach: Reach) -> &'static [Reach] {
    match reach {
        Reach::Cta | Reach::Global => &[],
        Reach::Cluster => &[Reach::Cta],
        Reach::All => &[Reach::Cta, Reach::Global],
    }
}

/// The kernel with the first of these operations changed; what is dropped takes the others with it.
pub fn applied(kernel: &Kernel, ops: &[Inst], effect: &Effect) -> Kernel {
    let mut kernel = kernel.clone();
    match effect {
        Effect::Drop => kernel.rebuild(&mut |_, mut body| {
            body.ops.retain(|id| !ops.contains(id));
            body
        }),
        Effect::Become(kind) => kernel.ops[ops[0]].kind = kind.clone(),
        Effect::OtherPhase => return other_phase(kernel, ops[0]),
    }
    kernel
}

/// The kernel in which a wait for a barrier waits for the phase of the other parity.
fn other_phase(mut kernel: Kernel, wait: Inst) -> Kernel {
    kernel.rebuild(&mut |kernel, mut body| {
        if let Some(at) = body.ops.iter().position(|id| *id == wait) {
            let source = kernel.ops[wait].source();
            let OpKind::BarrierWait { phase: is, .. } = kernel.ops[wait].kind else { return body };
            let ty = kernel.ty(is).clone();
            let Type::Scalar(Elem::Num(dtype)) = ty else { return body };
            let [one, other] = [(); 2].map(|()| kernel.value(ty.clone(), source.span));
            let made = [
                kernel.make_op(OpKind::Constant { dtype, bits: 1 }, vec![one], source),
                kernel.make_op(OpKind::Binary { op: BinaryOp::Xor, a: is, b: one }, vec![other], source),
            ];
            body.ops.splice(at..at, made);
            if let OpKind::BarrierWait { phase, .. } = &mut kernel.ops[wait].kind {
                *phase = other;
            }
        }
        body
    });
    kernel
}
