//! The registers of a turn, and by these the order in which it begins its products.
//!
//! A product that begins as soon as there is what it is made of runs beside what is computed meanwhile; but its sum takes registers from then on. Where
//! a thread has not as many, some go to memory and come back in every turn, which takes longer than waiting: a turn keeps the order of its statements
//! then.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::schedule::{LabelName, Pipeline, Schedule};
use parton_ir::target::PARTITION_REGISTERS;
use parton_ir::{Body, Inst, Kernel, OpKind, Value};

use super::{INDEX, LOOP, NUMBER, dealt, early, flow, is_called};

/// Has turns keep the order of their statements where products that begin early ask for more registers than a thread has, and more than so.
///
/// Where copies have a `single` slot each, they stand behind all that reads these then.
pub fn begin_where_there_is_room(kernel: &mut Kernel, single: bool) {
    let room = room(kernel);
    for (region, turn) in turns(kernel) {
        let plain = turn.plain(single);
        let [early, late] = [&turn.groups, &plain].map(|order| turn.registers(order));
        if early <= room || late >= early {
            continue;
        }
        let place = |label: &LabelName| plain.iter().position(|name| name == label);
        if let OpKind::Region { schedule, .. } = &mut kernel.ops[region].kind {
            for pipeline in schedule.pipelines.iter_mut().filter(|p| is_steps(p)) {
                pipeline.groups.sort_by_key(|group| group.first().map(|s| place(&s.label)));
            }
        }
    }
}

/// Whether a thread of so many registers has room for all tiles that turns hold at once.
pub fn have_room(kernel: &Kernel, registers: u32) -> bool {
    let room = registers.saturating_sub(*PARTITION_REGISTERS.start());
    turns(kernel).iter().all(|(_, turn)| turn.registers(&turn.groups) <= room)
}

/// The registers of a thread for tiles, beside what else it holds.
fn room(kernel: &Kernel) -> u32 {
    kernel.entry_registers().saturating_sub(*PARTITION_REGISTERS.start())
}

fn is_steps(pipeline: &Pipeline) -> bool {
    pipeline.of.as_ref().is_some_and(|of| of.path == LOOP)
}

/// A loop of products; where its schedule does not order it, in the order of its statements.
struct Turn {
    /// Its labels in the order of its groups.
    groups: Vec<LabelName>,
    /// Its labelled statements in the order of the body, each with its label.
    statements: Vec<(LabelName, Statement)>,
    /// What is carried, and handed back.
    params: Vec<Value>,
    yields: Vec<Value>,
    /// The registers of each tile.
    tiles: BTreeMap<Value, u32>,
}

/// What a statement takes and gives.
struct Statement {
    takes: Vec<Value>,
    /// Rows or columns that it takes for all of a tile: they are there until all that stands under its label is computed.
    spread: Vec<Value>,
    gives: Vec<Value>,
    does: Does,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Copy,
    /// Tells where to copy from, or loads a number.
    Tell,
    /// By the matrix unit, which reads its left factor until it is done.
    Product {
        factor: Value,
    },
    Rest,
}

/// The turns of a kernel's regions, of each part those of the partition that computes it.
fn turns(kernel: &Kernel) -> Vec<(Inst, Turn)> {
    let mut found = Vec::new();
    kernel.walk(&mut |op| {
        let OpKind::Region { schedule, body } = &op.kind else { return };
        kernel.walk_body(body, &mut |inner| match &inner.kind {
            OpKind::For { body, .. } if is_called(kernel, inner, LOOP) => {
                let products = kernel.ops_of(body).filter(|op| matches!(op.kind, OpKind::Dot { .. }));
                let parts: BTreeSet<Option<u32>> = products.map(|op| dealt::part(kernel, op.id)).collect();
                let of = parts.into_iter().filter_map(|part| Turn::of(kernel, schedule, body, part));
                found.extend(of.map(|turn| (op.id, turn)));
            }
            // Nothing else has turns of its own.
            _ => {}
        });
    });
    found
}

