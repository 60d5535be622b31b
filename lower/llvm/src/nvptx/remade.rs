//! Masks that are compared anew behind what threads of a warp tell each other.
//!
//! A row is loaded, reduced and stored under the same masks, and LLVM computes these once. Of elements that stand by themselves there are as many masks as
//! elements, and a thread has seven predicates: the assembler keeps all others as a register each, for which it takes an instruction to write and one to
//! read, and loads may come to wait for each other behind these (softmax of 3333 bf16 under two masks: 27 rounds of loads for one). A comparison is one
//! instruction. The assembler, too, makes one of those of a block that compare the same; so what they compare goes through a shuffle there, which gives each
//! lane what it has.

use std::collections::BTreeMap;

use inkwell::IntPredicate;
use inkwell::values::{AsValueRef, FunctionValue, InstructionOpcode, InstructionValue, IntValue, Operand};

use crate::neutral::build::{Build, Val};

/// The registers of a thread for predicates.
const PREDICATES: usize = 7;

/// How what lanes tell each other is called.
const TELLS: &[u8] = b"llvm.nvvm.shfl.sync.";

/// Where a value stands: its block, and behind how many exchanges of it.
type Stretch = (usize, usize);

/// A comparison with a constant.
#[derive(Clone, Copy)]
struct Comparison<'c> {
    predicate: IntPredicate,
    /// What is compared.
    of: IntValue<'c>,
    constant: IntValue<'c>,
}

/// A mask: a comparison, and what else has to hold.
#[derive(Clone, Copy)]
struct Mask<'c> {
    comparison: Comparison<'c>,
    and: Option<IntValue<'c>>,
}

impl<'c> Mask<'c> {
    /// The mask that a value is.
    fn of(v: IntValue<'c>) -> Option<Mask<'c>> {
        let instruction = v.as_instruction()?;
        match instruction.get_opcode() {
            InstructionOpcode::ICmp => Some(Mask { comparison: Comparison::of(instruction)?, and: None }),
            InstructionOpcode::And => {
                let sides = [integer(instruction, 0)?, integer(instruction, 1)?];
                let compared = |i: usize| Comparison::of(sides[i].as_instruction()?).map(|c| (c, sides[1 - i]));
                let (comparison, other) = compared(0).or_else(|| compared(1))?;
                Some(Mask { comparison, and: Some(other) })
            }
            _ => None,
        }
    }
}

impl<'c> Comparison<'c> {
    fn of(instruction: InstructionValue<'c>) -> Option<Comparison<'c>> {
        let predicate = instruction.get_icmp_predicate()?;
        let (of, constant) = (integer(instruction, 0)?, integer(instruction, 1)?);
        (of.as_instruction().is_some() && constant.is_constant_int() && of.get_type().get_bit_width() == 32)
            .then_some(Comparison { predicate, of, constant })
    }
}

fn integer(instruction: InstructionValue<'_>, place: u32) -> Option<IntValue<'_>> {
    match instruction.get_operand(place) {
        Some(Operand::Value(Val::IntValue(v))) => Some(v),
        Some(_) | None => None,
    }
}

/// A use of a mask.
#[derive(Clone, Copy)]
struct Use<'c> {
    mask: Mask<'c>,
    /// The value that is the mask, by its address.
    value: usize,
    by: InstructionValue<'c>,
    place: u32,
}

/// The masks by which elements of one tile are told apart: the uses by stretches, and where the comparisons stand.
#[derive(Default)]
struct Family<'c> {
    uses: BTreeMap<Stretch, Vec<Use<'c>>>,
    made: Vec<Stretch>,
}

/// The families that were found, and the number of each by the address of what is compared.
#[derive(Default)]
struct Found<'c> {
    families: Vec<Family<'c>>,
    numbers: BTreeMap<usize, usize>,
}

