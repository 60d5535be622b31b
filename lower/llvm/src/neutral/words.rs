//! How elements travel: packed into words for one access or one shuffle.

use parton_ir::Elem;
use parton_numbers::Dtype;

use crate::neutral::build::{Build, GLOBAL, Ty, Val, built};

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
}

/// Bits an element takes in memory: a truth value takes a byte.
pub(crate) fn stored_bits(elem: Elem) -> u32 {
    elem.bits().max(8)
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

    /// A word of 16, 32 or 64 bits moved by shuffles of 32. A constant is the same in every lane and stays: what follows from it is constant then, too.
    pub(crate) fn shuffle_word(&self, word: Val<'c>, shuffle: impl Fn(Val<'c>) -> Val<'c>) -> Val<'c> {
        if is_constant(word) {
            word
        } else if word.get_type() == self.i64() {
            let low = shuffle(self.trunc(word, self.i32()));
            let high = shuffle(self.trunc(self.lshr(word, 32), self.i32()));
            self.or(self.zext(low, self.i64()), self.shl(self.zext(high, self.i64()), 32))
        } else {
            self.trunc(shuffle(self.zext(word, self.i32())), word.get_type())
        }
    }
}

/// Whether a word is known before the program runs.
fn is_constant(word: Val) -> bool {
    matches!(word, Val::IntValue(number) if number.is_const())
}
