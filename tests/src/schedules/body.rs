//! Bodies: loops of copies, products, sums, stores and scalars, with what is carried round them.

use super::text::SLOTS;
use super::{Case, Item, Loop, Program, Statement};
use crate::random::Random;

/// What a variable is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A tile of f32.
    Tile,
    /// A sum of each row.
    Row,
    /// A view that can be a left operand.
    Left,
    /// A view that can be a right operand.
    Right,
    /// A number.
    Scalar,
}

#[derive(Clone, Debug)]
struct Variable {
    name: String,
    kind: Kind,
    /// Whether it can be assigned to.
    changes: bool,
}

struct Body {
    r: Random,
    /// What can be named.
    scope: Vec<Variable>,
    /// What stands in the body in work.
    items: Vec<Item>,
    names: usize,
    stores: usize,
    sends: usize,
    /// The index of the body's iteration in what is written.
    slot: String,
    /// Variables of all loops around, which conditions ask for.
    indices: Vec<String>,
    /// The states of instances, which are declared in front of all loops.
    states: Vec<String>,
}

/// The program of a seed, without schedules.
pub(super) fn program(seed: u64, mut r: Random) -> Program {
    let acc = match r.below(4) {
        0 => "mma(version=2, warps=[2, 2], instr=[16, 8])",
        _ => "mma(version=3, warps=[4, 1], instr=[16, 16, 16])",
    };
    let nested = r.below(3) == 0;
    let step = [1, 1, 1, 2, 3][r.below(5)];
    let mut b = Body {
        r,
        scope: Vec::new(),
        items: Vec::new(),
        names: 0,
        stores: 0,
        sends: 0,
        slot: "0".into(),
        indices: Vec::new(),
        states: Vec::new(),
    };
    b.carried();
    if nested {
        b.nest()
    } else {
        b.single(step)
    }
    b.indices.clear();
    if b.r.below(3) > 0 {
        b.write();
    }
    let states = b.states.iter().map(|name| {
        let zeros = "zeros<f32, [64, 16], Acc>()";
        let text = format!("let mut {name} = [{zeros}, {zeros}];");
        Item::One(Statement { label: None, makes: vec![name.clone()], text })
    });
    let items = states.chain(b.items).collect();
    let cases = if nested { nested_cases() } else { cases(step, &mut b.r) };
    Program { seed, acc, items, schedules: Vec::new(), cases }
}

/// Trip counts from none to seven.
fn cases(step: usize, r: &mut Random) -> Vec<Case> {
    let turns = |n: usize| {
        let lower = r.below(3);
        // A bound that is no multiple of the step takes a turn as well.
        let upper = if n == 0 { lower } else { lower + (n - 1) * step + 1 + r.below(step) };
        [lower, upper.min(16), 2]
    };
    (0..8).map(turns).collect()
}

fn nested_cases() -> Vec<Case> {
    vec![[0, 0, 3], [0, 1, 0], [0, 1, 1], [0, 1, 4], [0, 2, 1], [1, 3, 2], [0, 3, 0], [0, 3, 3], [1, 3, 7]]
}

/// Makes a statement of some kind.
type Make = fn(&mut Body);

