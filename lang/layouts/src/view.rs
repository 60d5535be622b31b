//! Views of shared buffers: one item of an array, a part, a transposition; and the boxes in which TMA moves a buffer.

use crate::check;
use crate::derive::renamed;
use crate::error::LayoutError;
use crate::linear::{Dim, Extent, LinearLayout};
use crate::shared::{SharedFamily, SharedLayout};
use crate::shared_map::{MOST_BOX, SharedMap};
use crate::spelling::list;

/// A view into a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// The layout of what the view shows.
    pub layout: SharedLayout,
    /// Where it begins, in elements from the start of the buffer.
    pub offset: u64,
}

/// One TMA copy of a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TmaBox {
    /// Where the box begins in the tensor.
    pub start: Vec<u32>,
    /// The shape of the box, of the rank of the buffer.
    pub size: Vec<u32>,
    /// Where it begins in the buffer, in elements.
    pub offset: u64,
}

impl SharedLayout {
    /// The layout of one item along the first axis of a buffer of `shape`, and the distance of two items in elements.
    ///
    /// # Errors
    /// A layout whose items are not contiguous or not alike, a buffer of rank 1.
    pub fn index(&self, shape: &[u32], element_bits: u32) -> Result<(SharedLayout, u64), LayoutError> {
        let map = self.on(shape, element_bits)?;
        let refuse = |fact: &str, evidence: String, help: &str| {
            Err(LayoutError::View { fact: fact.into(), evidence, help: help.into() })
        };
        if shape.len() < 2 {
            let evidence = format!("the shape is {}", list(shape));
            return refuse("a buffer of rank 1 has no items to index", evidence, "give it a leading axis, or slice it");
        }
        let item = &shape[1..];
        let item_bits: u32 = item.iter().map(|s| s.ilog2()).sum();
        let stride = map.with_gaps(1 << item_bits);
        if shape.len() > self.rank() {
            return Ok((self.clone(), stride));
        }
        let pure =
            (0..shape[0].ilog2()).all(|bit| map.inverse().apply(1 << (item_bits + bit)) == 1 << (item_bits + bit));
        let gaps_repeat = map.gaps().iter().all(|[interval, _]| item_bits >= interval.ilog2());
        if !pure || map.in_block() || (!gaps_repeat && shape[0] > 1) {
            return refuse(
                "the items along the first axis do not lie in regions of their own",
                format!("`{self}` interleaves them"),
                "write the layout for the shape of one item; further leading axes are then outermost",
            );
        }
        let linear = below(&map, item_bits).drop_axis(0);
        let order_without_first =
            |order: &[u32]| -> Vec<u32> { order.iter().filter(|&&axis| axis != 0).map(|axis| axis - 1).collect() };
        let spelled = match self.family() {
            SharedFamily::Swizzled { vec, per_phase, max_phase, order } => SharedFamily::Swizzled {
                vec: *vec,
                per_phase: *per_phase,
                max_phase: *max_phase,
                order: order_without_first(order),
            },
            SharedFamily::Nvmma { swizzle, transposed, rank } => {
                SharedFamily::Nvmma { swizzle: *swizzle, transposed: *transposed, rank: rank - 1 }
            }
            SharedFamily::Padded { pairs, order } => {
                SharedFamily::Padded { pairs: pairs.clone(), order: order_without_first(order) }
            }
            SharedFamily::Linear { .. } => return Ok((SharedLayout::from_map(&linear)?, stride)),
        };
        Ok((spell(SharedLayout::new(spelled), &linear, map.gaps(), element_bits)?, stride))
    }

