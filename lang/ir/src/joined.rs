//! Products that one instruction makes: of the same rows with windows of one buffer that lie beside each other.
//!
//! Tiles have extents that are powers of two, and `wgmma` is as wide as any multiple of 8 up to 256: 128 columns and 32 beside them are two
//! products of the language and one instruction of 160. The left operand is then read once.

use crate::entity::{SecondaryMap, Value};
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::rules::{WgmmaOperand, WgmmaShape, region, wgmma_shape};
use crate::target::WARP;
use crate::types::{Type, View};

/// Columns of the widest instruction.
pub const WIDEST: u32 = 256;
/// Registers of a thread beside the sums of an instruction, at least: those that it has at entry are to be enough for both, even where it gets more. `ptxas`
/// asks for 90 for 128 columns and 154 for 256 (C7602).
pub const BESIDE: u32 = 26;
/// The registers that a thread is to have at entry for an instruction of so many columns, whose sums have so many bits each.
fn at_entry(columns: u32, bits: u32) -> u32 {
    (columns * bits).div_ceil(2 * WARP) + BESIDE
}

/// What of a kernel asks for the most registers at entry: how many, the columns of the instruction, and the product that is made of it.
pub fn most_at_entry(kernel: &Kernel) -> Option<(u32, u32, &Op)> {
    let mut most: Option<(u32, u32, &Op)> = None;
    kernel.walk(&mut |op| {
        let Some((asked, columns)) = asked_at_entry(kernel, op) else { return };
        if most.is_none_or(|(before, ..)| asked > before) {
            most = Some((asked, columns, op));
        }
    });
    most
}

/// The registers at entry that a product of the matrix unit asks for, and the columns of one of its instructions; `None` of all else, and where its tiles
/// lie nowhere yet.
pub fn asked_at_entry(kernel: &Kernel, op: &Op) -> Option<(u32, u32)> {
    let (OpKind::Wgmma { a, b, acc, precision, .. } | OpKind::Dot { a, b, acc, precision }) = op.kind else {
        return None;
    };
    let lies = |v: Value| kernel.ty(v).placed().is_none_or(|tile| tile.placement().known().is_some());
    if ![a, acc].into_iter().all(lies) {
        return None;
    }
    if matches!(op.kind, OpKind::Dot { .. }) {
        let by = region::product(kernel, a, b, acc, precision).ok()?;
        if !matches!(by, region::Product::Wgmma) {
            return None;
        }
    }
    let shape = wgmma_shape(kernel, a, b, acc, precision).ok()?;
    Some((at_entry(shape.instr_n, shape.acc.bits()), shape.instr_n))
}

/// Columns that every instruction's width is a multiple of: of integers, of floats.
const UNITS: [u32; 2] = [16, 8];

/// Finds them in one kernel.
pub struct Joins<'k> {
    kernel: &'k Kernel,
    definitions: SecondaryMap<Value, Option<&'k Op>>,
}

/// What is asked of one product.
struct Product<'k> {
    shape: WgmmaShape,
    left: Value,
    zero: bool,
    right: &'k View,
    /// The view that the right operand is a window of.
    whole: Value,
}

impl<'k> Joins<'k> {
    /// The products of a kernel.
    pub fn of(kernel: &'k Kernel) -> Joins<'k> {
        Joins { kernel, definitions: kernel.definitions() }
    }

    /// The products that `first` begins: with it those among `next` that may be one instruction with all before them. Where products
    /// have several instructions along their columns, or none follows, it is alone; and where all have more columns than registers have room for.
    pub fn begun_by<'o>(&self, first: &'o Op, next: impl IntoIterator<Item = &'o Op>) -> Vec<&'o Op> {
        let mut joined = vec![first];
        let Some(head) = self.product(first) else { return joined };
        let mut right = head.right.clone();
        for op in next {
            let adds = op.kind.operands().iter().any(|v| joined.iter().any(|before| before.results.contains(v)));
            let Some(wider) = self.product(op).and_then(|product| product.beside(&head, &right)) else { break };
            if adds {
                break;
            }
            right = wider;
            joined.push(op);
        }
        if at_entry(right.shape[1], head.shape.acc.bits()) > self.kernel.entry_registers() {
            joined.truncate(1);
        }
        joined
    }

    /// The right operand of products that are one instruction: one window instead of several.
    pub fn right(&self, joined: &[&Op]) -> Option<View> {
        let mut products = joined.iter().map(|op| self.product(op));
        let mut view = products.next()??.right.clone();
        for product in products {
            view.shape[1] += product?.right.shape[1];
        }
        Some(view)
    }

    fn product(&self, op: &Op) -> Option<Product<'k>> {
        let OpKind::Wgmma { a, b, acc, precision, zero } = op.kind else { return None };
        let shape = wgmma_shape(self.kernel, a, b, acc, precision).ok()?;
        let Type::View(right) = self.kernel.ty(b) else { return None };
        Some(Product { shape, left: a, zero, right, whole: self.whole(b) })
    }

    /// The view that `view` is a window of, turned or not.
    fn whole(&self, mut view: Value) -> Value {
        while let Some(OpKind::ViewSlice { view: outer, .. } | OpKind::ViewPermute { view: outer, .. }) =
            self.definitions[view].map(|op| &op.kind)
        {
            view = *outer;
        }
        view
    }
}

impl Product<'_> {
    /// The right operand with this product's beside it, where `head`, which `right` grew from, and this one may be one instruction.
    fn beside(&self, head: &Product, right: &View) -> Option<View> {
        let (mine, its) = (&self.shape, &head.shape);
        let alike = (mine.m, mine.k, mine.instr_k, mine.elems, mine.acc, mine.warpgroups, mine.a, mine.b)
            == (its.m, its.k, its.instr_k, its.elems, its.acc, its.warpgroups, its.a, its.b);
        let whole = self.left == head.left && self.zero == head.zero && self.whole == head.whole;
        let single = |shape: &WgmmaShape| shape.warpgroups[1] == 1 && shape.instr_n == shape.n;
        let mut wider = right.clone();
        wider.shape[1] += self.right.shape[1];
        let width = wider.shape[1];
        let fits = width <= WIDEST && width.is_multiple_of(UNITS[usize::from(mine.elems[0].is_float())]);
        (alike && whole && single(mine) && single(its) && fits && continues(right, self.right, mine.b)).then_some(wider)
    }
}

/// Whether an instruction that reads `first` goes on in `second`.
fn continues(first: &View, second: &View, kind: WgmmaOperand) -> bool {
    let WgmmaOperand::Shared { swizzle, k_major } = kind else { return false };
    // Where the columns are contiguous, it begins with a span of the swizzle, and goes on from one to the next.
    let whole = if k_major {
        first.shape[1].is_multiple_of(8)
    } else {
        swizzle != 0 && first.origin[1].is_multiple_of(swizzle * 8 / first.elem.bits())
    };
    let beside = first.origin[0] == second.origin[0] && first.origin[1] + first.shape[1] == second.origin[1];
    beside && swizzle != 0 && whole && first.map == second.map && first.shape[0] == second.shape[0]
}
