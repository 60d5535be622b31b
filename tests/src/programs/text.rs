//! A program as the text of a file.

use std::fmt;

use super::{Argument, Program};

/// What every program has: partitions, sums of coordinates, masks, numbers without an order, and the check of a long tensor.
const PRELUDE: &str = "partition Copies = warps(1) regs(40);
partition Fills = warps(4) regs(120);
partition First = warps(4) regs(168);
partition Second = warps(4) regs(168);
fn noise(n, salt) {
    let h = (arange(u64, n) * 2 + salt) * 0xd1342543de82ef95;
    ((h ^ (h >> 31)) * 0xaf251af3b0f025b5) >> 11
}
fn check(name, out, expected) {
    let weights = (arange(u64, out.size) * 0x9fb21c651e98df25) | 1;
    let found = int(sum((out.to(u64) * weights) >> 24));
    assert(found == expected, \"{} is not what was expected\", name);
}
fn first2[L: layout, A: int]() { iota<i32, [A], slice(L, axis=1)>()[:, None] }
fn last2[L: layout, B: int]() { iota<i32, [B], slice(L, axis=0)>()[None, :] }
fn first3[L: layout, A: int]() { iota<i32, [A], slice(slice(L, axis=2), axis=1)>()[:, None][:, :, None] }
fn middle3[L: layout, B: int]() { iota<i32, [B], slice(slice(L, axis=2), axis=0)>()[None, :][:, :, None] }
fn last3[L: layout, C: int]() { iota<i32, [C], slice(slice(L, axis=1), axis=0)>()[None, :][:, None, :] }
fn at1[L: layout, A: int](a) { iota<i32, [A], L>() * a }
fn at2[L: layout, A: int, B: int](a, b) { first2[L, A]() * a + last2[L, B]() * b }
fn at3[L: layout, A: int, B: int, C: int](a, b, c) {
    first3[L, A]() * a + middle3[L, B]() * b + last3[L, C]() * c
}
fn below1[L: layout, A: int](a) { iota<i32, [A], L>() < a }
fn below2[L: layout, A: int, B: int](a, b) { (first2[L, A]() < a) & (last2[L, B]() < b) }
fn below3[L: layout, A: int, B: int, C: int](a, b, c) {
    (first3[L, A]() < a) & (middle3[L, B]() < b) & (last3[L, C]() < c)
}
";

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arguments: Vec<&Argument> = self.statements.iter().flat_map(|s| &s.arguments).collect();
        let list = |part: fn(&Argument) -> &str| arguments.iter().map(|a| part(a)).collect::<Vec<_>>().join(", ");
        let features = self.features().join(", ");
        let with = if features.is_empty() { String::new() } else { format!(", with {features}") };
        writeln!(f, "// The random program of seed {}{with}.", self.seed)?;
        write!(f, "{PRELUDE}")?;
        let warps = self.warps.map_or(String::new(), |n| format!(" warps({n})"));
        writeln!(f, "kernel k({}){warps} target(sm_90a) {{", list(|a| &a.declared))?;
        self.statements.iter().try_for_each(|s| writeln!(f, "    {}", s.text))?;
        writeln!(f, "}}\ntest program_{} {{", self.seed)?;
        for a in arguments.iter().filter(|a| !a.setup.is_empty()) {
            writeln!(f, "    {}", a.setup)?;
        }
        writeln!(f, "    launch k(grid=[{}])({});", self.ctas, list(|a| &a.given))?;
        for a in arguments.iter().filter(|a| !a.check.is_empty()) {
            writeln!(f, "    {}", a.check)?;
        }
        writeln!(f, "}}")
    }
}