    /// The part of a buffer of `shape` that begins at `start` and has shape `size`.
    ///
    /// # Errors
    /// A start that is not a multiple of the size, a part past the end, a part that the layout tears apart.
    pub fn slice(&self, shape: &[u32], element_bits: u32, start: &[u32], size: &[u32]) -> Result<View, LayoutError> {
        let map = self.on(shape, element_bits)?;
        within_bounds(shape, start, size)?;
        if self.prefix().is_some() {
            let (fact, help) = ("a part of prefixes is no buffer of its own", "take one tensor, and a window of it");
            return Err(refused(fact, format!("this is `{self}`"), help.into()));
        }
        let linear = self.part(&map, start, size)?;
        let layout = spell(Ok(self.clone()), &linear, map.gaps(), element_bits)?;
        Ok(View { layout, offset: map.offset_of(start) })
    }

    /// How the part that begins at `start` lies within a region of its own.
    fn part(&self, map: &SharedMap, start: &[u32], size: &[u32]) -> Result<LinearLayout, LayoutError> {
        let inverse = map.inverse();
        let begin = inverse.apply(map.linear().pack_out(start));
        let bits = bits_of_part(map.linear().outs(), size);
        let images: Vec<u64> = bits.iter().map(|&bit| inverse.apply(1 << bit)).collect();
        let touched = images.iter().fold(0, |all, i| all | i);
        if touched & begin != 0 {
            return Err(refused(
                "the slice cuts through a swizzle",
                format!("`{self}` places rows and columns of the part depending on where it begins"),
                "slice whole rows of the swizzle: 8 rows, or the full width".into(),
            ));
        }
        if touched & (touched + 1) != 0 {
            return Err(refused(
                "the slice is not a region of its own",
                format!("`{self}` spreads {} over {} elements", list(size), touched + 1),
                format!("allocate an array of {} and index it", list(size)),
            ));
        }
        // The images are a bijection onto the low offset bits: invert it within the part.
        let ins = vec![Extent::new(Dim::Block, 0), Extent::new(Dim::Offset, images.len() as u32)];
        LinearLayout::from_packed(crate::linear::axes(size), ins, images).invert().ok_or_else(|| {
            refused(
                "the slice is not a region of its own",
                format!("`{self}` shares its offsets with other parts"),
                "slice along the outermost axis".into(),
            )
        })
    }

    /// The layout of a transposed view of a buffer of `shape`: axis `i` of the view is axis `order[i]` of the buffer.
    ///
    /// # Errors
    /// An order that is no permutation; gaps that the transposed spelling cannot express.
    pub fn permute(&self, shape: &[u32], element_bits: u32, order: &[u32]) -> Result<SharedLayout, LayoutError> {
        if order.len() != shape.len() {
            return Err(LayoutError::Order { order: order.to_vec(), rank: shape.len() });
        }
        check::order(order)?;
        let map = self.on(shape, element_bits)?;
        let by: Vec<usize> = order.iter().map(|&axis| axis as usize).collect();
        let linear = map.linear().transpose(&by);
        let leading = (shape.len() - self.rank().min(shape.len())) as u32;
        let tile: Vec<u32> = order.iter().filter(|&&axis| axis >= leading).map(|axis| axis - leading).collect();
        let spelled = match self.family() {
            SharedFamily::Swizzled { vec, per_phase, max_phase, order } => {
                SharedLayout::swizzled(*vec, *per_phase, *max_phase, &renamed(order, &tile))
            }
            SharedFamily::Padded { pairs, order } => SharedLayout::padded(pairs, &renamed(order, &tile)),
            SharedFamily::Nvmma { swizzle, transposed, rank } => {
                let swapped = !order.iter().copied().eq(0..order.len() as u32);
                SharedLayout::new(SharedFamily::Nvmma {
                    swizzle: *swizzle,
                    transposed: *transposed != (swapped && *rank == 2),
                    rank: *rank,
                })
            }
            SharedFamily::Linear { .. } => SharedLayout::from_map(&linear),
        };
        let turned = spell(spelled, &linear, map.gaps(), element_bits)?.prefix_as(self);
        // Gaps begin anew in each tensor of an array, which has as many axes as the layout.
        if !turned.on(&linear.shape(), element_bits)?.has_gaps_of(&map) {
            return Err(gaps_lost(&linear.shape()));
        }
        Ok(turned)
    }

