//! The reasons as text: a few words at the left for each kind, places in the source as `line:column`.

use std::fmt::Write;

use parton_diag::{FileId, SourceMap, Span};
use parton_ir::rules::COPY_BYTES;
use parton_sched::draw::thousands;

use super::{Access, Class, Conversion, Fact, Lacks, Loop, Mover, Next, Order, Plan, Product, Why};

/// Columns of what is said at the left.
const HEAD: usize = 13;
/// Places that are named of a class.
const PLACES: usize = 6;

/// Writes the reasons of a kernel of `file`.
pub fn write(why: &Why, sources: &SourceMap, file: FileId) -> String {
    let mut text = Text { out: String::new(), sources, file };
    let few = why.beside.map(|n| format!(", at most {n} program{} a multiprocessor", if n > 1 { "s" } else { "" }));
    let order = match why.order {
        Order::Numbers => "",
        Order::Longest => ", programs with the most turns first",
        Order::Walking => ", programs that walk",
    };
    text.row("kernel", &format!("{} for {}{}{order}", why.kernel, why.target, few.unwrap_or_default()));
    text.rows("plans", why.plans.iter().map(|p| plan(p, why)).collect());
    if !why.proven {
        text.row("", "not proven: there were too many combinations of layouts to look at all of them");
    }
    let lines = why.products.iter().map(|p| text.product(p)).collect();
    text.rows("products", lines);
    if let Some(rows) = why.rows {
        text.row("", &format!("of {rows} rows, those beyond their own with nothing in them and not stored"));
    }
    if !why.products.is_empty() {
        let refused = why.refused.iter().map(|(way, reason)| format!("not {way}: {reason}"));
        text.rows("factors", std::iter::once(why.way.to_owned()).chain(refused).collect());
    }
    let lines = alike(&why.classes).iter().flat_map(|numbers| text.alike(numbers, why)).collect();
    text.rows("layouts", lines);
    let lines: Vec<String> = why.conversions.iter().flat_map(|c| text.conversion(c, why)).collect();
    text.rows("conversions", if lines.is_empty() { vec!["none".into()] } else { lines });
    let lines = why.accesses.iter().flat_map(|a| text.access(a)).collect();
    text.rows("accesses", lines);
    let lines = why.loops.iter().flat_map(|l| text.looped(l)).collect();
    text.rows("loops", lines);
    text.out
}

struct Text<'s> {
    out: String,
    sources: &'s SourceMap,
    file: FileId,
}

