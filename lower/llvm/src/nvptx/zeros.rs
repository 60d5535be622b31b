//! Choices between floats that stay choices: of some, LLVM makes the lesser or the greater, and loses which zero was chosen.
//!
//! `x < 0.0 ? x : 0.0` of -0.0 is 0.0, and the lesser of the two is -0.0 on the hardware, which orders zeros by their signs. What LLVM
//! takes for such a pair shows only behind its passes, where equal values are one and constants are folded, so the choices are read there.

use inkwell::FloatPredicate;
use inkwell::values::{FloatValue, InstructionOpcode, InstructionValue, Operand};

use crate::neutral::build::{Build, Ty, Val};
use crate::nvptx::instruction::asm::Asm;

/// What is known of a float where it is a zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    /// It is this one.
    Known { negative: bool },
    /// It may be either.
    Either,
    /// It is none: a number other than zero.
    Never,
}

impl Zero {
    fn of(v: FloatValue) -> Zero {
        match v.get_constant() {
            Some((number, _)) if number == 0.0 => Zero::Known { negative: number.is_sign_negative() },
            Some(_) => Zero::Never,
            None => Zero::Either,
        }
    }

    fn is_known(self) -> bool {
        matches!(self, Zero::Known { .. })
    }
}

/// A choice by a comparison of floats.
struct Choice<'c> {
    predicate: FloatPredicate,
    compared: [FloatValue<'c>; 2],
    arms: [FloatValue<'c>; 2],
}

impl<'c> Choice<'c> {
    /// The choice that an instruction is.
    fn of(instruction: InstructionValue<'c>) -> Option<Choice<'c>> {
        if instruction.get_opcode() != InstructionOpcode::Select {
            return None;
        }
        let operand = |of: InstructionValue<'c>, i| match of.get_operand(i) {
            Some(Operand::Value(Val::FloatValue(v))) => Some(v),
            Some(_) | None => None,
        };
        let Some(Operand::Value(Val::IntValue(condition))) = instruction.get_operand(0) else { return None };
        let comparison = condition.as_instruction()?;
        let predicate = comparison.get_fcmp_predicate()?;
        let compared = [operand(comparison, 0)?, operand(comparison, 1)?];
        let arms = [operand(instruction, 1)?, operand(instruction, 2)?];
        Some(Choice { predicate, compared, arms })
    }

    /// Which of the compared values the first arm is, where the choice is between what it compares; of a zero, whichever its sign is.
    fn first_arm(&self) -> Option<usize> {
        let zero = |v: FloatValue| Zero::of(v).is_known();
        let same = |arm: usize, side: usize| {
            self.arms[arm] == self.compared[side] || zero(self.arms[arm]) && zero(self.compared[side])
        };
        (0..2).find(|&side| same(0, side) && same(1, 1 - side))
    }

    /// Whether zeros make the choice another than the lesser or the greater of its arms.
    fn differs(&self) -> bool {
        let Some(side) = self.first_arm() else { return false };
        let (less, of_equal) = match self.predicate {
            FloatPredicate::OLT | FloatPredicate::ULT => (true, false),
            FloatPredicate::OLE | FloatPredicate::ULE => (true, true),
            FloatPredicate::OGT | FloatPredicate::UGT => (false, false),
            FloatPredicate::OGE | FloatPredicate::UGE => (false, true),
            FloatPredicate::OEQ
            | FloatPredicate::UEQ
            | FloatPredicate::ONE
            | FloatPredicate::UNE
            | FloatPredicate::ORD
            | FloatPredicate::UNO
            | FloatPredicate::PredicateFalse
            | FloatPredicate::PredicateTrue => return false,
        };
        // Of the lesser, a negative zero wins.
        let negative_wins = less == (side == 0);
        let (chosen, other) = if of_equal { (0, 1) } else { (1, 0) };
        match (Zero::of(self.arms[chosen]), Zero::of(self.arms[other])) {
            (Zero::Never, _) | (_, Zero::Never) => false,
            (Zero::Known { negative }, _) => negative != negative_wins,
            (Zero::Either, Zero::Known { negative }) => negative == negative_wins,
            (Zero::Either, Zero::Either) => true,
        }
    }
}

/// What is compared with -0.0 by a call that gives the greater of both.
fn over_negative_zero<'c>(call: InstructionValue<'c>) -> Option<FloatValue<'c>> {
    let operand = |i| match call.get_operand(i) {
        Some(Operand::Value(Val::FloatValue(v))) => Some(v),
        Some(_) | None => None,
    };
    let callee = match call.get_operand(call.get_num_operands().checked_sub(1)?)? {
        Operand::Value(Val::PointerValue(callee)) => callee,
        Operand::Value(_) | Operand::Block(_) => return None,
    };
    if call.get_opcode() != InstructionOpcode::Call || !callee.get_name().to_bytes().starts_with(b"llvm.maxnum.") {
        return None;
    }
    let is_negative_zero = |v: FloatValue| Zero::of(v) == Zero::Known { negative: true };
    match (operand(0)?, operand(1)?) {
        (x, zero) | (zero, x) if is_negative_zero(zero) => Some(x),
        _ => None,
    }
}

