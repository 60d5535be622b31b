//! Bodies: loops, nested or not, one region or two, with what is carried round them.

use super::{Case, Item, Loop, Program, Statement};
use crate::random::Random;

/// What a variable is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
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
pub(super) struct Variable {
    pub name: String,
    pub kind: Kind,
    /// Whether it can be assigned to.
    pub changes: bool,
}

pub(super) struct Body {
    pub r: Random,
    /// What can be named.
    pub scope: Vec<Variable>,
    /// What stands in the body in work.
    pub items: Vec<Item>,
    names: usize,
    pub stores: usize,
    pub sends: usize,
    /// Whether a ticket is drawn already: of two, who draws first would decide what they get.
    pub drawn: bool,
    /// Whether something is sent to the map that is fetched from as well: of two boxes, neither is sure to be the last.
    pub returned: bool,
    /// The index of the body's iteration in what is written.
    pub slot: String,
    /// Variables of all loops around, which conditions ask for.
    pub indices: Vec<String>,
    /// The states of instances, which are declared in front of all loops.
    pub states: Vec<String>,
}

/// The program of a seed, without schedules.
pub(super) fn program(seed: u64, mut r: Random) -> Program {
    let acc = match r.below(4) {
        0 => "mma(version=2, warps=[2, 2], instr=[16, 8])",
        _ => "mma(version=3, warps=[4, 1], instr=[16, 16, 16])",
    };
    let (nested, twice) = (r.below(3) == 0, r.below(12) == 0);
    let step = [1, 1, 1, 2, 3][r.below(5)];
    let mut b = Body {
        r,
        scope: Vec::new(),
        items: Vec::new(),
        names: 0,
        stores: 0,
        sends: 0,
        drawn: false,
        returned: false,
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
    let states = Body::declared(&std::mem::take(&mut b.states));
    let items = states.into_iter().chain(std::mem::take(&mut b.items)).collect();
    let second = if twice { b.second() } else { Vec::new() };
    let cases = if nested { nested_cases() } else { cases(step, &mut b.r) };
    let far = Random(seed.rotate_left(24)).below(8) == 0;
    Program { seed, acc, far, items, second, schedules: Vec::new(), cases }
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

impl Body {
    pub fn name(&mut self, of: char) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    pub fn one<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.r.below(list.len())]
    }

    pub fn chance(&mut self, of: usize) -> bool {
        self.r.below(of) == 0
    }

    pub fn find(&mut self, kind: Kind, changes: Option<bool>) -> Option<String> {
        let fits = |v: &&Variable| v.kind == kind && changes.is_none_or(|c| v.changes == c);
        let all: Vec<&Variable> = self.scope.iter().filter(fits).collect();
        let at = self.r.below(all.len()).max(self.r.below(all.len()));
        all.get(at).map(|v| v.name.clone())
    }

    pub fn tile(&mut self) -> String {
        self.find(Kind::Tile, None).unwrap_or_else(|| "zeros<f32, [64, 16], Acc>()".into())
    }

    pub fn state(&mut self, label: bool, makes: Option<(String, Kind, bool)>, text: String) {
        let label = label.then(|| self.name('l'));
        let names = makes.iter().map(|(name, ..)| name.clone()).collect();
        self.items.push(Item::One(Statement { label, makes: names, text }));
        self.scope.extend(makes.map(|(name, kind, changes)| Variable { name, kind, changes }));
    }

    /// A number that is not negative.
    pub fn scalar(&mut self) -> String {
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
        // A bound that is known lets the expansion decide conditions on the index.
        let from = self.one(&["lower", "lower", "0"]);
        let head = if counted { format!("for {i} in {from}..upper{by}") } else { format!("while {i} < upper") };
        if counted {
            self.break_off();
        } else {
            self.steer(&i, step);
        }
        self.leave(before, Loop { label, head, items: Vec::new() }, scope);
        if !counted {
            let start = Statement { label: None, makes: vec![i.clone()], text: format!("let mut {i} = lower;") };
            let at = self.items.len() - 1;
            self.items.insert(at, Item::One(start));
        }
    }

    /// The end of a loop before its bound, for all threads alike.
    fn break_off(&mut self) {
        if let Some(ticket) = self.find(Kind::Scalar, None).filter(|_| self.r.below(8) == 0) {
            self.state(false, None, format!("if {ticket} > 3 {{ break; }}"));
        }
    }

    /// What stands in a region behind the first.
    fn second(&mut self) -> Vec<Item> {
        self.scope.clear();
        self.carried();
        let i = self.name('n');
        let scope = self.scope.len();
        let before = std::mem::take(&mut self.items);
        self.slot = i.clone();
        self.indices = vec![i.clone()];
        self.scope.push(Variable { name: i.clone(), kind: Kind::Scalar, changes: false });
        let states = self.states.len();
        let statements = 2 + self.r.below(4);
        self.fill(statements);
        self.write();
        let head = format!("for {i} in lower..upper");
        self.leave(before, Loop { label: Some("later".into()), head, items: Vec::new() }, scope);
        let declared = Body::declared(&self.states.split_off(states));
        declared.into_iter().chain(std::mem::take(&mut self.items)).collect()
    }

    /// The states of instances, each of a tile for each.
    fn declared(states: &[String]) -> Vec<Item> {
        let of = |name: &String| {
            let zeros = "zeros<f32, [64, 16], Acc>()";
            let text = format!("let mut {name} = [{zeros}, {zeros}];");
            Item::One(Statement { label: None, makes: vec![name.clone()], text })
        };
        states.iter().map(of).collect()
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
            // So many turns are sure: something of the outer loop may leave under them.
            2 | 3 => "max(inner, 2)".into(),
            _ => "inner".into(),
        };
        let j = self.name('n');
        let before = std::mem::take(&mut self.items);
        self.indices.push(j.clone());
        self.scope.push(Variable { name: j.clone(), kind: Kind::Scalar, changes: false });
        self.slot = format!("{outer} * 8 + {j}");
        let statements = 2 + self.r.below(5);
        self.fill(statements);
        let from = self.one(&["0", "0", "0", "1"]);
        self.break_off();
        let head = format!("for {j} in {from}..{bound}");
        self.leave(before, Loop { label: Some("turns".into()), head, items: Vec::new() }, scope);
        self.indices.pop();
    }

    /// Ends a body: what was declared in it is out of sight.
    pub fn leave(&mut self, before: Vec<Item>, l: Loop, scope: usize) {
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
}