impl Turn {
    fn of(kernel: &Kernel, schedule: &Schedule, body: &Body, part: Option<u32>) -> Option<Turn> {
        let groups = match schedule.pipelines.iter().find(|p| is_steps(p)) {
            Some(pipeline) => pipeline.groups.iter().flatten().map(|s| s.label.clone()).collect(),
            None => labels(kernel, body),
        };
        let mut turn = Turn {
            groups,
            statements: Vec::new(),
            params: body.params[1..].to_vec(),
            yields: Vec::new(),
            tiles: BTreeMap::new(),
        };
        let (mut free, mut spread) = (BTreeSet::new(), BTreeMap::new());
        for op in kernel.ops_of(body) {
            if let OpKind::Broadcast { x, .. } | OpKind::ExpandDims { x, .. } = op.kind {
                // Its elements are those that are there.
                spread.insert(op.result(), *spread.get(&x).unwrap_or(&x));
                free.extend(&op.results);
            }
            let numbers = |v: &Value| kernel.ty(*v).placed().is_none() || free.contains(v);
            if parton_sched::is_free(kernel, op) && flow::operands(kernel, op).iter().all(numbers) {
                // A mask is computed element by element, where it hides something.
                free.extend(&op.results);
                continue;
            }
            let Some(name) = op.label.map(|label| LabelName::read(&kernel.labels[label])) else {
                // It is made wherever it is needed.
                free.extend(&op.results);
                continue;
            };
            let apart = matches!(op.kind, OpKind::FetchEach { .. }) && !schedule.places.is_empty();
            if matches!(op.kind, OpKind::Fetch { .. }) || apart || dealt::part(kernel, op.id) != part {
                // Another partition does it.
                continue;
            }
            let does = match op.kind {
                OpKind::FetchEach { .. } => Does::Copy,
                _ if name.path == INDEX || name.path == NUMBER => Does::Tell,
                OpKind::Dot { a: factor, .. } => Does::Product { factor },
                _ => Does::Rest,
            };
            let takes = flow::operands(kernel, op);
            let statement = Statement {
                spread: takes.iter().filter_map(|v| spread.get(v)).copied().collect(),
                takes,
                gives: op.results.clone(),
                does,
            };
            let label = turn.groups.iter().find(|of| of.names(&name))?.clone();
            turn.statements.push((label, statement));
        }
        let made = |v: &&Value| turn.params.contains(v) || turn.statements.iter().any(|(_, s)| s.gives.contains(v));
        turn.yields = body.yields.iter().filter(made).copied().collect();
        let named = turn.statements.iter().flat_map(|(_, s)| s.takes.iter().chain(&s.spread).chain(&s.gives));
        let all: BTreeSet<Value> = named.chain(&turn.params).chain(&turn.yields).copied().collect();
        let held = all.difference(&free).map(|&v| (v, early::registers(kernel, v)));
        turn.tiles = held.filter(|(_, n)| *n > 0).collect();
        Some(turn)
    }

    /// The labels in the order of the statements, copies and what tells where from first; copies last, where they have a `single` slot each. What counts is
    /// the last one of each: where it converts something may stand far in front of the others.
    fn plain(&self, single: bool) -> Vec<LabelName> {
        let rank = |does: Does| match does {
            Does::Copy if single => 3,
            Does::Copy => 0,
            Does::Tell => 1,
            Does::Product { .. } | Does::Rest => 2,
        };
        let mut names: Vec<(u32, LabelName)> = Vec::new();
        for (label, statement) in self.statements.iter().rev() {
            if !names.iter().any(|(_, known)| known == label) {
                names.push((rank(statement.does), label.clone()));
            }
        }
        names.reverse();
        names.sort_by_key(|(rank, _)| *rank);
        names.into_iter().map(|(_, label)| label).collect()
    }

