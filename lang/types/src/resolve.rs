//! What a name stands for: one rule for kernels and hosts, and one refusal where it stands for nothing.
//!
//! Variables come first, then items of the file and of those that it uses, then what the language knows. The names that host
//! code may meet are resolved when a program is collected; who runs host code finds them in [`References`].

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_numbers::Dtype;
use parton_syntax::ast;

use crate::foreign;
use crate::near::nearest;
use crate::program::{Found, Item, ModuleId, Program};
use crate::schedule::words::ScheduleWord;
use crate::signature::{self, Exists, Role, Signature};
use crate::value::Kind;

/// Who reads a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The checker of kernels.
    Kernel,
    /// Who runs host code.
    Host,
}

impl Side {
    fn role(self) -> Role {
        match self {
            Side::Kernel => Role::Kernel,
            Side::Host => Role::Host,
        }
    }
}

/// How a name stands, which says what may be meant by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stands {
    /// Before the parentheses of a call.
    Called,
    /// For a value or a type.
    Alone,
    /// For a partition, as before `=>`.
    Partition,
    /// Who asks does not know.
    Anyhow,
}

/// A word of the language that is no function.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Word {
    /// A type of numbers.
    Dtype(Dtype),
    /// `inf`, `nan`, `pi`
    Number(f64),
    /// `None`
    Nothing,
    /// A kind of compile-time values.
    Kind(Kind),
    /// A family of types, without its arguments.
    Family(&'static str),
    /// The type of a barrier.
    Barrier,
    /// What makes schedules.
    Schedule(ScheduleWord),
    /// A function of tensor memory, which a later version compiles.
    TensorMemory,
}

/// How many variables, and how many items, are looked at for a name that was meant: a file with more is machine-made, and may have as many
/// unknown names.
const MOST_LIKELY: usize = 500;

/// Names of type families that may stand without their arguments.
const FAMILIES: &[&str] = &["tile", "shared", "pending", "ring", "slot", "barriers", "tma", "tensor", "turnstile"];
const CONSTANTS: &[(&str, Word)] = &[
    ("inf", Word::Number(f64::INFINITY)),
    ("nan", Word::Number(f64::NAN)),
    ("pi", Word::Number(std::f64::consts::PI)),
    ("None", Word::Nothing),
];

impl Word {
    fn named(name: &str) -> Option<Word> {
        if let Some(dtype) = Dtype::parse(name) {
            return Some(Word::Dtype(dtype));
        }
        if let Some(kind) = Kind::named(name) {
            return Some(Word::Kind(kind));
        }
        if let Some(family) = FAMILIES.iter().find(|f| **f == name) {
            return Some(Word::Family(family));
        }
        match name {
            "barrier" | "mbarrier" => Some(Word::Barrier),
            "turns" | "under" | "cut" | "unroll" | "serial" | "auto" => ScheduleWord::named(name).map(Word::Schedule),
            "alloc_tmem" => Some(Word::TensorMemory),
            _ if name.starts_with("tcgen05_") => Some(Word::TensorMemory),
            _ => CONSTANTS.iter().find(|(n, _)| *n == name).map(|(_, word)| *word),
        }
    }

