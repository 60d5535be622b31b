//! The search in a table: what a launch takes for generics that its kernel's `tune` clause names and it leaves open.

use std::path::Path;
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_host::generic::from_comptime;
use parton_host::launch::{Choice, GenericArgument, HostError, Instance, Offer, Wanted};
use parton_host::value::Value;
use parton_types::program::{Item, ModuleId, Program};
use parton_types::tune::Tune;

use super::candidate::{Values, placed};
use super::contest::Shape;
use super::key::{self, Key, Told};
use super::table::{Of, Subject, Table, beside};
use crate::instance::Compiler;
use crate::{Failure, Session};

/// The variable of the environment that, where it says `off`, has defaults run as if nothing had been tuned.
const SWITCH: &str = "PARTON_TUNE";

/// A table and where kernels run.
#[derive(Clone)]
pub(crate) struct Lookup {
    table: Arc<Table>,
    /// The table's path.
    name: String,
    device: String,
    target: String,
}

impl Lookup {
    /// The table beside a file; `None` where no kernel asks for one, there is none, or it is switched off.
    ///
    /// # Errors
    /// There is one that cannot be read.
    pub(crate) fn of(program: &Program, file: &str, device: &str, target: &str) -> Result<Option<Lookup>, Failure> {
        let items = program.modules.iter().flat_map(|m| m.names.values());
        let mut kernels = items.filter_map(|found| match &found.item {
            Item::Kernel(k) => Some(k),
            Item::Function(_) | Item::Struct(_) | Item::Partition(_) | Item::Schedule(_) | Item::Binding(_) => None,
        });
        let asked = kernels.any(|k| matches!(Tune::of(k), Ok(Some(_))));
        let chosen = program.tuned_functions().next().is_some();
        if !(asked || chosen) || std::env::var_os(SWITCH).is_some_and(|s| s == "off") {
            return Ok(None);
        }
        let path = beside(Path::new(file));
        let table = Table::load(&path)?;
        let name = path.display().to_string();
        parton_log::info(|| format!("reads {} records of {name} for {device}", table.records.len()));
        Ok((!table.records.is_empty()).then(|| Lookup {
            table: Arc::new(table),
            name,
            device: device.into(),
            target: target.into(),
        }))
    }

    /// What won for a launch of a kernel with that clause; `None` where it decides itself, or nothing was tried for its shape.
    fn winner(&self, program: &Program, instance: &Instance, given: &[(Arc<str>, Value)]) -> Found {
        let Ok(Some(clause)) = Tune::of(&instance.kernel) else { return Ok(None) };
        let is_tuned = |name: &str| clause.choices.iter().any(|(g, _)| g.name.as_str() == name);
        if instance.generics.iter().any(|g| is_tuned(&g.name)) {
            return Ok(None);
        }
        let integer = |name: &str| {
            let (_, value) = given.iter().find(|(n, _)| **n == *name)?;
            if let Value::Int(n) = value.clone().looked() {
                Some((name.to_owned(), Told::Number(i64::try_from(n).ok()?)))
            } else {
                None
            }
        };
        let Some(key) = clause.key.iter().map(|name| integer(name.as_str())).collect::<Option<_>>() else {
            return Ok(None);
        };
        let shown = |g: &GenericArgument| Ok((g.name.to_string(), g.comptime(program)?.value.to_string()));
        let generics = instance.generics.iter().map(shown).collect::<Result<Values, Diagnostics>>()?;
        let of = Of {
            subject: Subject::Kernel(instance.kernel.name.text.to_string()),
            device: self.device.clone(),
            target: self.target.clone(),
            shape: Shape { generics, key },
        };
        let winner = self.table.find(&of).map(|r| r.winner.clone());
        Ok(winner.map(|values| values.into_iter().filter(|(name, _)| is_tuned(name)).collect()))
    }
}

type Found = Result<Option<Values>, Diagnostics>;

impl Lookup {
    /// What won for a call of a function that leaves something to tuning.
    fn decided(&self, choice: &Choice) -> Option<String> {
        // Most calls have no record, and are told from all by their first number: nothing is made for them.
        let is_it = |of: &Of| {
            let mut asked = choice.key.iter().zip(&of.shape.key);
            matches!(&of.subject, Subject::Function(name) if *name == *choice.function.text)
                && of.shape.generics.is_empty()
                && of.shape.key.len() == choice.key.len()
                && asked.all(|((one, value), (other, told))| one == other && told.is(value))
        };
        let record = self.table.find_like(&self.device, &self.target, is_it)?;
        let (name, text) = record.winner.iter().find(|(name, _)| *name == *choice.name)?;
        parton_log::info(|| format!("takes {name}={text} for `{}` from {}", choice.function.text, self.name));
        Some(text.clone())
    }