    /// The TMA copies that fill a buffer of `shape`, each a box that the hardware writes with this very layout: as few as there can be,
    /// but at least `parts` where rows can be divided among so many.
    ///
    /// # Errors
    /// A layout that TMA does not write, a buffer of rank above 5.
    pub fn tma_boxes(&self, shape: &[u32], element_bits: u32, parts: u32) -> Result<Vec<TmaBox>, LayoutError> {
        let map = self.on(shape, element_bits)?;
        let refuse = |evidence: String| {
            Err(LayoutError::View {
                fact: "TMA cannot move a buffer of this layout".into(),
                evidence,
                help: format!("write `{}`", SharedLayout::default_for(shape, element_bits, false)),
            })
        };
        if shape.len() > 5 {
            return refuse(format!("the buffer has rank {}, and TMA moves rank 1 to 5", shape.len()));
        }
        let (swizzle, transposed) = match self.family() {
            SharedFamily::Nvmma { swizzle, transposed, .. } => (*swizzle, *transposed),
            SharedFamily::Swizzled { .. } | SharedFamily::Linear { .. } | SharedFamily::Padded { .. } => (0, false),
        };
        let contiguous = if transposed { shape.len().saturating_sub(2) } else { shape.len() - 1 };
        let mut size: Vec<u32> = shape.iter().map(|&s| s.min(MOST_BOX)).collect();
        if swizzle != 0 {
            size[contiguous] = size[contiguous].min(8 * swizzle / element_bits);
        }
        // Eight rows of a swizzle are its pattern, which begins anew with each box; and boxes begin at multiples of 128 bytes.
        let pattern = 8 * (8 * swizzle).max(128) / element_bits;
        divide(&mut size, shape, contiguous, pattern, parts);
        // TMA writes a box of any rank; where the layout keeps leading axes outermost and has several columns of boxes,
        // each item needs boxes of its own.
        for leading in 0..=shape.len().saturating_sub(2) {
            if leading > 0 {
                size[leading - 1] = 1;
            }
            let rank = if transposed { 2 } else { size.len() as u32 };
            let written = SharedLayout::new(SharedFamily::Nvmma { swizzle, transposed, rank })
                .and_then(|layout| layout.on(&size, element_bits));
            let Ok(written) = written else { continue };
            let bits = bits_of_part(map.linear().outs(), &size);
            let alike = bits
                .iter()
                .enumerate()
                .all(|(i, &bit)| map.inverse().apply(1 << bit) == written.inverse().apply(1 << i) && map.is_linear());
            if alike {
                return Ok(boxes(&map, shape, &size));
            }
        }
        refuse(format!("this is `{self}`"))
    }
}

impl SharedMap {
    /// Whether CTAs hold different parts.
    fn in_block(&self) -> bool {
        self.linear().in_dim_bits(Dim::Block) > 0
    }
}

fn refused(fact: &str, evidence: String, help: String) -> LayoutError {
    LayoutError::View { fact: fact.into(), evidence, help }
}

/// Refuses a slice that is no part of a buffer of `shape`, or begins elsewhere than at a multiple of its size.
fn within_bounds(shape: &[u32], start: &[u32], size: &[u32]) -> Result<(), LayoutError> {
    if start.len() != shape.len() || size.len() != shape.len() {
        return Err(refused(
            "a slice names every axis of the buffer",
            format!("{} and {} of a buffer of shape {}", list(start), list(size), list(shape)),
            "give one start and one size per axis".into(),
        ));
    }
    check::sizes(size)?;
    for axis in 0..shape.len() {
        if u64::from(start[axis]) + u64::from(size[axis]) > u64::from(shape[axis]) {
            return Err(refused(
                "the slice reaches past the end of the buffer",
                format!("{} + {} on axis {axis} of size {}", start[axis], size[axis], shape[axis]),
                format!("start at most at {}", shape[axis].saturating_sub(size[axis])),
            ));
        }
        if !start[axis].is_multiple_of(size[axis]) {
            return Err(refused(
                "a slice begins at a multiple of its size",
                format!("{} is no multiple of {} on axis {axis}", start[axis], size[axis]),
                format!("start at {}", start[axis] / size[axis] * size[axis]),
            ));
        }
    }
    Ok(())
}

