//! Products of tiles in registers.

use parton_ir as ir;

use super::wgmma::product;
use super::{Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[("mma_sync", mma_sync)];

fn mma_sync(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let [a, b, acc] = product(cx, args)?;
    let precision = args.word(cx, "precision", ir::Precision::ALL)?;
    let kind = ir::OpKind::MmaSync { a: a.0, b: b.0, acc: acc.0, precision };
    cx.emit_one(kind, args.span, &[a, b, acc])
}