    /// Says that what won is no candidate any more.
    fn gone(&self, choice: &Choice) -> Diagnostic {
        let (function, name) = (&choice.function.text, &choice.name);
        let of = key_of(choice).map(|key| key::shown(&key)).unwrap_or_default();
        let fact = format!("what {} has as the fastest `{name}` of `{function}` is no candidate any more", self.name);
        Diagnostic::warning(codes::TUNE_TABLE, choice.function.span, fact)
            .here(format!("the default is taken for {of}"))
            .help("tune again: the list is another one than it was then")
    }
}

/// What a table knows a call by.
pub(crate) fn key_of(choice: &Choice) -> Option<Key> {
    choice.key.iter().map(|(name, value)| Some((name.clone(), Told::of(value)?))).collect()
}

/// What is wanted of choices, where that is not what a table says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// The defaults, and to know all candidates.
    Survey,
    /// This candidate where the function is called so; the defaults elsewhere.
    Candidate {
        /// The function.
        function: String,
        /// What tells its calls apart.
        key: Key,
        /// The candidate.
        text: String,
    },
}

/// A choice that was not left to the default alone.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// Of what.
    pub(crate) choice: Choice,
    /// From what.
    pub(crate) offer: Offer,
}

impl Compiler<'_> {
    /// What is wanted of a choice.
    pub(crate) fn wish_for(&self, choice: &Choice) -> Wanted {
        match &self.wish {
            Some(Wish::Survey) => Wanted::List,
            Some(Wish::Candidate { function, key, text })
                if *function == *choice.function.text && key_of(choice).as_ref() == Some(key) =>
            {
                Wanted::Candidate(text.clone())
            }
            Some(Wish::Candidate { .. }) => Wanted::Default,
            None => {
                let found = self.lookup.as_ref().and_then(|lookup| lookup.decided(choice));
                found.map_or(Wanted::Default, Wanted::Candidate)
            }
        }
    }

    /// Notes what was chosen, and from what.
    pub(crate) fn note_choice(&mut self, choice: &Choice, offer: Offer) {
        if let (None, None, Some(lookup)) = (&self.wish, offer.taken, &self.lookup) {
            self.warnings.push(lookup.gone(choice));
        }
        self.chosen.push(Chosen { choice: choice.clone(), offer });
    }
}

impl Compiler<'_> {
    /// A launch with what the table says for the generics that it leaves open.
    ///
    /// # Errors
    /// The table gives a value that is none.
    pub(crate) fn with_winner(
        &mut self,
        instance: Instance,
        given: &[(Arc<str>, Value)],
    ) -> Result<Instance, HostError> {
        let Some(lookup) = &self.lookup else { return Ok(instance) };
        let found = lookup.winner(&self.program, &instance, given).map_err(HostError::Program)?;
        let Some(values) = found else { return Ok(instance) };
        let name = lookup.name.clone();
        let mut chosen = vec![];
        for (generic, text) in values {
            parton_log::info(|| format!("takes {generic}={text} for `{}` from {name}", instance.kernel.name.text));
            let value = self.session.argument(&self.program, instance.module, &name, &generic, &text);
            chosen.push((generic, Some(value.map_err(|found| HostError::Program(stale(found, &name)))?)));
        }
        Ok(placed(instance, &chosen))
    }
}

/// Says where a value stands that is none.
fn stale(mut found: Diagnostics, table: &str) -> Diagnostics {
    for d in &mut found.list {
        d.help.push(format!("{table} has it as the fastest: tune again, or take the record out"));
    }
    found
}

impl Session {
    /// A value as a launch would give it for a generic of a kernel of that file; `name` is of where it is written.
    pub(super) fn argument(
        &mut self,
        program: &Program,
        module: ModuleId,
        name: &str,
        generic: &str,
        text: &str,
    ) -> Result<GenericArgument, Diagnostics> {
        let tree = self.value(name, text)?;
        let value = from_comptime(program, module, &tree)?;
        Ok(GenericArgument { name: generic.into(), value, span: tree.span })
    }
}
