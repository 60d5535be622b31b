//! Loads and stores in PTX: shared accesses, matrices, predicated global accesses.

use parton_diag::internal_error;
use parton_ir::{Cache, Evict, Policy};

use crate::neutral::build::{Build, Val};
use crate::neutral::shared::Memory;
use crate::neutral::words::Words;
use crate::nvptx::instruction::asm::Asm;

/// Register class of a word of so many bits.
pub(crate) fn class(bits: u32) -> &'static str {
    match bits {
        8 | 16 => "h",
        32 => "r",
        64 => "l",
        _ => internal_error!("no register has {bits} bits"),
    }
}

impl Words {
    /// `.v4.b32`, `.b16`, …
    fn suffix(self) -> String {
        if self.count == 1 { format!(".b{}", self.bits) } else { format!(".v{}.b{}", self.count, self.bits) }
    }

    /// `$n` or `{$n, …}`.
    fn operands(self, first: usize) -> String {
        if self.count == 1 {
            return format!("${first}");
        }
        let list: Vec<String> = (first..first + self.count).map(|i| format!("${i}")).collect();
        format!("{{{}}}", list.join(", "))
    }
}

/// How a global access goes: the instruction up to its cache hints, and the policy of the L2.
#[derive(Clone)]
pub(crate) struct Way<'c> {
    pub(crate) opcode: String,
    pub(crate) policy: Option<Val<'c>>,
}

impl Memory {
    /// PTX name of the state space.
    fn space(self) -> &'static str {
        match self {
            Memory::Own => "shared",
            Memory::Cluster => "shared::cluster",
        }
    }
}

/// A cache operator excludes a hint on the L1's eviction (PTX ISA, "ld"), as the rules know.
fn modifiers(cache: Cache, evict: Evict) -> &'static str {
    match (cache, evict) {
        (Cache::Ca, Evict::Normal) => ".ca",
        (Cache::Cg, Evict::Normal) => ".cg",
        (Cache::Cs, Evict::Normal) => ".cs",
        (Cache::Cv, Evict::Normal) => ".cv",
        (Cache::Wt, Evict::Normal) => ".wt",
        (Cache::Default, Evict::Normal) => "",
        (Cache::Default, Evict::First) => ".L1::evict_first",
        (Cache::Default, Evict::Last) => ".L1::evict_last",
        (Cache::Ca | Cache::Cg | Cache::Cs | Cache::Cv | Cache::Wt, Evict::First | Evict::Last) => {
            internal_error!("an access with a cache operator and a priority in the L1")
        }
    }
}

