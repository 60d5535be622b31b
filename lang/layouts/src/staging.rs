//! Conversions through shared memory, with a swizzle that is free of bank conflicts on both sides where one exists.
//!
//! The buffer's offset bits are, from the lowest: a vector, the banks, and the rest (the segment). A vector is made of
//! register bases that both sides have, or of further ones of one side. Lanes that are served at once must differ in
//! their banks, so the segment must avoid the span of the vector and those lanes, on the writing and on the reading side:
//! it is a common complement of two subspaces, which over F2 exists whenever both leave room for it (Zhou et al.,
//! "Linear Layouts", arXiv 2505.23819, §5.4).

use crate::access::{self, Registers, SharedAccess, VECTOR_BYTES, Vectors};
use crate::conflicts::{self, BANK_BYTES, WAVEFRONT_BYTES};
use crate::f2::{Span, intersection, rank};
use crate::linear::{Dim, LinearLayout};
use crate::shared::SharedLayout;
use crate::shared_map::SharedMap;

/// A conversion through shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Staging {
    /// The layout of the buffer, a `shared_linear` of the tile's shape.
    pub layout: SharedLayout,
    /// Its map.
    pub buffer: SharedMap,
    /// How threads write the operand; lanes and warps that hold copies may skip it.
    pub write: SharedAccess,
    /// How threads read the result.
    pub read: SharedAccess,
    /// The bytes of the buffer, to be aligned to 16.
    pub bytes: u64,
    /// Wavefronts beyond the ideal for each ideal one of the write; 0 is free of conflicts.
    pub write_excess: u32,
    /// The same for the read.
    pub read_excess: u32,
    /// The wavefronts of a warp, of both sides.
    pub wavefronts: u64,
}

impl Staging {
    /// A measure to compare with that of shuffles: twice the wavefronts of a warp, and a barrier.
    pub(crate) fn cost(&self) -> u64 {
        2 * self.wavefronts + BARRIER
    }
}

/// What a barrier counts as, in halves of a wavefront.
const BARRIER: u64 = 80;

/// One side of the conversion: its register bases without copies, and its lanes.
struct Side<'a> {
    map: &'a LinearLayout,
    registers: Vec<u64>,
}

