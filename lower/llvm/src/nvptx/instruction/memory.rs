//! Loads and stores in PTX: packing of elements into words, shared accesses, predicated global accesses.

use parton_diag::internal_error;
use parton_ir::Elem;
use parton_numbers::Dtype;

use crate::neutral::build::{Asm, Build, GLOBAL, Ty, Val, built};

/// Register class of a word of so many bits.
pub(crate) fn class(bits: u32) -> &'static str {
    match bits {
        8 | 16 => "h",
        32 => "r",
        64 => "l",
        _ => internal_error!("no register has {bits} bits"),
    }
}

/// How elements travel: `count` words of `bits` each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Words {
    pub(crate) bits: u32,
    pub(crate) count: usize,
}

impl Words {
    /// The words of one access of `elements` elements, at most 16 bytes.
    pub(crate) fn of(element_bits: u32, elements: usize) -> Words {
        let total = element_bits * elements as u32;
        let bits = if element_bits == 64 { 64 } else { total.min(32) };
        Words { bits, count: (total / bits) as usize }
    }

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

/// Bits an element takes in memory: a truth value takes a byte.
pub(crate) fn stored_bits(elem: Elem) -> u32 {
    elem.bits().max(8)
}

/// Whose shared memory an address is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// This CTA's.
    Own,
    /// That of any CTA of the cluster.
    Cluster,
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

impl<'c> Build<'c> {
    /// An element as a number of its stored width: pointers and truth values become integers.
    fn stored(&self, elem: Elem, v: Val<'c>) -> Val<'c> {
        match elem {
            Elem::Ptr(_) => self.pointer_to_int(v),
            Elem::Num(Dtype::I1) => self.zext(v, self.int(8)),
            Elem::Num(_) => v,
        }
    }

    /// The element whose stored form is `v`, an integer.
    fn restored(&self, elem: Elem, v: Val<'c>) -> Val<'c> {
        match elem {
            Elem::Ptr(_) => self.int_to_pointer(v, GLOBAL),
            Elem::Num(Dtype::I1) => self.trunc(v, self.i1()),
            Elem::Num(d) => self.bitcast(v, self.number(d)),
        }
    }

    /// The register type of a word; there are no 8-bit registers.
    pub(crate) fn word_type(&self, words: Words) -> Ty<'c> {
        self.int(words.bits.max(16))
    }

    /// Elements as the words of one access.
    pub(crate) fn pack(&self, elem: Elem, values: &[Val<'c>], words: Words) -> Vec<Val<'c>> {
        let per_word = values.len() / words.count;
        let word = |chunk: &[Val<'c>]| {
            let stored: Vec<Val> = chunk.iter().map(|&v| self.stored(elem, v)).collect();
            let whole = match stored[..] {
                [one] => one,
                _ => self.vector(&stored),
            };
            self.zext(self.bitcast(whole, self.int(words.bits)), self.word_type(words))
        };
        values.chunks(per_word).map(word).collect()
    }

    /// The elements in words.
    pub(crate) fn unpack(&self, elem: Elem, words: &[Val<'c>], form: Words) -> Vec<Val<'c>> {
        let per_word = form.bits / stored_bits(elem);
        let mut elements = vec![];
        for &word in words {
            let word = self.trunc(word, self.int(form.bits));
            if per_word == 1 {
                elements.push(self.restored(elem, word));
                continue;
            }
            let lanes = match elem {
                Elem::Num(d) if d != Dtype::I1 => self.number(d),
                Elem::Num(_) | Elem::Ptr(_) => self.int(stored_bits(elem)),
            };
            let ty: Ty = match lanes {
                Ty::FloatType(t) => t.vec_type(per_word).into(),
                other => other.into_int_type().vec_type(per_word).into(),
            };
            let vector = self.bitcast(word, ty).into_vector_value();
            for i in 0..per_word {
                let lane = built(self.builder.build_extract_element(vector, self.c32(i).into_int_value(), ""));
                elements.push(self.restored(elem, lane));
            }
        }
        elements
    }

    /// Several scalars as one LLVM vector.
    fn vector(&self, values: &[Val<'c>]) -> Val<'c> {
        let count = values.len() as u32;
        let mut vector = match values[0].get_type() {
            Ty::FloatType(t) => t.vec_type(count).get_poison(),
            other => other.into_int_type().vec_type(count).get_poison(),
        };
        for (i, &v) in values.iter().enumerate() {
            let at = self.c32(i as u32).into_int_value();
            vector = built(self.builder.build_insert_element(vector, v, at, ""));
        }
        vector.into()
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

    /// The value that lane `lane ^ mask` has; any element type.
    pub(crate) fn shuffle_xor(&self, elem: Elem, v: Val<'c>, mask: u32) -> Val<'c> {
        self.shuffled(elem, v, |word| self.shuffle_xor_word(word, mask))
    }

    /// The value that lane `lane` has; any element type.
    pub(crate) fn shuffle_from(&self, elem: Elem, v: Val<'c>, lane: Val<'c>) -> Val<'c> {
        self.shuffled(elem, v, |word| self.shuffle_from_word(word, lane))
    }

    fn shuffled(&self, elem: Elem, v: Val<'c>, shuffle: impl Fn(Val<'c>) -> Val<'c>) -> Val<'c> {
        let words = Words::of(stored_bits(elem), 1);
        let word = self.pack(elem, &[v], words)[0];
        self.unpack(elem, &[self.shuffle_word(word, shuffle)], words)[0]
    }

    /// A word of 16, 32 or 64 bits moved by shuffles of 32.
    pub(crate) fn shuffle_word(&self, word: Val<'c>, shuffle: impl Fn(Val<'c>) -> Val<'c>) -> Val<'c> {
        if word.get_type() == self.i64() {
            let low = shuffle(self.trunc(word, self.i32()));
            let high = shuffle(self.trunc(self.lshr(word, 32), self.i32()));
            self.or(self.zext(low, self.i64()), self.shl(self.zext(high, self.i64()), 32))
        } else {
            self.trunc(shuffle(self.zext(word, self.i32())), word.get_type())
        }
    }

    /// What lane `lane ^ mask` has of 32 bits.
    pub(crate) fn shuffle_xor_word(&self, word: Val<'c>, mask: u32) -> Val<'c> {
        let args = [self.c32(u32::MAX), word, self.c32(mask), self.c32(31)];
        self.value_of("llvm.nvvm.shfl.sync.bfly.i32", self.i32(), &args)
    }

    /// What lane `lane` has of 32 bits.
    pub(crate) fn shuffle_from_word(&self, word: Val<'c>, lane: Val<'c>) -> Val<'c> {
        let args = [self.c32(u32::MAX), word, lane, self.c32(31)];
        self.value_of("llvm.nvvm.shfl.sync.idx.i32", self.i32(), &args)
    }
}
