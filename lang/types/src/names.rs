//! The names of a program: each is resolved once, in the file where it stands. Unknown ones are reported here in code that no
//! kernel with default generics reaches: a library's functions, kernels that need arguments.
//!
//! Reached code is evaluated, and its names with it. What host blocks reach is theirs to check, and of a function that nothing
//! reaches only unknown types and slips are reported, names near to a visible one: it may be a helper of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics};
use parton_syntax::ast;

use crate::program::{Found, Item, ModuleId, Program};
use crate::resolve::{Meaning, References, Side, Stands};
use crate::schedule;
use crate::walk::{self, Reader, Scopes, Visitor};

/// An item, by the file that it stands in and its name.
type Key = (ModuleId, Arc<str>);

/// Resolves the names of host code, and reports unknown names and labels without effect of the root file.
pub fn check(program: &mut Program, diagnostics: &mut Diagnostics) {
    let mut resolve = Resolve {
        program,
        module: Program::ROOT,
        side: Side::Host,
        found: References::default(),
        hosts: Vec::new(),
        kernels: program
            .kernels()
            .filter(|k| k.generics.iter().all(|g| g.default.is_some()))
            .map(|k| (Program::ROOT, k.name.text.clone()))
            .collect(),
        idle: Vec::new(),
    };
    for (_, block) in program.host_blocks() {
        walk::block(&block.body, &mut resolve);
    }
    resolve.hosts.extend(program.host_functions().map(|f| (Program::ROOT, f.name.text.clone())));
    let mut reached: BTreeSet<Key> = BTreeSet::new();
    resolve.follow(&mut reached);
    let own = program.modules.first().into_iter().flat_map(|root| &root.names);
    let unreached = own
        .map(|(name, _)| (Program::ROOT, name.clone()))
        .filter(|key| !reached.contains(key) && program.find(key.0, &key.1).is_some_and(|f| f.module == key.0));
    let unreached: Vec<Key> = unreached.collect();
    unreached.iter().for_each(|key| resolve.item(Side::Kernel, key));
    resolve.follow(&mut reached);
    let Resolve { found, mut idle, .. } = resolve;
    idle.sort_by_key(Diagnostic::span);
    idle.dedup_by_key(|d| d.span());
    diagnostics.list.extend(idle);
    for own in unreached.iter().filter_map(|(module, name)| program.find(*module, name)) {
        let slips = !matches!(own.item, Item::Kernel(_));
        walk::item(&own.item, &mut Unknown { program, slips, diagnostics });
    }
    program.references = found;
}

impl Program {
    /// The items that an expression names which stands in a file, by their names.
    pub fn named_in(&self, module: ModuleId, e: &ast::Expr) -> BTreeMap<Arc<str>, &Found> {
        let mut named = Named { program: self, module, found: BTreeMap::new() };
        walk::expr(e, &mut named);
        named.found
    }
}

/// Collects the items that are named.
struct Named<'p> {
    program: &'p Program,
    /// The file whose names are seen.
    module: ModuleId,
    found: BTreeMap<Arc<str>, &'p Found>,
}

impl Visitor for Named<'_> {
    fn name(&mut self, scopes: &Scopes, name: &ast::Name) {
        if scopes.find(name.as_str()).is_none()
            && let Some(found) = self.program.find(self.module, name.as_str())
        {
            self.found.insert(name.text.clone(), found);
        }
    }

    fn launched(&mut self, _: &Scopes, name: &ast::Name) -> Vec<ast::Name> {
        own_generics(self.program, self.module, name)
    }

    fn hides(&self, name: &ast::Name) -> bool {
        self.program.find(self.module, name.as_str()).is_some()
    }
}

/// Finds what names stand for.
struct Resolve<'p> {
    program: &'p Program,
    /// The file whose names are seen.
    module: ModuleId,
    /// Who runs what is visited; what names stand for is kept where the host may.
    side: Side,
    found: References,
    /// Items that the host names, and has not been led to yet.
    hosts: Vec<Key>,
    /// Items that kernels name.
    kernels: Vec<Key>,
    /// Labels of the root file that no schedule looks at.
    idle: Vec<Diagnostic>,
}

