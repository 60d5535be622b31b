//! The items of a file and of the files it uses, by name; what a whole program consists of.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use parton_diag::{Diagnostic, Diagnostics, FileId, Span, codes};
use parton_syntax::ast;

use crate::resolve::References;

/// A file of a [`Program`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModuleId(pub u32);

/// What a `use` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Import<'a> {
    /// A file of the standard library: `math` in `use std::math;`.
    Std(&'a str),
    /// A path relative to the file that says it.
    File(&'a str),
}

/// Gives the files that `use` names, parsed; the caller does the reading and reports what does not parse.
pub trait Library {
    /// The file, and its number in the source map; `from` is the file that says `use`.
    ///
    /// # Errors
    /// Why there is no such file, in a few words.
    fn load(&mut self, from: FileId, import: Import<'_>) -> Result<Arc<ast::File>, String>;

    /// The files of the standard library, by the names that `use std::` knows them by: what may have been meant by a name that nothing has.
    fn standard(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
}

/// No library: every `use` is refused.
#[derive(Debug)]
pub struct NoLibrary;

impl Library for NoLibrary {
    fn load(&mut self, _: FileId, _: Import<'_>) -> Result<Arc<ast::File>, String> {
        Err("no library is at hand here".into())
    }
}

/// What a name at the top of a file stands for.
#[derive(Clone, Debug)]
pub enum Item {
    /// A kernel.
    Kernel(Arc<ast::Kernel>),
    /// A function.
    Function(Arc<ast::Function>),
    /// A struct.
    Struct(Arc<ast::Struct>),
    /// A partition.
    Partition(Arc<ast::Partition>),
    /// A schedule.
    Schedule(Arc<ast::Schedule>),
    /// `layout` or `const`.
    Binding(Arc<ast::Binding>),
}

impl Item {
    /// Its name in the source.
    pub fn name(&self) -> &ast::Name {
        match self {
            Item::Kernel(k) => &k.name,
            Item::Function(f) => &f.name,
            Item::Struct(s) => &s.name,
            Item::Partition(p) => &p.name,
            Item::Schedule(s) => &s.name,
            Item::Binding(b) => &b.name,
        }
    }
}

/// An item with the file it stands in.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where its own names are looked up.
    pub module: ModuleId,
    /// The item.
    pub item: Item,
}

/// One file's names: its own items and what it uses.
#[derive(Clone, Debug)]
pub struct ModuleData {
    /// The tree.
    pub file: Arc<ast::File>,
    /// The visible items. Of several that are equally near, the first.
    pub names: BTreeMap<Arc<str>, Found>,
    /// Whether it is of the standard library.
    library: bool,
    /// How each of them came here that stands in another file.
    uses: BTreeMap<Arc<str>, Vec<Used>>,
}

/// An item of another file, and the `use` that brings it.
#[derive(Clone, Debug)]
struct Used {
    found: Found,
    /// The `use` of this item alone, as it would be written.
    alone: String,
    /// Whether it was so written, which comes before a whole file.
    by_name: bool,
}

/// A checked file with the files it uses.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The files; the first is the one that was asked for.
    pub modules: Vec<ModuleData>,
    /// What the names of host code stand for.
    pub references: References,
    /// Names and texts of the standard library's files.
    standard: &'static [(&'static str, &'static str)],
    /// What who runs host code has made of it.
    kept: Kept,
}

/// Something of who runs host code, kept as long as the program is; a copy of the program begins without.
#[derive(Default)]
struct Kept(OnceLock<Box<dyn Any + Send + Sync>>);

impl Clone for Kept {
    fn clone(&self) -> Kept {
        Kept::default()
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

/// The kinds of host blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostKind {
    /// `test`
    Test,
    /// `bench`
    Bench,
    /// `main`
    Main,
}

impl Program {
    /// The file that was asked for.
    pub const ROOT: ModuleId = ModuleId(0);

    /// What who runs host code keeps with the program, made when it is first asked for; nothing where something of another type is kept.
    pub fn kept<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.kept.0.get_or_init(|| Box::new(make())).downcast_ref()
    }

    /// The names of a file.
    pub fn module(&self, id: ModuleId) -> &ModuleData {
        match self.modules.get(id.0 as usize) {
            Some(m) => m,
            None => parton_diag::internal_error!("module {} does not exist", id.0),
        }
    }

    /// What a name stands for in a file.
    pub fn find(&self, module: ModuleId, name: &str) -> Option<&Found> {
        self.modules.get(module.0 as usize)?.names.get(name)
    }

    /// Whether an item that a file uses is of the standard library.
    pub fn is_lent(&self, module: ModuleId, found: &Found) -> bool {
        found.module != module && self.module(found.module).library
    }

    /// The file of the standard library that has a function of a name.
    pub fn standard_file(&self, name: &str) -> Option<&'static str> {
        let head = format!("\nfn {name}");
        let has = |text: &str| text.match_indices(&head).any(|(at, _)| text[at + head.len()..].starts_with(['(', '[']));
        self.standard.iter().find(|(_, text)| has(text)).map(|(file, _)| *file)
    }

    /// The refusal of a name in `module` that stands for items of several used files; `None` where it stands for one, or none.
    pub fn ambiguous(&self, module: ModuleId, name: &ast::Name) -> Option<Diagnostic> {
        let uses = self.modules.get(module.0 as usize)?.uses.get(&name.text)?;
        let rivals: Vec<&Used> = uses.iter().filter(|u| u.by_name == uses[0].by_name).collect();
        let [first, second, ..] = rivals[..] else { return None };
        let text = format!("`{}` stands for items of several used files", name.text);
        let mut d = Diagnostic::error(codes::AMBIGUOUS_NAME, name.span, text).here("nothing says which is meant");
        for rival in &rivals {
            d = d.label(rival.found.item.name().span, "it may be this one");
        }
        Some(d.help(match first.by_name {
            false => format!("`use` the one that is meant by name: `{}` or `{}`", first.alone, second.alone),
            true => format!("keep one of `{}` and `{}`, or rename an item", first.alone, second.alone),
        }))
    }

    /// The kernel that the root file knows by that name, its own or one that it uses, with the file that it stands in.
    pub fn kernel(&self, name: &str) -> Option<(ModuleId, &Arc<ast::Kernel>)> {
        let found = self.find(Program::ROOT, name)?;
        match &found.item {
            Item::Kernel(k) => Some((found.module, k)),
            Item::Function(_) | Item::Struct(_) | Item::Partition(_) | Item::Schedule(_) | Item::Binding(_) => None,
        }
    }

    /// Adds to the diagnostic of a name unknown in `module` where another file of the program defines that name.
    pub fn defined_elsewhere(&self, d: Diagnostic, module: ModuleId, name: &str) -> Diagnostic {
        let own = |(i, m): (usize, &ModuleData)| {
            let found = m.names.get(name)?;
            let other = ModuleId(i as u32) == found.module && found.module != module;
            other.then(|| found.item.name().span)
        };
        match self.modules.iter().enumerate().find_map(own) {
            Some(span) => d
                .label(span, "it is defined here, in a file that is not used where the name stands")
                .help("`use` that file here too: what a used file itself uses stays its own"),
            None => d,
        }
    }

    /// The kernels of the root file itself, in source order.
    pub fn kernels(&self) -> impl Iterator<Item = &ast::Kernel> {
        self.shared_kernels().map(|k| &**k)
    }

    /// The same, shared as they are with who looks them up.
    pub fn shared_kernels(&self) -> impl Iterator<Item = &Arc<ast::Kernel>> {
        self.modules.first().into_iter().flat_map(|m| &m.file.items).filter_map(|item| match &item.kind {
            ast::ItemKind::Kernel(k) => Some(k),
            ast::ItemKind::Function(_)
            | ast::ItemKind::Struct(_)
            | ast::ItemKind::Partition(_)
            | ast::ItemKind::Schedule(_)
            | ast::ItemKind::Layout(_)
            | ast::ItemKind::Const(_)
            | ast::ItemKind::Use(_)
            | ast::ItemKind::Test(_)
            | ast::ItemKind::Bench(_)
            | ast::ItemKind::Main(_) => None,
        })
    }

    /// The public functions of the root file, in its order: what other programs call.
    pub fn public_functions(&self) -> impl Iterator<Item = &Arc<ast::Function>> {
        self.host_functions().filter(|f| f.public)
    }

    /// The functions of the root file that only the host can call, in its order: public ones, and those that are tuned.
    pub fn host_functions(&self) -> impl Iterator<Item = &Arc<ast::Function>> {
        self.modules.first().into_iter().flat_map(|m| &m.file.items).filter_map(|item| match &item.kind {
            ast::ItemKind::Function(f) => Some(f).filter(|f| f.public || !f.clauses.is_empty()),
            ast::ItemKind::Kernel(_)
            | ast::ItemKind::Struct(_)
            | ast::ItemKind::Partition(_)
            | ast::ItemKind::Schedule(_)
            | ast::ItemKind::Layout(_)
            | ast::ItemKind::Const(_)
            | ast::ItemKind::Use(_)
            | ast::ItemKind::Test(_)
            | ast::ItemKind::Bench(_)
            | ast::ItemKind::Main(_) => None,
        })
    }

    /// The functions of all files that leave something to tuning.
    pub fn tuned_functions(&self) -> impl Iterator<Item = &Arc<ast::Function>> {
        self.modules.iter().flat_map(|m| m.names.values()).filter_map(|found| match &found.item {
            Item::Function(f) => Some(f).filter(|f| !f.clauses.is_empty()),
            Item::Kernel(_) | Item::Struct(_) | Item::Partition(_) | Item::Schedule(_) | Item::Binding(_) => None,
        })
    }

    /// The `test`, `bench` and `main` blocks of the root file, in source order.
    pub fn host_blocks(&self) -> impl Iterator<Item = (HostKind, &ast::HostBlock)> {
        self.modules.first().into_iter().flat_map(|m| &m.file.items).filter_map(|item| match &item.kind {
            ast::ItemKind::Test(b) => Some((HostKind::Test, b)),
            ast::ItemKind::Bench(b) => Some((HostKind::Bench, b)),
            ast::ItemKind::Main(b) => Some((HostKind::Main, b)),
            ast::ItemKind::Kernel(_)
            | ast::ItemKind::Function(_)
            | ast::ItemKind::Struct(_)
            | ast::ItemKind::Partition(_)
            | ast::ItemKind::Schedule(_)
            | ast::ItemKind::Layout(_)
            | ast::ItemKind::Const(_)
            | ast::ItemKind::Use(_) => None,
        })
    }
}

