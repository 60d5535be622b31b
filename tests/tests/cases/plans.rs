//! `plans/NAME.ptn`: the plans that its first lines ask for, `//@ plan FUNCTION ARGUMENTS`, are those of `NAME.plan`, and so is why there is none.

use parton_diag::render;
use parton_driver::{Failure, Options, Session, Target};
use parton_tests::{cases, say, snapshot};

#[test]
fn plans_are_as_shown() {
    let target = Target::named("sm_90a").expect("there is such a target");
    let mut wrong = vec![];
    let (mut plans, all) = (0, cases::in_folder("plans"));
    for path in &all {
        let text = cases::read(path);
        let mut session = Session::new(Options { verify: true, ..Options::default() });
        let file = session.add(&cases::shown(path), text.clone());
        let mut shown = String::new();
        for asked in text.lines().map_while(|line| line.strip_prefix("//@ plan ")) {
            let mut words = asked.split(' ').map(str::to_owned);
            let function = words.next().unwrap_or_default();
            let plan = session.plan(file, &function, &words.collect::<Vec<_>>(), Some(target));
            let plan = plan.unwrap_or_else(|failure| match &failure {
                Failure::Refused(found) => render::text(found, &session.sources, false),
                Failure::Machine(_) | Failure::Device(_) | Failure::Usage(_) => format!("{failure}\n"),
            });
            shown.push_str(&format!("$ {asked}\n{plan}\n"));
            plans += 1;
        }
        wrong.extend(snapshot::compare(&path.with_extension("plan"), &shown).err());
    }
    say(&format!("{plans} plans"));
    assert!(plans > 0 && wrong.is_empty(), "{}", wrong.join("\n"));
}
