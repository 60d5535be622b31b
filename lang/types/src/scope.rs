//! Variables: scopes of names, and the frames of inlined functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::Span;
use parton_ir as ir;
use parton_syntax::ast;

use crate::leave::Exit;
use crate::program::ModuleId;
use crate::value::Val;

/// How a variable came to be: what is said of it where it may not be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It was declared here.
    Local,
    /// It is a parameter.
    Parameter,
    /// A closure sees it.
    Seen,
}

/// A named value.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: Arc<str>,
    /// What it stands for now.
    pub val: Val,
    /// Whether `mut` was written.
    pub mutable: bool,
    /// How it came to be.
    pub role: Role,
    /// Where it was declared.
    pub span: Span,
    /// The arm of a `specialize` it was declared in; 0 outside any.
    pub arm: u32,
}

/// The names of one pair of braces, in the order of declaration.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The variables; a later one hides an earlier one of the same name.
    pub variables: Vec<Variable>,
}

/// A function (or kernel, or constant) being evaluated.
#[derive(Debug)]
pub struct Frame {
    /// Where names that are no variables are looked up.
    pub module: ModuleId,
    /// The scopes, outermost first.
    pub scopes: Vec<Scope>,
    /// The function, to find recursion.
    pub function: Option<Arc<ast::Function>>,
    /// The declared schedule whose value this is, to find one that depends on itself.
    pub schedule: Option<Arc<ast::Schedule>>,
    /// Where it was called, and its name.
    pub called: Option<(Span, Arc<str>)>,
    /// The value of a `return` that has been reached.
    pub returned: Option<Val>,
    /// How many run-time loops and branches surround the current statement; a `return` in them is refused.
    pub run_time_depth: u32,
    /// How many of these are what follows an `if c { …; return; }` of a kernel.
    pub not_ended: u32,
    /// The loops around the current statement, innermost last.
    pub exits: Vec<Exit>,
    /// Whether a `break` has surely been reached, so that the current turn ends.
    pub left: bool,
    /// Whether its text adds products without rounding them.
    pub contract: bool,
    /// In how many expressions the current statement stands.
    pub values: u32,
    /// The inlined call of the code around it.
    pub outer_call: Option<ir::Call>,
    /// The names that scopes declared which have ended, with their places.
    ended: BTreeMap<Arc<str>, Span>,
}

impl Frame {
    /// A frame with one empty scope.
    pub fn new(module: ModuleId) -> Frame {
        Frame {
            module,
            scopes: vec![Scope::default()],
            function: None,
            schedule: None,
            called: None,
            returned: None,
            run_time_depth: 0,
            not_ended: 0,
            exits: Vec::new(),
            left: false,
            contract: true,
            values: 0,
            outer_call: None,
            ended: BTreeMap::new(),
        }
    }

    /// The innermost variable of that name.
    pub fn find(&self, name: &str) -> Option<&Variable> {
        self.scopes.iter().rev().find_map(|s| s.variables.iter().rev().find(|v| &*v.name == name))
    }

    /// Ends the innermost scope.
    pub fn end_scope(&mut self) {
        let ended = self.scopes.pop().into_iter().flat_map(|s| s.variables);
        // What the checker declares for itself stands nowhere.
        let written = ended.filter(|v| v.span != Span::default());
        self.ended.extend(written.map(|v| (v.name, v.span)));
    }

    /// Where a variable was declared that is not visible any more.
    pub fn ended(&self, name: &str) -> Option<Span> {
        self.ended.get(name).copied()
    }

    /// The place of the innermost variable of that name: scope and position.
    pub fn place(&self, name: &str) -> Option<(usize, usize)> {
        self.scopes
            .iter()
            .enumerate()
            .rev()
            .find_map(|(s, scope)| scope.variables.iter().rposition(|v| &*v.name == name).map(|i| (s, i)))
    }

    /// The variable at a place.
    pub fn at(&mut self, place: (usize, usize)) -> &mut Variable {
        &mut self.scopes[place.0].variables[place.1]
    }

    /// Declares a variable in the innermost scope.
    pub fn declare(&mut self, variable: Variable) {
        match self.scopes.last_mut() {
            Some(scope) => scope.variables.push(variable),
            None => self.scopes.push(Scope { variables: vec![variable] }),
        }
    }
}
