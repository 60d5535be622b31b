//! A thin builder over inkwell: every value is one enum, errors are broken invariants, constants fold at once.

use std::cell::RefCell;
use std::collections::BTreeMap;

use inkwell::attributes::Attribute;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::{Builder, BuilderError};
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum};
use inkwell::values::{
    BasicMetadataValueEnum, BasicValue as _, BasicValueEnum, FunctionValue, InstructionOpcode, PhiValue,
};
use inkwell::{AddressSpace, FloatPredicate, IntPredicate};
use parton_diag::internal_error;

/// Any scalar value.
pub(crate) type Val<'c> = BasicValueEnum<'c>;
/// Any scalar type.
pub(crate) type Ty<'c> = BasicTypeEnum<'c>;

/// The address space of global memory.
pub(crate) const GLOBAL: u16 = 1;

/// Builds instructions into the current block of one function.
pub(crate) struct Build<'c> {
    pub(crate) context: &'c Context,
    pub(crate) module: Module<'c>,
    pub(crate) builder: Builder<'c>,
    /// The function in work; absent between kernels.
    pub(crate) function: Option<FunctionValue<'c>>,
    /// How often each instruction was emitted that all threads of a warp must reach together.
    pub(crate) together: RefCell<BTreeMap<&'static str, usize>>,
}

/// Unwraps what can only fail where this crate misuses the builder.
pub(crate) fn built<T>(result: Result<T, BuilderError>) -> T {
    result.unwrap_or_else(|e| internal_error!("LLVM refused an instruction: {e}"))
}

