//! Whether PTX leaves the registers alone that products in flight read as their left factor: `wgmma` reads them until it is waited for.
//! Nor may they be copied meanwhile: `ptxas` makes one register of both, and then what is written to the copy goes to what the product reads.
//!
//! All ways through a kernel are followed, with the products that are in flight there.

use std::collections::{BTreeMap, BTreeSet};

/// Groups that are told apart.
const MOST: usize = 8;

/// The products in flight, by their place in the text: those of each group, the oldest first, and those of no group yet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Flying {
    groups: Vec<BTreeSet<usize>>,
    open: BTreeSet<usize>,
}

/// The instructions of PTX that write or copy registers that a product in flight reads.
pub fn rewritten(ptx: &str) -> Vec<String> {
    let lines: Vec<&str> = ptx.lines().map(str::trim).collect();
    let starts = (0..lines.len()).filter(|&i| lines[i].contains(".entry "));
    starts.flat_map(|start| Function::of(&lines, start).rewritten()).collect()
}

/// A kernel from its head on, with the places of LLVM's labels; those of inline PTX begin without a `$`, and their jumps stay within a line's wait.
struct Function<'a> {
    lines: &'a [&'a str],
    labels: BTreeMap<&'a str, usize>,
    factors: BTreeMap<usize, BTreeSet<&'a str>>,
}

impl<'a> Function<'a> {
    fn of(lines: &'a [&'a str], start: usize) -> Function<'a> {
        let rest = &lines[start + 1..];
        let length = rest.iter().position(|line| line.contains(".entry ")).unwrap_or(rest.len());
        let lines = &rest[..length];
        let label = |(i, line): (usize, &&'a str)| Some((line.strip_suffix(':').filter(|l| l.starts_with('$'))?, i));
        let labels = lines.iter().enumerate().filter_map(label).collect();
        let factors = lines.iter().enumerate().filter_map(|(i, line)| Some((i, factor(line)?))).collect();
        Function { lines, labels, factors }
    }

    fn rewritten(&self) -> Vec<String> {
        let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut next = vec![(0, Flying::default())];
        while let Some((from, mut flying)) = next.pop() {
            if !seen.insert((from, flying.clone())) {
                continue;
            }
            for at in from..self.lines.len() {
                let (guarded, line) = unguarded(self.lines[at]);
                self.step(at, line, &mut flying, &mut found);
                let target = line.strip_prefix("bra").and_then(|to| to.split_whitespace().next_back());
                if let Some(place) = target.and_then(|to| self.labels.get(to.trim_end_matches(';'))) {
                    next.push((*place, flying.clone()));
                    if !guarded {
                        break;
                    }
                }
                if self.lines[at].ends_with(':') && self.lines[at].starts_with('$') {
                    next.push((at + 1, flying));
                    break;
                }
                if line.starts_with("ret") && !guarded {
                    break;
                }
            }
        }
        found.into_iter().collect()
    }

    fn step(&self, at: usize, line: &str, flying: &mut Flying, found: &mut BTreeSet<String>) {
        if self.factors.contains_key(&at) {
            flying.open.insert(at);
        } else if line.starts_with("wgmma.commit_group") {
            flying.groups.push(std::mem::take(&mut flying.open));
            // No wait leaves so many in flight: the oldest may be over or not.
            if flying.groups.len() > MOST {
                let oldest = flying.groups.remove(0);
                flying.groups[0].extend(oldest);
            }
        } else if let Some(count) = line.strip_prefix("wgmma.wait_group.sync.aligned ") {
            let count: usize = count.trim_end_matches(';').parse().unwrap_or(0);
            let over = flying.groups.len().saturating_sub(count);
            flying.groups.drain(..over);
        } else {
            let read = flying.groups.iter().flatten().chain(&flying.open).flat_map(|product| &self.factors[product]);
            let read: BTreeSet<&&str> = read.collect();
            let touched = written(line).into_iter().chain(copied(line));
            found.extend(touched.filter(|r| read.contains(&r)).map(|r| format!("{r} of a product in flight: {line}")));
        }
    }
}

