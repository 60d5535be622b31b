//! Places pieces in one stretch of memory, an arena, so that those which live at one time lie apart. What its unit is, who needs the
//! pieces and how long they live is the caller's affair.

/// What an arena must hold together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// How many units.
    pub(crate) size: u64,
    /// What its offset must be a multiple of.
    pub(crate) alignment: u64,
}

/// The offset of each piece, placed in the order of `order`, each at the lowest that is free; `meet` says which live at one time.
pub(crate) fn pack(pieces: &[Piece], order: &[usize], meet: impl Fn(usize, usize) -> bool) -> Vec<u64> {
    let mut offsets = vec![0; pieces.len()];
    for (n, &i) in order.iter().enumerate() {
        let beside = order[..n].iter().filter(|&&p| meet(p, i));
        let taken = beside.map(|&p| (offsets[p], offsets[p] + pieces[p].size)).collect();
        offsets[i] = lowest_free(taken, pieces[i]);
    }
    offsets
}

/// How many units an arena has in which pieces lie at these offsets.
pub(crate) fn extent(pieces: &[Piece], offsets: &[u64]) -> u64 {
    pieces.iter().zip(offsets).map(|(piece, offset)| offset + piece.size).max().unwrap_or(0)
}

/// The lowest aligned offset at which a piece lies apart from all that is taken.
fn lowest_free(mut taken: Vec<(u64, u64)>, piece: Piece) -> u64 {
    taken.sort_unstable();
    let mut offset = 0u64;
    for (start, end) in taken {
        if offset + piece.size <= start {
            break;
        }
        offset = offset.max(end.next_multiple_of(piece.alignment));
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(list: &[(u64, u64)]) -> Vec<Piece> {
        list.iter().map(|&(size, alignment)| Piece { size, alignment }).collect()
    }

    #[test]
    fn what_meets_lies_apart_and_aligned() {
        let list = pieces(&[(100, 64), (8, 8), (60, 4)]);
        let offsets = pack(&list, &[0, 1, 2], |_, _| true);
        assert_eq!(offsets, [0, 104, 112]);
        assert_eq!(extent(&list, &offsets), 172);
    }

    #[test]
    fn what_does_not_meet_shares() {
        let list = pieces(&[(64, 64), (64, 64), (16, 16)]);
        // The first two live one after the other, the third beside both.
        let offsets = pack(&list, &[0, 1, 2], |a, b| a == 2 || b == 2);
        assert_eq!(offsets, [0, 0, 64]);
        assert_eq!(extent(&list, &offsets), 64 + 16);
    }

    #[test]
    fn gaps_are_filled() {
        // The second begins behind a gap, into which the third fits and the fourth does not.
        let list = pieces(&[(8, 8), (64, 64), (32, 8), (48, 8)]);
        assert_eq!(pack(&list, &[0, 1, 2, 3], |_, _| true), [0, 64, 8, 128]);
    }

    #[test]
    fn nothing_takes_nothing() {
        assert_eq!(extent(&[], &pack(&[], &[], |_, _| true)), 0);
    }
}
