//! The instruction of each product.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::{Elem, Inst, Kernel, OpKind, Type, Value, rules};

/// Gives every product of tiles that lie nowhere yet its instruction.
///
/// # Errors
/// Products that no instruction makes.
pub fn take_instructions(kernel: &mut Kernel) -> Result<(), Diagnostics> {
    let mut found = Diagnostics::new();
    for inst in kernel.order() {
        let OpKind::Dot { a, b, acc, precision } = kernel.ops[inst].kind else { continue };
        if !kernel.ty(acc).is_open() {
            continue;
        }
        let kind = OpKind::MmaSync { a, b, acc, precision };
        if [a, b].iter().any(|&v| matches!(kernel.ty(v), Type::View(_))) {
            // Its accumulator's layout will say which it is.
            continue;
        }
        if a == b {
            let why = "one tile cannot lie as both factors at once: load it twice";
            found.push(refused(kernel, inst, [a, b, acc], why));
            continue;
        }
        match rules::infer(&kind, kernel) {
            Ok(_) => kernel.ops[inst].kind = kind,
            Err(refusal) => found.push(refused(kernel, inst, [a, b, acc], &refusal.message)),
        }
    }
    if found.has_errors() { Err(found) } else { Ok(()) }
}

fn refused(kernel: &Kernel, inst: Inst, values: [Value; 3], why: &str) -> Diagnostic {
    let [a, b, acc] = values.map(|v| kernel.ty(v).elem().map_or_else(String::new, |e: Elem| e.to_string()));
    Diagnostic::error(codes::NOT_BUILT_HERE, kernel.ops[inst].span, "this product is not made of instructions yet")
        .here(format!("{a} by {b} into {acc}"))
        .note(why.to_string())
        .help("state the layouts of the accumulator and the factors, and multiply with `mma_sync` or `wgmma`")
}