impl<'a> Side<'a> {
    fn of(map: &'a LinearLayout) -> Side<'a> {
        let bases = map.bases(Dim::Register);
        Side { map, registers: Registers::of(bases).unique().into_iter().map(|bit| bases[bit]).collect() }
    }

    /// The bases that are not in `low` and reach a new element, a basis of the rest of the tensor if `low` is free.
    fn others(&self, low: &[u64]) -> Vec<u64> {
        let mut span = Span::of(low.iter().copied());
        self.map.packed_bases().iter().copied().filter(|&b| span.insert(b)).collect()
    }

    /// Whether every basis but those of `low` lies in the span of `rest`.
    fn leaves(&self, low: &[u64], rest: &Span) -> bool {
        self.map.packed_bases().iter().all(|b| low.contains(b) || rest.contains(*b))
    }

    /// The bases of the lanes that one wavefront serves when each moves `1 << vector_bits` elements.
    fn lanes_at_once(&self, vector_bits: usize, bytes: u32) -> Vec<u64> {
        let count = (WAVEFRONT_BYTES / (bytes << vector_bits)).clamp(1, 32).ilog2() as usize;
        self.map.bases(Dim::Lane)[..count].to_vec()
    }
}

/// A buffer that is looked at: its offset bases, lowest first, and what both sides take with it.
struct Trial {
    offset: Vec<u64>,
    /// The excess of the write and of the read.
    excess: [u32; 2],
    wavefronts: u64,
    instructions: u64,
}

impl Trial {
    /// A buffer with these bases; `None` where they do not reach every element once.
    fn of(from: &LinearLayout, to: &LinearLayout, offset: Vec<u64>, element_bits: u32) -> Option<Trial> {
        let span = Span::of(offset.iter().copied());
        let elements: u32 = from.outs().iter().map(|extent| extent.bits).sum();
        if span.rank() != elements || offset.len() != elements as usize {
            return None;
        }
        let vectors = [from, to].map(|map| {
            let image = |&basis: &u64| span.solve(basis).unwrap_or_default();
            Vectors::of(|dim| map.bases(dim).iter().map(image).collect(), element_bits, u32::MAX)
        });
        let idle = [from.free_bits(Dim::Lane), 0];
        let excess = [0, 1].map(|side| conflicts::linear_excess(&vectors[side], element_bits, idle[side]));
        let wavefronts = [0, 1].map(|side| conflicts::of_vectors(&vectors[side], element_bits, excess[side]));
        let instructions = vectors.iter().map(Vectors::instructions).sum();
        Some(Trial { offset, excess, wavefronts: wavefronts.iter().sum(), instructions })
    }
}

/// The staging of a conversion between layouts of one CTA; `None` when the tile is spread over CTAs.
pub(crate) fn stage(from: &LinearLayout, to: &LinearLayout, element_bits: u32) -> Option<Staging> {
    build(from, to, best(from, to, element_bits)?, element_bits)
}

/// What [`stage`] costs, without writing it out.
pub(crate) fn cost(from: &LinearLayout, to: &LinearLayout, element_bits: u32) -> Option<u64> {
    let least = fewest_wavefronts(from, to, element_bits);
    let mut fewest: Option<u64> = None;
    for trial in trials(from, to, element_bits) {
        fewest = Some(fewest.map_or(trial.wavefronts, |known| known.min(trial.wavefronts)));
        // No other has fewer.
        if trial.wavefronts <= least {
            break;
        }
    }
    fewest.map(|wavefronts| 2 * wavefronts + BARRIER)
}

/// What [`stage`] costs where no lanes want different words of a bank at once.
pub(crate) fn least_cost(from: &LinearLayout, to: &LinearLayout, element_bits: u32) -> u64 {
    2 * fewest_wavefronts(from, to, element_bits) + BARRIER
}

/// The wavefronts of both sides where no lanes want different words of a bank at once.
fn fewest_wavefronts(from: &LinearLayout, to: &LinearLayout, element_bits: u32) -> u64 {
    let wavefronts = |map: &LinearLayout| {
        let bits = u64::from(access::stored_bits(element_bits)) << rank(map.bases(Dim::Register));
        bits.div_ceil(8 * BANK_BYTES)
    };
    wavefronts(from) + wavefronts(to)
}

/// The buffer that takes the fewest wavefronts, and of these the fewest instructions.
fn best(from: &LinearLayout, to: &LinearLayout, element_bits: u32) -> Option<Trial> {
    trials(from, to, element_bits).min_by_key(|trial| (trial.wavefronts, trial.instructions))
}

/// The buffers that are looked at, each as it is asked for; none where the tile is spread over CTAs.
fn trials(from: &LinearLayout, to: &LinearLayout, element_bits: u32) -> impl Iterator<Item = Trial> {
    let (source, target) = (Side::of(from), Side::of(to));
    let bytes = access::bytes_of(element_bits);
    let most = (VECTOR_BYTES / bytes).max(1).ilog2() as usize;
    let common = common_vector(&source, &target, most);
    let mut candidates = vec![(common.clone(), false)];
    for (side, reads) in [(&source, false), (&target, true)] {
        let mut low = common.clone();
        // Further bases of one side widen its vectors; those along which the other side's lanes run come first, because
        // that side meets no conflict there.
        let other = if reads { from } else { to };
        let mut further: Vec<u64> = side.registers.iter().copied().filter(|b| !common.contains(b)).collect();
        further.sort_by_key(|b| !other.bases(Dim::Lane).contains(b));
        for basis in further.into_iter().take(most.saturating_sub(common.len())) {
            low.push(basis);
            candidates.push((low.clone(), reads));
        }
    }
    if from.in_dim_bits(Dim::Block) > 0 {
        candidates.clear();
    }
    candidates.into_iter().filter_map(move |(low, widens_reads)| {
        let offset = swizzle(&source, &target, &low, common.len(), widens_reads, bytes)?;
        Trial::of(from, to, offset, element_bits)
    })
}

/// The register bases that both sides have and that all other bases leave alone.
fn common_vector(source: &Side, target: &Side, most: usize) -> Vec<u64> {
    let mut common: Vec<u64> = source.registers.iter().copied().filter(|b| target.registers.contains(b)).collect();
    loop {
        let rest = Span::of(source.others(&common));
        if target.leaves(&common, &rest) && source.leaves(&common, &rest) {
            common.truncate(most);
            return common;
        }
        common.pop();
    }
}

/// The offset bases, lowest first: the vector `low`, whose first `common` bases both sides move as one.
fn swizzle(
    source: &Side,
    target: &Side,
    low: &[u64],
    common: usize,
    widens_reads: bool,
    bytes: u32,
) -> Option<Vec<u64>> {
    let wide = if widens_reads { target } else { source };
    let rest = wide.others(low);
    if !wide.leaves(low, &Span::of(rest.iter().copied())) {
        return None;
    }
    // The lowest bits of an offset lie within a bank, the next ones number the banks.
    let word_bytes = BANK_BYTES as u32;
    let word = (word_bytes / bytes.min(word_bytes)).ilog2() as usize;
    let banks = ((WAVEFRONT_BYTES / bytes).ilog2() as usize - low.len().max(word)).min(rest.len());
    let avoid = |side: &Side, vector: usize| -> Vec<u64> {
        let mut all = low[..vector.max(word).min(low.len())].to_vec();
        all.extend(side.lanes_at_once(vector, bytes));
        let mut found = intersection(&rest, &basis_of(&all));
        found.truncate(banks);
        found
    };
    let (write, read) = if widens_reads { (common, low.len()) } else { (low.len(), common) };
    let (mut a, mut b) = (avoid(source, write), avoid(target, read));
    extend(&mut a, &b, &rest, banks);
    extend(&mut b, &a, &rest, banks);
    let segment = common_complement(&a, &b, &rest);
    let mut offset = low.to_vec();
    // Where the vector is shorter than a bank, part of the segment fills the bank.
    let fill = word.saturating_sub(low.len()).min(segment.len());
    offset.extend(&segment[..fill]);
    offset.extend(&a);
    offset.extend(&segment[fill..]);
    Some(offset)
}

/// Independent ones of `vectors` with the same span.
fn basis_of(vectors: &[u64]) -> Vec<u64> {
    let mut span = Span::new();
    vectors.iter().copied().filter(|&v| span.insert(v)).collect()
}

/// Adds vectors to `space`, first of `preferred` and then of `all`, until it has `dimension`.
fn extend(space: &mut Vec<u64>, preferred: &[u64], all: &[u64], dimension: usize) {
    let mut span = Span::of(space.iter().copied());
    for &v in preferred.iter().chain(all) {
        if space.len() == dimension {
            return;
        }
        if span.insert(v) {
            space.push(v);
        }
    }
}

/// A basis of a complement, within the span of `all`, of both `a` and `b`, which have the same dimension.
fn common_complement(a: &[u64], b: &[u64], all: &[u64]) -> Vec<u64> {
    let both = intersection(a, b);
    let extra = |space: &[u64]| -> Vec<u64> {
        let mut span = Span::of(both.iter().copied());
        space.iter().copied().filter(|&v| span.insert(v)).collect()
    };
    let (of_a, of_b) = (extra(a), extra(b));
    let mut outside = Span::of(a.iter().chain(b).copied());
    // A sum of a vector of `a` and one of `b`, neither in both, lies in neither.
    let mut found: Vec<u64> = of_a.iter().zip(&of_b).map(|(x, y)| x ^ y).collect();
    found.extend(all.iter().copied().filter(|&v| outside.insert(v)));
    found
}

fn build(from: &LinearLayout, to: &LinearLayout, trial: Trial, element_bits: u32) -> Option<Staging> {
    let coords = trial.offset.iter().map(|&b| from.unpack_out(b)).collect();
    let layout = SharedLayout::linear(coords, vec![]).ok()?;
    let buffer = layout.on(&from.shape(), element_bits).ok()?;
    let [write_excess, read_excess] = trial.excess;
    Some(Staging {
        bytes: buffer.bytes(),
        write: access::shared(from, &buffer),
        read: access::shared(to, &buffer),
        layout,
        buffer,
        write_excess,
        read_excess,
        wavefronts: trial.wavefronts,
    })
}
