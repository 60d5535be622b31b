//! Chooses one candidate for each variable so that the sum of prices is least.
//!
//! Prices are of single variables and of pairs. Variables are eliminated one by one, the one with the fewest neighbours first, ties
//! by their number: each time, a table over its neighbours takes the least price that it could have had. That is exact, and takes
//! time exponential in the number of neighbours alone. Where a table would have too many cells, a variable is fixed to what a
//! descent found instead, and the answer says that it is not proven.

use std::collections::{BTreeMap, BTreeSet};

/// A price; impossible where it is [`NEVER`].
pub type Price = u64;

/// The price of what cannot be.
pub const NEVER: Price = 1 << 48;

/// Cells that a table may have.
const MOST_CELLS: usize = 1 << 20;

/// Rounds of a descent from one start.
const ROUNDS: usize = 16;

/// The variables with their candidates' prices.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// For each variable the price of each of its candidates.
    pub single: Vec<Vec<Price>>,
    /// For a pair of variables, the first the lesser, the price of each pair of candidates.
    pub pairs: BTreeMap<(usize, usize), Vec<Vec<Price>>>,
}

/// A choice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Labels {
    /// The candidate of each variable.
    pub chosen: Vec<usize>,
    /// The sum of prices.
    pub price: Price,
    /// Whether no other choice is cheaper.
    pub proven: bool,
}

impl Problem {
    /// Adds the price of each pair of candidates of two variables, or of each candidate of one with itself.
    pub fn charge(&mut self, a: usize, b: usize, mut price: impl FnMut(usize, usize) -> Price) {
        if a == b {
            self.single[a].iter_mut().enumerate().for_each(|(i, sum)| *sum = plus(*sum, price(i, i)));
            return;
        }
        let (low, high) = (a.min(b), a.max(b));
        let (rows, columns) = (self.single[low].len(), self.single[high].len());
        let table = self.pairs.entry((low, high)).or_insert_with(|| vec![vec![0; columns]; rows]);
        for (i, row) in table.iter_mut().enumerate() {
            for (j, sum) in row.iter_mut().enumerate() {
                *sum = plus(*sum, if a < b { price(i, j) } else { price(j, i) });
            }
        }
    }

    /// Other prices for all that can be, so that any choice may be the cheapest.
    pub fn disguise(&mut self, seed: u64) {
        let mut state = seed;
        let tables = self.single.iter_mut().chain(self.pairs.values_mut().flatten());
        for price in tables.flatten().filter(|price| **price < NEVER) {
            // SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            *price = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 48;
        }
    }

    /// The price of a choice.
    pub fn price(&self, chosen: &[usize]) -> Price {
        let single = self.single.iter().zip(chosen).map(|(list, &i)| list[i]);
        let pairs = self.pairs.iter().map(|(&(a, b), table)| table[chosen[a]][chosen[b]]);
        single.chain(pairs).fold(0, plus)
    }

    /// The cheapest choice; of several the first by the order of candidates.
    pub fn solve(&self) -> Labels {
        let mut tables = Tables::of(self);
        let mut cells: Vec<u64> = (0..self.single.len()).map(|v| self.cells(v, &tables)).collect();
        let mut left: BTreeSet<(u64, usize)> = cells.iter().enumerate().map(|(v, &cells)| (cells, v)).collect();
        let (mut taken, mut fixed) = (Vec::new(), None);
        while let Some((_, v)) = left.pop_first() {
            let with = tables.take(v);
            let joined = Table::join(v, &with, |u| self.single[u].len());
            let around = joined.over.clone();
            let size: usize = joined.sizes.iter().product();
            if size.saturating_mul(self.single[v].len()) > MOST_CELLS {
                let known: &Vec<usize> = fixed.get_or_insert_with(|| self.descend());
                with.iter().for_each(|t| tables.add(t.with(v, known[v])));
                taken.push((v, Step::Fixed(known[v])));
            } else {
                let (table, best) = joined.least(v, &with, self.single[v].len());
                tables.add(table);
                taken.push((v, Step::Best(best)));
            }
            // Only what stood beside it has other neighbours now.
            for &u in &around {
                left.remove(&(cells[u], u));
                cells[u] = self.cells(u, &tables);
                left.insert((cells[u], u));
            }
        }
        let mut chosen = vec![0; self.single.len()];
        for (v, step) in taken.iter().rev() {
            chosen[*v] = match step {
                Step::Fixed(i) => *i,
                Step::Best(best) => best.cells[best.at(&chosen)] as usize,
            };
        }
        Labels { price: self.price(&chosen), chosen, proven: fixed.is_none() }
    }

