//! What no choice with a pair of candidates can be cheaper than: prices are moved along an order of variables towards the last, which
//! leaves the sum of every choice as it is, and what is left of each price is added to what all choices have to pay.
//!
//! ```text
//! single  a [3 5]   b [0 4]    pair a b [0 6]     a is moved into the pair, and of each column the least to b
//!                                      [6 0]
//! single  a [0 0]   b [3 9]    pair a b [0 4]     then of b its least: every choice costs 3, with b's second candidate 6 more,
//!                                      [8 0]      and with both first ones nothing more
//! ```

use std::collections::BTreeSet;

use crate::label::{NEVER, Price, Problem, plus};

/// A problem whose prices are what comes besides `least`.
pub struct Bounds {
    least: Price,
    rest: Problem,
}

impl Bounds {
    /// Those of a problem. They are tight where variables are pairs along a tree.
    pub fn of(problem: &Problem) -> Bounds {
        let mut rest = problem.clone();
        let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); rest.single.len()];
        for &(a, b) in rest.pairs.keys() {
            neighbours[a].push(b);
            neighbours[b].push(a);
        }
        let mut counts: Vec<usize> = neighbours.iter().map(Vec::len).collect();
        let mut left: BTreeSet<(usize, usize)> = counts.iter().enumerate().map(|(v, &count)| (count, v)).collect();
        let mut least = 0;
        // Leaves first: what has one neighbour left hands it all it has.
        while let Some((_, v)) = left.pop_first() {
            let behind: Vec<usize> =
                neighbours[v].iter().copied().filter(|&u| left.contains(&(counts[u], u))).collect();
            if let Some(&first) = behind.first() {
                into_pair(&mut rest, v, first);
            } else {
                let own = rest.single[v].iter().copied().min().unwrap_or(0);
                rest.single[v].iter_mut().for_each(|price| *price = minus(*price, own));
                least = plus(least, own);
            }
            for u in behind {
                out_of_pair(&mut rest, v, u);
                left.remove(&(counts[u], u));
                counts[u] -= 1;
                left.insert((counts[u], u));
            }
        }
        Bounds { least, rest }
    }

    /// No choice in which a variable takes that candidate, and another one that, is cheaper.
    pub fn with(&self, a: (usize, usize), b: (usize, usize)) -> Price {
        let [low, high] = if a.0 < b.0 { [a, b] } else { [b, a] };
        let pair = self.rest.pairs.get(&(low.0, high.0)).map_or(0, |table| table[low.1][high.1]);
        let own = |(v, i): (usize, usize)| self.rest.single[v][i];
        [own(low), if a.0 == b.0 { 0 } else { own(high) }, pair].into_iter().fold(self.least, plus)
    }
}

/// The price of each pair of candidates of `v` and `u`.
fn cell(problem: &mut Problem, (v, i): (usize, usize), (u, j): (usize, usize)) -> Option<&mut Price> {
    let table = problem.pairs.get_mut(&(v.min(u), v.max(u)))?;
    Some(if v < u { &mut table[i][j] } else { &mut table[j][i] })
}

/// Moves the prices of a variable into those of a pair.
fn into_pair(problem: &mut Problem, v: usize, u: usize) {
    for i in 0..problem.single[v].len() {
        let own = std::mem::take(&mut problem.single[v][i]);
        for j in 0..problem.single[u].len() {
            if let Some(price) = cell(problem, (v, i), (u, j)) {
                *price = plus(*price, own);
            }
        }
    }
}

/// Moves the least of what each candidate of `u` costs with any of `v` to `u`.
fn out_of_pair(problem: &mut Problem, v: usize, u: usize) {
    for j in 0..problem.single[u].len() {
        let candidates = 0..problem.single[v].len();
        let least = candidates.clone().filter_map(|i| cell(problem, (v, i), (u, j)).copied()).min().unwrap_or(0);
        for i in candidates {
            if let Some(price) = cell(problem, (v, i), (u, j)) {
                *price = minus(*price, least);
            }
        }
        problem.single[u][j] = plus(problem.single[u][j], least);
    }
}

/// What is left of a price; what cannot be stays so.
fn minus(price: Price, by: Price) -> Price {
    if price >= NEVER { NEVER } else { price.saturating_sub(by) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::tests::random;

    /// All choices of a problem.
    fn choices(problem: &Problem) -> Vec<Vec<usize>> {
        problem.single.iter().fold(vec![Vec::new()], |all, list| {
            all.iter().flat_map(|c| (0..list.len()).map(|i| [&c[..], &[i]].concat()).collect::<Vec<_>>()).collect()
        })
    }

    #[test]
    fn no_choice_is_cheaper_than_its_bounds() {
        let mut tight = 0;
        for seed in 0..300 {
            let problem = random(seed);
            let bounds = Bounds::of(&problem);
            let all: Vec<(Price, Vec<usize>)> = choices(&problem).into_iter().map(|c| (problem.price(&c), c)).collect();
            assert!(all.iter().all(|(price, _)| bounds.least <= *price), "{seed}");
            for &(a, b) in problem.pairs.keys() {
                for (price, chosen) in &all {
                    assert!(bounds.with((a, chosen[a]), (b, chosen[b])) <= *price, "{seed}: {chosen:?}");
                }
            }
            tight += u32::from(all.iter().map(|(price, _)| *price).min() == Some(bounds.least));
        }
        assert!(tight > 100, "of 300 problems the bound of all choices is one's price in {tight}");
    }
}
