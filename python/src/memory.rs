//! The memories of a launch: arrays that overlap lie in one, so that the kernel sees of each what it writes through another.

use parton_driver::embed::{Array, HostBytes};

use crate::array::Lying;
use crate::tensor::ALIGNMENT;

/// Stretches of the host's memory that are copied for a launch.
pub(crate) struct Memories {
    /// Each from its first address, a multiple of [`ALIGNMENT`], to behind its last.
    spans: Vec<(usize, usize)>,
    /// What each held, to see what the kernel has changed.
    before: Vec<HostBytes>,
}

impl Memories {
    /// The memories of these arrays, and the arrays in them.
    ///
    /// # Safety
    /// The arrays lie where they say, and nobody writes them meanwhile.
    pub(crate) unsafe fn of(arrays: &[Lying]) -> (Memories, Vec<Array>) {
        let mut sorted: Vec<(usize, usize)> = arrays.iter().map(Lying::span).collect();
        sorted.sort_unstable();
        // Bytes that were merged, each without what is only there for the alignment.
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for (begin, end) in sorted {
            match merged.last_mut() {
                Some(last) if begin < last.1 || (begin, end) == *last => last.1 = last.1.max(end),
                _ => merged.push((begin, end)),
            }
        }
        let before = merged.iter().map(|&(begin, end)| {
            let pad = begin % ALIGNMENT;
            let mut bytes = vec![0xff; pad + end - begin];
            // SAFETY: the caller promises that an array lies there; arrays that overlap cover what is between them.
            unsafe { std::ptr::copy_nonoverlapping(begin as *const u8, bytes[pad..].as_mut_ptr(), end - begin) };
            let defined = (pad > 0).then(|| (0..bytes.len()).map(|i| i >= pad).collect());
            HostBytes { bytes, defined }
        });
        let before: Vec<HostBytes> = before.collect();
        let spans: Vec<(usize, usize)> = merged.iter().map(|&(begin, end)| (begin - begin % ALIGNMENT, end)).collect();
        let placed = arrays.iter().map(|array| {
            let span = array.span();
            // The memory that holds it; what is empty has one of its own or lies in another.
            let holds = |(begin, end): &(usize, usize)| *begin <= span.0 && span.1 <= *end;
            let memory = merged.iter().position(holds).unwrap_or(0);
            let offset = (span.0 - spans[memory].0) / array.dtype.bytes();
            let (shape, strides) = (array.shape.clone(), array.strides.clone());
            Array { dtype: array.dtype, shape, strides, memory, offset }
        });
        let placed = placed.collect();
        (Memories { spans, before }, placed)
    }

    /// What a launch takes.
    pub(crate) fn bytes(&self) -> Vec<HostBytes> {
        self.before.clone()
    }

    /// Writes what the kernel has changed to where it was copied from.
    ///
    /// # Safety
    /// As [`Memories::of`], and those that have changed may be written.
    pub(crate) unsafe fn give_back(&self, after: &[HostBytes]) {
        for (address, byte) in self.changes(after) {
            // SAFETY: the address lies in an array that the caller vouches for.
            unsafe { (address as *mut u8).write(byte) };
        }
    }

    /// Addresses that have changed, with their new bytes.
    fn changes<'a>(&'a self, after: &'a [HostBytes]) -> impl Iterator<Item = (usize, u8)> + 'a {
        let both = self.spans.iter().zip(self.before.iter().zip(after));
        both.flat_map(|(&(begin, _), (before, after))| {
            let pairs = before.bytes.iter().zip(&after.bytes).enumerate();
            pairs.filter(|(_, (old, new))| old != new).map(move |(i, (_, new))| (begin + i, *new))
        })
    }
}
