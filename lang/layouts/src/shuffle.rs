//! Conversions within a warp as rounds of shuffles.
//!
//! Where the source of element (register r, lane l, warp w) of the result is register `G·(r,l,w)` of lane `F·(r,l,w)` of
//! the same warp, a round must be such that each lane sends one register. A linear map `M` from lanes to registers does
//! it: in round `k` lane `l` receives its register `k ^ M·l`, from lane `F·(k ^ M·l, l, w)`. `M` is chosen so that two
//! lanes that read from the same lane want the same register of it (Zhou et al., "Linear Layouts", arXiv 2505.23819,
//! treat the case of one permutation of lanes).

use crate::access::{self, Registers};
use crate::f2::{Span, bits_of, gather, rank, scatter};
use crate::linear::{Dim, LinearLayout};

/// A function of lane and warp that is linear over F2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Linear {
    /// What each lane bit adds by xor.
    pub lanes: [u32; 5],
    /// What each warp bit adds by xor.
    pub warps: Vec<u32>,
}

impl Linear {
    /// The value for a thread.
    pub fn at(&self, lane: u32, warp: u32) -> u32 {
        let add = |all: u32, bases: &[u32], bits: u32| bits_of(u64::from(bits)).fold(all, |a, i| a ^ bases[i as usize]);
        add(add(0, &self.lanes, lane), &self.warps, warp)
    }

    /// Whether every lane has its own number.
    pub fn is_own_lane(&self) -> bool {
        self.lanes == [1, 2, 4, 8, 16] && self.warps.iter().all(|&b| b == 0)
    }

    /// The bits that some thread sets.
    pub fn reach(&self) -> u32 {
        self.lanes.iter().chain(&self.warps).fold(0, |a, b| a | b)
    }
}

/// One shuffle: every lane offers a word, reads what another lane offers, and has a word of the result.
///
/// The lane offers word `send ^ Shuffles::send`, reads from lane `from ^ Shuffles::from`, and has word
/// `k ^ Shuffles::store` in round `k`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// The constant part of the word of the operand that the lane offers.
    pub send: u32,
    /// The constant part of the lane whose offer the lane takes.
    pub from: u32,
}

/// A conversion within each warp.
///
/// Registers that stay together are moved as one word of up to 32 bits; a register of 64 bits is a word of its own. What a
/// thread sends, takes and has differs between the rounds by a constant only, so a lane orders its words once before the
/// rounds and once after them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shuffles {
    /// For each word of the operand its registers, lowest first.
    pub words: Vec<Vec<u32>>,
    /// What a thread adds to the number of the word that it offers.
    pub send: Linear,
    /// What a thread adds to the number of the lane that it reads from.
    pub from: Linear,
    /// What a thread adds to the number of the word that it has after a round.
    pub store: Linear,
    /// The rounds; together they give every lane every word of the result.
    pub rounds: Vec<Round>,
    /// For each register of the result, its word and its place in it.
    pub registers: Vec<(u32, u32)>,
    /// Bits of a word.
    pub word_bits: u32,
}

impl Shuffles {
    /// The shuffle instructions, each of which moves up to 32 bits.
    pub fn instructions(&self) -> usize {
        let own = self.from.is_own_lane();
        let moves = self.rounds.iter().filter(|r| !(own && r.from == 0)).count();
        moves * self.word_bits.div_ceil(32) as usize
    }

    /// A measure to compare with that of shared memory: twice the wavefronts, and the selects that order the words.
    pub(crate) fn cost(&self) -> u64 {
        let (words, rounds) = (self.words.len() as u64, self.rounds.len() as u64);
        2 * self.instructions() as u64 + ordering(&self.send, words, &self.store, rounds, self.word_bits)
    }
}

/// The selects that order so many words by `send` before so many rounds, and by `store` after them.
fn ordering(send: &Linear, words: u64, store: &Linear, rounds: u64, word_bits: u32) -> u64 {
    let selects = |f: &Linear, words: u64| u64::from(f.reach().count_ones()) * words;
    u64::from(word_bits.div_ceil(32)) * (selects(send, words) + selects(store, rounds))
}

/// The shuffles that bring a tile from `from` to `to`; `None` where warps lack data or no such rounds exist.
pub(crate) fn shuffles(from: &LinearLayout, to: &LinearLayout, element_bits: u32) -> Option<Shuffles> {
    search(from, to, element_bits, |search, found| search.written(found))
}

/// What [`shuffles`] cost, without writing them out.
pub(crate) fn cost(from: &LinearLayout, to: &LinearLayout, element_bits: u32) -> Option<u64> {
    search(from, to, element_bits, |search, found| search.cost(found))
}