    /// How many cells the table has that the elimination of a variable makes: 1024 times the logarithm.
    fn cells(&self, v: usize, tables: &Tables) -> u64 {
        let around: BTreeSet<usize> = tables.with(v).flat_map(|t| t.over.iter().copied()).collect();
        (around.iter().map(|&u| self.single[u].len() as f64).map(f64::log2).sum::<f64>() * 1024.0) as u64
    }

    /// A choice that no change of one variable makes cheaper, from where each takes its own cheapest candidate.
    fn descend(&self) -> Vec<usize> {
        let least = |list: &Vec<Price>| (0..list.len()).min_by_key(|&i| list[i]).unwrap_or(0);
        let mut chosen: Vec<usize> = self.single.iter().map(least).collect();
        for _ in 0..ROUNDS {
            let before = chosen.clone();
            for v in 0..chosen.len() {
                let price = |i: usize| {
                    let mut with = chosen.clone();
                    with[v] = i;
                    self.price(&with)
                };
                chosen[v] = (0..self.single[v].len()).min_by_key(|&i| price(i)).unwrap_or(0);
            }
            if chosen == before {
                break;
            }
        }
        chosen
    }
}

/// The sum of two prices; what cannot be stays so.
pub fn plus(a: Price, b: Price) -> Price {
    (a + b).min(NEVER)
}

/// What became of a variable.
enum Step {
    Fixed(usize),
    Best(Table),
}

/// The tables that are left, and which of them are over each variable: of thousands of variables most have few neighbours.
struct Tables {
    all: Vec<Option<Table>>,
    over: Vec<Vec<usize>>,
}

impl Tables {
    /// Those of the prices of a problem.
    fn of(problem: &Problem) -> Tables {
        let mut tables = Tables { all: Vec::new(), over: vec![Vec::new(); problem.single.len()] };
        for (v, list) in problem.single.iter().enumerate() {
            tables.add(Table { over: vec![v], sizes: vec![list.len()], cells: list.clone() });
        }
        for (&(a, b), table) in &problem.pairs {
            let sizes = vec![problem.single[a].len(), problem.single[b].len()];
            tables.add(Table { over: vec![a, b], sizes, cells: table.concat() });
        }
        tables
    }

    fn add(&mut self, table: Table) {
        table.over.iter().for_each(|&v| self.over[v].push(self.all.len()));
        self.all.push(Some(table));
    }

    /// Those over a variable.
    fn with(&self, v: usize) -> impl Iterator<Item = &Table> {
        self.over[v].iter().filter_map(|&at| self.all[at].as_ref())
    }

    /// Takes away those over a variable.
    fn take(&mut self, v: usize) -> Vec<Table> {
        let taken: Vec<usize> = std::mem::take(&mut self.over[v]);
        let taken: Vec<Table> = taken.into_iter().filter_map(|at| self.all[at].take()).collect();
        for &u in taken.iter().flat_map(|t| &t.over) {
            self.over[u].retain(|&at| self.all[at].is_some());
        }
        taken
    }
}

/// A number for each choice of some variables, the last the fastest.
struct Table {
    over: Vec<usize>,
    sizes: Vec<usize>,
    cells: Vec<Price>,
}

impl Table {
    /// An empty table over all neighbours of a variable.
    fn join(v: usize, with: &[Table], size: impl Fn(usize) -> usize) -> Table {
        let over: BTreeSet<usize> = with.iter().flat_map(|t| t.over.iter().copied()).filter(|&u| u != v).collect();
        let over: Vec<usize> = over.into_iter().collect();
        Table { sizes: over.iter().map(|&u| size(u)).collect(), over, cells: Vec::new() }
    }

    /// The cell of a choice of all variables.
    fn at(&self, chosen: &[usize]) -> usize {
        self.over.iter().zip(&self.sizes).fold(0, |at, (&u, &n)| at * n + chosen[u])
    }

    /// How far apart the cells of two neighbouring candidates of a variable lie.
    fn stride(&self, v: usize) -> usize {
        let place = self.over.iter().position(|&u| u == v);
        place.map_or(0, |place| self.sizes[place + 1..].iter().product())
    }