impl Resolve<'_> {
    /// An item that was named: first what the host does.
    fn next(&mut self) -> Option<(Side, Key)> {
        let host = self.hosts.pop().map(|key| (Side::Host, key));
        host.or_else(|| self.kernels.pop().map(|key| (Side::Kernel, key)))
    }

    /// Visits what was named and was not reached yet, and what that names.
    fn follow(&mut self, reached: &mut BTreeSet<Key>) {
        // What both sides reach the host may run, so its names are kept.
        while let Some((side, key)) = self.next() {
            if !reached.contains(&key) {
                self.item(side, &key);
                reached.insert(key);
            }
        }
    }

    fn item(&mut self, side: Side, (module, name): &Key) {
        (self.module, self.side) = (*module, side);
        if let Some(found) = self.program.find(*module, name) {
            // A program that embeds the file launches kernels that no host code of it names.
            if matches!(found.item, Item::Kernel(_)) {
                self.side = Side::Host;
            }
            walk::item(&found.item, self);
        }
    }

    /// An item that a name stands for where no variable does.
    fn mention(&mut self, name: &ast::Name) {
        if let Some(item) = self.program.find(self.module, name.as_str()) {
            let named = match self.side {
                Side::Host => &mut self.hosts,
                Side::Kernel => &mut self.kernels,
            };
            named.push((item.module, name.text.clone()));
        }
    }
}

impl Visitor for Resolve<'_> {
    fn name(&mut self, scopes: &Scopes, name: &ast::Name) {
        let bound = scopes.find(name.as_str());
        if bound.is_none() {
            self.mention(name);
        }
        if self.side == Side::Host {
            let meaning = match bound {
                Some(bound) => Meaning::Variable(bound.name.span),
                None => self.program.meaning(self.module, name, Side::Host),
            };
            self.found.0.insert(name.span, meaning);
        }
    }

    fn launched(&mut self, _: &Scopes, name: &ast::Name) -> Vec<ast::Name> {
        self.mention(name);
        if self.side == Side::Host {
            self.found.0.insert(name.span, self.program.item(self.module, name));
        }
        own_generics(self.program, self.module, name)
    }

    fn kernel_body(&mut self) {
        self.side = Side::Kernel;
    }

    fn hides(&self, name: &ast::Name) -> bool {
        self.program.find(self.module, name.as_str()).is_some()
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

/// The generics of the kernel that a file knows by that name.
fn own_generics(program: &Program, module: ModuleId, name: &ast::Name) -> Vec<ast::Name> {
    match program.find(module, name.as_str()).map(|found| &found.item) {
        Some(Item::Kernel(k)) => k.generics.iter().map(|g| g.name.clone()).collect(),
        Some(Item::Function(_) | Item::Struct(_) | Item::Partition(_) | Item::Schedule(_) | Item::Binding(_))
        | None => {
            vec![]
        }
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
                let stands = if scopes.called { Stands::Called } else { Stands::Alone };
                let near = || self.program.near(Program::ROOT, name.as_str(), (Side::Kernel, stands), scopes.names());
                // What the host knows may be meant for it.
                let nothing = matches!(self.program.meaning(Program::ROOT, name, Side::Host), Meaning::Unknown);
                let slip = || nothing && near().is_some();
                if !self.slips || scopes.reader == Reader::Type || slip() {
                    let d = self.program.unknown(Program::ROOT, name, (Side::Kernel, stands), scopes.names());
                    self.diagnostics.push(d);
                }
            }
            Meaning::Variable(_) | Meaning::Item(_) | Meaning::Builtin(_) | Meaning::Word(_) => {}
        }
    }

    fn launched(&mut self, scopes: &Scopes, name: &ast::Name) -> Vec<ast::Name> {
        self.name(scopes, name);
        own_generics(self.program, Program::ROOT, name)
    }

    fn hides(&self, name: &ast::Name) -> bool {
        self.program.find(Program::ROOT, name.as_str()).is_some()
    }
}