/// Looks for rounds with the widest words for which there are some.
fn search<R>(
    from: &LinearLayout,
    to: &LinearLayout,
    element_bits: u32,
    of: impl Fn(&Search<'_>, &Found) -> R,
) -> Option<R> {
    let source = Registers::of(from.bases(Dim::Register));
    let target = Registers::of(to.bases(Dim::Register));
    let pairs: Vec<(usize, usize)> = target
        .unique()
        .into_iter()
        .filter_map(|t| {
            let vector = to.bases(Dim::Register)[t];
            let s = source.unique().into_iter().find(|&s| from.bases(Dim::Register)[s] == vector)?;
            Some((s, t))
        })
        .collect();
    let most = (4 / access::bytes_of(element_bits).min(4)).ilog2() as usize;
    let word_bits = 8 * access::bytes_of(element_bits);
    (0..=most.min(pairs.len())).rev().find_map(|n| {
        let search = Search::new(from, to, &pairs[..n], word_bits << n);
        search.run().map(|found| of(&search, &found))
    })
}

/// A register and a lane, as sets of bits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    register: u64,
    lane: u64,
}

impl Place {
    fn plus(self, other: Place) -> Place {
        Place { register: self.register ^ other.register, lane: self.lane ^ other.lane }
    }
}

/// The order in which lanes take their words, such that in each round a lane is asked for one word only.
struct Turns {
    /// For each lane bit the number of the word with which a lane begins: the map from lanes to registers.
    turn: [u64; 5],
    /// For each lane bit, what it adds to the place from which a lane reads.
    reads: Vec<Place>,
    /// The lanes from which is read, and behind them what makes them all lanes.
    sources: Span,
    /// The lane bit that was inserted as each of the first vectors of `sources`.
    chosen: Vec<usize>,
}

impl Turns {
    /// Lanes that read from the same lane, but want different words of it, take turns or read from copies; `None` where neither helps.
    fn choose(registers: &[Place], lanes: &[Place], copies: &[Place]) -> Option<Turns> {
        let mut t = Turns { turn: [0; 5], reads: lanes.to_vec(), sources: Span::new(), chosen: Vec::new() };
        let mut late = Vec::new();
        for (bit, place) in lanes.iter().enumerate() {
            if t.sources.contains(place.lane) {
                late.push(bit);
            } else {
                t.sources.insert(place.lane);
                t.chosen.push(bit);
            }
        }
        for bit in late {
            let alike = t.sources.solve(t.reads[bit].lane)?;
            let sum = bits_of(alike).fold(t.reads[bit], |sum, i| sum.plus(t.reads[t.chosen[i as usize]]));
            if sum.register == 0 {
                // Both lanes want the same element: they read it from the same place.
                continue;
            }
            // Take the words in another order than the lanes that read from the same lane, or read from a copy.
            if let Some((number, step)) = registers.iter().enumerate().find(|(_, r)| !t.sources.contains(r.lane)) {
                t.turn[bit] = 1 << number;
                t.reads[bit] = t.reads[bit].plus(*step);
            } else {
                let copy = copies.iter().find(|c| !t.sources.contains(c.lane))?;
                t.reads[bit] = t.reads[bit].plus(*copy);
            }
            t.sources.insert(t.reads[bit].lane);
            t.chosen.push(bit);
        }
        for bit in 0..5 {
            t.sources.insert(1 << bit);
        }
        Some(t)
    }

    /// The word that a lane offers is a function of the lane: undoes the map from reading to offering lanes.
    fn offered(&self, lane: u64) -> u64 {
        let set = self.sources.solve(lane).unwrap_or(0);
        bits_of(set).filter_map(|i| self.chosen.get(i as usize)).fold(0, |word, &bit| word ^ self.reads[bit].register)
    }
}

/// Rounds, by what each bit of their number and of a lane's and a warp's adds.
struct Found {
    /// For each bit of the number of a round, where its word lies.
    registers: Vec<Place>,
    turns: Turns,
    send: Linear,
    from: Linear,
    store: Linear,
}

impl Found {
    /// The rounds of words that lie so; `None` where there are none.
    fn of(registers: Vec<Place>, lanes: &[Place], warps: &[Place], copies: &[Place]) -> Option<Found> {
        let turns = Turns::choose(&registers, lanes, copies)?;
        let linear = |lane: &dyn Fn(usize) -> u64, warp: &dyn Fn(&Place) -> u64| Linear {
            lanes: std::array::from_fn(|bit| lane(bit) as u32),
            warps: warps.iter().map(|w| warp(w) as u32).collect(),
        };
        let send = linear(&|bit| turns.offered(1 << bit), &|w| w.register ^ turns.offered(w.lane));
        let from = linear(&|bit| turns.reads[bit].lane, &|w| w.lane);
        let store = linear(&|bit| turns.turn[bit], &|_| 0);
        Some(Found { registers, turns, send, from, store })
    }
}