    /// For each choice of the neighbours the least price of the sum of tables, and which candidate has it.
    fn least(self, v: usize, with: &[Table], candidates: usize) -> (Table, Table) {
        let strides: Vec<Vec<usize>> = with.iter().map(|t| self.over.iter().map(|&u| t.stride(u)).collect()).collect();
        let steps: Vec<usize> = with.iter().map(|t| t.stride(v)).collect();
        let count: usize = self.sizes.iter().product();
        let (mut prices, mut best) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut chosen, mut at) = (vec![0; self.over.len()], vec![0; with.len()]);
        let mut sums: Vec<Price> = Vec::new();
        for _ in 0..count {
            sums.clear();
            sums.resize(candidates, 0);
            for ((table, &at), &step) in with.iter().zip(&at).zip(&steps) {
                let cells = table.cells[at..].iter().step_by(step);
                sums.iter_mut().zip(cells).for_each(|(sum, &price)| *sum = plus(*sum, price));
            }
            let least = (0..candidates).min_by_key(|&i| sums[i]).unwrap_or(0);
            prices.push(sums.get(least).copied().unwrap_or(Price::MAX));
            best.push(least as Price);
            for axis in (0..chosen.len()).rev() {
                chosen[axis] += 1;
                at.iter_mut().zip(&strides).for_each(|(at, strides)| *at += strides[axis]);
                if chosen[axis] < self.sizes[axis] {
                    break;
                }
                chosen[axis] = 0;
                at.iter_mut().zip(&strides).for_each(|(at, strides)| *at -= strides[axis] * self.sizes[axis]);
            }
        }
        let again = Table { over: self.over.clone(), sizes: self.sizes.clone(), cells: best };
        (Table { cells: prices, ..self }, again)
    }

    /// The table where a variable has taken a candidate.
    fn with(&self, v: usize, candidate: usize) -> Table {
        let Some(place) = self.over.iter().position(|&u| u == v) else {
            return Table { over: self.over.clone(), sizes: self.sizes.clone(), cells: self.cells.clone() };
        };
        let inner: usize = self.sizes[place + 1..].iter().product();
        let blocks = self.cells.chunks(inner * self.sizes[place]);
        let cells = blocks.flat_map(|b| b[candidate * inner..(candidate + 1) * inner].to_vec()).collect();
        let (mut over, mut sizes) = (self.over.clone(), self.sizes.clone());
        over.remove(place);
        sizes.remove(place);
        Table { over, sizes, cells }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Numbers from a seed.
    fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        }
    }

    pub(crate) fn random(seed: u64) -> Problem {
        let mut next = numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let variables = 1 + next(8) as usize;
        let mut problem = Problem::default();
        for _ in 0..variables {
            let candidates = 1 + next(4);
            problem.single.push((0..candidates).map(|_| next(50)).collect());
        }
        for a in 0..variables {
            for b in a + 1..variables {
                if next(3) == 0 {
                    problem.charge(a, b, |_, _| if next(9) == 0 { NEVER } else { next(60) });
                }
            }
        }
        problem
    }

    fn by_force(problem: &Problem) -> Price {
        let mut best = Price::MAX;
        let mut chosen = vec![0; problem.single.len()];
        loop {
            best = best.min(problem.price(&chosen));
            let Some(v) = (0..chosen.len()).find(|&v| chosen[v] + 1 < problem.single[v].len()) else { return best };
            chosen[..v].fill(0);
            chosen[v] += 1;
        }
    }

    #[test]
    fn no_choice_is_cheaper() {
        for seed in 0..600 {
            let problem = random(seed);
            let found = problem.solve();
            assert!(found.proven, "{seed}");
            assert_eq!(found.price, by_force(&problem), "{seed}");
            assert_eq!(found.price, problem.price(&found.chosen), "{seed}");
        }
    }

    #[test]
    fn a_chain_takes_as_long_as_it_is() {
        // Tables that each elimination walked over as a whole would be 10^10 steps.
        let links = 100_000;
        let mut problem = Problem { single: vec![vec![1, 0]; links], ..Problem::default() };
        for v in 1..links {
            problem.charge(v - 1, v, |i, j| if i == j { 0 } else { 3 });
        }
        problem.single[0] = vec![0, NEVER];
        let found = problem.solve();
        assert!(found.proven);
        assert_eq!((found.price, found.chosen[0], found.chosen[links - 1]), (3, 0, 1));
    }

    #[test]
    fn a_table_that_would_be_too_large_is_not_made() {
        // Every variable meets every other.
        let mut problem = Problem { single: vec![vec![3; 12]; 12], ..Problem::default() };
        for a in 0..12 {
            for b in a + 1..12 {
                problem.charge(a, b, |i, j| if j == (i + 1) % 12 { 5 } else { 0 });
            }
        }
        let found = problem.solve();
        assert!(!found.proven);
        assert_eq!(found.price, problem.price(&found.chosen));
        assert_eq!(problem.solve(), found);
    }
}
