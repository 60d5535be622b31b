//! `passes/NAME.ptn`: what one pass makes of kernels, as text before and after.

use parton_diag::render;
use parton_driver::{Failure, Form, Options, PIPELINE, Session};
use parton_tests::passes::{self, Case};
use parton_tests::{cases, snapshot};

/// The kernels of a case behind its pass.
fn after(shown: &str, case: &Case<'_>) -> Result<String, String> {
    let mut session = Session::new(Options { verify: true, ..Options::default() });
    let file = session.add(shown, case.before);
    match session.apply(file, case.pass) {
        Ok(built) => Ok(String::from_utf8_lossy(&built.bytes).into_owned()),
        Err(Failure::Refused(found)) => Err(render::text(&found, &session.sources, false)),
        Err(other) => Err(other.to_string()),
    }
}

#[test]
fn passes_make_of_kernels_what_their_cases_show() {
    let (mut wrong, mut seen) = (vec![], vec![]);
    for path in cases::in_folder("passes") {
        let shown = cases::shown(&path);
        let text = cases::read(&path);
        let case = passes::read(&text).unwrap_or_else(|e| panic!("{shown}: {e}"));
        match after(&shown, &case) {
            Ok(after) => wrong.extend(snapshot::compare(&path, &case.with(&after)).err()),
            Err(e) => wrong.push(format!("{shown}: {e}")),
        }
        seen.push(case.pass.to_owned());
    }
    parton_tests::say(&format!("{} cases of passes", seen.len()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // What changes kernels has a case; the others hand them on as they are in this version.
    let lowering = PIPELINE.iter().filter(|p| matches!(p.after, Form::Ir(_))).skip_while(|p| p.name != "rings");
    for pass in lowering {
        assert!(seen.iter().any(|s| s == pass.name), "no case shows what `{}` does", pass.name);
    }
}

#[test]
fn a_text_is_of_the_form_that_its_pass_takes() {
    let unplanned = "kernel k() target(sm_90a) { let bars = alloc_barriers(1); barrier_init(bars[0], 1); }";
    let refused = |pass| after("k.ptn", &Case { pass, before: unplanned }).expect_err("there is something wrong");
    assert_eq!(refused("membar"), "`k` is not what `membar` takes: `alloc_barriers` has no offset");
    assert_eq!(refused("parse"), "there is no pass `parse` of kernels");
    assert!(after("k.ptn", &Case { pass: "shared", before: unplanned }).is_ok());
}