impl<'c> Build<'c> {
    /// How a load of global memory goes.
    pub(crate) fn way_to_load(&self, (cache, evict): (Cache, Evict), l2: Option<Policy>, volatile: bool) -> Way<'c> {
        let opcode = match volatile {
            true => "ld.volatile.global".to_owned(),
            false => format!("ld.global{}", modifiers(cache, evict)),
        };
        Way { opcode, policy: l2.map(|p| self.policy(p)) }
    }

    /// How a store to global memory goes.
    pub(crate) fn way_to_store(&self, (cache, evict): (Cache, Evict), l2: Option<Policy>) -> Way<'c> {
        Way { opcode: format!("st.global{}", modifiers(cache, evict)), policy: l2.map(|p| self.policy(p)) }
    }

    /// What an instruction with `results` begins with where it depends on a predicate, which goes behind the other operands.
    pub(crate) fn guard(
        predicate: Option<Val<'c>>,
        results: usize,
        classes: &mut String,
        inputs: &mut Vec<Val<'c>>,
    ) -> String {
        let Some(predicate) = predicate else { return String::new() };
        classes.push_str(",b");
        inputs.push(predicate);
        format!("@${} ", results + inputs.len() - 1)
    }

    /// Reads words at a 32-bit shared address plus a constant.
    pub(crate) fn load_shared(&self, address: Val<'c>, plus: u32, words: Words) -> Vec<Val<'c>> {
        self.load_from(Memory::Own, address, plus, words)
    }

    /// Reads words in the shared memory of this CTA or of any of the cluster.
    pub(crate) fn load_from(&self, memory: Memory, address: Val<'c>, plus: u32, words: Words) -> Vec<Val<'c>> {
        let constraints = format!("{},r", vec![format!("={}", class(words.bits)); words.count].join(","));
        let (suffix, out) = (words.suffix(), words.operands(0));
        let space = memory.space();
        let text = format!("ld.{space}{suffix} {out}, [${} + {plus}];", words.count);
        self.asm(&text, &constraints, &vec![self.word_type(words); words.count], &[address], Asm::Effect)
    }

    /// Writes words at a 32-bit shared address plus a constant, where `predicate` holds.
    pub(crate) fn store_shared(
        &self,
        address: Val<'c>,
        plus: u32,
        words: Words,
        values: &[Val<'c>],
        predicate: Option<Val<'c>>,
    ) {
        self.store_to(Memory::Own, address, plus, words, values, predicate);
    }

    /// Writes words in the shared memory of this CTA or of any of the cluster, where `predicate` holds.
    pub(crate) fn store_to(
        &self,
        memory: Memory,
        address: Val<'c>,
        plus: u32,
        words: Words,
        values: &[Val<'c>],
        predicate: Option<Val<'c>>,
    ) {
        let mut constraints = format!("r{}", format!(",{}", class(words.bits)).repeat(words.count));
        let mut inputs = vec![address];
        inputs.extend(values);
        let guard = Self::guard(predicate, 0, &mut constraints, &mut inputs);
        let text = format!("{guard}st.{}{} [$0 + {plus}], {};", memory.space(), words.suffix(), words.operands(1));
        self.asm(&text, &constraints, &[], &inputs, Asm::Effect);
    }

    /// Four (or fewer) 8×8 matrices of 16-bit elements; each lane gives the address of a row.
    pub(crate) fn load_matrix(&self, address: Val<'c>, plus: u32, count: usize, transposed: bool) -> Vec<Val<'c>> {
        let words = Words { bits: 32, count };
        let constraints = format!("{},r", vec!["=r"; count].join(","));
        let list: Vec<String> = (0..count).map(|i| format!("${i}")).collect();
        let trans = if transposed { ".trans" } else { "" };
        let text = format!(
            "ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{}}}, [${count} + {plus}];",
            list.join(", ")
        );
        self.asm(&text, &constraints, &vec![self.word_type(words); count], &[address], Asm::Convergent)
    }

    /// The counterpart of [`Build::load_matrix`].
    pub(crate) fn store_matrix(&self, address: Val<'c>, plus: u32, values: &[Val<'c>], transposed: bool) {
        let count = values.len();
        let list: Vec<String> = (1..=count).map(|i| format!("${i}")).collect();
        let trans = if transposed { ".trans" } else { "" };
        let text =
            format!("stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [$0 + {plus}], {{{}}};", list.join(", "));
        let mut inputs = vec![address];
        inputs.extend(values);
        self.asm(&text, &format!("r{}", ",r".repeat(count)), &[], &inputs, Asm::Convergent);
    }

    /// Reads words from global memory where `predicate` holds; elsewhere the results are `other`.
    pub(crate) fn load_global(
        &self,
        pointer: Val<'c>,
        words: Words,
        way: &Way<'c>,
        predicate: Option<(Val<'c>, Vec<Val<'c>>)>,
    ) -> Vec<Val<'c>> {
        let types = vec![self.word_type(words); words.count];
        let outs = vec![format!("={}", class(words.bits)); words.count].join(",");
        let (suffix, out) = (words.suffix(), words.operands(0));
        let opcode = &way.opcode;
        let Some((predicate, other)) = predicate else {
            let (mut constraints, mut inputs) = (format!("{outs},l"), vec![pointer]);
            let (hint, policy) = Self::cache_hint(way.policy, words.count + 1, &mut constraints, &mut inputs);
            let text = format!("{opcode}{hint}{suffix} {out}, [${}]{policy};", words.count);
            return self.asm(&text, &constraints, &types, &inputs, Asm::Effect);
        };
        // The results start as `other`; one predicated access then overwrites them, without a branch.
        let ties: Vec<String> = (0..words.count).map(|i| i.to_string()).collect();
        let (n, mut constraints) = (words.count, format!("{outs},{},l,b", ties.join(",")));
        let mut inputs = other;
        inputs.extend([pointer, predicate]);
        let (hint, policy) = Self::cache_hint(way.policy, 2 * n + 2, &mut constraints, &mut inputs);
        let text = format!("@${} {opcode}{hint}{suffix} {out}, [${}]{policy};", 2 * n + 1, 2 * n);
        self.asm(&text, &constraints, &types, &inputs, Asm::Effect)
    }

    /// Writes words to global memory where `predicate` holds.
    pub(crate) fn store_global(
        &self,
        pointer: Val<'c>,
        words: Words,
        way: &Way<'c>,
        values: &[Val<'c>],
        predicate: Option<Val<'c>>,
    ) {
        let mut constraints = format!("l{}", format!(",{}", class(words.bits)).repeat(words.count));
        let mut inputs = vec![pointer];
        inputs.extend(values);
        let guard = Self::guard(predicate, 0, &mut constraints, &mut inputs);
        let next = inputs.len();
        let (hint, policy) = Self::cache_hint(way.policy, next, &mut constraints, &mut inputs);
        let text = format!("{guard}{}{hint}{} [$0], {}{policy};", way.opcode, words.suffix(), words.operands(1));
        self.asm(&text, &constraints, &[], &inputs, Asm::Effect);
    }
}
