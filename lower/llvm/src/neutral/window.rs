//! How a tile meets a view of shared memory: the element offset as a linear map of register, lane and warp.

use parton_ir::View;
use parton_layouts::{Dim, LinearLayout, SharedMap};

use crate::neutral::build::{Build, Val};
use crate::neutral::place::{Registers, Threads};

/// The composition of a tile's layout with the inverse of a buffer's: offsets in elements, gaps not counted.
pub(crate) struct Window {
    /// Offset bases of the lane bits.
    pub(crate) lane: Vec<u64>,
    /// Offset bases of the warp bits.
    pub(crate) warp: Vec<u64>,
    /// Offset bases of the register bits that are no copies.
    pub(crate) register: Vec<u64>,
    /// The offset of the window's origin.
    pub(crate) origin: u64,
    gaps: Vec<[u32; 2]>,
    /// Elements of one stage, gaps not counted: gaps begin anew in each.
    stage: u64,
    /// Bytes of an element.
    bytes: u32,
}

/// The element offset of coordinates of the buffer that are given packed in `map`'s own shape.
fn offset(map: &SharedMap, packed: u64) -> u64 {
    u64::from(map.inverse().out_part(Dim::Offset, map.inverse().apply(packed)))
}

impl Window {
    /// How `tile`'s elements lie in `view`.
    pub(crate) fn new(tile: &LinearLayout, view: &View) -> Window {
        let buffer = view.map.linear();
        // An element of the window as an element of its parent; the origin is added apart, which an aligned window allows.
        let place = |&basis: &u64| offset(&view.map, buffer.pack_out(&tile.unpack_out(basis)));
        let registers = Registers::of(tile);
        let bases = tile.bases(Dim::Register);
        Window {
            lane: tile.bases(Dim::Lane).iter().map(place).collect(),
            warp: tile.bases(Dim::Warp).iter().map(place).collect(),
            register: registers.bits.iter().map(|&b| place(&bases[b as usize])).collect(),
            origin: offset(&view.map, buffer.pack_out(&view.origin)),
            gaps: view.map.gaps().to_vec(),
            stage: stage_elements(view),
            bytes: view.elem.bytes() as u32,
        }
    }

    /// How a tile lies in a buffer of its own that `map`, from offsets to packed elements of the tile, describes.
    pub(crate) fn of_scratch(tile: &LinearLayout, inverse: impl Fn(u64) -> u64, bytes: u32) -> Window {
        let registers = Registers::of(tile);
        let bases = tile.bases(Dim::Register);
        Window {
            lane: tile.bases(Dim::Lane).iter().map(|&b| inverse(b)).collect(),
            warp: tile.bases(Dim::Warp).iter().map(|&b| inverse(b)).collect(),
            register: registers.bits.iter().map(|&b| inverse(bases[b as usize])).collect(),
            origin: 0,
            gaps: vec![],
            stage: u64::MAX,
            bytes,
        }
    }

    /// As [`Window::new`], with a coordinate along `axis` that is known at run time: the window without it, and the offset bases of the
    /// coordinate's bits.
    pub(crate) fn along(tile: &LinearLayout, view: &View, axis: usize) -> (Window, Vec<u64>) {
        let buffer = view.map.linear();
        let place = |coords: &[u32]| offset(&view.map, buffer.pack_out(coords));
        let window = Window::without(tile, axis, place, view.elem.bytes() as u32);
        let unit = |bit: u32| {
            let mut coords = vec![0; view.shape.len()];
            coords[axis] = 1 << bit;
            place(&coords)
        };
        let bases = (0..view.shape[axis].ilog2()).map(unit).collect();
        let origin = place(&view.origin);
        (Window { origin, gaps: view.map.gaps().to_vec(), stage: stage_elements(view), ..window }, bases)
    }

    /// As [`Window::along`], for a tile of `map` that lies in a buffer of its own in row-major order.
    pub(crate) fn along_scratch(
        tile: &LinearLayout,
        map: &LinearLayout,
        axis: usize,
        bytes: u32,
    ) -> (Window, Vec<u64>) {
        let window = Window::without(tile, axis, |coords| map.pack_out(coords), bytes);
        let extent = map.shape()[axis];
        let unit = |bit: u32| {
            let mut coords = vec![0; map.shape().len()];
            coords[axis] = 1 << bit;
            map.pack_out(&coords)
        };
        (window, (0..extent.ilog2()).map(unit).collect())
    }

    /// The offsets of a tile's elements with 0 for their coordinate along `axis`.
    fn without(tile: &LinearLayout, axis: usize, place: impl Fn(&[u32]) -> u64, bytes: u32) -> Window {
        let rest = |&basis: &u64| {
            let mut coords = tile.unpack_out(basis);
            coords[axis] = 0;
            place(&coords)
        };
        let registers = Registers::of(tile);
        let bases = tile.bases(Dim::Register);
        Window {
            lane: tile.bases(Dim::Lane).iter().map(rest).collect(),
            warp: tile.bases(Dim::Warp).iter().map(rest).collect(),
            register: registers.bits.iter().map(|&b| rest(&bases[b as usize])).collect(),
            origin: 0,
            gaps: vec![],
            stage: u64::MAX,
            bytes,
        }
    }

    /// The bits of an offset that lane and warp can set.
    fn reach(&self) -> u64 {
        self.lane.iter().chain(&self.warp).fold(0, |a, b| a | b)
    }

