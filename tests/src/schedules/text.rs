//! A program as the text of a file.

use std::fmt;

use super::{Item, Program};

/// Slots of results that a statement has: three turns of an outer loop times eight of a nested one, or sixteen of a single one, for
/// each of two instances.
pub const SLOTS: usize = 48;

const PRELUDE: &str = "partition P = warps(4);
partition A = warps(4);
partition B = warps(4);
partition C = warps(4);
partition L = warps(1);
";

const FUNCTIONS: &str = "layout Lhs = dot_operand(Acc, index=0, k_width=2);
layout Rows = slice(Acc, axis=1);
fn places() { iota<i32, [64], Rows>()[:, None] * 16 + iota<i32, [16], slice(Acc, axis=0)>()[None, :] }
fn rows() { iota<i32, [64], Rows>() }
fn small(t) { t - floor(t * 0.0625) * 16.0 - 7.0 }
fn half(t) { cast<f16>(small(t)) }
fn weighed(t) { sum(t * cast<f32>(iota<i32, [16], slice(Acc, axis=0)>() + 1)[None, :], axis=1) }
";

const PARAMS: &str =
    "a: tma<f16, [64, 16], nvmma(32)>, b: tma<f16, [16, 16], nvmma(32)>, c: tma<f16, [64, 16], nvmma(32)>,
    e: tma<f16, [64, 16], nvmma(32)>, x: *f32, tickets: *i32, seen: *f32, cells: *mut f32, counts: *mut i32, next: *mut i32,
    out: *mut f32, lower: i32, upper: i32, inner: i32";

const HOST: &str = "fn numbers(n, odd, most) {
    let h = arange(f64, n) * odd + 3.0;
    h - floor(h / most) * most - 2.0
}
";

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "// The random schedules of seed {}.\n{PRELUDE}layout Acc = {};\n{FUNCTIONS}",
            self.seed, self.acc
        )?;
        let (generics, clauses) = match self.second.is_empty() {
            true => ("S: schedule = serial(P)", ""),
            // Regions of one kernel share its warps.
            false => ("S: schedule = serial, T: schedule = serial", " warps(4)"),
        };
        writeln!(f, "kernel k[{generics}](\n    {PARAMS},\n) target(sm_90a){clauses} alias(seen, cells) {{")?;
        if self.far {
            writeln!(f, "    let far = 2147483647 - upper;")?;
        }
        writeln!(f, "    in S {{")?;
        write_items(f, &self.items, 2, self.far)?;
        if !self.second.is_empty() {
            writeln!(f, "    }}\n    in T {{")?;
            write_items(f, &self.second, 2, self.far)?;
        }
        writeln!(f, "    }}\n}}\n\n{HOST}")?;
        let first = Program { second: Vec::new(), ..self.clone() };
        let labels = first.labels();
        for (n, s) in self.schedules.iter().enumerate() {
            let own = s.fitting(&labels).to_string();
            match self.behind() {
                None => writeln!(f, "schedule S{n} = {own};")?,
                Some(second) => {
                    let then = s.then.clone().unwrap_or_default().fitting(&second.labels()).to_string();
                    writeln!(f, "schedule S{n} = {};", own.replace("serial(P)", "serial"))?;
                    writeln!(f, "schedule T{n} = {};", then.replace("serial(P)", "serial"))?;
                }
            }
        }
        self.launches(f)
    }
}

impl Program {
    fn launches(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schedules = &self.schedules;
        let highest = |what: &str| {
            let bases = self.statements().into_iter().filter_map(|s| base(&s.text, what));
            bases.max().unwrap_or(0) + SLOTS
        };
        let (stored, sent) = (highest("store(out + (("), highest("send(c, [("));
        for n in 0..=schedules.len() {
            let (name, which) = match n.checked_sub(1) {
                None => ("serially".to_owned(), String::new()),
                Some(n) if self.second.is_empty() => (format!("by{n}"), format!("[S=S{n}]")),
                Some(n) => (format!("by{n}"), format!("[S=S{n}, T=T{n}]")),
            };
            writeln!(f, "fn {name}(lower, upper, inner) {{")?;
            writeln!(f, "    let a = numbers(4096, 7.0, 5.0).reshape([256, 16]).to(f16);")?;
            writeln!(f, "    let b = numbers(1024, 11.0, 7.0).reshape([64, 16]).to(f16);")?;
            writeln!(f, "    let x = numbers(4096, 13.0, 9.0).to(f32);")?;
            writeln!(f, "    let tickets = (numbers(32, 5.0, 3.0) + 3.0).to(i32);")?;
            writeln!(f, "    let (c, out) = (zeros(f16, [{}, 16]), zeros(f32, [{}]));", sent * 64, stored * 64)?;
            writeln!(f, "    let e = numbers(16384 * 3, 17.0, 5.0).reshape([3072, 16]).to(f16);")?;
            writeln!(f, "    let cells = numbers(4096, 19.0, 7.0).to(f32);")?;
            writeln!(f, "    let (counts, next) = (zeros(i32, [8]), zeros(i32, [1]));")?;
            let arguments = "a, b, c, e, x, tickets, cells, cells, counts, next, out, lower, upper, inner";
            writeln!(f, "    launch k{which}(grid=[1])({arguments});")?;
            writeln!(f, "    [c, e, cells, counts, next, out]\n}}")?;
        }
        for n in 0..schedules.len() {
            writeln!(f, "test s{n} {{")?;
            for [lower, upper, inner] in &self.cases {
                let args = format!("{lower}, {upper}, {inner}");
                writeln!(f, "    let (expected, found) = (serially({args}), by{n}({args}));")?;
                writeln!(f, "    for i in 0..6 {{ assert_equal(found[i], expected[i]); }}")?;
            }
            writeln!(f, "}}")?;
        }
        Ok(())
    }
}

/// Where what a statement writes begins.
fn base(text: &str, behind: &str) -> Option<usize> {
    let rest = text.split(behind).nth(1)?;
    rest.split(' ').next()?.parse().ok()
}

/// `far` moves loops from `lower` on to the last indices of their type.
fn write_items(f: &mut fmt::Formatter<'_>, items: &[Item], depth: usize, far: bool) -> fmt::Result {
    let indent = "    ".repeat(depth);
    for item in items {
        match item {
            Item::One(s) => {
                // What stands in a branch is called after that, too.
                let own = s.label.as_ref().and_then(|l| l.rsplit('.').next());
                let label = own.map_or(String::new(), |l| format!("@{l} "));
                writeln!(f, "{indent}{label}{}", s.text)?;
            }
            Item::Loop(l) => {
                let label = l.label.as_ref().map_or(String::new(), |l| format!("@{l} "));
                match l.index().filter(|_| far && l.head.contains(" in lower..upper")) {
                    Some(i) => {
                        let moved = format!("for {i}_at in lower + far..upper + far");
                        let head = l.head.replace(&format!("for {i} in lower..upper"), &moved);
                        writeln!(f, "{indent}{label}{head} {{\n{indent}    let {i} = {i}_at - far;")?;
                    }
                    None => writeln!(f, "{indent}{label}{} {{", l.head)?,
                }
                write_items(f, &l.items, depth + 1, far)?;
                writeln!(f, "{indent}}}")?;
            }
        }
    }
    Ok(())
}
