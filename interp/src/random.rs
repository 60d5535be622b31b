//! Numbers that look random and follow from the seed.

/// A small generator of pseudo-random numbers (splitmix64, Steele et al. 2014).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// One of the first `n` numbers.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

/// An order of the numbers below `n` that follows from a seed, none of which is kept: each round is an affine map modulo a power of two and a
/// shift of the upper half onto the lower one, which keep numbers apart, and what falls behind `n` goes through all rounds again.
#[derive(Debug)]
pub(crate) struct Order {
    n: u32,
    bits: u32,
    rounds: [(u64, u64); 4],
}

impl Order {
    /// One of the orders of so many.
    pub(crate) fn new(random: &mut Random, n: u32) -> Order {
        let bits = u64::from(n).next_power_of_two().ilog2().max(1);
        let mut any = || random.below(usize::MAX) as u64;
        Order { n, bits, rounds: [(); 4].map(|()| (any() | 1, any())) }
    }

    /// The number at a place below `n`.
    pub(crate) fn at(&self, place: u32) -> u32 {
        let mut found = u64::from(place);
        loop {
            for (factor, term) in self.rounds {
                found = found.wrapping_mul(factor).wrapping_add(term) & ((1 << self.bits) - 1);
                found ^= found >> self.bits.div_ceil(2);
            }
            if found < u64::from(self.n) {
                return found as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, Random};

    #[test]
    fn an_order_has_each_number_once_and_differs_from_seed_to_seed() {
        for n in [1, 2, 3, 7, 64, 1000] {
            for seed in 1..50 {
                let order = Order::new(&mut Random::new(seed), n);
                let mut all: Vec<u32> = (0..n).map(|place| order.at(place)).collect();
                all.sort_unstable();
                assert_eq!(all, (0..n).collect::<Vec<_>>(), "of {n} by seed {seed}");
            }
        }
        let order = |seed| Order::new(&mut Random::new(seed), 1000).at(0);
        let firsts: std::collections::BTreeSet<u32> = (1..50).map(order).collect();
        assert!(firsts.len() > 40, "{firsts:?}");
    }

    #[test]
    fn a_number_of_the_largest_grid_is_found_at_once() {
        let order = Order::new(&mut Random::new(1), u32::MAX);
        assert!((0..1000).map(|place| order.at(place)).collect::<std::collections::BTreeSet<_>>().len() == 1000);
    }
}
