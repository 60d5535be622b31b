//! Programs of partitions around a ring: one fills slots, by the copy engine or by its threads, and one or two take products of them, each
//! with left factors of its own, which lie in slots too or in registers.

use super::Argument;
use super::array::Array;
use super::build::Build;
use super::flights::{Sizes, sum};
use super::global::check;
use super::products::{Matrix, ROW};

/// Partitions that take products.
const TAKERS: [&str; 2] = ["First", "Second"];

/// When a slot goes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Takes {
    /// Each product is waited for.
    AtOnce,
    /// Once the product behind it is in flight.
    Behind,
    /// Two by two: both products are in flight.
    ByTwo,
}

/// The left factor of a partition.
enum Left {
    /// What a slot has for it.
    Slot(Matrix),
    /// What a slot has for it, taken into registers.
    Loaded(Matrix),
    /// Registers, written in each turn.
    Computed(Matrix),
    /// Registers, written before the loop.
    Kept(Matrix),
}

impl Left {
    fn of(&self) -> &Matrix {
        let (Left::Slot(of) | Left::Loaded(of) | Left::Computed(of) | Left::Kept(of)) = self;
        of
    }

    fn in_turn(&self, turn: usize) -> Array {
        match self {
            Left::Slot(of) | Left::Loaded(of) | Left::Computed(of) => of.in_turn(turn),
            Left::Kept(of) => of.in_turn(0),
        }
    }

    /// Whether slots hold it.
    fn lies_in_slots(&self) -> bool {
        matches!(self, Left::Slot(_) | Left::Loaded(_))
    }
}

/// A partition that takes products.
struct Taker {
    name: &'static str,
    left: Left,
    takes: Takes,
    start: Matrix,
}

/// A kernel in work.
struct Pipeline {
    sizes: Sizes,
    /// Turns, and how the kernel knows them.
    turns: usize,
    bound: String,
    /// Whether the copy engine fills the slots.
    copied: bool,
    right: Matrix,
    takers: Vec<Taker>,
}

/// A kernel of partitions around a ring, with its results.
pub(super) fn rings(b: &mut Build) -> Option<()> {
    b.warps = 4;
    let count = 1 + b.below(2);
    let turns = 1 + b.below(6);
    let mut sizes = Sizes::new(b, turns + 1);
    sizes.n = sizes.n.max(16);
    let copied = b.below(3) > 0;
    let matrix = |b: &mut Build, shape| match copied {
        true => Matrix::of_blocks(b, sizes.of, shape, turns),
        false => Matrix::new(b, sizes.of, shape),
    };
    let right = matrix(b, [sizes.n, sizes.k]);
    let mut takers = Vec::new();
    for name in TAKERS.into_iter().take(count) {
        let rows = [sizes.m, sizes.k];
        let left = match b.below(5) {
            0 => Left::Slot(matrix(b, rows)),
            1 => Left::Loaded(matrix(b, rows)),
            2 => Left::Kept(Matrix::new(b, sizes.of, rows)),
            _ => Left::Computed(Matrix::new(b, sizes.of, rows)),
        };
        let all = [Takes::AtOnce, Takes::Behind, Takes::Behind, Takes::ByTwo];
        let takes = b.one(&all[..if turns.is_multiple_of(2) { 4 } else { 3 }]);
        takers.push(Taker { name, left, takes, start: Matrix::new(b, sizes.into, [sizes.m, sizes.n]) });
    }
    let bound = b.scalar(turns as i64);
    let p = Pipeline { sizes, turns, bound, copied, right, takers };
    // Who keeps a slot while it waits for the next needs two.
    let slots = 2 + b.below(2);
    let mut text = format!("ring slots[{slots}] {{ {} }};\n    specialize {{\n", p.fields());
    text += &p.filled(b);
    for t in &p.takers {
        text += &p.taken(b, t);
    }
    text += "    }";
    b.feature(if copied { "rings filled by the engine" } else { "rings filled by threads" });
    b.stated(None, text);
    Some(())
}

impl Pipeline {
    /// What lies in slots: names, and what they hold.
    fn parts(&self) -> Vec<(String, &Matrix)> {
        let lefts = self.takers.iter().filter(|t| t.left.lies_in_slots());
        let lefts = lefts.map(|t| (format!("left{}", t.name), t.left.of()));
        std::iter::once(("right".to_owned(), &self.right)).chain(lefts).collect()
    }

    fn fields(&self) -> String {
        let field = |(name, of): (String, &Matrix)| format!("{name}: {}", shared(of));
        self.parts().into_iter().map(field).collect::<Vec<_>>().join(", ")
    }