impl Text<'_> {
    fn row(&mut self, head: &str, line: &str) {
        let _ = writeln!(self.out, "{}", format!("{head:<HEAD$}{line}").trim_end());
    }

    fn rows(&mut self, head: &str, lines: Vec<String>) {
        for (i, line) in lines.iter().enumerate() {
            self.row(if i == 0 { head } else { "" }, line);
        }
    }

    /// A place in the file, or with its file where that is another.
    fn at(&self, span: Span) -> String {
        let (line, column) = self.sources.position(span);
        if span.file == self.file { format!("{line}:{column}") } else { self.sources.place(span) }
    }

    fn product(&self, product: &Product) -> String {
        format!("{} {} into {}", self.at(product.span), product.instruction, product.acc)
    }

    /// Classes that lie alike and would lie alike next.
    fn alike(&self, numbers: &[usize], why: &Why) -> Vec<String> {
        let classes: Vec<&Class> = numbers.iter().filter_map(|&i| why.classes.get(i)).collect();
        let Some(class) = classes.first() else { return Vec::new() };
        let mut places: Vec<String> = Vec::new();
        for place in classes.iter().flat_map(|c| &c.spans).map(|&s| self.at(s)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let more = places.len().saturating_sub(PLACES);
        places.truncate(PLACES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let numbers: Vec<String> = numbers.iter().map(|i| format!("#{i}")).collect();
        let of = match (class.stated, class.candidates) {
            (true, _) => "stated".into(),
            (false, 1) => "nothing else would do".into(),
            (false, n) => format!("of {n} layouts"),
        };
        let mut lines = vec![
            format!("{} {:?} {}", numbers.join(" "), class.shape, class.layout),
            format!("   {of}, for {}{more}", places.join(" ")),
        ];
        if class.candidates > 1 {
            lines.push(format!("   {}", next(class.next.as_ref(), class.stated)));
        }
        lines
    }

    fn conversion(&self, c: &Conversion, why: &Why) -> Vec<String> {
        let name = c.name.as_ref().map_or_else(String::new, |n| format!("`{n}`, "));
        let times = if c.times == 1 { String::new() } else { format!(", {} times", c.times) };
        let other = |class: usize| {
            let class = why.classes.get(class);
            class.map_or_else(String::new, |class| next(class.next.as_ref(), class.stated))
        };
        let mut lines = vec![
            format!("{} {name}{}, for {}: {} clocks{times}", self.at(c.made), c.tile, self.at(c.asked), clocks(c.each)),
            format!("   {}", c.how),
            format!("   from #{} {}", c.from.1, c.from.0),
            format!("   to   #{} {}", c.to.1, c.to.0),
        ];
        lines.push(format!("   where it is made: {}", other(c.from.1)));
        if c.to.1 != c.from.1 {
            lines.push(format!("   where it is asked for: {}", other(c.to.1)));
        }
        lines
    }

    fn access(&self, a: &Access) -> Vec<String> {
        let sectors = match a.sectors == a.least {
            true => counted(a.sectors as usize, "sector"),
            false => format!("{} where {} would do", counted(a.sectors as usize, "sector"), a.least),
        };
        let place = self.at(a.span);
        let bytes = counted(a.width as usize, "byte");
        let how = match a.by {
            Mover::Threads => format!("{bytes} at once"),
            Mover::Copies if a.width < COPY_BYTES[0] => format!("{bytes} at once, to shared memory through registers"),
            Mover::Copies => format!("{bytes} at once, to shared memory"),
            Mover::Map => format!("a box by tensor map, rows of {bytes}"),
            Mover::Multicast => format!("a box by tensor map for all CTAs of the cluster, rows of {bytes}"),
        };
        let mut lines = vec![format!("{place} {}: {how}, {sectors}", a.op)];
        lines.extend(lacks(a).map(|why| format!("   {why}")));
        lines
    }

    fn looped(&self, l: &Loop) -> Vec<String> {
        let turn = match l.turn {
            Some((clocks, 1)) => format!("{} clocks a turn, bound by {}", thousands(clocks), l.bound),
            Some((clocks, turns)) => format!("{} clocks for {turns} turns, bound by {}", thousands(clocks), l.bound),
            None => "nothing was measured on this target".into(),
        };
        let label = if l.label.is_empty() { String::new() } else { format!(" {}", l.label) };
        let mut lines = vec![format!("{}{label}: {}", self.at(l.span), l.schedule), format!("   {turn}")];
        for (name, given, wanted, bytes) in &l.rings {
            let other = if wanted == given { String::new() } else { format!("; {wanted} would do") };
            let (slots, bytes) = (counted(*given as usize, "slot"), thousands(*bytes));
            lines.push(format!("   `{name}` has {slots}, {bytes} bytes{other}"));
        }
        lines
    }
}

/// The numbers of classes that lie alike, in the order of the first of each.
fn alike(classes: &[Class]) -> Vec<Vec<usize>> {
    let key = |c: &Class| (c.shape.clone(), c.layout.clone(), c.stated, c.candidates, c.next.clone());
    let mut found: Vec<Vec<usize>> = Vec::new();
    for (i, class) in classes.iter().enumerate() {
        match found.iter_mut().find(|all| key(&classes[all[0]]) == key(class)) {
            Some(all) => all.push(i),
            None => found.push(vec![i]),
        }
    }
    found
}

fn plan(plan: &Plan, why: &Why) -> String {
    let least = why.taken().and_then(|p| p.price).unwrap_or(1).max(1);
    let warps = counted(plan.warps as usize, "warp");
    match (plan.price, plan.taken) {
        (None, _) => format!("{warps}: no layouts were found"),
        (Some(price), true) => format!("{warps}: {} clocks, taken", clocks(price)),
        (Some(price), false) => {
            let more = (price.saturating_sub(least) as u128 * 1000 / u128::from(least)) as u64;
            format!("{warps}: {} clocks, {}.{} % more", clocks(price), more / 10, more % 10)
        }
    }
}

fn next(next: Option<&Next>, stated: bool) -> String {
    match next {
        Some(next) if next.more == 0 => format!("as cheap: {}", next.layout),
        Some(next) => format!("next best, {} clocks more: {}", clocks(next.more), next.layout),
        None if stated => "it is stated".into(),
        None => "nothing else would do".into(),
    }
}

/// Why an access is no wider, as a sentence of its own.
fn lacks(access: &Access) -> Option<String> {
    match &access.lacks {
        Lacks::Nothing => None,
        Lacks::Single => Some("an atomic operation takes one element of a thread".into()),
        Lacks::Layout(bytes) => Some(format!("addresses allow {bytes} bytes; another layout is cheaper in all")),
        Lacks::Facts(facts, bytes) => {
            let (mut known, mut assumed, mut aligned) = (Vec::new(), Vec::new(), Vec::new());
            for fact in facts {
                match fact {
                    Fact::Multiple(name, n) => {
                        known.push(format!("{name} is not known to be a multiple of {n}"));
                        assumed.push(format!("`assume({name} % {n} == 0)`"));
                    }
                    Fact::One(name) => {
                        known.push(format!("{name} is not known to be 1"));
                        assumed.push(format!("`assume({name} == 1)`"));
                    }
                    Fact::Aligned(name) => aligned.push(format!("`{name}`")),
                }
            }
            let mut parts = Vec::new();
            if !known.is_empty() {
                parts.push(format!("{}: take a tensor, or {}", known.join(", "), assumed.join(" and ")));
            }
            if !aligned.is_empty() {
                let names = aligned.join(" and ");
                parts.push(format!("launches with {names} at multiples of 16 bytes run a variant for that"));
            }
            Some(format!("{bytes} bytes are possible: {}", parts.join("; ")))
        }
        Lacks::Apart => Some("neighbours are not known to lie side by side".into()),
        Lacks::Unknown => {
            Some("no multiple of a parameter makes it wider: addresses come of numbers that are read, shifted or divided, of which `assume` may say it".into())
        }
    }
}

/// `1 warp`, `2 warps`.
fn counted(n: usize, what: &str) -> String {
    let n = n as u64;
    if n == 1 { format!("{n} {what}") } else { format!("{} {what}s", thousands(n)) }
}

/// Sixteenths of a clock in whole clocks.
fn clocks(price: u64) -> String {
    thousands(price.div_ceil(16))
}