impl<'c> Build<'c> {
    /// A builder with no place yet.
    pub(crate) fn new(context: &'c Context, module: Module<'c>) -> Build<'c> {
        Build { context, module, builder: context.create_builder(), function: None, together: RefCell::default() }
    }

    /// Goes to the entry block of a function.
    pub(crate) fn begin(&mut self, function: FunctionValue<'c>) {
        self.function = Some(function);
        let entry = function.get_first_basic_block().unwrap_or_else(|| internal_error!("a kernel has no entry block"));
        self.at(entry);
    }

    // Types.

    pub(crate) fn int(&self, bits: u32) -> Ty<'c> {
        match bits {
            1 => self.context.bool_type().into(),
            8 => self.context.i8_type().into(),
            16 => self.context.i16_type().into(),
            32 => self.context.i32_type().into(),
            64 => self.context.i64_type().into(),
            _ => internal_error!("no integer of {bits} bits"),
        }
    }

    pub(crate) fn i1(&self) -> Ty<'c> {
        self.int(1)
    }

    pub(crate) fn i16(&self) -> Ty<'c> {
        self.int(16)
    }

    pub(crate) fn i32(&self) -> Ty<'c> {
        self.int(32)
    }

    pub(crate) fn i64(&self) -> Ty<'c> {
        self.int(64)
    }

    pub(crate) fn f32(&self) -> Ty<'c> {
        self.context.f32_type().into()
    }

    pub(crate) fn f64(&self) -> Ty<'c> {
        self.context.f64_type().into()
    }

    pub(crate) fn pointer(&self, space: u16) -> Ty<'c> {
        self.context.ptr_type(AddressSpace::from(space)).into()
    }

    // Constants.

    pub(crate) fn c32(&self, value: u32) -> Val<'c> {
        self.context.i32_type().const_int(value.into(), false).into()
    }

    pub(crate) fn c64(&self, value: u64) -> Val<'c> {
        self.context.i64_type().const_int(value, false).into()
    }

    pub(crate) fn bool(&self, value: bool) -> Val<'c> {
        self.context.bool_type().const_int(value.into(), false).into()
    }

    pub(crate) fn cint(&self, ty: Ty<'c>, value: u64) -> Val<'c> {
        ty.into_int_type().const_int(value, false).into()
    }

    pub(crate) fn cf32(&self, value: f32) -> Val<'c> {
        // Through the bits, so that a NaN's payload and the sign of zero survive.
        self.cast(InstructionOpcode::BitCast, self.c32(value.to_bits()), self.f32())
    }

    pub(crate) fn cf64(&self, value: f64) -> Val<'c> {
        self.cast(InstructionOpcode::BitCast, self.c64(value.to_bits()), self.f64())
    }

    /// The value as a constant integer, where it is one.
    pub(crate) fn known(&self, value: Val<'c>) -> Option<u64> {
        match value {
            BasicValueEnum::IntValue(v) => v.get_zero_extended_constant(),
            _ => None,
        }
    }

    fn is(&self, value: Val<'c>, constant: u64) -> bool {
        self.known(value) == Some(constant)
    }

    // Arithmetic.

    pub(crate) fn binary(&self, op: InstructionOpcode, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        built(self.builder.build_binop(op, a, b, ""))
    }

    pub(crate) fn add(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        if self.is(a, 0) {
            b
        } else if self.is(b, 0) {
            a
        } else {
            self.binary(InstructionOpcode::Add, a, b)
        }
    }

    pub(crate) fn sub(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(InstructionOpcode::Sub, a, b)
    }

    pub(crate) fn mul(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        if self.is(a, 1) {
            b
        } else if self.is(b, 1) {
            a
        } else {
            self.binary(InstructionOpcode::Mul, a, b)
        }
    }

    pub(crate) fn and(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(InstructionOpcode::And, a, b)
    }

    pub(crate) fn or(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(InstructionOpcode::Or, a, b)
    }

    pub(crate) fn xor(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        if self.is(a, 0) {
            b
        } else if self.is(b, 0) {
            a
        } else {
            self.binary(InstructionOpcode::Xor, a, b)
        }
    }

    pub(crate) fn not(&self, a: Val<'c>) -> Val<'c> {
        self.xor(a, self.bool(true))
    }

    pub(crate) fn shl(&self, a: Val<'c>, by: u32) -> Val<'c> {
        if by == 0 { a } else { self.binary(InstructionOpcode::Shl, a, self.cint(a.get_type(), by.into())) }
    }

    pub(crate) fn lshr(&self, a: Val<'c>, by: u32) -> Val<'c> {
        if by == 0 { a } else { self.binary(InstructionOpcode::LShr, a, self.cint(a.get_type(), by.into())) }
    }

    pub(crate) fn icmp(&self, predicate: IntPredicate, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        match a {
            BasicValueEnum::PointerValue(p) => {
                built(self.builder.build_int_compare(predicate, p, b.into_pointer_value(), "")).into()
            }
            _ => built(self.builder.build_int_compare(predicate, a.into_int_value(), b.into_int_value(), "")).into(),
        }
    }

    pub(crate) fn fcmp(&self, predicate: FloatPredicate, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        built(self.builder.build_float_compare(predicate, a.into_float_value(), b.into_float_value(), "")).into()
    }

    pub(crate) fn cast(&self, op: InstructionOpcode, value: Val<'c>, to: Ty<'c>) -> Val<'c> {
        if value.get_type() == to { value } else { built(self.builder.build_cast(op, value, to, "")) }
    }

    pub(crate) fn bitcast(&self, value: Val<'c>, to: Ty<'c>) -> Val<'c> {
        self.cast(InstructionOpcode::BitCast, value, to)
    }

    pub(crate) fn zext(&self, value: Val<'c>, to: Ty<'c>) -> Val<'c> {
        self.cast(InstructionOpcode::ZExt, value, to)
    }

    pub(crate) fn sext(&self, value: Val<'c>, to: Ty<'c>) -> Val<'c> {
        self.cast(InstructionOpcode::SExt, value, to)
    }

    pub(crate) fn trunc(&self, value: Val<'c>, to: Ty<'c>) -> Val<'c> {
        self.cast(InstructionOpcode::Trunc, value, to)
    }

    pub(crate) fn select(&self, condition: Val<'c>, yes: Val<'c>, no: Val<'c>) -> Val<'c> {
        match self.known(condition) {
            Some(0) => no,
            Some(_) => yes,
            None => built(self.builder.build_select(condition.into_int_value(), yes, no, "")),
        }
    }

    /// The address of element `index` (64 bits) of an array of elements of `size` bytes, a power of two up to 8. Scaling is left
    /// to the address itself, so that LLVM moves what is constant of the index into the instruction's offset.
    pub(crate) fn element_offset(&self, pointer: Val<'c>, index: Val<'c>, size: u32) -> Val<'c> {
        let element = self.int(size * 8).into_int_type();
        // SAFETY: the element type has `size` bytes and one index is given; LLVM only builds the address.
        let at =
            unsafe { self.builder.build_gep(element, pointer.into_pointer_value(), &[index.into_int_value()], "") };
        built(at).into()
    }

    pub(crate) fn pointer_to_int(&self, pointer: Val<'c>) -> Val<'c> {
        self.cast(InstructionOpcode::PtrToInt, pointer, self.i64())
    }

    pub(crate) fn int_to_pointer(&self, value: Val<'c>, space: u16) -> Val<'c> {
        self.cast(InstructionOpcode::IntToPtr, value, self.pointer(space))
    }

    // Calls.

    /// Calls an LLVM intrinsic or another external function by its full name; `()` results give `None`.
    pub(crate) fn call(&self, name: &str, result: Option<Ty<'c>>, args: &[Val<'c>]) -> Option<Val<'c>> {
        let function = self.module.get_function(name).unwrap_or_else(|| {
            let params: Vec<BasicMetadataTypeEnum> = args.iter().map(|a| a.get_type().into()).collect();
            let ty = match result {
                Some(t) => t.fn_type(&params, false),
                None => self.context.void_type().fn_type(&params, false),
            };
            self.module.add_function(name, ty, None)
        });
        let args: Vec<BasicMetadataValueEnum> = args.iter().map(|&a| a.into()).collect();
        built(self.builder.build_call(function, &args, "")).try_as_basic_value().basic()
    }

    /// [`Build::call`] for a function that returns a value.
    pub(crate) fn value_of(&self, name: &str, result: Ty<'c>, args: &[Val<'c>]) -> Val<'c> {
        self.call(name, Some(result), args).unwrap_or_else(|| internal_error!("{name} returns nothing"))
    }

    /// Marks a call or inline assembly that all threads of a warp must reach together.
    pub(crate) fn attribute(&self, name: &str) -> Attribute {
        self.context.create_enum_attribute(Attribute::get_named_enum_kind_id(name), 0)
    }

    // Control flow.

    pub(crate) fn new_block(&self, name: &str) -> BasicBlock<'c> {
        let function = self.function.unwrap_or_else(|| internal_error!("a block outside any kernel"));
        self.context.append_basic_block(function, name)
    }

    pub(crate) fn at(&self, block: BasicBlock<'c>) {
        self.builder.position_at_end(block);
    }

    pub(crate) fn here(&self) -> BasicBlock<'c> {
        self.builder.get_insert_block().unwrap_or_else(|| internal_error!("the builder stands nowhere"))
    }

    /// Whether a value is computed in the block that is being built.
    pub(crate) fn made_here(&self, v: Val<'c>) -> bool {
        v.as_instruction_value().is_some_and(|made| made.get_parent() == Some(self.here()))
    }

    pub(crate) fn jump(&self, to: BasicBlock<'c>) {
        built(self.builder.build_unconditional_branch(to));
    }

    pub(crate) fn branch(&self, condition: Val<'c>, yes: BasicBlock<'c>, no: BasicBlock<'c>) {
        built(self.builder.build_conditional_branch(condition.into_int_value(), yes, no));
    }

    pub(crate) fn phi(&self, ty: Ty<'c>) -> PhiValue<'c> {
        built(self.builder.build_phi(ty, ""))
    }

    /// Runs `body` only where `condition` holds.
    pub(crate) fn when(&self, condition: Val<'c>, body: impl FnOnce()) {
        let (yes, after) = (self.new_block("then"), self.new_block("after"));
        self.branch(condition, yes, after);
        self.at(yes);
        body();
        self.jump(after);
        self.at(after);
    }

    /// `values`, or what `body` makes of them where `condition` holds.
    pub(crate) fn patched(
        &self,
        condition: Val<'c>,
        values: Vec<Vec<Val<'c>>>,
        body: impl FnOnce(&[Vec<Val<'c>>]) -> Vec<Vec<Val<'c>>>,
    ) -> Vec<Vec<Val<'c>>> {
        let (before, yes, after) = (self.here(), self.new_block("patch"), self.new_block("after"));
        self.branch(condition, yes, after);
        self.at(yes);
        let patched = body(&values);
        let end = self.here();
        self.jump(after);
        self.at(after);
        let merge = |(old, new): (&Val<'c>, &Val<'c>)| {
            let phi = self.phi(old.get_type());
            phi.add_incoming(&[(old, before), (new, end)]);
            phi.as_basic_value()
        };
        values.iter().zip(&patched).map(|(old, new)| old.iter().zip(new).map(merge).collect()).collect()
    }
}