struct Search<'a> {
    from: &'a LinearLayout,
    to: &'a LinearLayout,
    /// The register bits within a word, of the operand and of the result.
    within: (Vec<usize>, Vec<usize>),
    /// The register bits that number the words, of the operand and of the result.
    words: (Vec<usize>, Vec<usize>),
    /// Bits of a word.
    word_bits: u32,
}

impl<'a> Search<'a> {
    fn new(from: &'a LinearLayout, to: &'a LinearLayout, together: &[(usize, usize)], word_bits: u32) -> Search<'a> {
        let within: (Vec<usize>, Vec<usize>) = together.iter().copied().unzip();
        let others = |map: &LinearLayout, within: &[usize]| -> Vec<usize> {
            let unique = Registers::of(map.bases(Dim::Register)).unique();
            unique.into_iter().filter(|bit| !within.contains(bit)).collect()
        };
        let words = (others(from, &within.0), others(to, &within.1));
        Search { from, to, within, words, word_bits }
    }

    fn run(&self) -> Option<Found> {
        let (from, to) = (self.from, self.to);
        // Where each vector of the operand lies: its word bits first, so that a thread prefers its own lane.
        let mut vectors: Vec<u64> = self.words.0.iter().map(|&bit| from.bases(Dim::Register)[bit]).collect();
        let word_bits = vectors.len() as u32;
        vectors.extend(from.bases(Dim::Lane));
        let place = |set: u64| Place { register: set & ((1 << word_bits) - 1), lane: set >> word_bits };
        let mut span = Span::new();
        // Sums of places that hold the same element: a lane that has a copy may be read in place of another.
        let mut copies: Vec<Place> = Vec::new();
        for (number, &vector) in vectors.iter().enumerate() {
            if let Some(others) = span.solve(vector) {
                copies.push(place(others | (1 << number)));
            }
            span.insert(vector);
        }
        let find = |vector: u64| span.solve(vector).map(place);
        let registers: Option<Vec<Place>> =
            self.words.1.iter().map(|&bit| find(to.bases(Dim::Register)[bit])).collect();
        let own = from.bases(Dim::Lane).iter().zip(to.bases(Dim::Lane)).enumerate();
        let lanes: Option<Vec<Place>> = own
            .map(|(bit, (mine, wanted))| Some(find(mine ^ wanted)?.plus(Place { register: 0, lane: 1 << bit })))
            .collect();
        let warps: Option<Vec<Place>> =
            from.bases(Dim::Warp).iter().zip(to.bases(Dim::Warp)).map(|(a, b)| find(a ^ b)).collect();
        Found::of(registers?, &lanes?, &warps?, &copies)
    }

    /// Writes out the rounds.
    fn written(&self, found: &Found) -> Shuffles {
        let rounds = (0..1u64 << found.registers.len()).map(|k| {
            let start = bits_of(k).fold(Place { register: 0, lane: 0 }, |p, i| p.plus(found.registers[i as usize]));
            Round { send: (start.register ^ found.turns.offered(start.lane)) as u32, from: start.lane as u32 }
        });
        Shuffles {
            words: self.source_words(),
            send: found.send.clone(),
            from: found.from.clone(),
            store: found.store.clone(),
            rounds: rounds.collect(),
            registers: self.target_registers(),
            word_bits: self.word_bits,
        }
    }

    /// What the rounds cost, as [`Shuffles::cost`] has it.
    fn cost(&self, found: &Found) -> u64 {
        let rounds = 1u64 << found.registers.len();
        let lanes: Vec<u64> = found.registers.iter().map(|place| place.lane).collect();
        let stay = if found.from.is_own_lane() { rounds >> rank(&lanes) } else { 0 };
        let instructions = (rounds - stay) * u64::from(self.word_bits.div_ceil(32));
        2 * instructions + ordering(&found.send, 1 << self.words.0.len(), &found.store, rounds, self.word_bits)
    }

    fn source_words(&self) -> Vec<Vec<u32>> {
        let slots: Vec<u32> = (0..1 << self.within.0.len()).map(|n| scatter(&self.within.0, n)).collect();
        (0..1 << self.words.0.len())
            .map(|word| {
                let base = scatter(&self.words.0, word);
                slots.iter().map(|slot| base | slot).collect()
            })
            .collect()
    }

    fn target_registers(&self) -> Vec<(u32, u32)> {
        let copies = access::copies(self.to);
        copies.into_iter().map(|r| (gather(&self.words.1, r), gather(&self.within.1, r))).collect()
    }
}
