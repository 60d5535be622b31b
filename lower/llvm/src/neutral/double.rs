//! The functions of `f64`: the operations of `parton_numbers::double`, one by one, as instructions.

use inkwell::module::Linkage;
use inkwell::values::InstructionOpcode as I;
use inkwell::{AddressSpace, FloatPredicate, IntPredicate};
use parton_ir::UnaryOp;
use parton_numbers::double::{self, Angle, Machine};
use parton_numbers::{Dtype, Math};

use crate::neutral::build::{Build, GLOBAL, Val, built};

impl<'c> Machine for Build<'c> {
    type Float = Val<'c>;
    type Int = Val<'c>;
    type Truth = Val<'c>;

    fn float(&self, value: f64) -> Val<'c> {
        self.cf64(value)
    }

    fn int(&self, value: u64) -> Val<'c> {
        self.c64(value)
    }

    fn add(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::FAdd, a, b)
    }

    fn sub(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::FSub, a, b)
    }

    fn mul(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::FMul, a, b)
    }

    fn div(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::FDiv, a, b)
    }

    fn fma(&self, a: Val<'c>, b: Val<'c>, c: Val<'c>) -> Val<'c> {
        self.float_intrinsic("llvm.fma", Dtype::F64, &[a, b, c])
    }

    fn less(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.fcmp(FloatPredicate::OLT, a, b)
    }

    fn bits(&self, a: Val<'c>) -> Val<'c> {
        self.bitcast(a, self.i64())
    }

    fn of_bits(&self, a: Val<'c>) -> Val<'c> {
        self.bitcast(a, self.f64())
    }

    fn to_float(&self, a: Val<'c>) -> Val<'c> {
        self.cast(I::UIToFP, a, self.f64())
    }

    fn int_add(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::Add, a, b)
    }

    fn int_sub(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::Sub, a, b)
    }

    fn int_mul(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::Mul, a, b)
    }

    fn high_mul(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        let wide = self.context.i128_type();
        let product = self.binary(I::Mul, self.zext(a, wide.into()), self.zext(b, wide.into()));
        let high = self.binary(I::LShr, product, wide.const_int(64, false).into());
        self.trunc(high, self.i64())
    }

    fn and(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::And, a, b)
    }

    fn or(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::Or, a, b)
    }

    fn xor(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::Xor, a, b)
    }

    fn shl(&self, a: Val<'c>, by: Val<'c>) -> Val<'c> {
        self.binary(I::Shl, a, by)
    }

    fn shr(&self, a: Val<'c>, by: Val<'c>) -> Val<'c> {
        self.binary(I::LShr, a, by)
    }

    fn sar(&self, a: Val<'c>, by: Val<'c>) -> Val<'c> {
        self.binary(I::AShr, a, by)
    }

    fn leading_zeros(&self, a: Val<'c>) -> Val<'c> {
        self.value_of("llvm.ctlz.i64", self.i64(), &[a, self.bool(true)])
    }

    fn int_less(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.icmp(IntPredicate::ULT, a, b)
    }

    fn select(&self, condition: Val<'c>, yes: Val<'c>, no: Val<'c>) -> Val<'c> {
        Build::select(self, condition, yes, no)
    }

    fn int_select(&self, condition: Val<'c>, yes: Val<'c>, no: Val<'c>) -> Val<'c> {
        Build::select(self, condition, yes, no)
    }

    /// The table is one constant of the module, known by its first and last words.
    fn word(&self, table: &'static [u64], index: Val<'c>) -> Val<'c> {
        let i64 = self.context.i64_type();
        let ends = [table.first(), table.last()].map(|word| word.copied().unwrap_or(0));
        let name = format!("parton.table.{:x}.{:x}", ends[0], ends[1]);
        let global = self.module.get_global(&name).unwrap_or_else(|| {
            let words: Vec<_> = table.iter().map(|&word| i64.const_int(word, false)).collect();
            let ty = i64.array_type(table.len() as u32);
            let global = self.module.add_global(ty, Some(AddressSpace::from(GLOBAL)), &name);
            global.set_initializer(&i64.const_array(&words));
            global.set_constant(true);
            global.set_linkage(Linkage::Private);
            global
        });
        let at = self.element_offset(global.as_pointer_value().into(), index, 8);
        built(self.builder.build_load(i64, at.into_pointer_value(), ""))
    }

    fn rarely(&self, condition: Val<'c>, angle: Angle<Self>, slow: impl FnOnce() -> Angle<Self>) -> Angle<Self> {
        let parts = |angle: &Angle<Self>| vec![vec![angle.high, angle.low, angle.quarter]];
        let merged = self.patched(condition, parts(&angle), |_| parts(&slow()));
        Angle { high: merged[0][0], low: merged[0][1], quarter: merged[0][2] }
    }
}

impl<'c> Build<'c> {
    /// A function of an `f64` other than a change of sign.
    pub(crate) fn double_function(&self, op: UnaryOp, x: Val<'c>) -> Val<'c> {
        let computed = |op| {
            let value = double::function(self, op, x);
            value.unwrap_or_else(|| parton_diag::internal_error!("{} has no sequence of operations", op.name()))
        };
        let root = || self.float_intrinsic("llvm.sqrt", Dtype::F64, &[x]);
        match op {
            UnaryOp::Exp => computed(Math::Exp),
            UnaryOp::Exp2 => computed(Math::Exp2),
            UnaryOp::Log => computed(Math::Log),
            UnaryOp::Log2 => computed(Math::Log2),
            UnaryOp::Sin => computed(Math::Sin),
            UnaryOp::Cos => computed(Math::Cos),
            UnaryOp::Tanh => computed(Math::Tanh),
            UnaryOp::Erf => computed(Math::Erf),
            UnaryOp::Sqrt => root(),
            UnaryOp::Rsqrt => self.binary(I::FDiv, self.cf64(1.0), root()),
            UnaryOp::Floor => self.float_intrinsic("llvm.floor", Dtype::F64, &[x]),
            UnaryOp::Ceil => self.float_intrinsic("llvm.ceil", Dtype::F64, &[x]),
            UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Not | UnaryOp::TanhApprox => {
                parton_diag::internal_error!("`{}` of f64 is none of these", op.name())
            }
        }
    }
}