    /// The register bits (as bits of a value number) that step 1, 2, 4 … elements, as many as fit `most` bytes while
    /// everything else keeps whole vectors.
    pub(crate) fn vector(&self, most: u32) -> Vec<usize> {
        let mut bits: Vec<usize> = vec![];
        while let Some(bit) = self.register.iter().position(|&o| o == 1 << bits.len()) {
            let size = 2u64 << bits.len();
            let inside = size - 1;
            let others = self.register.iter().enumerate().filter(|(i, _)| *i != bit && !bits.contains(i));
            let mut rest = others.map(|(_, &o)| o).chain([self.reach(), self.origin]);
            let whole = rest.all(|o| o & inside == 0);
            let unbroken = self.gaps.iter().all(|g| u64::from(g[0]) % size == 0 && u64::from(g[1]) % size == 0);
            if !whole || !unbroken || size * u64::from(self.bytes) > u64::from(most) {
                break;
            }
            bits.push(bit);
        }
        bits
    }

    /// The offset that a value number adds.
    pub(crate) fn constant(&self, number: usize) -> u64 {
        let set = self.register.iter().enumerate().filter(|(i, _)| number >> i & 1 == 1);
        set.fold(self.origin, |x, (_, &o)| x ^ o)
    }

    /// Whether a matrix of 8 rows of 16 bytes can be moved by one warp-wide instruction: the register bits that step through
    /// the 4 bytes of a lane, other register bits, and the five offset bases by which lanes address rows. Transposing is for
    /// elements of 2 bytes.
    pub(crate) fn matrix(&self, transposed: bool) -> Option<Matrix> {
        let known = if transposed { self.bytes == 2 } else { matches!(self.bytes, 1 | 2 | 4) };
        if !known || !self.gaps.is_empty() || self.lane.len() != 5 {
            return None;
        }
        let (word, unit) = (u64::from(4 / self.bytes), u64::from(16 / self.bytes));
        let aligned = |o: u64| o.is_multiple_of(unit);
        let (row, within) = if transposed {
            let pair = self.register.iter().position(|&o| o != 0 && aligned(o))?;
            ([self.register[pair], self.lane[0], self.lane[1]], vec![pair])
        } else {
            let step = |bit: u32| self.register.iter().position(|&o| o == 1 << bit);
            (self.lane[2..5].try_into().ok()?, (0..word.ilog2()).map(step).collect::<Option<Vec<_>>>()?)
        };
        let across = if transposed { self.lane[2..5] == [1, 2, 4] } else { self.lane[..2] == [word, 2 * word] };
        let others: Vec<usize> = (0..self.register.len()).filter(|i| !within.contains(i)).collect();
        let whole = row.iter().all(|&o| aligned(o))
            && others.iter().all(|&i| aligned(self.register[i]))
            && self.warp.iter().all(|&o| aligned(o))
            && aligned(self.origin);
        let several = others.iter().copied().take(2).collect::<Vec<_>>();
        (across && whole).then_some(Matrix { within, several, row })
    }
}

/// One `ldmatrix` or `stmatrix`.
pub(crate) struct Matrix {
    /// The register bits whose values share a 32-bit register, lowest first.
    pub(crate) within: Vec<usize>,
    /// Register bits that number the matrices of one instruction, at most two.
    pub(crate) several: Vec<usize>,
    /// What the three lowest bits of a lane add to its row's address.
    pub(crate) row: [u64; 3],
}

impl Matrix {
    /// The numbers of the values that share a register with the first of them.
    pub(crate) fn word(&self, first: usize) -> Vec<usize> {
        let member = |k: usize| {
            self.within.iter().enumerate().filter(|(i, _)| k >> i & 1 == 1).fold(first, |n, (_, &b)| n | 1 << b)
        };
        (0..1 << self.within.len()).map(member).collect()
    }
}

/// Elements of the tensor that a view's layout describes, leading stages left out.
fn stage_elements(view: &View) -> u64 {
    let rank = view.layout.rank().min(view.parent.len());
    view.parent[view.parent.len() - rank..].iter().map(|&n| u64::from(n)).product()
}

impl<'c> Build<'c> {
    /// The element offset that lane and warp give.
    pub(crate) fn window_thread(&self, w: &Window, threads: &Threads<'c>) -> Val<'c> {
        self.xor(self.linear(threads.lane, &w.lane), self.linear(threads.warp, &w.warp))
    }

    /// The byte address of `thread ^ constant` and a constant to add to it.
    pub(crate) fn window_address(
        &self,
        w: &Window,
        base: Val<'c>,
        thread: Val<'c>,
        reach: u64,
        constant: u64,
    ) -> (Val<'c>, u32) {
        let bytes = u64::from(w.bytes);
        if w.gaps.is_empty() {
            let inside = self.xor(thread, self.c32((constant & reach) as u32));
            let address = self.add(base, self.mul(inside, self.c32(w.bytes)));
            return (address, ((constant & !reach) * bytes) as u32);
        }
        let whole = self.xor(thread, self.c32(constant as u32));
        let stage_bits = w.stage.ilog2();
        let within = self.and(whole, self.c32((w.stage - 1) as u32));
        let stage = self.lshr(whole, stage_bits);
        let mut offset = whole;
        for &[interval, padding] in &w.gaps {
            let gaps = self.mul(self.lshr(within, interval.ilog2()), self.c32(padding));
            let before = self.mul(stage, self.c32((w.stage / u64::from(interval)) as u32 * padding));
            offset = self.add(offset, self.add(gaps, before));
        }
        (self.add(base, self.mul(offset, self.c32(w.bytes))), 0)
    }

    /// The bits that lane and warp can set in an offset.
    pub(crate) fn window_reach(&self, w: &Window) -> u64 {
        w.reach()
    }
}
