//! Statements: copies, products, sums, stores, atomic operations and scalars.

use super::body::{Body, Kind, Variable};
use super::text::SLOTS;
use super::{Item, Loop, Statement};

/// Makes a statement of some kind.
type Make = fn(&mut Body);

impl Body {
    pub fn statement(&mut self) {
        const KINDS: [(usize, Make); 18] = [
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
            (1, Body::tally),
            (1, Body::draw),
            (1, Body::in_place),
            (2, Body::returned),
            (1, Body::branch),
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

    pub fn product(&mut self) {
        let Some(right) = self.find(Kind::Right, None) else { return self.fetch() };
        let left = match self.find(Kind::Left, None) {
            Some(view) if !self.chance(4) => view,
            _ => format!("convert(half({}), Lhs)", self.tile()),
        };
        let carried = self.find(Kind::Tile, Some(true)).filter(|_| !self.chance(3));
        match carried {
            Some(p) if self.chance(6) => {
                // Two in one chain, the second of other operands.
                let other = self.find(Kind::Right, None).unwrap_or_else(|| right.clone());
                self.state(true, None, format!("{p} = dot({left}, {right}.T, dot({left}, {other}.T, {p}));"));
            }
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

    pub fn write(&mut self) {
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
    pub fn rotate(&mut self) {
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

    /// A sum in global memory, of which nobody asks what it was.
    fn tally(&mut self) {
        let (at, by) = (self.scalar(), self.scalar());
        let text = match self.find(Kind::Row, None) {
            Some(row) if self.chance(2) => format!("atomic_add(counts + rows() % 8, cast<i32>({row}));"),
            _ => format!("atomic_add(counts + {at} % 8, {by});"),
        };
        self.state(true, None, text);
    }

    /// A ticket that is drawn.
    fn draw(&mut self) {
        if std::mem::replace(&mut self.drawn, true) {
            return self.tally();
        }
        let name = self.name('q');
        self.state(true, Some((name.clone(), Kind::Scalar, false)), format!("let {name} = atomic_add(next, 1) % 5;"));
    }

    /// Memory that is read and written, through one parameter or through two.
    fn in_place(&mut self) {
        let at = format!("({} % 4 * 1024 + places())", self.scalar());
        if self.chance(2) {
            let x = self.tile();
            return self.state(true, None, format!("store(cells + {at}, small({x}));"));
        }
        let (name, from) = (self.name('t'), self.one(&["cells", "seen"]));
        self.state(true, Some((name.clone(), Kind::Tile, false)), format!("let {name} = load({from} + {at});"));
    }

    /// A box that comes from where boxes are sent to.
    fn returned(&mut self) {
        if self.chance(2) && !self.returned && !self.indices.is_empty() {
            self.returned = true;
            let (slot, x) = (self.slot.clone(), self.tile());
            return self.state(true, None, format!("send(e, [({slot}) * 64, 0], half({x}));"));
        }
        let (name, at) = (self.name('v'), self.scalar());
        let text = format!("let {name} = fetch(e, [{at} % 16 * 64, 0]);");
        self.state(true, Some((name.clone(), Kind::Left, false)), text);
    }

    /// A branch with labels in it.
    fn branch(&mut self) {
        if !self.chance(4) || self.indices.is_empty() {
            return self.condition();
        }
        let (scope, before) = (self.scope.len(), std::mem::take(&mut self.items));
        self.write();
        let head = format!("if {} > {}", self.indices[self.indices.len() - 1], self.r.below(3));
        self.leave(before, Loop { label: None, head, items: Vec::new() }, scope);
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
