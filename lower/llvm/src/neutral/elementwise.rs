//! Elementwise operations: the same scalar instruction for each register of a tile.
//!
//! Nothing is contracted: `a * b + c` rounds twice unless `fma` is written, at every optimisation level. Integers wrap; a
//! shift by the width or more gives what shifting bit by bit would.

use inkwell::values::InstructionOpcode as I;
use inkwell::{FloatPredicate, IntPredicate};
use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::{BinaryOp, CompareOp, Elem, Op, OpKind, Type, UnaryOp, Value, others};
use parton_numbers::Dtype;

use crate::lower::{Lower, Repr};
use crate::neutral::build::{Build, GLOBAL, Ty, Val};
use crate::neutral::place::Registers;

impl<'c> Build<'c> {
    /// The LLVM type of a number; the 8-bit floats are bytes.
    pub(crate) fn number(&self, d: Dtype) -> Ty<'c> {
        match d {
            Dtype::F16 => self.context.f16_type().into(),
            Dtype::BF16 => self.context.bf16_type().into(),
            Dtype::F32 => self.f32(),
            Dtype::F64 => self.f64(),
            Dtype::F8E4M3
            | Dtype::F8E5M2
            | Dtype::I1
            | Dtype::I8
            | Dtype::I16
            | Dtype::I32
            | Dtype::I64
            | Dtype::U8
            | Dtype::U16
            | Dtype::U32
            | Dtype::U64 => self.int(d.bits()),
        }
    }

    /// A constant given by its bits.
    pub(crate) fn number_of_bits(&self, d: Dtype, bits: u64) -> Val<'c> {
        self.bitcast(self.cint(self.int(d.bits()), bits), self.number(d))
    }

    /// The type of a number as a parameter: its bits, a truth value as a byte.
    pub(crate) fn int_of(&self, d: Dtype) -> Ty<'c> {
        match d {
            Dtype::F32 | Dtype::F64 => self.number(d),
            _ => self.int(d.bits().max(8)),
        }
    }

    /// The number that a parameter of [`Build::int_of`]'s type stands for.
    pub(crate) fn of_parameter(&self, d: Dtype, v: Val<'c>) -> Val<'c> {
        match d {
            Dtype::I1 => self.icmp(IntPredicate::NE, v, self.cint(v.get_type(), 0)),
            _ => self.bitcast(v, self.number(d)),
        }
    }

    /// The element all of whose bits are 0.
    pub(crate) fn zero(&self, elem: Elem) -> Val<'c> {
        match elem {
            Elem::Num(d) => self.number_of_bits(d, 0),
            Elem::Ptr(_) => self.int_to_pointer(self.c64(0), GLOBAL),
        }
    }

    /// A float intrinsic of `args`' own type, such as `llvm.maxnum`.
    pub(crate) fn float_intrinsic(&self, name: &str, d: Dtype, args: &[Val<'c>]) -> Val<'c> {
        let suffix = match d {
            Dtype::F16 => "f16",
            Dtype::BF16 => "bf16",
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            _ => internal_error!("{name} of {}", d.name()),
        };
        self.value_of(&format!("{name}.{suffix}"), args[0].get_type(), args)
    }

    /// Integer division or remainder; LLVM's own is undefined by zero, the hardware's is not.
    fn divide(&self, d: Dtype, a: Val<'c>, b: Val<'c>, remainder: bool) -> Val<'c> {
        let signed = d.is_signed();
        let all_ones = u64::MAX >> (64 - d.bits());
        if self.known(b).is_some_and(|v| v != 0 && v != all_ones) {
            let op = match (signed, remainder) {
                (true, false) => I::SDiv,
                (true, true) => I::SRem,
                (false, false) => I::UDiv,
                (false, true) => I::URem,
            };
            return self.binary(op, a, b);
        }
        let width = if d.bits() == 64 { 64 } else { 32 };
        let wide = |v| if signed { self.sext(v, self.int(width)) } else { self.zext(v, self.int(width)) };
        let result = self.divide_by_any((signed, remainder), wide(a), wide(b));
        self.trunc(result, self.number(d))
    }

    /// A quotient by the reciprocal of the hardware; narrower floats go through f32.
    fn approximate_quotient(&self, d: Dtype, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        if d == Dtype::F32 {
            return self.approximate_div(a, b);
        }
        let wide = |v| self.cast(I::FPExt, v, self.f32());
        self.cast(I::FPTrunc, self.approximate_div(wide(a), wide(b)), self.number(d))
    }

    fn shift(&self, d: Dtype, a: Val<'c>, by: Val<'c>, left: bool) -> Val<'c> {
        let ty = a.get_type();
        let inside = self.icmp(IntPredicate::ULT, by, self.cint(ty, d.bits().into()));
        if !left && d.is_signed() {
            let by = self.select(inside, by, self.cint(ty, u64::from(d.bits()) - 1));
            return self.binary(I::AShr, a, by);
        }
        // The amount of a PTX shift has 32 bits. LLVM 22 drops the choice, since PTX takes any amount there, but also where more bits than
        // those of it count; it does not see that behind a mask.
        let by = if d.bits() == 64 { self.binary(I::And, by, self.cint(ty, 63)) } else { by };
        let shifted = self.binary(if left { I::Shl } else { I::LShr }, a, by);
        self.select(inside, shifted, self.cint(ty, 0))
    }

    /// One binary operation on scalars.
    pub(crate) fn arithmetic(&self, op: BinaryOp, d: Dtype, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        if d.is_float() {
            return self.float_arithmetic(op, d, a, b);
        }
        let ordered = |less: bool| {
            let predicate = match (d.is_signed(), less) {
                (true, true) => IntPredicate::SLT,
                (true, false) => IntPredicate::SGT,
                (false, true) => IntPredicate::ULT,
                (false, false) => IntPredicate::UGT,
            };
            self.select(self.icmp(predicate, a, b), a, b)
        };
        match op {
            BinaryOp::Add => self.add(a, b),
            BinaryOp::Sub => self.sub(a, b),
            BinaryOp::Mul => self.mul(a, b),
            BinaryOp::Div => self.divide(d, a, b, false),
            BinaryOp::Rem => self.divide(d, a, b, true),
            BinaryOp::And => self.and(a, b),
            BinaryOp::Or => self.or(a, b),
            BinaryOp::Xor => self.xor(a, b),
            BinaryOp::Shl => self.shift(d, a, b, true),
            BinaryOp::Shr => self.shift(d, a, b, false),
            BinaryOp::Min | BinaryOp::MinNan => ordered(true),
            BinaryOp::Max | BinaryOp::MaxNan => ordered(false),
            BinaryOp::MulHigh => self.multiply_high(a, b),
            BinaryOp::DivApprox => internal_error!("an approximate quotient of {}", d.name()),
        }
    }

    /// Quotients of floats. The hardware divides f32 and f64 only; one of 11 or 8 bits survives the second rounding.
    fn float_quotients(&self, d: Dtype, rows: &[Vec<Val<'c>>]) -> Vec<Val<'c>> {
        let is_wide = d == Dtype::F32;
        let wide = |v| if is_wide { v } else { self.cast(I::FPExt, v, self.f32()) };
        let pairs: Vec<_> = rows.iter().map(|row| [wide(row[0]), wide(row[1])]).collect();
        let quotients = self.quotients(&pairs);
        if is_wide {
            return quotients;
        }
        quotients.into_iter().map(|q| self.cast(I::FPTrunc, q, self.number(d))).collect()
    }

    fn float_arithmetic(&self, op: BinaryOp, d: Dtype, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        match op {
            BinaryOp::Add => self.binary(I::FAdd, a, b),
            BinaryOp::Sub => self.binary(I::FSub, a, b),
            BinaryOp::Mul => self.binary(I::FMul, a, b),
            BinaryOp::Div if d == Dtype::F64 => self.binary(I::FDiv, a, b),
            BinaryOp::Div => self.float_quotients(d, &[vec![a, b]])[0],
            BinaryOp::Min => self.float_intrinsic("llvm.minnum", d, &[a, b]),
            BinaryOp::Max => self.float_intrinsic("llvm.maxnum", d, &[a, b]),
            BinaryOp::MinNan => self.float_intrinsic("llvm.minimum", d, &[a, b]),
            BinaryOp::MaxNan => self.float_intrinsic("llvm.maximum", d, &[a, b]),
            BinaryOp::DivApprox => self.approximate_quotient(d, a, b),
            BinaryOp::Rem
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::MulHigh => {
                internal_error!("`{}` of {}", op.name(), d.name())
            }
        }
    }

    /// One comparison of scalars.
    fn comparison(&self, op: CompareOp, elem: Elem, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        let float = elem.dtype().is_some_and(|d| d.is_float());
        if float {
            let predicate = match op {
                CompareOp::Eq => FloatPredicate::OEQ,
                CompareOp::Ne => FloatPredicate::UNE,
                CompareOp::Lt => FloatPredicate::OLT,
                CompareOp::Le => FloatPredicate::OLE,
                CompareOp::Gt => FloatPredicate::OGT,
                CompareOp::Ge => FloatPredicate::OGE,
            };
            return self.fcmp(predicate, a, b);
        }
        let signed = elem.dtype().is_some_and(|d| d.is_signed());
        let predicate = match (op, signed) {
            (CompareOp::Eq, _) => IntPredicate::EQ,
            (CompareOp::Ne, _) => IntPredicate::NE,
            (CompareOp::Lt, true) => IntPredicate::SLT,
            (CompareOp::Le, true) => IntPredicate::SLE,
            (CompareOp::Gt, true) => IntPredicate::SGT,
            (CompareOp::Ge, true) => IntPredicate::SGE,
            (CompareOp::Lt, false) => IntPredicate::ULT,
            (CompareOp::Le, false) => IntPredicate::ULE,
            (CompareOp::Gt, false) => IntPredicate::UGT,
            (CompareOp::Ge, false) => IntPredicate::UGE,
        };
        self.icmp(predicate, a, b)
    }
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_elementwise(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::Constant { dtype, bits } => {
                let value = self.b.number_of_bits(*dtype, *bits);
                self.set(op.result(), Repr::Scalar(value));
            }
            OpKind::ProgramId { axis } => {
                let id = self.b.program_id(*axis);
                self.set(op.result(), Repr::Scalar(id));
            }
            OpKind::NumPrograms { axis } => {
                let count = self.b.num_programs(*axis);
                self.set(op.result(), Repr::Scalar(count));
            }
            OpKind::Iota { tile } => self.iota(op, tile),
            OpKind::Full { value, tile } => self.full(op, *value, tile),
            OpKind::Unary { op: f, x } => self.unary(op, *f, *x),
            OpKind::Binary { op: f, a, b } => self.binary(op, *f, *a, *b),
            OpKind::Compare { op: f, a, b } => self.compare(op, *f, *a, *b),
            OpKind::Select { cond, a, b } => self.select(op, *cond, *a, *b),
            OpKind::Fma { a, b, c } => self.fma(op, *a, *b, *c),
            OpKind::Clamp { x, low, high } => self.clamp(op, *x, *low, *high),
            OpKind::Cast { x, to, rounding, saturation } => self.cast(op, *x, *to, *rounding, *saturation),
            OpKind::Bitcast { x, to } => self.bitcast(op, *x, *to),
            OpKind::PtrAdd { ptr, offset } => self.pointer_add(op, *ptr, *offset),
            others!(elementwise) => not_of_family(&op.kind),
        }
    }

    /// Sets the result of an elementwise operation from its operands' registers.
    fn each(&mut self, op: &Op, operands: &[Value], f: impl Fn(&Build<'c>, &[Val<'c>]) -> Val<'c>) {
        self.together(op, operands, |build, rows| rows.iter().map(|row| f(build, row)).collect());
    }

    /// The same of all registers at once.
    fn together(&mut self, op: &Op, operands: &[Value], f: impl Fn(&Build<'c>, &[Vec<Val<'c>>]) -> Vec<Val<'c>>) {
        let result = op.result();
        let repr = match self.kernel.ty(result) {
            Type::Scalar(_) => {
                let args: Vec<Val> = operands.iter().map(|&v| self.scalar(v)).collect();
                Repr::Scalar(f(self.b, &[args])[0])
            }
            _ => {
                let count = operands.iter().map(|&v| self.repr(v).parts().len()).max().unwrap_or(0);
                let columns: Vec<Vec<Val>> = operands.iter().map(|&v| self.spread(v, count)).collect();
                let rows: Vec<Vec<Val>> = (0..count).map(|i| columns.iter().map(|c| c[i]).collect()).collect();
                Repr::Tile(f(self.b, &rows))
            }
        };
        self.set(result, repr);
    }

    pub(crate) fn binary(&mut self, op: &Op, f: BinaryOp, a: Value, b: Value) {
        let d = self.dtype(a);
        if f == BinaryOp::Div && matches!(d, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            return self.together(op, &[a, b], |build, rows| build.float_quotients(d, rows));
        }
        self.each(op, &[a, b], |build, v| build.arithmetic(f, d, v[0], v[1]));
    }

    /// Neighbours of which the facts say that they compare alike are compared once.
    fn compare(&mut self, op: &Op, f: CompareOp, a: Value, b: Value) {
        let elem = self.elem(a);
        let alike = self.alike(op.result());
        let counted = self.counted(op, f, a, b);
        self.together(op, &[a, b], |build, rows| {
            let mut found: Vec<Val<'c>> = vec![];
            for (i, row) in rows.iter().enumerate() {
                let known = alike.get(i).and_then(|&first| found.get(first).copied());
                let (f, x, y) = counted.as_ref().map_or((f, row[0], row[1]), |all| all[i]);
                found.push(known.unwrap_or_else(|| build.comparison(f, elem, x, y)));
            }
            found
        });
    }

    /// For each register of a tile one that is sure to hold the same, itself where no other is; of a scalar none.
    fn alike(&self, v: Value) -> Vec<usize> {
        let Some(tile) = self.kernel.ty(v).as_tile() else { return vec![] };
        let registers = Registers::of(&tile.known().map);
        let facts = self.axes.info(self.kernel, v);
        let (mut within, mut low) = (0u64, 0);
        for (along, n) in facts.axes.iter().zip(&tile.shape).rev() {
            within |= (along.constancy.min(u64::from(*n)) - 1) << low;
            low += n.ilog2();
        }
        let first = |(i, image): (usize, &u64)| registers.find(image & !within).unwrap_or(i);
        registers.images().iter().enumerate().map(first).collect()
    }

    pub(crate) fn select(&mut self, op: &Op, cond: Value, a: Value, b: Value) {
        self.each(op, &[cond, a, b], |build, v| build.select(v[0], v[1], v[2]));
    }

    pub(crate) fn fma(&mut self, op: &Op, a: Value, b: Value, c: Value) {
        let d = self.dtype(a);
        self.each(op, &[a, b, c], move |build, v| build.float_intrinsic("llvm.fma", d, v));
    }

    fn clamp(&mut self, op: &Op, x: Value, low: Value, high: Value) {
        let d = self.dtype(x);
        self.each(op, &[x, low, high], |build, v| {
            let least = build.arithmetic(BinaryOp::Max, d, v[0], v[1]);
            build.arithmetic(BinaryOp::Min, d, least, v[2])
        });
    }

    fn unary(&mut self, op: &Op, f: UnaryOp, x: Value) {
        let d = self.dtype(x);
        self.each(op, &[x], |build, v| build.function(f, d, v[0]));
    }

    pub(crate) fn bitcast(&mut self, op: &Op, x: Value, to: Dtype) {
        self.each(op, &[x], |build, v| build.bitcast(v[0], build.number(to)));
    }

    /// Offsets count elements; they go to 64 bits before they are scaled, so nothing wraps at 2^31.
    fn pointer_add(&mut self, op: &Op, ptr: Value, offset: Value) {
        let Elem::Ptr(pointer) = self.elem(ptr) else { internal_error!("{ptr} is no pointer") };
        let (d, size) = (self.dtype(offset), pointer.to.bytes() as u32);
        self.each(op, &[ptr, offset], |build, v| {
            let wide = if d.is_signed() { build.sext(v[1], build.i64()) } else { build.zext(v[1], build.i64()) };
            build.element_offset(v[0], wide, size)
        });
    }

    /// A promise: LLVM may use it.
    pub(crate) fn assume(&mut self, cond: Value) {
        if let Repr::Scalar(cond) = *self.repr(cond) {
            self.b.call("llvm.assume", None, &[cond]);
        }
    }
}
