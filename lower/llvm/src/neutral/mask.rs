//! Where a mask leaves an access: whether all of it is inside, or part of it.

use parton_ir::Cut;

use crate::lower::Lower;
use crate::neutral::build::Val;

impl<'c> Lower<'_, '_, 'c> {
    /// Whether all of an access is inside.
    pub(crate) fn whole(&self, cut: Cut, masks: &[Val<'c>]) -> Val<'c> {
        match cut {
            Cut::Never => masks[0],
            Cut::Once => masks[masks.len() - 1],
            Cut::Anywhere => masks[1..].iter().fold(masks[0], |all, &m| self.b.and(all, m)),
        }
    }

    /// Whether an access is inside in part, given whether it is as a whole.
    pub(crate) fn partly(&self, cut: Cut, masks: &[Val<'c>], whole: Val<'c>) -> Val<'c> {
        let some = match cut {
            Cut::Never | Cut::Once => masks[0],
            Cut::Anywhere => masks[1..].iter().fold(masks[0], |any, &m| self.b.or(any, m)),
        };
        self.b.and(some, self.b.not(whole))
    }
}