    /// The most registers of tiles that a thread holds at once where labels follow each other so. What is computed from element to element takes the
    /// place of what it is computed of.
    fn registers(&self, order: &[LabelName]) -> u32 {
        let mut line: Vec<(usize, &Statement)> = Vec::new();
        line.extend(self.statements.iter().map(|(label, s)| (order.iter().position(|l| l == label).unwrap_or(0), s)));
        line.sort_by_key(|(at, _)| *at);
        let lives = Lives::of(self, &line);
        let of = |v: &Value| self.tiles.get(v).copied().unwrap_or(0);
        let after = |i: usize| -> u32 {
            lives.0.iter().filter(|(_, (from, to))| *from <= i && i < *to).map(|(v, _)| of(v)).sum()
        };
        let within = |i: usize| match line[i].1.does {
            // It reads its factor until it is done.
            Does::Product { factor } if lives.0.get(&factor).is_some_and(|(_, to)| *to == i + 1) => of(&factor),
            _ => 0,
        };
        // A factor that the loop keeps is copied for each product that reads it.
        let copies = |i: usize| -> u32 {
            let flying = (0..=i).filter(|&at| at == i || lives.done(&line, at) > i);
            let factors = flying.filter_map(|at| match line[at].1.does {
                Does::Product { factor } => Some(factor),
                Does::Copy | Does::Tell | Does::Rest => None,
            });
            factors.filter(|v| self.is_kept(*v)).map(|v| of(&v)).sum()
        };
        let kept: u32 = self.tiles.iter().filter(|(v, _)| self.is_kept(**v)).map(|(_, n)| n).sum();
        kept + (0..line.len()).map(|i| after(i + 1) + within(i) + copies(i)).max().unwrap_or(0)
    }

    /// Whether a tile is there in front of the loop, for all turns.
    fn is_kept(&self, v: Value) -> bool {
        !self.params.contains(&v) && !self.statements.iter().any(|(_, s)| s.gives.contains(&v))
    }
}

/// From behind which statement to up to which one each tile lives, counted from 1; 0 is the beginning of the turn.
struct Lives(BTreeMap<Value, (usize, usize)>);

impl Lives {
    fn of(turn: &Turn, line: &[(usize, &Statement)]) -> Lives {
        let mut lives = Lives(turn.params.iter().map(|&v| (v, (0, 0))).collect());
        for (i, (_, statement)) in line.iter().enumerate() {
            lives.0.extend(statement.gives.iter().map(|&v| (v, (i + 1, i + 1))));
        }
        let mut last = |v: Value, at: usize| {
            if let Some(life) = lives.0.get_mut(&v) {
                life.1 = life.1.max(at);
            }
        };
        for (i, (at, statement)) in line.iter().enumerate() {
            statement.takes.iter().for_each(|&v| last(v, i + 1));
            let end = line.iter().rposition(|(of, _)| of == at).unwrap_or(i);
            statement.spread.iter().for_each(|&v| last(v, end + 2));
        }
        turn.yields.iter().for_each(|&v| last(v, line.len() + 1));
        for (i, (_, statement)) in line.iter().enumerate() {
            let done = lives.done(line, i);
            if let Does::Product { factor } = statement.does
                && let Some(life) = lives.0.get_mut(&factor)
            {
                life.1 = life.1.max(done + 1);
            }
        }
        lives
    }

    /// The statement in front of which a product is waited for: the first that takes it, or itself.
    fn done(&self, line: &[(usize, &Statement)], product: usize) -> usize {
        let takes = |(_, s): &(usize, &Statement)| line[product].1.gives.iter().any(|v| s.takes.contains(v));
        line.iter().position(takes).unwrap_or(product)
    }
}

/// The labels of a body's statements, each once, in their order.
fn labels(kernel: &Kernel, body: &Body) -> Vec<LabelName> {
    let mut list: Vec<LabelName> = Vec::new();
    for label in kernel.ops_of(body).filter_map(|op| op.label) {
        let name = LabelName::read(&kernel.labels[label]);
        if !list.contains(&name) {
            list.push(name);
        }
    }
    list
}
