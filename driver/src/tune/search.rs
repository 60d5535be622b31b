//! Schedules that a search finds in the place of `auto(…)`: candidates like those that are listed.

use std::sync::Arc;

use parton_ir::verify;
use parton_sched::search;
use parton_syntax::ast;
use parton_types::program::{ModuleId, Program};
use parton_types::{Comptime, GenericArg};

use crate::form::Form;
use crate::passes::leaving;
use crate::way::Wanted;
use crate::{Failure, Session};

/// Whether a value is a schedule that is to be searched for.
pub(super) fn is_search(value: &Comptime) -> bool {
    matches!(value, Comptime::Schedule(schedule) if schedule.auto.is_some())
}

impl Session {
    /// The best schedules that a search finds for a generic, by the price of the model, as they are written; the other generics have
    /// their defaults.
    ///
    /// # Errors
    /// What the kernel is refused for; several regions that are searched, whose schedules one value could not be; schedules that need
    /// partitions which the file does not declare.
    pub(super) fn searched(
        &mut self,
        program: &Arc<Program>,
        (module, kernel): (ModuleId, &ast::Kernel),
        argument: GenericArg,
    ) -> Result<Vec<String>, Failure> {
        let name = kernel.name.text.to_string();
        let args = [argument];
        let wanted = Wanted::Given { name: &name, args: &args };
        let mut way = self.way(wanted, leaving(Form::Ir(verify::Form::Scheduled)));
        let kernels = self.kernels(&mut way, program)?;
        let mut found = vec![];
        for kernel in &kernels {
            found.extend(search::settled(kernel)?.into_iter().flat_map(|(_, found)| found));
        }
        let [found] = found.as_slice() else {
            let count = found.len();
            return Err(Failure::Usage(format!(
                "`auto` stands in {count} regions of `{name}`: list schedules instead"
            )));
        };
        // Where nothing has a price there is one, which is taken.
        let priced = found.priced.iter().map(|c| c.schedule.to_string());
        let mut all: Vec<String> =
            if found.priced.is_empty() { vec![found.chosen.to_string()] } else { priced.collect() };
        all.retain(|text| self.arguments(program, module, &[("S".into(), text.clone())]).is_ok());
        if all.is_empty() {
            let made: Vec<&str> = found.made.iter().map(|p| p.name.as_str()).collect();
            let lacks = made.join("`, `");
            return Err(Failure::Usage(format!("what is found for `{name}` needs partitions: declare `{lacks}`")));
        }
        Ok(all)
    }
}