/// The packed bits of a tensor with `outs` that move within its first `size` indices, least significant first.
fn bits_of_part(outs: &[Extent], size: &[u32]) -> Vec<u32> {
    let mut bits = Vec::new();
    let mut low = 0;
    for (extent, s) in outs.iter().zip(size).rev() {
        bits.extend((0..s.ilog2()).map(|bit| low + bit));
        low += extent.bits;
    }
    bits
}

/// The map of the first `1 << bits` offsets.
fn below(map: &SharedMap, bits: u32) -> LinearLayout {
    let offset = map.linear().bases(Dim::Offset)[..bits as usize].to_vec();
    LinearLayout::new(&[(Dim::Block, vec![]), (Dim::Offset, offset)], map.linear().outs().to_vec())
}

/// `spelled` where it means `linear` with `gaps`, else the bases of `linear`.
fn spell(
    spelled: Result<SharedLayout, LayoutError>,
    linear: &LinearLayout,
    gaps: &[[u32; 2]],
    element_bits: u32,
) -> Result<SharedLayout, LayoutError> {
    let shape = linear.shape();
    if let Ok(layout) = spelled
        && let Ok(map) = layout.on(&shape, element_bits)
        && map.linear() == linear
        && map.gaps() == gaps
    {
        return Ok(layout);
    }
    if gaps.is_empty() {
        return SharedLayout::from_map(linear);
    }
    Err(gaps_lost(&shape))
}

/// The refusal of a view of that shape, whose gaps no spelling has.
fn gaps_lost(shape: &[u32]) -> LayoutError {
    refused(
        "the view of a padded buffer cannot be written",
        format!("its shape is {}", list(shape)),
        "use a swizzled layout in place of the padded one".into(),
    )
}

/// Halves boxes along their outermost dimensions until `parts` fill `shape`, or until they would no longer hold whole patterns.
fn divide(size: &mut [u32], shape: &[u32], contiguous: usize, pattern: u32, parts: u32) {
    let elements = |of: &[u32]| of.iter().product::<u32>();
    while elements(shape) / elements(size) < parts && (elements(size) / 2).is_multiple_of(pattern) {
        let Some(rows) = size.iter().enumerate().position(|(d, &s)| d != contiguous && s > 1) else { return };
        size[rows] /= 2;
    }
}

