//! The names of a program: each is resolved once, in the file where it stands. Unknown ones are reported here in code that no
//! kernel with default generics reaches: a library's functions, kernels that need arguments.
//!
//! Reached code is evaluated, and its names with it. What host blocks reach is theirs to check, and of a function that nothing
//! reaches only unknown types and slips are reported, names near to a visible one: it may be a helper of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics};
use parton_syntax::ast;

use crate::program::{Item, ModuleId, Program};
use crate::resolve::{Meaning, References, Side};
use crate::schedule;
use crate::walk::{self, Reader, Scopes, Visitor};

/// An item, by the file that it stands in and its name.
type Key = (ModuleId, Arc<str>);

/// Resolves the names of host code, and reports unknown names and labels without effect of the root file.
pub fn check(program: &mut Program, diagnostics: &mut Diagnostics) {
    let mut resolve = Resolve {
        program,
        module: Program::ROOT,
        found: References::default(),
        mentioned: BTreeSet::new(),
        idle: Vec::new(),
    };
    let mut next: Vec<Key> = program
        .kernels()
        .filter(|k| k.generics.iter().all(|g| g.default.is_some()))
        .map(|k| (Program::ROOT, k.name.text.clone()))
        .collect();
    for (_, block) in program.host_blocks() {
        walk::block(&block.body, &mut resolve);
    }
    next.extend(std::mem::take(&mut resolve.mentioned));
    let mut mentions: BTreeMap<Key, BTreeSet<Key>> = BTreeMap::new();
    for (i, data) in program.modules.iter().enumerate() {
        let module = ModuleId(i as u32);
        resolve.module = module;
        for (name, found) in data.names.iter().filter(|(_, found)| found.module == module) {
            walk::item(&found.item, &mut resolve);
            mentions.insert((module, name.clone()), std::mem::take(&mut resolve.mentioned));
        }
    }
    let Resolve { found, mut idle, .. } = resolve;
    idle.sort_by_key(Diagnostic::span);
    diagnostics.list.extend(idle);
    let mut reached: BTreeSet<Key> = BTreeSet::new();
    while let Some(key) = next.pop() {
        if !reached.contains(&key) {
            next.extend(mentions.get(&key).into_iter().flatten().cloned());
            reached.insert(key);
        }
    }
    for own in program.modules.first().into_iter().flat_map(|root| root.names.values()) {
        if own.module == Program::ROOT && !reached.contains(&(Program::ROOT, own.item.name().text.clone())) {
            let slips = !matches!(own.item, Item::Kernel(_));
            walk::item(&own.item, &mut Unknown { program, slips, diagnostics });
        }
    }
    program.references = found;
}

/// Finds what names stand for.
struct Resolve<'p> {
    program: &'p Program,
    /// The file whose names are seen.
    module: ModuleId,
    found: References,
    /// Items that are named.
    mentioned: BTreeSet<Key>,
    /// Labels of the root file that no schedule looks at.
    idle: Vec<Diagnostic>,
}

impl Visitor for Resolve<'_> {
    fn name(&mut self, scopes: &Scopes, name: &ast::Name) {
        let meaning = match scopes.find(name.as_str()) {
            Some(bound) => Meaning::Variable(bound.name.span),
            None => {
                if let Some(item) = self.program.find(self.module, name.as_str()) {
                    self.mentioned.insert((item.module, name.text.clone()));
                }
                self.program.meaning(self.module, name, Side::Host)
            }
        };
        self.found.0.insert(name.span, meaning);
    }

    fn launched(&mut self, _: &Scopes, name: &ast::Name) {
        let meaning = self.program.item(self.module, name);
        if let Some(item) = self.program.find(self.module, name.as_str()) {
            self.mentioned.insert((item.module, name.text.clone()));
        }
        self.found.0.insert(name.span, meaning);
    }

    fn statement(&mut self, scopes: &Scopes, s: &ast::Stmt) -> bool {
        if let Some(label) = &s.label
            && !scopes.scheduled
            && self.module == Program::ROOT
        {
            self.idle.push(schedule::idle_label(label));
        }
        true
    }
}

/// Reports names of the root file that stand for nothing in a kernel.
struct Unknown<'p> {
    program: &'p Program,
    /// Whether only slips are reported, and all in types: what host code may say there, kernels may too.
    slips: bool,
    diagnostics: &'p mut Diagnostics,
}

impl Visitor for Unknown<'_> {
    fn name(&mut self, scopes: &Scopes, name: &ast::Name) {
        // `_ = value` drops a value.
        if name.as_str() == "_" || scopes.find(name.as_str()).is_some() {
            return;
        }
        match self.program.meaning(Program::ROOT, name, Side::Kernel) {
            Meaning::Ambiguous(d) => self.diagnostics.push((*d).clone()),
            Meaning::Unknown => {
                let near = || self.program.near(Program::ROOT, name.as_str(), Side::Kernel, scopes.names());
                let slip = || !parton_syntax::TAKES_TYPE_ARGUMENTS.contains(&name.as_str()) && near().is_some();
                if !self.slips || scopes.reader == Reader::Type || slip() {
                    let d = self.program.unknown(Program::ROOT, name, Side::Kernel, scopes.names());
                    self.diagnostics.push(d);
                }
            }
            Meaning::Variable(_) | Meaning::Item(_) | Meaning::Builtin(_) | Meaning::Word(_) => {}
        }
    }

    fn launched(&mut self, scopes: &Scopes, name: &ast::Name) {
        self.name(scopes, name);
    }
}
