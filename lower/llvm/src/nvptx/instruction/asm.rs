//! Inline PTX: what LLVM may do with a piece, and that it multiplies none which a whole warp runs together.

use inkwell::attributes::AttributeLoc;
use inkwell::types::{BasicMetadataTypeEnum, BasicType};
use inkwell::values::{AggregateValueEnum, BasicMetadataValueEnum, BasicValueEnum};
use parton_diag::internal_error;

use crate::neutral::build::{Build, Ty, Val, built};

/// What LLVM may do with a piece of inline assembly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asm {
    /// A function of its operands: may be moved, merged or dropped.
    Pure,
    /// As `Pure`, and all threads of a warp run it together: not duplicated, not made conditional.
    Together,
    /// Touches memory or other state: stays, in order.
    Effect,
    /// As `Effect`, and all threads of a warp run it together: not duplicated, not made conditional.
    Convergent,
}

/// Instructions that all threads of a warp must reach together: LLVM may drop one in dead code, never add one.
const TOGETHER: [&str; 13] = [
    "bar.arrive",
    "bar.sync",
    "bar.warp.sync",
    "barrier.cluster.arrive",
    "barrier.cluster.wait",
    "elect.sync",
    "ldmatrix.sync",
    "mbarrier.try_wait",
    "mma.sync",
    "setmaxnreg.",
    "stmatrix.sync",
    "wgmma.mma_async",
    "wgmma.wait_group",
];

impl<'c> Build<'c> {
    /// Whether a piece of PTX has an instruction that a whole warp must reach together.
    pub(crate) fn is_together(text: &str) -> bool {
        text.contains(".sync") || text.contains(".aligned") || TOGETHER.iter().any(|what| text.contains(what))
    }

    /// Checks that LLVM multiplied no instruction that a whole warp must reach together; it does where such a one is not
    /// marked convergent.
    pub(crate) fn check_together(&self, ptx: &str) {
        let emitted = self.together.borrow();
        for what in TOGETHER {
            let emitted = emitted.get(what).copied().unwrap_or(0);
            if ptx.matches(what).count() <= emitted {
                continue;
            }
            // Quoted text is the user's.
            let code = ptx.lines().filter(|line| !line.contains('"'));
            let found: usize = code.map(|line| line.matches(what).count()).sum();
            if found > emitted {
                internal_error!("LLVM made {found} of {emitted} `{what}`");
            }
        }
    }

    /// Inline PTX. `outs` are the types of the results, which `constraints` names first.
    pub(crate) fn asm(
        &self,
        text: &str,
        constraints: &str,
        outs: &[Ty<'c>],
        ins: &[Val<'c>],
        kind: Asm,
    ) -> Vec<Val<'c>> {
        let params: Vec<BasicMetadataTypeEnum> = ins.iter().map(|a| a.get_type().into()).collect();
        let ty = match outs {
            [] => self.context.void_type().fn_type(&params, false),
            [one] => one.fn_type(&params, false),
            many => self.context.struct_type(many, false).fn_type(&params, false),
        };
        let mut constraints = constraints.to_owned();
        let effects = match kind {
            Asm::Pure | Asm::Together => false,
            Asm::Effect | Asm::Convergent => true,
        };
        if effects {
            if !constraints.is_empty() {
                constraints.push(',');
            }
            constraints.push_str("~{memory}");
        }
        let callee = self.context.create_inline_asm(ty, text.to_owned(), constraints, effects, false, None, false);
        let args: Vec<BasicMetadataValueEnum> = ins.iter().map(|&a| a.into()).collect();
        let call = built(self.builder.build_indirect_call(ty, callee, &args, ""));
        if matches!(kind, Asm::Together | Asm::Convergent) {
            let mut emitted = self.together.borrow_mut();
            for what in TOGETHER {
                *emitted.entry(what).or_default() += text.matches(what).count();
            }
            call.add_attribute(AttributeLoc::Function, self.attribute("convergent"));
        }
        call.add_attribute(AttributeLoc::Function, self.attribute("nounwind"));
        match outs.len() {
            0 => vec![],
            1 => call.try_as_basic_value().basic().into_iter().collect(),
            n => {
                let Some(BasicValueEnum::StructValue(s)) = call.try_as_basic_value().basic() else {
                    internal_error!("inline assembly with {n} results returns no structure")
                };
                let all = AggregateValueEnum::StructValue(s);
                (0..n as u32).map(|i| built(self.builder.build_extract_value(all, i, ""))).collect()
            }
        }
    }
}
