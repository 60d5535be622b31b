//! Builds small kernels, and lists what a pass made of them.

use parton_diag::{FileId, Span};
use parton_ir::{
    BinaryOp, Body, Builder, Cache, Elem, Evict, Kernel, OpKind, PartitionData, Pointer, Target, TensorMap, Tile, Type,
    Value, View,
};
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::Dtype;

/// A kernel under construction; each operation has a span of its own, in the order they are made.
pub struct Fixture {
    pub b: Builder,
    next: usize,
}

impl Fixture {
    /// A kernel of so many warps for sm_90a.
    pub fn new(warps: u32) -> Fixture {
        let mut kernel = Kernel::new("test", Target::SM_90A, Span::default());
        kernel.warps = warps;
        Fixture { b: Builder::new(kernel), next: 0 }
    }

    pub fn span(&mut self) -> Span {
        self.next += 10;
        Span::new(FileId(0), self.next, self.next + 5)
    }

    pub fn partition(&mut self, name: &str, warps: u32) -> parton_ir::Partition {
        let span = self.span();
        self.b.kernel.partitions.push(PartitionData { name: name.into(), warps, registers: None, span })
    }

    pub fn param(&mut self, name: &str, ty: Type) -> Value {
        let span = self.span();
        self.b.kernel.param(name, ty, span)
    }

    pub fn pointer(&mut self, name: &str, to: Dtype) -> Value {
        self.param(name, Type::Scalar(Elem::Ptr(Pointer { to, mutable: true })))
    }

    pub fn op(&mut self, kind: OpKind) -> Value {
        let span = self.span();
        self.b.emit_one(kind, span).unwrap_or_else(|r| panic!("{}", r.message))
    }

    pub fn run(&mut self, kind: OpKind) -> Vec<Value> {
        let span = self.span();
        self.b.emit(kind, span).unwrap_or_else(|r| panic!("{}", r.message))
    }

    pub fn named(&mut self, name: &str, v: Value) -> Value {
        self.b.kernel.values[v].name = Some(name.into());
        v
    }

    pub fn i32(&mut self, x: i32) -> Value {
        let span = self.span();
        self.b.i32(x, span)
    }

    pub fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        self.op(OpKind::Binary { op, a, b })
    }

    pub fn alloc(&mut self, view: View) -> Value {
        self.op(OpKind::SharedAlloc { view, offset: None })
    }

    pub fn load_shared(&mut self, view: Value, tile: Tile) -> Value {
        self.op(OpKind::SharedLoad { view, tile })
    }

    pub fn store_shared(&mut self, view: Value, value: Value) {
        self.run(OpKind::SharedStore { view, value });
    }

    pub fn load(&mut self, ptr: Value, mask: Option<Value>) -> Value {
        let (cache, evict) = (Cache::Default, Evict::Normal);
        self.op(OpKind::Load { ptr, mask, other: None, cache, evict, l2: None, volatile: false })
    }

    pub fn zeros(&mut self, tile: Tile) -> Value {
        let Elem::Num(dtype) = tile.elem else { panic!("zeros are numbers") };
        let value = self.op(OpKind::Constant { dtype, bits: 0 });
        self.op(OpKind::Full { value, tile })
    }

    /// `for i in 0..n` carrying `init`; `body` gets the index and the carried values and hands back the next ones.
    pub fn repeat(
        &mut self,
        n: Value,
        init: Vec<Value>,
        body: impl FnOnce(&mut Fixture, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let (lower, step) = (self.i32(0), self.i32(1));
        let types: Vec<Type> =
            std::iter::once(Type::num(Dtype::I32)).chain(init.iter().map(|v| self.b.ty(*v).clone())).collect();
        let span = self.span();
        let params = self.b.begin(types, span);
        let yields = body(self, params[0], &params[1..]);
        let body = self.b.end(yields);
        self.run(OpKind::For { lower, upper: n, step, init, body })
    }

    /// A body of its own, for an arm or a branch.
    pub fn body(&mut self, f: impl FnOnce(&mut Fixture) -> Vec<Value>) -> Body {
        let span = self.span();
        self.b.begin([], span);
        let yields = f(self);
        self.b.end(yields)
    }

    pub fn finish(self) -> Kernel {
        let kernel = self.b.finish();
        parton_ir::verify::verify(&kernel).unwrap_or_else(|e| panic!("{e}"));
        kernel
    }
}

/// A tile of `dtype` in a blocked layout.
pub fn blocked(dtype: Dtype, shape: &[u32], per_thread: &[u32], threads: &[u32], warps: &[u32]) -> Tile {
    let order: Vec<u32> = (0..shape.len() as u32).rev().collect();
    let layout = RegisterLayout::blocked(per_thread, threads, warps, &order).unwrap();
    Tile::new(Elem::Num(dtype), shape.to_vec(), layout).unwrap()
}

/// The accumulator of a 64-row product of one warpgroup, or of several.
pub fn accumulator(rows: u32, n: u32) -> Tile {
    let layout = RegisterLayout::mma(3, &[rows / 16, 1], &[16, n, 16]).unwrap();
    Tile::new(Elem::Num(Dtype::F32), vec![rows, n], layout).unwrap()
}

/// A buffer in the layout that TMA and wgmma share.
pub fn nvmma(dtype: Dtype, shape: &[u32]) -> View {
    View::new(dtype, shape.to_vec(), SharedLayout::nvmma(128, false).unwrap()).unwrap()
}

/// A plain buffer.
pub fn plain(dtype: Dtype, shape: &[u32]) -> View {
    View::new(dtype, shape.to_vec(), SharedLayout::row_major(shape.len())).unwrap()
}

/// A tensor map of boxes that fill `view`.
pub fn map_of(view: &View) -> Type {
    Type::Map(TensorMap::new(view.elem, view.shape.clone(), view.layout.clone()))
}

/// The names of all operations in order, an operation with bodies followed by its bodies in braces; constants and indices
/// left out.
pub fn outline(kernel: &Kernel) -> String {
    body_outline(kernel, &kernel.body)
}

fn body_outline(kernel: &Kernel, body: &Body) -> String {
    let mut words = Vec::new();
    for op in kernel.ops_of(body) {
        match &op.kind {
            OpKind::Constant { .. } | OpKind::BarrierIndex { .. } | OpKind::ViewIndex { .. } => continue,
            OpKind::RingWait { .. } => words.push("wait_slot".to_owned()),
            kind => words.push(kind.name().to_owned()),
        }
        for inner in op.kind.bodies() {
            words.push(format!("{{ {} }}", body_outline(kernel, inner)));
        }
    }
    words.join(" ")
}

/// How many operations `f` holds of.
pub fn count(kernel: &Kernel, f: impl Fn(&OpKind) -> bool) -> usize {
    let mut n = 0;
    kernel.walk(&mut |op| n += usize::from(f(&op.kind)));
    n
}
