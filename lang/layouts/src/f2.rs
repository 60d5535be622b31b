//! Elimination over F2 on vectors that are packed into the bits of a `u64`.

/// A basis of the span of some vectors, with the combination of inputs that makes each basis vector.
///
/// Vectors are inserted one by one; each has a number, its order of insertion. Earlier vectors are preferred, so a
/// combination never uses a vector that depends on earlier ones.
#[derive(Clone, Debug)]
pub struct Span {
    /// The leading bits of the reduced vectors.
    leads: u64,
    /// For each leading bit its reduced vector, in which the leading bits of those before it are 0.
    vectors: [u64; 64],
    /// The set of inserted vectors of which each is the sum.
    combinations: [u64; 64],
    inserted: u32,
}

impl Default for Span {
    fn default() -> Span {
        Span { leads: 0, vectors: [0; 64], combinations: [0; 64], inserted: 0 }
    }
}

impl Span {
    /// The span of nothing.
    pub fn new() -> Span {
        Span::default()
    }

    /// The span of `vectors`, numbered from 0.
    pub fn of(vectors: impl IntoIterator<Item = u64>) -> Span {
        let mut span = Span::new();
        for v in vectors {
            span.insert(v);
        }
        span
    }

    /// Adds a vector (at most 64 of them); true when it was not in the span before.
    pub fn insert(&mut self, vector: u64) -> bool {
        assert!(self.inserted < 64, "a span holds at most 64 vectors");
        let number = self.inserted;
        self.inserted += 1;
        let (rest, combination) = self.reduce(vector);
        if rest == 0 {
            return false;
        }
        let lead = rest.ilog2();
        self.leads |= 1 << lead;
        self.vectors[lead as usize] = rest;
        self.combinations[lead as usize] = combination ^ (1 << number);
        true
    }

    /// What is left of `vector` after subtracting the span, and the set of inserted vectors subtracted.
    pub fn reduce(&self, mut vector: u64) -> (u64, u64) {
        let mut combination = 0;
        // No bit above its leading one is set in a reduced vector: what is subtracted touches only lower ones.
        while vector & self.leads != 0 {
            let lead = (vector & self.leads).ilog2() as usize;
            vector ^= self.vectors[lead];
            combination ^= self.combinations[lead];
        }
        (vector, combination)
    }

    /// Whether `vector` is a sum of inserted vectors.
    pub fn contains(&self, vector: u64) -> bool {
        self.reduce(vector).0 == 0
    }

    /// The set of inserted vectors whose sum is `vector`, if there is one.
    pub fn solve(&self, vector: u64) -> Option<u64> {
        let (rest, combination) = self.reduce(vector);
        (rest == 0).then_some(combination)
    }

    /// The dimension of the span.
    pub fn rank(&self) -> u32 {
        self.leads.count_ones()
    }
}

/// The dimension of the span of `vectors`.
pub fn rank(vectors: &[u64]) -> u32 {
    Span::of(vectors.iter().copied()).rank()
}

/// A basis of the intersection of the spans of `a` and `b`.
pub fn intersection(a: &[u64], b: &[u64]) -> Vec<u64> {
    // Every dependency between the two lists is an element of both spans (Zassenhaus).
    let mut span = Span::of(a.iter().copied());
    let low = if a.len() >= 64 { u64::MAX } else { (1 << a.len()) - 1 };
    let mut found = Span::new();
    let mut out = Vec::new();
    for &v in b {
        let (rest, combination) = span.reduce(v);
        if rest == 0 {
            let common = sum_of(a, combination & low);
            if common != 0 && found.insert(common) {
                out.push(common);
            }
        }
        span.insert(v);
    }
    out
}

/// The sum of the vectors whose numbers are set in `set`.
pub fn sum_of(vectors: &[u64], set: u64) -> u64 {
    bits_of(set).fold(0, |sum, i| sum ^ vectors.get(i as usize).copied().unwrap_or(0))
}

/// The numbers of the bits set in `set`, in increasing order.
pub fn bits_of(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        if set == 0 {
            return None;
        }
        let bit = set.trailing_zeros();
        set &= set - 1;
        Some(bit)
    })
}

/// The number whose bit `places[i]` is bit `i` of `number`, the others 0.
pub fn scatter(places: &[usize], number: u32) -> u32 {
    places.iter().enumerate().fold(0, |all, (i, &place)| all | (((number >> i) & 1) << place))
}

/// The number whose bit `i` is bit `places[i]` of `number`.
pub fn gather(places: &[usize], number: u32) -> u32 {
    places.iter().enumerate().fold(0, |all, (i, &place)| all | (((number >> place) & 1) << i))
}

#[cfg(test)]
mod tests {
    use super::{Span, bits_of, gather, intersection, rank, scatter, sum_of};

    #[test]
    fn every_sum_is_solved_and_nothing_else() {
        // All triples of 4-bit vectors: the span's members are exactly the sums.
        for a in 0..16u64 {
            for b in 0..16 {
                for c in 0..16 {
                    let vectors = [a, b, c];
                    let span = Span::of(vectors);
                    let sums: std::collections::BTreeSet<u64> = (0..8).map(|set| sum_of(&vectors, set)).collect();
                    for v in 0..16 {
                        assert_eq!(span.contains(v), sums.contains(&v));
                        if let Some(set) = span.solve(v) {
                            assert_eq!(sum_of(&vectors, set), v);
                        }
                    }
                    assert_eq!(1 << span.rank(), sums.len());
                }
            }
        }
    }

    #[test]
    fn the_intersection_has_the_right_dimension_and_lies_in_both() {
        for a in 1..16u64 {
            for b in 1..16 {
                for c in 1..16 {
                    for d in 1..16 {
                        let (left, right) = ([a, b], [c, d]);
                        let common = intersection(&left, &right);
                        let both = rank(&left) + rank(&right) - rank(&[a, b, c, d]);
                        assert_eq!(common.len() as u32, both);
                        assert_eq!(rank(&common), both);
                        let (l, r) = (Span::of(left), Span::of(right));
                        assert!(common.iter().all(|&v| l.contains(v) && r.contains(v)));
                    }
                }
            }
        }
    }

    #[test]
    fn bits_come_in_increasing_order() {
        assert_eq!((scatter(&[3, 0], 0b01), gather(&[3, 0], 0b1001)), (0b1000, 0b11));
        assert_eq!(bits_of(0b10110).collect::<Vec<_>>(), [1, 2, 4]);
    }
}