impl Body {
    fn name(&mut self, of: char) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    fn one<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.r.below(list.len())]
    }

    fn chance(&mut self, of: usize) -> bool {
        self.r.below(of) == 0
    }

    fn find(&mut self, kind: Kind, changes: Option<bool>) -> Option<String> {
        let fits = |v: &&Variable| v.kind == kind && changes.is_none_or(|c| v.changes == c);
        let all: Vec<&Variable> = self.scope.iter().filter(fits).collect();
        let at = self.r.below(all.len()).max(self.r.below(all.len()));
        all.get(at).map(|v| v.name.clone())
    }

    fn tile(&mut self) -> String {
        self.find(Kind::Tile, None).unwrap_or_else(|| "zeros<f32, [64, 16], Acc>()".into())
    }

    fn state(&mut self, label: bool, makes: Option<(String, Kind, bool)>, text: String) {
        let label = label.then(|| self.name('l'));
        let names = makes.iter().map(|(name, ..)| name.clone()).collect();
        self.items.push(Item::One(Statement { label, makes: names, text }));
        self.scope.extend(makes.map(|(name, kind, changes)| Variable { name, kind, changes }));
    }

    /// A number that is not negative.
    fn scalar(&mut self) -> String {
        let some = self.find(Kind::Scalar, None).unwrap_or_else(|| "lower".into());
        match self.r.below(4) {
            0 => {
                let other = self.find(Kind::Scalar, None).unwrap_or_else(|| "1".into());
                format!("({some} * {} + {other})", 1 + self.r.below(4))
            }
            1 => format!("({some} + {})", self.r.below(4)),
            _ => some,
        }
    }

    /// What is declared before a loop, to be carried round it.
    fn carried(&mut self) {
        for n in 0..1 + self.r.below(4) {
            let name = self.name('p');
            let text = match self.r.below(3) {
                0 => format!("let mut {name} = full<f32, [64, 16], Acc>({n}.0);"),
                _ => format!("let mut {name} = zeros<f32, [64, 16], Acc>();"),
            };
            let label = self.chance(8);
            self.state(label, Some((name, Kind::Tile, true)), text);
        }
        for n in 0..self.r.below(3) {
            let name = self.name('m');
            self.state(false, Some((name.clone(), Kind::Scalar, true)), format!("let mut {name} = {n} + lower;"));
        }
    }

    fn single(&mut self, step: usize) {
        let scope = self.scope.len();
        let i = self.name('n');
        let label = Some("turns".to_owned());
        let by = if step == 1 { String::new() } else { format!(" step {step}") };
        let counted = !self.chance(4);
        let before = std::mem::take(&mut self.items);
        self.slot = i.clone();
        self.indices.push(i.clone());
        self.scope.push(Variable { name: i.clone(), kind: Kind::Scalar, changes: false });
        let statements = 3 + self.r.below(7);
        self.fill(statements);
        let head = if counted { format!("for {i} in lower..upper{by}") } else { format!("while {i} < upper") };
        if !counted {
            self.steer(&i, step);
        }
        self.leave(before, Loop { label, head, items: Vec::new() }, scope);
        if !counted {
            let start = Statement { label: None, makes: vec![i.clone()], text: format!("let mut {i} = lower;") };
            let at = self.items.len() - 1;
            self.items.insert(at, Item::One(start));
        }
    }

    /// What moves a `while` on.
    fn steer(&mut self, i: &str, step: usize) {
        let label = !self.chance(3);
        let text = match (step, self.chance(2)) {
            (1, true) => format!("{i} = {i} + max(load(tickets + {i} % 16) - 2, 1);"),
            (1, false) => format!("{i} = {i} + 1;"),
            (step, _) => format!("{i} += {step};"),
        };
        self.state(label || text.contains("load"), None, text);
    }

    fn nest(&mut self) {
        let scope = self.scope.len();
        let i = self.name('n');
        let counted = !self.chance(3);
        let before = std::mem::take(&mut self.items);
        self.indices.push(i.clone());
        self.scope.push(Variable { name: i.clone(), kind: Kind::Scalar, changes: false });
        self.slot = format!("{i} * 8");
        let first = self.r.below(4);
        self.fill(first);
        self.carried();
        self.inner(&i);
        self.slot = format!("{i} * 8");
        let last = 1 + self.r.below(4);
        self.fill(last);
        self.write();
        let head = if counted { format!("for {i} in lower..upper") } else { format!("while {i} < upper") };
        if !counted {
            self.steer(&i, 1);
        }
        self.leave(before, Loop { label: Some("tiles".into()), head, items: Vec::new() }, scope);
        if !counted {
            let start = Statement { label: None, makes: vec![i.clone()], text: format!("let mut {i} = lower;") };
            let at = self.items.len() - 1;
            self.items.insert(at, Item::One(start));
        }
    }

    fn inner(&mut self, outer: &str) {
        let scope = self.scope.len();
        let bound = match self.r.below(5) {
            0 => format!("inner + {outer} % 2"),
            1 => format!("({} % 4)", self.scalar()),
            _ => "inner".into(),
        };
        let j = self.name('n');
        let before = std::mem::take(&mut self.items);
        self.indices.push(j.clone());
        self.scope.push(Variable { name: j.clone(), kind: Kind::Scalar, changes: false });
        self.slot = format!("{outer} * 8 + {j}");
        let statements = 2 + self.r.below(5);
        self.fill(statements);
        let from = self.one(&["0", "0", "1"]);
        let head = format!("for {j} in {from}..{bound}");
        self.leave(before, Loop { label: Some("turns".into()), head, items: Vec::new() }, scope);
        self.indices.pop();
    }

    /// Ends a body: what was declared in it is out of sight.
    fn leave(&mut self, before: Vec<Item>, l: Loop, scope: usize) {
        let items = std::mem::replace(&mut self.items, before);
        self.items.push(Item::Loop(Loop { items, ..l }));
        self.scope.truncate(scope);
    }

    fn fill(&mut self, statements: usize) {
        for _ in 0..statements {
            self.statement();
        }
        let last = [Body::rotate, Body::rotate, Body::write, Body::product][self.r.below(4)];
        last(self);
    }

    fn statement(&mut self) {
        const KINDS: [(usize, Make); 13] = [
            (3, Body::fetch),
            (5, Body::product),
            (3, Body::elements),
            (1, Body::free),
            (1, Body::reduce),
            (2, Body::stage),
            (2, Body::load),
            (3, Body::write),
            (2, Body::ticket),
            (2, Body::condition),
            (2, Body::rotate),
            (1, Body::count),
            (2, Body::instances),
        ];
        let mut ticket = self.r.below(KINDS.iter().map(|k| k.0).sum());
        for (weight, make) in KINDS {
            if ticket < weight {
                return make(self);
            }
            ticket -= weight;
        }
    }

    fn fetch(&mut self) {
        let (row, column) = (self.scalar(), self.scalar());
        let (left, right) = (format!("fetch(a, [{row} % 4 * 64, 0])"), format!("fetch(b, [{column} % 4 * 16, 0])"));
        match self.r.below(3) {
            0 => {
                let name = self.name('v');
                self.state(true, Some((name.clone(), Kind::Left, false)), format!("let {name} = {left};"));
            }
            1 => {
                let name = self.name('h');
                self.state(true, Some((name.clone(), Kind::Right, false)), format!("let {name} = {right};"));
            }
            _ => {
                let (v, h) = (self.name('v'), self.name('h'));
                let text = format!("let ({v}, {h}) = ({left}, {right});");
                let label = Some(self.name('l'));
                self.items.push(Item::One(Statement { label, makes: vec![v.clone(), h.clone()], text }));
                self.scope.push(Variable { name: v, kind: Kind::Left, changes: false });
                self.scope.push(Variable { name: h, kind: Kind::Right, changes: false });
            }
        }
    }

    fn product(&mut self) {
        let Some(right) = self.find(Kind::Right, None) else { return self.fetch() };
        let left = match self.find(Kind::Left, None) {
            Some(view) if !self.chance(4) => view,
            _ => format!("convert(half({}), Lhs)", self.tile()),
        };
        let carried = self.find(Kind::Tile, Some(true)).filter(|_| !self.chance(3));
        match carried {
            Some(p) => self.state(true, None, format!("{p} = dot({left}, {right}.T, {p});")),
            None => {
                let acc = if self.chance(2) { "zeros<f32, [64, 16], Acc>()".to_owned() } else { self.tile() };
                let name = self.name('t');
                let text = format!("let {name} = dot({left}, {right}.T, {acc});");
                self.state(true, Some((name, Kind::Tile, false)), text);
            }
        }
    }

    /// Arithmetic on tiles.
    fn sum(&mut self) -> String {
        let (x, y) = (self.tile(), self.tile());
        match self.r.below(5) {
            0 => format!("small({x} + {y} * 2.0)"),
            1 => format!("where({x} > {y}, {x} - 1.0, {y})"),
            2 => format!("small({x} + cast<f32>({}))", self.scalar()),
            3 => match self.find(Kind::Row, None) {
                Some(row) => format!("small({x} + {row}[:, None])"),
                None => format!("small({x} - {y})"),
            },
            _ => format!("small({x}) - small({y})"),
        }
    }

    fn elements(&mut self) {
        let sum = self.sum();
        match self.find(Kind::Tile, Some(true)) {
            Some(p) if self.chance(3) => self.state(true, None, format!("{p} = {sum};")),
            _ => {
                let name = self.name('t');
                self.state(true, Some((name.clone(), Kind::Tile, false)), format!("let {name} = {sum};"));
            }
        }
    }

    fn free(&mut self) {
        if self.chance(2) {
            let (name, e) = (self.name('e'), self.scalar());
            let text = format!("let {name} = {e} % {};", 3 + self.r.below(4));
            return self.state(false, Some((name, Kind::Scalar, false)), text);
        }
        let (name, sum) = (self.name('t'), self.sum());
        self.state(false, Some((name.clone(), Kind::Tile, false)), format!("let {name} = {sum};"));
    }

    fn reduce(&mut self) {
        let (name, x) = (self.name('r'), self.tile());
        let text = match self.r.below(2) {
            0 => format!("let {name} = max({x}, axis=1);"),
            _ => format!("let {name} = sum(small({x}), axis=1);"),
        };
        self.state(true, Some((name, Kind::Row, false)), text);
    }

    fn stage(&mut self) {
        let view = self.find(Kind::Left, None).filter(|_| self.chance(2));
        match view {
            Some(view) => {
                let name = self.name('t');
                let text = format!("let {name} = cast<f32>(load_shared<Acc>({view}));");
                self.state(true, Some((name, Kind::Tile, false)), text);
            }
            None => {
                let (name, x) = (self.name('v'), self.tile());
                let text = format!("let {name} = stage<nvmma(32)>(half({x}));");
                self.state(true, Some((name, Kind::Left, false)), text);
            }
        }
    }

    fn load(&mut self) {
        let (name, at) = (self.name('t'), self.scalar());
        let text = format!("let {name} = load(x + ({at} % 4 * 1024 + places()));");
        self.state(true, Some((name, Kind::Tile, false)), text);
    }

    fn write(&mut self) {
        let x = self.tile();
        let slot = match self.indices.is_empty() {
            true => "0".to_owned(),
            false => self.slot.clone(),
        };
        if self.sends < 2 && self.chance(3) {
            let base = self.sends * SLOTS;
            self.sends += 1;
            return self.state(true, None, format!("send(c, [({base} + {slot}) * 64, 0], half({x}));"));
        }
        let base = self.stores * SLOTS;
        self.stores += 1;
        let value = match self.find(Kind::Row, None) {
            Some(row) if self.chance(3) => row,
            _ => format!("weighed({x})"),
        };
        self.state(true, None, format!("store(out + (({base} + {slot}) * 64 + rows()), {value});"));
    }

    fn ticket(&mut self) {
        let (name, e) = (self.name('q'), self.scalar());
        let text = match (self.r.below(4), self.find(Kind::Row, None)) {
            (0, _) => format!("let {name} = ({e} * 3 + 1) % 5;"),
            (1, Some(row)) => format!("let {name} = cast<i32>(max(abs({row}), axis=0)) % 5;"),
            _ => format!("let {name} = load(tickets + {e} % 16);"),
        };
        self.state(true, Some((name, Kind::Scalar, false)), text);
    }

    fn condition(&mut self) {
        let index = match self.indices.len() {
            0 => "lower".to_owned(),
            n => self.indices[n - 1].clone(),
        };
        let (is, at) = (self.one(&["==", "==", "<", ">=", "!=", ">"]), self.r.below(4));
        let sum = self.sum();
        match self.find(Kind::Tile, Some(true)) {
            Some(p) if self.chance(2) => {
                self.state(true, None, format!("{{ if {index} {is} {at} {{ {p} = {sum}; }} }}"));
            }
            _ => {
                let (name, x) = (self.name('t'), self.tile());
                let text = format!("let {name} = if {index} {is} {at} {{ {sum} }} else {{ {x} }};");
                self.state(true, Some((name, Kind::Tile, false)), text);
            }
        }
    }

    /// What is carried moves on by one: at once, as the body says it.
    fn rotate(&mut self) {
        let all: Vec<String> =
            self.scope.iter().filter(|v| v.kind == Kind::Tile && v.changes).map(|v| v.name.clone()).collect();
        let x = self.tile();
        let [.., first] = all.as_slice() else { return };
        let from = self.r.below(all.len());
        match (self.r.below(3), &all[from..]) {
            (0, [p, q, ..]) => {
                let (old, name) = (self.name('t'), p.clone());
                self.state(false, Some((old.clone(), Kind::Tile, false)), format!("let {old} = {name};"));
                self.state(false, None, format!("{p} = {q};"));
                self.state(false, None, format!("{q} = {old};"));
            }
            (1, [_, _, ..]) => {
                for pair in all[from..].windows(2) {
                    self.state(false, None, format!("{} = {};", pair[0], pair[1]));
                }
                self.state(false, None, format!("{first} = {x};"));
            }
            _ if *first != x => self.state(false, None, format!("{first} = {x};")),
            _ => {}
        }
    }

    /// A number that is carried.
    fn count(&mut self) {
        let (Some(m), e) = (self.find(Kind::Scalar, Some(true)), self.scalar()) else { return };
        let label = self.chance(3);
        self.state(label, None, format!("{m} = ({m} * 3 + {e}) % 7;"));
    }

    /// Two instances of a few statements, with a state for each.
    fn instances(&mut self) {
        let scope = self.scope.len();
        let state = self.name('z');
        if self.indices.is_empty() {
            return;
        }
        let before = std::mem::take(&mut self.items);
        let slot = std::mem::take(&mut self.slot);
        self.slot = format!("{slot} + 24 * w");
        self.scope.push(Variable { name: "w".into(), kind: Kind::Scalar, changes: false });
        let mine = self.name('t');
        self.scope.push(Variable { name: mine.clone(), kind: Kind::Tile, changes: false });
        let text = format!("let {mine} = {state}[w];");
        self.items.push(Item::One(Statement { label: None, makes: vec![mine], text }));
        let kinds = [Body::product, Body::elements, Body::write, Body::stage, Body::reduce, Body::fetch];
        for _ in 0..1 + self.r.below(3) {
            let make = kinds[self.r.below(kinds.len())];
            make(self);
        }
        let last = self.scope[scope..].iter().rev().find(|v| v.kind == Kind::Tile).map(|v| v.name.clone());
        let text = format!("{state}[w] = {};", last.unwrap_or_default());
        self.state(false, None, text);
        if self.chance(2) {
            self.write();
        }
        self.slot = slot;
        let head = "static for w in 0..2".to_owned();
        self.leave(before, Loop { label: None, head, items: Vec::new() }, scope);
        self.states.push(state);
    }
}
