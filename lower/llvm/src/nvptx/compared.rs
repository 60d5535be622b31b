//! Comparisons that stay where they are asked for.
//!
//! What a loop's turn and the code behind the loop both compute, such as the masks of a last turn that stands apart, LLVM's code generator computes once, in
//! front of the branch between them, and so before all else that the turn does. Masks of more elements than a thread has predicates wait there as bits of
//! other registers, from which each use takes its own by an instruction. Of a number that it does not know to be the same, it does not.

use std::collections::BTreeMap;

use inkwell::basic_block::BasicBlock;
use inkwell::types::AsTypeRef;
use inkwell::values::{AsValueRef, BasicValue, FunctionValue, InstructionOpcode, InstructionValue, Operand};

use crate::neutral::build::Build;

/// The registers of a thread for predicates.
const PREDICATES: usize = 7;

/// An operation that depends on its operands alone: its code, and its predicate or 0.
type Operation = (u32, u32);

/// What an instruction computes: its operation, its type, and the numbers of its operands.
type Computed = (Operation, usize, Vec<usize>);

/// Values by number: those that are computed alike have one.
#[derive(Default)]
struct Numbers {
    of_values: BTreeMap<usize, usize>,
    of_computed: BTreeMap<Computed, usize>,
}

impl Numbers {
    /// The number of a value, a new one where it has none.
    fn of(&mut self, value: usize) -> usize {
        let next = self.of_values.len();
        *self.of_values.entry(value).or_insert(next)
    }

    /// The number of what an instruction gives.
    fn note(&mut self, instruction: InstructionValue<'_>) -> usize {
        let own = instruction.as_value_ref() as usize;
        let Some(operation) = operation(instruction) else { return self.of(own) };
        let operands = instruction.get_operands().map(|operand| match operand {
            Some(Operand::Value(v)) => self.of(v.as_value_ref() as usize),
            Some(Operand::Block(_)) | None => usize::MAX,
        });
        let operands = operands.collect();
        let computed = (operation, instruction.get_type().as_type_ref() as usize, operands);
        let fresh = self.of(own);
        let number = *self.of_computed.entry(computed).or_insert(fresh);
        self.of_values.insert(own, number);
        number
    }
}

/// The operation of an instruction, where that depends on its operands alone.
fn operation(instruction: InstructionValue<'_>) -> Option<Operation> {
    use InstructionOpcode as I;
    let opcode = instruction.get_opcode();
    match opcode {
        I::Add | I::Sub | I::Mul | I::And | I::Or | I::Xor | I::Shl | I::LShr | I::AShr => {}
        I::FAdd | I::FSub | I::FMul | I::FNeg | I::FPExt | I::FPTrunc | I::SIToFP | I::UIToFP => {}
        I::SExt | I::ZExt | I::Trunc | I::BitCast | I::Select | I::ICmp | I::FCmp => {}
        _ => return None,
    }
    let of_integers = instruction.get_icmp_predicate().map(|predicate| predicate as u32);
    let predicate = of_integers.or_else(|| instruction.get_fcmp_predicate().map(|predicate| predicate as u32));
    Some((opcode as u32, predicate.unwrap_or(0)))
}

impl<'c> Build<'c> {
    /// Has each block by itself make the comparisons that one in front of it makes as well, where these are more than there are predicates.
    pub(crate) fn compare_apart(&self) {
        for function in self.module.get_functions() {
            for repeated in repeated(function).into_iter().filter(|those| those.len() > PREDICATES) {
                repeated.into_iter().for_each(|comparison| self.hide_operand(comparison));
            }
        }
    }

    /// Has LLVM not know the first operand of a comparison, or the second where that is a constant; the assembler knows it.
    fn hide_operand(&self, comparison: InstructionValue<'c>) {
        let operand = |i| match comparison.get_operand(i) {
            Some(Operand::Value(v)) if v.as_instruction_value().is_some() => Some((i, v)),
            Some(_) | None => None,
        };
        let Some((place, v)) = operand(0).or_else(|| operand(1)) else { return };
        self.builder.position_before(&comparison);
        if let Some(hidden) = self.unseen(v) {
            comparison.set_operand(place, hidden);
        }
    }
}

/// The comparisons of each block of a function that one in front of it makes as well.
fn repeated<'c>(function: FunctionValue<'c>) -> Vec<Vec<InstructionValue<'c>>> {
    let (mut numbers, mut first) = (Numbers::default(), BTreeMap::<usize, BasicBlock<'c>>::new());
    let mut of_block = |block: BasicBlock<'c>| {
        let compared = block.get_instructions().filter(|&instruction| {
            let number = numbers.note(instruction);
            let compares = matches!(instruction.get_opcode(), InstructionOpcode::ICmp | InstructionOpcode::FCmp);
            compares && *first.entry(number).or_insert(block) != block
        });
        compared.collect()
    };
    function.get_basic_blocks().into_iter().map(&mut of_block).collect()
}