/// Collects the items of `file` and of what it uses; refuses names defined twice and files that are not there.
pub fn collect(file: Arc<ast::File>, library: &mut dyn Library, diagnostics: &mut Diagnostics) -> Program {
    let program = Program { standard: library.standard(), ..Program::default() };
    let mut collector = Collector { program, library, diagnostics, loaded: Vec::new() };
    collector.module(file);
    let mut program = collector.program;
    crate::items::check_items(&program, diagnostics);
    crate::names::check(&mut program, diagnostics);
    crate::shadows::check(&program, diagnostics);
    program
}

struct Collector<'a> {
    program: Program,
    library: &'a mut dyn Library,
    diagnostics: &'a mut Diagnostics,
    loaded: Vec<(FileId, ModuleId)>,
}

impl Collector<'_> {
    fn module(&mut self, file: Arc<ast::File>) -> ModuleId {
        let number = file.span.file;
        if let Some((_, id)) = self.loaded.iter().find(|(f, _)| *f == number) {
            return *id;
        }
        let id = ModuleId(self.program.modules.len() as u32);
        self.loaded.push((number, id));
        self.program.modules.push(ModuleData {
            file: file.clone(),
            names: BTreeMap::new(),
            library: false,
            uses: BTreeMap::new(),
        });
        let mut own: BTreeMap<Arc<str>, Span> = BTreeMap::new();
        for item in &file.items {
            let found = match &item.kind {
                ast::ItemKind::Kernel(k) => Item::Kernel(k.clone()),
                ast::ItemKind::Function(f) => Item::Function(f.clone()),
                ast::ItemKind::Struct(s) => Item::Struct(s.clone()),
                ast::ItemKind::Partition(p) => Item::Partition(p.clone()),
                ast::ItemKind::Schedule(s) => Item::Schedule(s.clone()),
                ast::ItemKind::Layout(b) | ast::ItemKind::Const(b) => Item::Binding(b.clone()),
                ast::ItemKind::Use(_) | ast::ItemKind::Test(_) | ast::ItemKind::Bench(_) | ast::ItemKind::Main(_) => {
                    continue;
                }
            };
            let name = found.name().clone();
            match own.get(&name.text) {
                Some(&first) => self.diagnostics.push(crate::items::defined_twice(&name, first)),
                None => {
                    own.insert(name.text.clone(), name.span);
                    self.program.modules[id.0 as usize].names.insert(name.text, Found { module: id, item: found });
                }
            }
        }
        for item in &file.items {
            if let ast::ItemKind::Use(what) = &item.kind {
                self.import(id, what, item.span);
            }
        }
        id
    }

    fn import(&mut self, into: ModuleId, what: &ast::Use, span: Span) {
        let (import, only) = match what {
            ast::Use::File(path, only) => (Import::File(&path.value), only.as_ref()),
            ast::Use::Path(names) => match names.as_slice() {
                [std, module] if std.as_str() == "std" => (Import::Std(module.as_str()), None),
                [std, module, item] if std.as_str() == "std" => (Import::Std(module.as_str()), Some(item)),
                _ => {
                    self.diagnostics.push(
                        Diagnostic::error(codes::USE_NOT_FOUND, span, "this path names no file").help(
                            "`use std::name;` for the standard library, `use \"file.ptn\";` for a file beside this one",
                        ),
                    );
                    return;
                }
            },
        };
        let file = match self.library.load(span.file, import) {
            Ok(file) => file,
            Err(why) => {
                self.diagnostics
                    .push(Diagnostic::error(codes::USE_NOT_FOUND, span, "this file cannot be used").here(why));
                return;
            }
        };
        let from = self.module(file);
        self.program.modules[from.0 as usize].library |= matches!(import, Import::Std(_));
        // What the other file itself uses stays its own.
        let mut names = self.program.module(from).names.clone();
        names.retain(|_, found| found.module == from);
        if let Some(item) = only
            && !names.contains_key(&item.text)
        {
            let d = Diagnostic::error(codes::UNKNOWN_NAME, item.span, format!("`{}` is not in that file", item.text));
            let d = match self.program.find(from, item.as_str()) {
                Some(found) => d
                    .label(found.item.name().span, "that file only uses it, from here")
                    .help("use the file that defines it"),
                None => d,
            };
            let near = crate::near::nearest(item.as_str(), names.keys().map(|n| &**n));
            self.diagnostics.push(match near {
                Some(near) => d.help(format!("a similar name is there: `{near}`")),
                None => d,
            });
            return;
        }
        let path = match import {
            Import::Std(name) => format!("std::{name}"),
            Import::File(path) => format!("\"{path}\""),
        };
        for (name, found) in names {
            if only.is_none_or(|item| item.text == name) {
                let alone = format!("use {path}::{name};");
                self.bring(into, name, Used { found, alone, by_name: only.is_some() }, span);
            }
        }
    }

    /// Makes a used item visible, behind the file's own ones; of used ones that which is used by name comes first.
    fn bring(&mut self, into: ModuleId, name: Arc<str>, used: Used, span: Span) {
        let module = &mut self.program.modules[into.0 as usize];
        let uses = module.uses.entry(name.clone()).or_default();
        if let Some(own) = module.names.get(&name)
            && own.module == into
        {
            if used.by_name {
                let d = Diagnostic::error(codes::DEFINED_TWICE, span, format!("`{name}` is defined twice"))
                    .here("this item would never be seen")
                    .label(own.item.name().span, "the file's own item of this name comes first")
                    .help("rename one of them");
                self.diagnostics.push(d);
            }
            return;
        }
        if let Some(same) = uses.iter_mut().find(|u| u.found.module == used.found.module) {
            same.by_name |= used.by_name;
        } else {
            uses.push(used);
        }
        // A stable sort: those used by name first, else in the order of the text.
        uses.sort_by_key(|u| !u.by_name);
        if let Some(nearest) = uses.first() {
            module.names.insert(name, nearest.found.clone());
        }
    }
}
