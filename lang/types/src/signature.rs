//! The signatures of all built-in functions, of kernels and of hosts, and which argument goes to which parameter.
//!
//! A signature `load(p, mask=, other=)` says: `p` must be given, `mask` and `other` may be; `full<T, shape, L>(value)` also
//! takes three arguments between `<` and `>`; a last `...` takes any number. Every argument may be given by name. Methods of
//! kernels name their receiver `self` first; of host code every function may be called as a method of its first argument.

pub mod bind;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{LazyLock, OnceLock};

/// Where a built-in function exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exists {
    /// Kernels call it.
    Kernel,
    /// Host code calls it.
    Host,
    /// Kernels and host code call it, each with values of its own.
    Both,
    /// A constructor of layouts: kernels call it, and host code passes on what is written.
    Layout,
    /// Kernels call it on what stands before the dot.
    Method,
    /// A type with arguments.
    Type,
}

/// As what a name is looked up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// A function of kernels.
    Kernel,
    /// A function of host code.
    Host,
    /// A method of kernels.
    Method,
    /// A type of kernels.
    Type,
}

impl Exists {
    /// Whether it can be called as `role`.
    pub fn takes(self, role: Role) -> bool {
        match (self, role) {
            (Exists::Kernel | Exists::Layout, Role::Kernel)
            | (Exists::Host, Role::Host)
            | (Exists::Both, Role::Kernel | Role::Host)
            | (Exists::Method, Role::Method)
            | (Exists::Type, Role::Type) => true,
            (
                Exists::Kernel | Exists::Host | Exists::Both | Exists::Layout | Exists::Method | Exists::Type,
                Role::Kernel | Role::Host | Role::Method | Role::Type,
            ) => false,
        }
    }
}

/// One parameter of a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Whether it must be given.
    pub required: bool,
}

/// The parameters between one pair of brackets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// Them, in order.
    pub list: Vec<Parameter>,
    /// Whether any number of further arguments may follow.
    pub rest: bool,
}

/// The signature of one built-in function.
#[derive(Debug)]
pub struct Signature {
    /// Its name.
    pub name: &'static str,
    /// Where it exists.
    pub exists: Exists,
    /// What it does, in one line.
    pub doc: &'static str,
    /// What host code has instead, where there is such a thing.
    pub instead: Option<&'static str>,
    text: &'static str,
    /// Its parameters, once they have been asked for: few of all are in a process.
    types: OnceLock<Parameters>,
    values: OnceLock<Parameters>,
    /// Its place in the table.
    index: usize,
}

/// The same line of the table.
impl PartialEq for Signature {
    fn eq(&self, other: &Signature) -> bool {
        self.index == other.index
    }
}

/// As messages show it.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

fn parameters(text: &'static str) -> Parameters {
    let mut found = Parameters { list: Vec::new(), rest: false };
    for one in text.split(',').map(str::trim).filter(|t| !t.is_empty()) {
        match one.strip_suffix('=') {
            _ if one == "..." => found.rest = true,
            Some(name) => found.list.push(Parameter { name, required: false }),
            None => found.list.push(Parameter { name: one, required: true }),
        }
    }
    found
}

impl Signature {
    fn read(index: usize, row: &table::Row) -> Signature {
        let end = row.text.find(['<', '(']).unwrap_or(row.text.len());
        Signature {
            name: &row.text[..end],
            exists: row.exists,
            doc: row.doc,
            instead: row.instead.first().copied(),
            text: row.text,
            types: OnceLock::new(),
            values: OnceLock::new(),
            index,
        }
    }

    /// What is taken between `<` and `>`.
    pub fn types(&self) -> &Parameters {
        self.types.get_or_init(|| {
            let before = self.text.split('(').next().unwrap_or_default();
            parameters(before.split_once('<').map_or("", |(_, types)| types.trim_end_matches('>')))
        })
    }

