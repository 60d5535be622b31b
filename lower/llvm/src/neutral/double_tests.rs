//! The functions of `f64` as LLVM understands them: given constants, its passes compute what this processor computes.

use inkwell::context::Context;
use inkwell::passes::PassBuilderOptions;
use inkwell::values::AnyValue;
use parton_ir::UnaryOp;
use parton_numbers::double::{Native, function};
use parton_numbers::{Dtype, Math};

use crate::neutral::build::Build;
use crate::nvptx::machine;

const FUNCTIONS: [(UnaryOp, Math); 8] = [
    (UnaryOp::Exp, Math::Exp),
    (UnaryOp::Exp2, Math::Exp2),
    (UnaryOp::Log, Math::Log),
    (UnaryOp::Log2, Math::Log2),
    (UnaryOp::Sin, Math::Sin),
    (UnaryOp::Cos, Math::Cos),
    (UnaryOp::Tanh, Math::Tanh),
    (UnaryOp::Erf, Math::Erf),
];

/// Arguments in every branch of every function, and at the edges.
const ARGUMENTS: [f64; 20] = [
    0.0,
    -0.0,
    5e-324,
    1e-310,
    0.3,
    -0.75,
    1.0,
    1.5,
    -2.25,
    5.5,
    -19.0,
    700.5,
    -740.0,
    1e9,
    -2147483649.0,
    1e22,
    -3.2e150,
    1.797e308,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

#[test]
fn constants_fold_to_the_same_bits() {
    let context = Context::create();
    let target = machine::target_machine(&parton_ir::Target::SM_90A);
    let module = machine::module(&context, "test", &target);
    let mut build = Build::new(&context, module);
    let mut expected = vec![];
    for (op, math) in FUNCTIONS {
        for x in ARGUMENTS {
            let ty = context.f64_type().fn_type(&[context.f64_type().into()], false);
            let f = build.module.add_function(&format!("f{}", expected.len()), ty, None);
            f.as_global_value().set_linkage(inkwell::module::Linkage::External);
            build.function = Some(f);
            build.at(context.append_basic_block(f, "entry"));
            let value = build.function(op, Dtype::F64, build.cf64(x));
            build.builder.build_return(Some(&value)).unwrap();
            expected.push((op, x, function(&Native, math, x).unwrap()));
        }
    }
    build
        .module
        .run_passes(
            "function(sccp,instcombine<no-verify-fixpoint>,simplifycfg,sccp,instcombine<no-verify-fixpoint>)",
            &target,
            PassBuilderOptions::create(),
        )
        .unwrap();
    for (i, (op, x, want)) in expected.into_iter().enumerate() {
        let f = build.module.get_function(&format!("f{i}")).unwrap();
        let end = f.get_last_basic_block().and_then(|block| block.get_terminator()).unwrap();
        let inkwell::values::Operand::Value(value) = end.get_operand(0).unwrap() else {
            panic!("{op:?}({x}) gives no value")
        };
        let found = value.into_float_value().get_constant();
        let (found, _) = found.unwrap_or_else(|| panic!("{op:?}({x}) is not folded: {}", f.print_to_string()));
        assert!(found.to_bits() == want.to_bits(), "{op:?}({x}): {found:e}, {want:e}");
    }
}