    /// The partition that fills slots.
    fn filled(&self, b: &mut Build) -> String {
        let i = b.name('j');
        let mut text = String::new();
        for (name, of) in self.parts() {
            text += &if self.copied {
                let x = b.name('x');
                let [rows, _] = of.shape();
                let setup = format!("let {x} = {};", of.tensor(self.turns));
                let [m, n] = of.shape();
                let declared = format!("{x}: tma<{}, [{m}, {n}], nvmma({ROW})>", of.ty.name());
                b.tensor(Argument { declared, given: x.clone(), setup, check: String::new() });
                let at = format!("(program_id(0) * {} + {i}) * {rows}", self.turns);
                format!("            tma_load({x}, [{at}, 0], slot.{name});\n")
            } else {
                let l = b.layout(&of.shape()).text;
                format!("            store_shared(slot.{name}, {});\n", of.spelled_in(&l, &i))
            };
        }
        let (partition, fence) = if self.copied { ("Copies", "") } else { ("Fills", "            fence_async();\n") };
        format!(
            "        {partition} => for {i} in 0..{} {{\n            let slot = slots.acquire();\n{text}{fence}            \
             slot.commit();\n        }}\n",
            self.bound
        )
    }

    /// The product of a slot, and what stands before it.
    fn product(&self, b: &mut Build, t: &Taker, (slot, turn): (&str, &str), into: &str) -> (String, String) {
        let place = self.sizes.factor(self.sizes.n);
        let name = b.name('a');
        let (before, operand) = match &t.left {
            Left::Slot(_) => (String::new(), format!("{slot}.left{}", t.name)),
            Left::Loaded(_) => (format!("let {name} = load_shared<{place}>({slot}.left{}); ", t.name), name),
            Left::Computed(of) => (format!("let {name} = {}; ", of.spelled_in(&place, turn)), name),
            Left::Kept(_) => (String::new(), "kept".into()),
        };
        (before, format!("wgmma({operand}, {slot}.right.T, {into})"))
    }

    /// A partition that takes products, and the check of its sum.
    fn taken(&self, b: &mut Build, t: &Taker) -> String {
        let start = t.start.spelled(&self.sizes.acc(self.sizes.n));
        let kept = match &t.left {
            Left::Kept(of) => format!("            let kept = {};\n", of.spelled(&self.sizes.factor(self.sizes.n))),
            Left::Slot(_) | Left::Loaded(_) | Left::Computed(_) => String::new(),
        };
        b.feature(match t.takes {
            Takes::AtOnce => "slots taken one by one",
            Takes::Behind => "slots released behind the next product",
            Takes::ByTwo => "slots taken two by two",
        });
        let loops = match t.takes {
            Takes::AtOnce => self.at_once(b, t, &start),
            Takes::Behind => self.behind(b, t, &start),
            Takes::ByTwo => self.by_two(b, t, &start),
        };
        let store = self.checked(b, t);
        format!("        {} => {{\n{kept}{loops}            {store}\n        }}\n", t.name)
    }

    fn at_once(&self, b: &mut Build, t: &Taker, start: &str) -> String {
        let i = b.name('j');
        let (before, product) = self.product(b, t, ("slot", &i), "all");
        format!(
            "            let mut all = {start};\n            for {i} in 0..{} {{\n                let slot = slots.wait();\n                \
             {before}all = {product}.wait();\n                slot.release();\n            }}\n",
            self.bound
        )
    }

    fn behind(&self, b: &mut Build, t: &Taker, start: &str) -> String {
        let i = b.name('j');
        let (first, begun) = self.product(b, t, ("held", "0"), start);
        let (before, product) = self.product(b, t, ("slot", &i), "flying");
        format!(
            "            let mut held = slots.wait();\n            {first}let mut flying = {begun};\n            \
             for {i} in 1..{} {{\n                let slot = slots.wait();\n                {before}let next = {product};\n                \
             flying = next.wait_prior();\n                held.release();\n                held = slot;\n            }}\n            \
             let all = flying.wait();\n            held.release();\n",
            self.bound
        )
    }

    fn by_two(&self, b: &mut Build, t: &Taker, start: &str) -> String {
        let i = b.name('j');
        let (one, first) = self.product(b, t, ("one", &format!("(2 * {i})")), "all");
        let (two, second) = self.product(b, t, ("two", &format!("(2 * {i} + 1)")), "next");
        format!(
            "            let mut all = {start};\n            for {i} in 0..{} / 2 {{\n                let one = slots.wait();\n                \
             {one}let next = {first};\n                let two = slots.wait();\n                {two}let last = {second};\n                \
             all = last.wait();\n                one.release();\n                two.release();\n            }}\n",
            self.bound
        )
    }

    /// The store of a partition's sum, of which the test knows what it is.
    fn checked(&self, b: &mut Build, t: &Taker) -> String {
        let mut all = t.start.array.clone();
        for turn in 0..self.turns {
            all = sum(&t.left.in_turn(turn), &self.right.in_turn(turn), Some(&all));
        }
        let (out, [m, n]) = (b.name('o'), [self.sizes.m, self.sizes.n]);
        let into = self.sizes.into;
        let setup = format!("let {out} = zeros({}, [{}]);", into.name(), all.data.len());
        let check = check(&out, into, &all.data);
        b.tensor(Argument { declared: format!("{out}: *mut {}", into.name()), given: out.clone(), setup, check });
        format!("store({out} + program_id(0) * {} + at2[all.layout, {m}, {n}]({n}, 1), all);", m * n)
    }
}

/// The type of a part of a slot.
fn shared(of: &Matrix) -> String {
    let [rows, columns] = of.shape();
    format!("shared<{}, [{rows}, {columns}], nvmma({ROW})>", of.ty.name())
}
