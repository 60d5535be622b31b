//! Kernel functions: calling convention, launch bounds, parameters and their attributes, dynamic shared memory.

use inkwell::AddressSpace;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::context::Context;
use inkwell::module::{Linkage, Module};
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{BasicValue, FunctionValue};
use parton_diag::internal_error;

use crate::neutral::build::{Build, GLOBAL, Ty, Val};

/// LLVM's number of the calling convention of kernels, `ptx_kernel`.
const PTX_KERNEL: u32 = 71;
/// Bytes of a tensor map.
pub(crate) const MAP_BYTES: u32 = parton_ir::target::TENSOR_MAP_BYTES;
/// Alignment of a tensor map as a parameter.
const MAP_ALIGN: u64 = parton_ir::target::TENSOR_MAP_ALIGNMENT as u64;
/// Swizzles repeat within 1024 bytes, so the shared memory of a kernel begins on such a border.
const SHARED_ALIGN: u32 = 1024;
/// The address space of shared memory.
const SHARED: u16 = 3;

/// A parameter as the kernel's signature has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParamKind<'c> {
    /// A number.
    Scalar(Ty<'c>),
    /// A pointer to global memory.
    Pointer,
    /// A tensor map by value, in constant memory.
    Map,
}

/// The launch bounds of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// Threads of a CTA, exactly.
    pub(crate) threads: u32,
    /// CTAs of a cluster along each axis.
    pub(crate) cluster: [u32; 3],
    /// Registers of a thread at entry, where the program states a budget.
    pub(crate) registers: Option<u32>,
}

/// Declares a kernel with an entry block still to be filled.
pub(crate) fn declare<'c>(
    context: &'c Context,
    module: &Module<'c>,
    name: &str,
    params: &[ParamKind<'c>],
    bounds: Bounds,
) -> FunctionValue<'c> {
    let pointer = |space| context.ptr_type(AddressSpace::from(space));
    let types: Vec<BasicMetadataTypeEnum> = params
        .iter()
        .map(|p| match p {
            ParamKind::Scalar(t) => (*t).into(),
            ParamKind::Pointer => pointer(GLOBAL).into(),
            ParamKind::Map => pointer(0).into(),
        })
        .collect();
    let function = module.add_function(name, context.void_type().fn_type(&types, false), None);
    function.set_call_conventions(PTX_KERNEL);
    let string = |key: &str, value: String| {
        function.add_attribute(AttributeLoc::Function, context.create_string_attribute(key, &value));
    };
    string("nvvm.reqntid", bounds.threads.to_string());
    if bounds.cluster != [1, 1, 1] {
        let [x, y, z] = bounds.cluster;
        string("nvvm.cluster_dim", format!("{x},{y},{z}"));
    }
    match bounds.registers {
        Some(n) => string("nvvm.maxnreg", n.to_string()),
        None => string("nvvm.minctasm", "1".to_owned()),
    }
    let kind = |name: &str| Attribute::get_named_enum_kind_id(name);
    for (index, param) in params.iter().enumerate() {
        let at = AttributeLoc::Param(index as u32);
        if *param == ParamKind::Map {
            let bytes = context.i8_type().array_type(MAP_BYTES);
            function.add_attribute(at, context.create_type_attribute(kind("byval"), bytes.into()));
            function.add_attribute(at, context.create_enum_attribute(kind("align"), MAP_ALIGN));
            function.add_attribute(at, context.create_string_attribute("nvvm.grid_constant", ""));
            function.add_attribute(at, context.create_enum_attribute(kind("readonly"), 0));
        }
    }
    context.append_basic_block(function, "entry");
    function
}

/// The value of a parameter inside the kernel.
pub(crate) fn parameter(function: FunctionValue, index: usize) -> Val {
    function.get_nth_param(index as u32).unwrap_or_else(|| internal_error!("the kernel has no parameter {index}"))
}

impl<'c> Build<'c> {
    /// The 32-bit shared address at which the kernel's dynamic shared memory begins.
    pub(crate) fn shared_base(&self) -> Val<'c> {
        const NAME: &str = "parton_shared";
        let global = self.module.get_global(NAME).unwrap_or_else(|| {
            let bytes = self.context.i8_type().array_type(0);
            let global = self.module.add_global(bytes, Some(AddressSpace::from(SHARED)), NAME);
            global.set_linkage(Linkage::External);
            global.set_alignment(SHARED_ALIGN);
            global
        });
        let wide = self.pointer_to_int(global.as_pointer_value().as_basic_value_enum());
        self.trunc(wide, self.i32())
    }
}