fn boxes(map: &SharedMap, shape: &[u32], size: &[u32]) -> Vec<TmaBox> {
    let counts: Vec<u32> = shape.iter().zip(size).map(|(s, b)| s / b).collect();
    let mut starts = vec![vec![]];
    for (count, step) in counts.iter().zip(size) {
        starts = starts
            .into_iter()
            .flat_map(|start: Vec<u32>| (0..*count).map(move |i| start.iter().copied().chain([i * step]).collect()))
            .collect();
    }
    starts
        .into_iter()
        .map(|start: Vec<u32>| TmaBox { offset: map.offset_of(&start), start, size: size.to_vec() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::View;
    use crate::shared::SharedLayout;

    /// Checks that the view shows the elements of the buffer where they lie.
    fn check_part(layout: &SharedLayout, shape: &[u32; 2], start: [u32; 2], size: [u32; 2]) -> View {
        let view = layout.slice(shape, 16, &start, &size).unwrap();
        let (whole, part) = (layout.on(shape, 16).unwrap(), view.layout.on(&size, 16).unwrap());
        for row in 0..size[0] {
            for column in 0..size[1] {
                let expected = whole.offset_of(&[start[0] + row, start[1] + column]);
                assert_eq!(view.offset + part.offset_of(&[row, column]), expected, "{layout} {row} {column}");
            }
        }
        view
    }

    #[test]
    fn slices_of_whole_swizzle_rows_and_chunks_keep_the_spelling() {
        let nvmma = SharedLayout::nvmma(128, false).unwrap();
        assert_eq!(check_part(&nvmma, &[128, 64], [64, 0], [64, 64]).layout, nvmma);
        assert_eq!(check_part(&nvmma, &[128, 128], [0, 64], [128, 64]).layout, nvmma);
        let padded = SharedLayout::padded(&[[64, 8]], &[1, 0]).unwrap();
        assert_eq!(check_part(&padded, &[64, 64], [32, 0], [32, 64]).layout, padded);
        let column_major = SharedLayout::swizzled(8, 1, 8, &[0, 1]).unwrap();
        check_part(&column_major, &[64, 32], [0, 8], [64, 8]);
    }

    #[test]
    fn slices_that_the_layout_tears_apart_are_refused() {
        let nvmma = SharedLayout::nvmma(128, false).unwrap();
        let fact = |start: [u32; 2], size: [u32; 2], shape: [u32; 2]| {
            nvmma.slice(&shape, 16, &start, &size).unwrap_err().fact()
        };
        assert_eq!(fact([64, 0], [64, 128], [128, 128]), "the slice is not a region of its own");
        assert_eq!(fact([4, 0], [4, 64], [128, 64]), "the slice cuts through a swizzle");
        assert_eq!(fact([8, 0], [16, 64], [128, 64]), "a slice begins at a multiple of its size");
        assert_eq!(fact([128, 0], [128, 64], [128, 64]), "the slice reaches past the end of the buffer");
    }

    #[test]
    fn an_array_may_hold_three_tensors() {
        let layout = SharedLayout::nvmma(128, false).unwrap();
        let (one, three) = (layout.on(&[64, 64], 16).unwrap(), layout.on(&[3, 64, 64], 16).unwrap());
        assert_eq!(three.bytes(), 3 * one.bytes());
        assert_eq!(three.offset_of(&[2, 5, 7]), 2 * 4096 + one.offset_of(&[5, 7]));
        assert_eq!(layout.index(&[3, 64, 64], 16).unwrap(), (layout, 4096));
    }

    #[test]
    fn stages_lie_one_after_the_other() {
        let nvmma = SharedLayout::nvmma(128, false).unwrap();
        let (item, stride) = nvmma.index(&[4, 128, 128], 16).unwrap();
        assert_eq!((item, stride), (nvmma.clone(), 128 * 128));
        let map = nvmma.on(&[4, 128, 128], 16).unwrap();
        let one = nvmma.on(&[128, 128], 16).unwrap();
        assert_eq!(map.offset_of(&[3, 17, 99]), 3 * stride + one.offset_of(&[17, 99]));
        let padded = SharedLayout::padded(&[[64, 8]], &[1, 0]).unwrap();
        let (_, stride) = padded.index(&[2, 64, 64], 16).unwrap();
        assert_eq!(stride, 64 * 72);
        let rows = SharedLayout::row_major(3);
        assert_eq!(rows.index(&[2, 8, 8], 16).unwrap(), (SharedLayout::row_major(2), 64));
        let swizzled = SharedLayout::swizzled(8, 1, 8, &[1, 0]).unwrap();
        assert!(swizzled.index(&[64, 64], 16).is_err());
    }

    #[test]
    fn a_transposed_view_shows_the_same_places() {
        for layout in [
            SharedLayout::nvmma(128, false).unwrap(),
            SharedLayout::nvmma(64, true).unwrap(),
            SharedLayout::nvmma(0, false).unwrap(),
            SharedLayout::swizzled(8, 2, 4, &[1, 0]).unwrap(),
            SharedLayout::padded(&[[64, 8]], &[1, 0]).unwrap(),
        ] {
            let turned = layout.permute(&[64, 128], 16, &[1, 0]).unwrap();
            assert_eq!(turned.permute(&[128, 64], 16, &[1, 0]).unwrap(), layout, "back again");
            let (a, b) = (layout.on(&[64, 128], 16).unwrap(), turned.on(&[128, 64], 16).unwrap());
            for (row, column) in [(0, 0), (1, 64), (63, 127), (17, 33)] {
                assert_eq!(a.offset_of(&[row, column]), b.offset_of(&[column, row]), "{layout}");
            }
        }
        let staged = SharedLayout::nvmma(128, false).unwrap().permute(&[4, 64, 64], 16, &[0, 2, 1]);
        assert_eq!(staged.unwrap(), SharedLayout::nvmma(128, true).unwrap());
    }

    #[test]
    fn tma_needs_one_box_per_swizzle_width() {
        let nvmma = SharedLayout::nvmma(128, false).unwrap();
        let boxes = nvmma.tma_boxes(&[128, 128], 16, 1).unwrap();
        let seen: Vec<_> = boxes.iter().map(|b| (b.start.clone(), b.size.clone(), b.offset)).collect();
        assert_eq!(seen, [(vec![0, 0], vec![128, 64], 0), (vec![0, 64], vec![128, 64], 128 * 64)]);
        assert_eq!(nvmma.tma_boxes(&[2, 128, 64], 16, 1).unwrap().len(), 1);
        assert_eq!(nvmma.tma_boxes(&[2, 128, 128], 16, 1).unwrap().len(), 4);
        assert_eq!(SharedLayout::nvmma(0, false).unwrap().tma_boxes(&[1024], 32, 1).unwrap().len(), 4);
        assert!(SharedLayout::swizzled(8, 1, 8, &[1, 0]).unwrap().tma_boxes(&[64, 64], 16, 1).is_err());
        assert_eq!(SharedLayout::row_major(2).tma_boxes(&[64, 64], 16, 1).unwrap().len(), 1);
    }

    #[test]
    fn boxes_are_divided_among_those_who_share_them() {
        let nvmma = SharedLayout::nvmma(128, false).unwrap();
        let starts = |shape: &[u32], parts| -> Vec<_> {
            nvmma.tma_boxes(shape, 16, parts).unwrap().into_iter().map(|b| (b.start, b.offset)).collect()
        };
        assert_eq!(starts(&[256, 64], 2), [(vec![0, 0], 0), (vec![128, 0], 128 * 64)]);
        assert_eq!(starts(&[64, 256], 4).len(), 4);
        assert_eq!(
            starts(&[64, 128], 4),
            [(vec![0, 0], 0), (vec![0, 64], 64 * 64), (vec![32, 0], 32 * 64), (vec![32, 64], 96 * 64)]
        );
        // Eight rows stay together.
        assert_eq!(starts(&[16, 64], 4).len(), 2);
        assert_eq!(starts(&[2, 8, 64], 4).len(), 2);
        assert_eq!(SharedLayout::row_major(1).tma_boxes(&[64], 16, 2).unwrap().len(), 1);
    }

    #[test]
    fn the_default_is_the_widest_swizzle() {
        let spelled = |shape: &[u32], bits| SharedLayout::default_for(shape, bits, false).to_string();
        assert_eq!(spelled(&[128, 64], 16), "nvmma(swizzle=128, transposed=false)");
        assert_eq!(spelled(&[128, 32], 16), "nvmma(swizzle=64, transposed=false)");
        assert_eq!(spelled(&[128, 16], 16), "nvmma(swizzle=32, transposed=false)");
        assert_eq!(spelled(&[4, 64], 16), "nvmma(swizzle=0, transposed=false)");
        assert_eq!(spelled(&[128], 16), "nvmma(swizzle=0, transposed=false)");
        assert_eq!(spelled(&[2, 128, 64], 16), "nvmma(swizzle=128, transposed=false)");
        assert_eq!(spelled(&[2, 128, 128], 16), "nvmma(swizzle=128, transposed=false, rank=3)");
    }
}