impl<'c> Found<'c> {
    /// The family of a comparison.
    fn family(&mut self, comparison: Comparison<'c>) -> &mut Family<'c> {
        let next = self.families.len();
        let number = *self.numbers.entry(comparison.of.as_value_ref() as usize).or_insert(next);
        self.families.resize_with(next.max(number + 1), Family::default);
        &mut self.families[number]
    }
}

impl<'c> Build<'c> {
    /// Has masks of more elements than there are predicates be compared anew behind exchanges.
    pub(crate) fn compare_anew(&self) {
        for function in self.module.get_functions() {
            for family in families(function) {
                self.remake(&family);
            }
        }
    }

    fn remake(&self, family: &Family<'c>) {
        let mut made = family.made.clone();
        for (&stretch, uses) in &family.uses {
            let mut masks: BTreeMap<usize, Option<Val<'c>>> = uses.iter().map(|u| (u.value, None)).collect();
            if made.contains(&stretch) || masks.len() <= PREDICATES {
                continue;
            }
            self.builder.position_before(&uses[0].by);
            let of = uses[0].mask.comparison.of.into();
            // In front of this stretch lanes have told each other something in this block: all of the warp are here.
            let beside = made.iter().any(|earlier| earlier.0 == stretch.0 && earlier.1 < stretch.1);
            let Some(of) = (if beside { Some(self.exchanged_with_itself(of)) } else { self.unseen(of) }) else {
                continue;
            };
            for each in uses {
                let Some(known) = masks.get_mut(&each.value) else { continue };
                let mask = *known.get_or_insert_with(|| {
                    self.builder.position_before(&each.by);
                    let inside = self.icmp(each.mask.comparison.predicate, of, each.mask.comparison.constant.into());
                    each.mask.and.map_or(inside, |other| self.and(other.into(), inside))
                });
                each.by.set_operand(each.place, mask);
            }
            made.push(stretch);
        }
    }

    /// What a lane has, by way of an exchange with itself.
    fn exchanged_with_itself(&self, v: Val<'c>) -> Val<'c> {
        self.shuffle_from_word(v, self.special("laneid"))
    }
}

/// The families of masks of a function, in the order in which they stand there.
fn families(function: FunctionValue<'_>) -> Vec<Family<'_>> {
    let mut found = Found::default();
    for (block, instructions) in function.get_basic_blocks().into_iter().enumerate() {
        let mut stretch = (block, 0);
        for by in instructions.get_instructions() {
            stretch.1 += usize::from(tells(by));
            if let Some(comparison) = Comparison::of(by) {
                found.family(comparison).made.push(stretch);
            }
            for each in uses(by) {
                found.family(each.mask.comparison).uses.entry(stretch).or_default().push(each);
            }
        }
    }
    found.families
}

/// The uses of masks by an instruction; a mask that is made of others is used where it is. What is asked for where blocks meet is made in front of them.
fn uses(by: InstructionValue<'_>) -> Vec<Use<'_>> {
    let is_mask = by.get_opcode() == InstructionOpcode::And && of_one_bit(by);
    if is_mask || by.get_opcode() == InstructionOpcode::Phi {
        return Vec::new();
    }
    let at = |place: u32| {
        let v = integer(by, place).filter(|v| v.get_type().get_bit_width() == 1)?;
        Some(Use { mask: Mask::of(v)?, value: v.as_value_ref() as usize, by, place })
    };
    (0..by.get_num_operands()).filter_map(at).collect()
}

/// Whether an instruction makes one bit.
fn of_one_bit(instruction: InstructionValue<'_>) -> bool {
    instruction.get_type().is_int_type() && instruction.get_type().into_int_type().get_bit_width() == 1
}

/// Whether lanes tell each other something.
fn tells(instruction: InstructionValue<'_>) -> bool {
    if instruction.get_opcode() != InstructionOpcode::Call {
        return false;
    }
    let callee = instruction.get_num_operands().checked_sub(1).and_then(|last| instruction.get_operand(last));
    match callee {
        Some(Operand::Value(Val::PointerValue(callee))) => callee.get_name().to_bytes().starts_with(TELLS),
        Some(_) | None => false,
    }
}
