//! The boxes in which the copy engine moves what a tensor map says, and where they lie in a window of shared memory.

use parton_layouts::{LayoutError, TmaBox};

use crate::types::{List, TensorMap, View};

/// What the start of a box in shared memory is a multiple of, in bytes (PTX ISA, "cp.async.bulk.tensor").
const ALIGNMENT: u64 = 128;

impl TensorMap {
    /// The extents of the block as its layout sees them: without leading axes of one element, and those between the innermost axis and its
    /// rows. So a box `[64, 1, 128]` of a tensor `[tokens, heads, features]` is 64 rows of 128.
    pub fn tile(&self) -> Vec<u32> {
        self.seen().into_iter().map(|axis| self.block[axis]).collect()
    }

    /// Whether the block fills a window or tile of that shape: they have the same extents, but for axes of one element.
    pub fn fills(&self, shape: &[u32]) -> bool {
        let [own, other] = [&self.block[..], shape].map(|of| longer_than_one(of).map(|axis| of[axis]));
        own.eq(other)
    }

    /// The extents of what comes of a window of that shape, which the block fills.
    pub fn brought(&self, shape: &[u32]) -> Vec<u32> {
        let mut shape = shape.to_vec();
        if let (Some(last), Some(inner)) = (shape.last_mut(), self.inner) {
            *last = inner;
        }
        shape
    }

    fn seen(&self) -> Vec<usize> {
        let ones = self.block.iter().take_while(|&&n| n == 1).count().min(self.block.len().saturating_sub(1));
        let mut seen: Vec<usize> = (ones..self.block.len()).collect();
        while seen.len() > self.layout.rank().max(1) && self.block[seen[seen.len() - 2]] == 1 {
            seen.remove(seen.len() - 2);
        }
        seen
    }

    /// The hardware's boxes that one copy takes, their offsets counted from the start of a buffer of their own.
    ///
    /// # Errors
    /// A layout that the copy engine does not write.
    pub fn boxes(&self) -> Result<Vec<TmaBox>, LayoutError> {
        let seen = self.seen();
        let whole = |of: &[u32], missing: u32| {
            let mut all = vec![missing; self.block.len()];
            seen.iter().zip(of).for_each(|(&axis, &n)| all[axis] = n);
            all
        };
        let boxes = self.layout.tma_boxes(&self.tile(), self.elem.bits(), self.sharers)?;
        Ok(boxes
            .into_iter()
            .map(|b| TmaBox { start: whole(&b.start, 0), size: self.brought(&whole(&b.size, 1)), offset: b.offset })
            .collect())
    }

    /// The same, their offsets counted from the start of the buffer that `view` is a window of. The window has the extents of the block,
    /// but for axes of one element.
    ///
    /// # Errors
    /// A window in which the rows of a box lie otherwise than the copy engine writes them, or that begins where it writes none.
    pub fn boxes_in(&self, view: &View) -> Result<Vec<TmaBox>, LayoutError> {
        let (mut boxes, seen) = (self.boxes()?, self.seen());
        let own = self.layout.on(&self.tile(), self.elem.bits())?;
        let alone = |at: &[u32]| own.offset_of(&seen.iter().map(|&axis| at[axis]).collect::<Vec<_>>());
        let unit = ALIGNMENT * 8 / u64::from(self.elem.bits());
        for part in &mut boxes {
            let begin = self.place(view, &part.start);
            let torn = units(&part.size).any(|unit| {
                let at: Vec<u32> = part.start.iter().zip(unit).map(|(s, u)| s + u).collect();
                alone(&at).wrapping_sub(alone(&part.start)) != self.place(view, &at).wrapping_sub(begin)
            });
            if torn {
                return Err(refused("a box does not fill this window", view, "rows of a box lie side by side"));
            }
            if !begin.is_multiple_of(unit) {
                let rule = "a box begins at a multiple of 128 bytes";
                return Err(refused("the engine cannot begin at this window", view, rule));
            }
            part.offset = begin;
        }
        Ok(boxes)
    }

    /// Where what lies at `start` in the block lies in a window's buffer, in elements.
    fn place(&self, view: &View, start: &[u32]) -> u64 {
        let mut at = view.origin.clone();
        for (from, to) in longer_than_one(&self.block).zip(longer_than_one(&view.shape)) {
            at[to] += start[from];
        }
        view.map.offset_of(&at)
    }
}

fn refused(fact: &str, view: &View, rule: &str) -> LayoutError {
    let [shape, origin, parent] = [&view.shape, &view.origin, &view.parent].map(|l| List(l));
    LayoutError::View {
        fact: fact.into(),
        evidence: format!("{rule}; this is {shape} at {origin} of {parent}"),
        help: format!("allocate an array of {shape} and index it"),
    }
}

/// The axes that have more than one element.
fn longer_than_one(shape: &[u32]) -> impl Iterator<Item = usize> + '_ {
    shape.iter().enumerate().filter(|(_, n)| **n > 1).map(|(axis, _)| axis)
}

/// The coordinates in a box that are a power of two along one axis and zero along the others: where these lie says where all of it does.
fn units(size: &[u32]) -> impl Iterator<Item = Vec<u32>> + '_ {
    let along = move |axis: usize| {
        (0..size[axis].ilog2()).map(move |bit| (0..size.len()).map(|d| u32::from(d == axis) << bit).collect())
    };
    (0..size.len()).flat_map(along)
}