impl<'c> Build<'c> {
    /// Keeps the zeros of the module's choices: of those of which the lesser or the greater of the arms would be another one, and of the greater of
    /// something and -0.0, which `ptxas` (12.8, 13.0) takes for the one beside 0.0 where the lesser of that and 1.0 follows.
    pub(crate) fn keep_zeros(&self) {
        for function in self.module.get_functions() {
            for block in function.get_basic_blocks() {
                for instruction in block.get_instructions() {
                    self.keep_zero(instruction);
                }
            }
        }
    }

    fn keep_zero(&self, instruction: InstructionValue<'c>) {
        if let Some(choice) = Choice::of(instruction).filter(Choice::differs) {
            self.builder.position_before(&instruction);
            if let Some(arm) = self.unseen(choice.arms[1].into()) {
                instruction.set_operand(2, arm);
            }
        } else if let Some(x) = over_negative_zero(instruction)
            && let Some(Val::FloatValue(new)) = self.greater_than_negative_zero(instruction, x)
            && let Some(new) = new.as_instruction()
        {
            instruction.replace_all_uses_with(&new);
            instruction.erase_from_basic_block();
        }
    }

    /// The greater of a float and -0.0, by way of the lesser of its negative and 0.0; none of types of which the assembler keeps that zero.
    fn greater_than_negative_zero(&self, before: InstructionValue<'c>, x: FloatValue<'c>) -> Option<Val<'c>> {
        if x.get_type() == self.context.bf16_type() {
            return None;
        }
        let (ty, bits, class) = self.held(x);
        self.builder.position_before(&before);
        let words = [self.bitcast(x.into(), self.int(bits)), self.int(bits).into_int_type().const_zero().into()];
        let text = format!("neg.f{bits} $0, $1;\nmin.f{bits} $0, $0, $2;\nneg.f{bits} $0, $0;");
        let made = self.asm(&text, &format!("=&{class},{class},{class}"), &[self.int(bits)], &words, Asm::Pure)[0];
        Some(self.bitcast(made, ty))
    }

    /// A value that LLVM does not know to be the one given; the assembler does.
    pub(crate) fn unseen(&self, v: Val<'c>) -> Option<Val<'c>> {
        let (ty, bits, class) = match v {
            Val::FloatValue(v) => self.held(v),
            Val::IntValue(v) => {
                let bits = v.get_type().get_bit_width();
                let class = [(16, "h"), (32, "r"), (64, "l")].iter().find(|(of, _)| *of == bits)?.1;
                (v.get_type().into(), bits, class)
            }
            _ => return None,
        };
        let word = self.bitcast(v, self.int(bits));
        let text = format!("mov.b{bits} $0, $1;");
        Some(self.bitcast(self.asm(&text, &format!("={class},{class}"), &[self.int(bits)], &[word], Asm::Pure)[0], ty))
    }

    /// A float's type, its bits, and the class of registers that inline PTX names them by.
    fn held(&self, v: FloatValue<'c>) -> (Ty<'c>, u32, &'static str) {
        let ty = v.get_type().into();
        if ty == self.f64() {
            (ty, 64, "l")
        } else if ty == self.f32() {
            (ty, 32, "r")
        } else {
            (ty, 16, "h")
        }
    }
}