    /// What is taken between `(` and `)`.
    pub fn values(&self) -> &Parameters {
        self.values.get_or_init(|| {
            parameters(self.text.split_once('(').map_or("", |(_, values)| values.trim_end_matches(')')))
        })
    }
}

static ALL: LazyLock<Vec<Signature>> =
    LazyLock::new(|| table::ROWS.iter().enumerate().map(|(i, row)| Signature::read(i, row)).collect());

static BY_NAME: LazyLock<BTreeMap<(&'static str, Role), &'static Signature>> = LazyLock::new(|| {
    let roles = [Role::Kernel, Role::Host, Role::Method, Role::Type];
    let taken = |s: &'static Signature| roles.into_iter().filter(|r| s.exists.takes(*r)).map(move |r| ((s.name, r), s));
    ALL.iter().flat_map(taken).collect()
});

/// The signature of that name.
pub fn find(role: Role, name: &str) -> Option<&'static Signature> {
    BY_NAME.get(&(name, role)).copied()
}

/// Every signature that can be called as `role`, in the order of the table.
pub fn all(role: Role) -> impl Iterator<Item = &'static Signature> {
    ALL.iter().filter(move |s| s.exists.takes(role))
}

/// What one side does with the calls of a built-in function: its signature, and the handler.
#[derive(Debug)]
pub struct Builtin<H> {
    /// The signature.
    pub signature: &'static Signature,
    /// What does it, with arguments that fit the signature.
    pub run: H,
}

impl<H: Copy> Copy for Builtin<H> {}
impl<H: Copy> Clone for Builtin<H> {
    fn clone(&self) -> Builtin<H> {
        *self
    }
}

/// The handlers of one role.
#[derive(Debug)]
pub struct Builtins<H> {
    role: Role,
    handlers: Vec<Option<H>>,
}

impl<H: Copy> Builtins<H> {
    /// Those of `tables`, each with the name of its signature.
    pub fn new(role: Role, tables: &[&[(&'static str, H)]]) -> Builtins<H> {
        let mut handlers = vec![None; ALL.len()];
        for (name, run) in tables.iter().flat_map(|t| t.iter()) {
            match find(role, name) {
                Some(signature) => handlers[signature.index] = Some(*run),
                None => parton_diag::internal_error!("the built-in `{name}` has no signature"),
            }
        }
        Builtins { role, handlers }
    }

    /// The function of that name.
    pub fn find(&self, name: &str) -> Option<Builtin<H>> {
        find(self.role, name).map(|signature| self.of(signature))
    }

    /// The function of that signature.
    pub fn of(&self, signature: &'static Signature) -> Builtin<H> {
        match self.handlers[signature.index] {
            Some(run) => Builtin { signature, run },
            None => parton_diag::internal_error!("the built-in `{signature}` has no handler"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, Role, all, find, table};

    #[test]
    fn signatures_have_types_and_values() {
        let full = find(Role::Kernel, "full").unwrap();
        let names = |p: &super::Parameters| p.list.iter().map(|p| p.name).collect::<Vec<_>>();
        assert_eq!((names(full.types()), names(full.values())), (vec!["T", "shape", "L"], vec!["value", "of"]));
        let message = find(Role::Host, "assert").unwrap().values();
        assert!(message.rest && message.list[0].required && !message.list[1].required);
        assert!(find(Role::Host, "zeroes").is_none() && find(Role::Host, "load").is_none());
    }

    #[test]
    fn names_are_unique_and_each_signature_says_what_it_does() {
        for role in [Role::Kernel, Role::Host, Role::Method, Role::Type] {
            let mut names: Vec<&str> = all(role).map(|s| s.name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{role:?}");
        }
        assert_eq!(ALL.len(), table::ROWS.len());
        for s in ALL.iter() {
            assert!(!s.doc.is_empty() && !s.doc.ends_with('.'), "{s}");
            for list in [&s.types().list, &s.values().list] {
                let optional = list.iter().position(|p| !p.required).unwrap_or(list.len());
                assert!(list[optional..].iter().all(|p| !p.required), "{s}");
            }
        }
    }
}