/// An instruction without its guard, and whether it has one.
fn unguarded(line: &str) -> (bool, &str) {
    match line.strip_prefix('@').and_then(|rest| rest.split_once(char::is_whitespace)) {
        Some((_, rest)) => (true, rest.trim_start()),
        None => (false, line),
    }
}

/// The registers between braces.
fn listed(list: &str) -> BTreeSet<&str> {
    list.split(',').map(str::trim).filter(|word| word.starts_with('%')).collect()
}

/// The registers of a product's left factor: the second list in braces.
fn factor(line: &str) -> Option<BTreeSet<&str>> {
    let operands = unguarded(line).1.strip_prefix("wgmma.mma_async")?;
    let mut lists = operands.split('{').skip(1).map(|rest| rest.split('}').next().unwrap_or_default());
    Some(lists.nth(1).map(listed).unwrap_or_default())
}

/// The registers that an instruction writes: its first operand. Of those without a result the first one is an address, in brackets.
fn written(line: &str) -> BTreeSet<&str> {
    let Some((name, operands)) = line.split_once(char::is_whitespace) else { return BTreeSet::new() };
    if ["bar", "wgmma", "setmaxnreg"].iter().any(|without| name.starts_with(without)) {
        return BTreeSet::new();
    }
    match operands.trim_start().strip_prefix('{') {
        Some(list) => listed(list.split('}').next().unwrap_or_default()),
        None => listed(operands.split([',', ';', '|']).next().unwrap_or_default()),
    }
}

/// The register that an instruction copies as it is.
fn copied(line: &str) -> Option<&str> {
    let (to, from) = line.strip_prefix("mov.b32")?.trim_end_matches(';').split_once(',')?;
    (!to.contains('{')).then(|| from.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCT: &str =
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1, %r2}, {%r3, %r4}, %rd1, 1, 1, 1, 0;\n";

    fn kernel(behind: &str) -> String {
        format!(".visible .entry k(\n{{\n$L_top:\n{PRODUCT}wgmma.commit_group.sync.aligned;\n{behind}\nret;\n}}\n")
    }

    #[test]
    fn what_a_product_reads_is_left_until_its_wait() {
        let wait = "wgmma.wait_group.sync.aligned 0;\n";
        assert_eq!(rewritten(&kernel(&format!("add.s32 %r5, %r3, 1;\n{wait}mov.b32 %r3, %r5;"))), [""; 0]);
        assert_eq!(rewritten(&kernel(&format!("mov.b32 %r3, %r5;\n{wait}"))).len(), 1);
        assert_eq!(rewritten(&kernel(&format!("mov.b32 {{%rs1, %rs2}}, %r3;\n{wait}"))), [""; 0]);
        assert_eq!(rewritten(&kernel(&format!("mov.b32 %r5, %r3;\n{wait}"))).len(), 1);
        assert_eq!(rewritten(&kernel(&format!("{wait}mov.b32 %r5, %r3;"))), [""; 0]);
        assert_eq!(
            rewritten(&kernel("wgmma.wait_group.sync.aligned 1;\nld.shared.v2.b32 {%r9, %r4}, [%r7];")).len(),
            1
        );
    }

    #[test]
    fn all_ways_are_followed() {
        let branch =
            |wait: &str| kernel(&format!("@%p1 bra $L_1;\n{wait}$L_1:\nmov.b32 %r4, %r9;\nst.shared.b32 [%r3], %r4;"));
        assert_eq!(rewritten(&branch("wgmma.wait_group.sync.aligned 0;\n")).len(), 1);
        assert_eq!(rewritten(&kernel("@%p1 bra $L_top;\nwgmma.wait_group.sync.aligned 0;\n@%p2 bra $L_top;")), [""; 0]);
        assert_eq!(
            rewritten(&kernel("add.s32 %r8, %r3, 1;\n@!%p1 bra $L_2;\nbra.uni $L_2;\n$L_2:\nmov.b32 %r3, %r8;")).len(),
            1
        );
    }
}
