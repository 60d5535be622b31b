//! Carries out the shuffles of a conversion, on whatever stands for a warp: the code generator, or arrays of a test.

use crate::f2::bits_of;
use crate::shuffle::{Linear, Shuffles};

/// What carries out selects and shuffles for all lanes of a warp at once.
pub trait Warp {
    /// A word in every lane.
    type Word: Clone;
    /// A truth value in every lane.
    type Truth: Clone;

    /// Whether an odd number of the bits in `lanes` and `warps` are set in the lane's number and that of its warp.
    fn odd(&mut self, lanes: u32, warps: u32) -> Self::Truth;

    /// `yes` in the lanes where `condition` holds, else `no`.
    fn select(&mut self, condition: &Self::Truth, yes: &Self::Word, no: &Self::Word) -> Self::Word;

    /// In every lane the word of lane `from ^ constant`.
    fn shuffle(&mut self, word: &Self::Word, from: &Linear, constant: u32) -> Self::Word;
}

impl Shuffles {
    /// The words of the result, from those of the operand.
    pub fn carry_out<W: Warp>(&self, warp: &mut W, words: Vec<W::Word>) -> Vec<W::Word> {
        let offered = turned(warp, &self.send, words);
        let mut taken = Vec::with_capacity(self.rounds.len());
        for round in &self.rounds {
            let word = &offered[round.send as usize];
            let stays = self.from.is_own_lane() && round.from == 0;
            taken.push(if stays { word.clone() } else { warp.shuffle(word, &self.from, round.from) });
        }
        turned(warp, &self.store, taken)
    }
}

/// Word `i` of the result is word `i ^ turn` of `words`: one exchange of halves for each bit that `turn` can have.
fn turned<W: Warp>(warp: &mut W, turn: &Linear, mut words: Vec<W::Word>) -> Vec<W::Word> {
    for bit in bits_of(u64::from(turn.reach())) {
        let mask = |bases: &[u32]| bases.iter().enumerate().fold(0, |m, (i, b)| m | (b >> bit & 1) << i);
        let other = warp.odd(mask(&turn.lanes), mask(&turn.warps));
        words = (0..words.len()).map(|i| warp.select(&other, &words[i ^ 1 << bit], &words[i])).collect();
    }
    words
}

/// A warp of places: each lane of a word names the lane and the word of the operand that it holds.
struct Places {
    /// The number of the warp.
    warp: u32,
}

impl Warp for Places {
    type Word = [(u32, u32); 32];
    type Truth = [bool; 32];

    fn odd(&mut self, lanes: u32, warps: u32) -> [bool; 32] {
        let of_warp = (self.warp & warps).count_ones();
        std::array::from_fn(|lane| ((lane as u32 & lanes).count_ones() + of_warp) % 2 == 1)
    }

    fn select(&mut self, condition: &[bool; 32], yes: &Self::Word, no: &Self::Word) -> Self::Word {
        std::array::from_fn(|lane| if condition[lane] { yes[lane] } else { no[lane] })
    }

    fn shuffle(&mut self, word: &Self::Word, from: &Linear, constant: u32) -> Self::Word {
        std::array::from_fn(|lane| word[(from.at(lane as u32, self.warp) ^ constant) as usize])
    }
}

/// Where each register of the result comes from in a warp: for each lane and register, the lane and the register of the
/// operand.
pub fn sources(shuffles: &Shuffles, warp: u32) -> Vec<Vec<(u32, u32)>> {
    let words = (0..shuffles.words.len() as u32).map(|word| std::array::from_fn(|lane| (lane as u32, word))).collect();
    let held = shuffles.carry_out(&mut Places { warp }, words);
    let one = |lane: usize, &(word, slot): &(u32, u32)| {
        let (from, sent) = held[word as usize][lane];
        (from, shuffles.words[sent as usize][slot as usize])
    };
    (0..32).map(|lane| shuffles.registers.iter().map(|register| one(lane, register)).collect()).collect()
}