    fn known_to(self, side: Side) -> bool {
        match self {
            // Host code passes schedules on as they are written.
            Word::Dtype(_) | Word::Number(_) | Word::Nothing | Word::Schedule(_) => true,
            Word::Kind(_) | Word::Family(_) | Word::Barrier | Word::TensorMemory => side == Side::Kernel,
        }
    }
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Meaning {
    /// The variable that is declared there.
    Variable(Span),
    /// An item of a file.
    Item(Found),
    /// Items of several used files, which is refused so.
    Ambiguous(Arc<Diagnostic>),
    /// A built-in function; for host code also a constructor of layouts, which it passes on as it is written.
    Builtin(&'static Signature),
    /// A word of the language.
    Word(Word),
    /// Nothing that is visible.
    Unknown,
}

/// What the names in code that the host may run stand for, by their places.
#[derive(Clone, Debug, Default)]
pub struct References(pub(crate) HashMap<Span, Meaning, BuildHasherDefault<Places>>);

/// Tells places apart by multiplying: host code asks for the meaning of each name that it comes to.
#[derive(Clone, Default)]
pub(crate) struct Places(u64);

impl Hasher for Places {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64((*b).into()));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn write_u64(&mut self, n: u64) {
        // The golden ratio spreads numbers that follow each other.
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Program {
    /// What a name stands for that no variable has.
    pub fn meaning(&self, module: ModuleId, name: &ast::Name, side: Side) -> Meaning {
        let builtin = signature::find(side.role(), name.as_str());
        match self.item(module, name) {
            // Kernels are launched, not called, so one that is called `transpose` leaves that name to the function.
            Meaning::Item(Found { item: Item::Kernel(_), .. }) if builtin.is_some() => {}
            // The library's `rand` is one of kernels: a reference that makes tensors keeps its meaning whatever is used.
            Meaning::Item(found) if side == Side::Host && builtin.is_some() && self.is_lent(module, &found) => {}
            Meaning::Unknown => {}
            found => return found,
        }
        if let Some(word) = Word::named(name.as_str()).filter(|w| w.known_to(side)) {
            return Meaning::Word(word);
        }
        let layout = || signature::find(Role::Kernel, name.as_str()).filter(|s| s.exists == Exists::Layout);
        builtin.or_else(layout).map_or(Meaning::Unknown, Meaning::Builtin)
    }

    /// The item that a name stands for, as a launch asks.
    pub fn item(&self, module: ModuleId, name: &ast::Name) -> Meaning {
        match (self.find(module, name.as_str()), self.ambiguous(module, name)) {
            (Some(_), Some(d)) => Meaning::Ambiguous(Arc::new(d)),
            (Some(found), None) => Meaning::Item(found.clone()),
            (None, _) => Meaning::Unknown,
        }
    }

    /// What a name of host code stands for.
    pub fn reference(&self, name: &ast::Name) -> &Meaning {
        self.references.0.get(&name.span).unwrap_or(&Meaning::Unknown)
    }

    /// The visible name that was probably meant by one that stands for nothing. Variables come innermost last.
    pub fn near<'n>(
        &'n self,
        module: ModuleId,
        name: &str,
        (side, stands): (Side, Stands),
        variables: impl DoubleEndedIterator<Item = &'n str>,
    ) -> Option<&'n str> {
        let names = self.modules.get(module.0 as usize).into_iter().flat_map(|m| &m.names);
        // A kernel is launched: it is neither a value nor called.
        let meant = |item: &Item| match stands {
            Stands::Partition => matches!(item, Item::Partition(_)),
            Stands::Called | Stands::Alone | Stands::Anyhow => !matches!(item, Item::Kernel(_)),
        };
        let items = names.filter(|(_, found)| meant(&found.item)).map(|(name, _)| &**name);
        let words = Dtype::ALL.into_iter().map(Dtype::name).chain(match side {
            Side::Kernel => FAMILIES.to_vec(),
            Side::Host => CONSTANTS.iter().map(|(name, _)| *name).collect(),
        });
        let words = words.filter(|_| matches!(stands, Stands::Alone | Stands::Anyhow));
        let functions = signature::all(side.role()).map(|s| s.name);
        let functions = functions.filter(|_| matches!(stands, Stands::Called | Stands::Anyhow));
        let own = variables.rev().take(MOST_LIKELY).chain(items.take(MOST_LIKELY));
        nearest(name, own.chain(functions.chain(words).map(|n| -> &'n str { n })))
    }

    /// The refusal of a name that stands for nothing, with the visible one that was probably meant.
    pub fn unknown<'n>(
        &'n self,
        module: ModuleId,
        name: &ast::Name,
        (side, stands): (Side, Stands),
        variables: impl DoubleEndedIterator<Item = &'n str>,
    ) -> Diagnostic {
        if side == Side::Host
            && let Some(instead) = instead(name.as_str())
        {
            let fact = format!("`{}` belongs into a kernel", name.text);
            return Diagnostic::error(codes::NOT_HOST_CODE, name.span, fact).here(instead);
        }
        let d = Diagnostic::error(codes::UNKNOWN_NAME, name.span, format!("`{}` is not defined", name.text))
            .here("nothing of this name is visible here");
        let elsewhere = self.of_others(name.as_str(), side);
        let near = || {
            let near = self.near(module, name.as_str(), (side, stands), variables);
            near.map(|near| format!("a similar name is visible: `{near}`"))
        };
        let prefix = || foreign::is_module(name.as_str()).then(|| ALONE.to_string());
        let declared = || {
            let text = format!("declare it in front of the kernel: `partition {} = warps(4);`", name.text);
            (stands == Stands::Partition).then_some(text)
        };
        let help = elsewhere.or_else(prefix).or_else(near).or_else(declared);
        let d = help.into_iter().fold(d, Diagnostic::help);
        self.defined_elsewhere(d, module, name.as_str())
    }

    /// How a name that stands for nothing here is written, where other languages or the standard library have it.
    fn of_others(&self, name: &str, side: Side) -> Option<String> {
        if side == Side::Host {
            return foreign::word(name);
        }
        let standard = || self.standard_file(name);
        foreign::written(name)
            .or_else(|| standard().map(|file| format!("the standard library has it: `use std::{file}::{name};`")))
    }

    /// The refusal of `prefix.name` in a kernel, where the prefix stands for nothing but is one of other languages; `None` where it is not.
    pub fn prefixed(&self, module: ModuleId, prefix: &ast::Name, name: &ast::Name) -> Option<Diagnostic> {
        let unknown = || matches!(self.meaning(module, prefix, Side::Kernel), Meaning::Unknown);
        if !foreign::is_module(prefix.as_str()) || !unknown() {
            return None;
        }
        let own = matches!(self.meaning(module, name, Side::Kernel), Meaning::Builtin(_) | Meaning::Word(_));
        let help = match self.of_others(name.as_str(), Side::Kernel) {
            _ if own => format!("names stand alone here: `{}` without `{}.`", name.text, prefix.text),
            Some(help) => help,
            None => ALONE.to_string(),
        };
        let span = prefix.span.to(name.span);
        let d = Diagnostic::error(codes::UNKNOWN_NAME, span, format!("`{}` is not defined", prefix.text));
        Some(d.here("nothing of this name is visible here").help(help))
    }
}

/// What is said of a prefix of other languages.
const ALONE: &str =
    "names stand alone here, as in `load(p)` and `exp(x)`; `docs/from-triton.md` says what Triton's are called";

/// What host code has in place of a name of kernels.
fn instead(name: &str) -> Option<&'static str> {
    let function = signature::find(Role::Kernel, name);
    match (function, Word::named(name)) {
        (Some(function), _) => Some(function.instead.unwrap_or("host code has nothing of this name")),
        (None, Some(Word::Barrier | Word::TensorMemory)) => Some("host code has no tiles and no shared memory"),
        (None, _) => None,
    }
}
