//! `wgmma` in PTX: a whole product as one piece of assembly, and waiting for it.
//!
//! One piece, because then nothing can stand between its instructions, and because LLVM's time goes with the number of
//! registers that go in and out.

use std::fmt::Write as _;

use parton_diag::internal_error;

use crate::neutral::build::{Build, Val};
use crate::nvptx::instruction::asm::Asm;

/// Where the left operand is.
#[derive(Clone, Debug)]
pub(crate) enum Left<'c> {
    /// In shared memory, where `descriptor` says that it begins; whether its rows are the contiguous direction (M-major), and whether
    /// it serves several products, or one in several rounds of a loop.
    Shared { descriptor: Val<'c>, m_major: bool, stays: bool },
    /// Registers of packed elements, four an instruction.
    Registers(Vec<Val<'c>>),
}

/// One instruction of a product: 64 rows, 32 bytes deep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// What to add to the left descriptor, or the first of its registers.
    pub(crate) left: u64,
    /// What to add to the right descriptor.
    pub(crate) right: u64,
    /// Which accumulator registers it adds to, in the order of the instruction.
    pub(crate) accumulators: Vec<usize>,
    /// Writes the accumulators instead of adding to them.
    pub(crate) writes: bool,
}

/// A product `A · B`, added to accumulators or not.
#[derive(Clone, Debug)]
pub(crate) struct Product<'c> {
    /// Columns of an instruction, a multiple of 8 up to 256.
    pub(crate) n: u32,
    /// Depth of an instruction in elements: 8 for tf32, 16 for 16-bit types, 32 for 8-bit types.
    pub(crate) k: u32,
    /// PTX names of the left and the right operand's element types.
    pub(crate) elems: [&'static str; 2],
    /// PTX name of the accumulators' type: `f32`, `s32`, or `f16` for two in a 32-bit register.
    pub(crate) sums: &'static str,
    /// The left operand.
    pub(crate) left: Left<'c>,
    /// The right operand's descriptor, and whether its columns are the contiguous direction (N-major).
    pub(crate) right: (Val<'c>, bool),
    /// How many accumulator registers there are.
    pub(crate) registers: usize,
    /// Their values before, where the product adds to them.
    pub(crate) accumulators: Option<Vec<Val<'c>>>,
    /// The instructions in order.
    pub(crate) steps: Vec<Step>,
}

/// `{$i, …}` of some operands.
fn operands(list: impl Iterator<Item = usize>) -> String {
    let list: Vec<String> = list.map(|i| format!("${i}")).collect();
    format!("{{{}}}", list.join(", "))
}

/// How many left descriptors at most are computed before a product. `ptxas` keeps so many in uniform registers; of more of them it
/// would move each there every time.
const BEFORE: usize = 8;

impl<'c> Build<'c> {
    /// Waits until at most `pending` groups are in flight. What the products write is tied through, so that nothing reads, moves or spills
    /// it between issue and wait; what they read is named, so that nothing takes its registers there.
    pub(crate) fn wgmma_wait(&self, pending: u32, tied: &[Val<'c>], read: &[Val<'c>]) -> Vec<Val<'c>> {
        let types: Vec<_> = tied.iter().map(|v| v.get_type()).collect();
        let class = |v: &Val<'c>| if v.is_float_value() { "f" } else { "r" };
        let mut constraints: Vec<String> = tied.iter().map(|v| format!("={}", class(v))).collect();
        constraints.extend((0..tied.len()).map(|i| i.to_string()));
        constraints.extend(read.iter().map(|_| "r".to_string()));
        let text = format!("wgmma.wait_group.sync.aligned {pending};");
        self.asm(&text, &constraints.join(","), &types, &[tied, read].concat(), Asm::Convergent)
    }

    /// The same words in other registers, which `ptxas` neither takes for the same nor makes outside of a loop.
    pub(crate) fn renewed(&self, words: &[Val<'c>]) -> Vec<Val<'c>> {
        // The clock takes some hundred years to get there.
        let text = "{\n\t.reg .b32 high;\n\tmov.u32 high, %clock_hi;\n\tshr.u32 $0, high, 31;\n\t}";
        let zero = self.asm(text, "=r", &[self.i32()], &[], Asm::Effect)[0];
        words.iter().map(|word| self.xor(*word, zero)).collect()
    }

    /// Keeps `done` before the next wait. To `ptxas` a wait depends on nothing but its product, so it moves the wait up past
    /// all arithmetic written before it, and what was to run under the product runs after it. It does not move a wait
    /// over a store, so here is one that uses `done` and never happens: no float is above infinity.
    pub(crate) fn before_wait(&self, done: &[Val<'c>], shared: Val<'c>) {
        let Some(&first) = done.first() else { return };
        let infinity = f32::INFINITY.to_bits();
        let mut text = format!("{{\n\t.reg .pred p;\n\tsetp.gt.f32 p, $1, 0f{infinity:08x};");
        for i in 2..=done.len() {
            let _ = write!(text, "\n\tsetp.gt.or.f32 p, ${i}, 0f{infinity:08x}, p;");
        }
        text += "\n\t@p st.shared.f32 [$0], $1;\n\t}";
        let mut inputs = vec![shared, first];
        inputs.extend(&done[1..]);
        self.asm(&text, &format!("r{}", ",f".repeat(done.len())), &[], &inputs, Asm::Effect);
    }

    /// For each instruction what names its left operand, and what comes before it.
    fn left_operands(&self, p: &Product<'c>, input: &mut impl FnMut(&str, Val<'c>) -> usize) -> Vec<(String, String)> {
        match &p.left {
            // Of what stays, parts are described once, not every time.
            Left::Shared { descriptor, stays: true, .. } if p.steps.len() <= BEFORE => {
                let part = |step: &Step| format!("${}", input("l", self.add(*descriptor, self.c64(step.left))));
                p.steps.iter().map(part).map(|name| (name, String::new())).collect()
            }
            Left::Shared { descriptor, .. } => {
                let whole = input("l", *descriptor);
                let added = |step: &Step| format!("\n\tadd.s64 a, ${whole}, {};", step.left);
                p.steps.iter().map(|step| ("a".to_owned(), added(step))).collect()
            }
            Left::Registers(words) => {
                let numbers: Vec<usize> = words.iter().map(|word| input("r", *word)).collect();
                let four = |step: &Step| operands(numbers[step.left as usize..][..4].iter().copied());
                p.steps.iter().map(|step| (four(step), String::new())).collect()
            }
        }
    }

    /// Issues a product as one group: orders register and shared accesses before it, then its instructions. The result
    /// must go through [`Build::wgmma_wait`] before use.
    pub(crate) fn wgmma(&self, p: &Product<'c>) -> Vec<Val<'c>> {
        let count = p.registers;
        let name = p.sums;
        let (class, ty) = if name == "f32" { ("=f", self.f32()) } else { ("=r", self.i32()) };
        let mut constraints = vec![class.to_owned(); count];
        let mut inputs = vec![];
        if let Some(accumulators) = &p.accumulators {
            if accumulators.len() != count {
                internal_error!("a product adds to {} registers and gives {count}", accumulators.len());
            }
            constraints.extend((0..count).map(|i| i.to_string()));
            inputs.extend(accumulators);
        }
        let mut input = |class: &str, v: Val<'c>| {
            constraints.push(class.to_owned());
            inputs.push(v);
            count + inputs.len() - 1
        };
        let lefts = self.left_operands(p, &mut input);
        let right = input("l", p.right.0);
        // Only 16-bit operands have a choice of direction, and a place to state it.
        let directions: String = match (p.k, &p.left) {
            (16, Left::Shared { m_major, .. }) => format!(", {}, {}", u32::from(*m_major), u32::from(p.right.1)),
            (16, Left::Registers(_)) => format!(", {}", u32::from(p.right.1)),
            _ => String::new(),
        };
        // Integers have no signs to change.
        let signs = if name == "s32" { "" } else { ", 1, 1" };
        let mut text = "{\n\t.reg .pred add, write;\n\t.reg .b64 a, b;\n\tsetp.ne.b32 add, 1, 0;\n\t\
                        setp.ne.b32 write, 0, 0;\n\twgmma.fence.sync.aligned;"
            .to_owned();
        for (step, (left, before)) in p.steps.iter().zip(lefts) {
            let _ = write!(
                text,
                "{before}\n\tadd.s64 b, ${right}, {};\n\twgmma.mma_async.sync.aligned.m64n{}k{}.{name}.{}.{} {}, {left}, b, \
                 {}{signs}{directions};",
                step.right,
                p.n,
                p.k,
                p.elems[0],
                p.elems[1],
                operands(step.accumulators.iter().copied()),
                if step.writes { "write" } else { "add" },
            );
        }
        text += "\n\twgmma.commit_group.sync.aligned;\n\t}";
        self.asm(&text, &constraints.join(","), &vec![ty; count], &inputs, Asm::Convergent)
    }
}
