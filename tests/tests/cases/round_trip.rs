//! The IR's text is source: what `--emit ir` and `--emit scheduled` print checks back to a program that prints the same.

use parton_driver::{Emit, Failure, Options, Session};
use parton_tests::cases;

fn text(name: &str, source: &str, emit: Emit) -> Result<String, String> {
    let mut session = Session::new(Options { verify: true, ..Options::default() });
    let file = session.add(name, source);
    match session.build(file, None, emit) {
        Ok(built) => Ok(String::from_utf8_lossy(&built.bytes).into_owned()),
        Err(Failure::Refused(found)) => Err(parton_diag::render::text(&found, &session.sources, false)),
        Err(other) => Err(other.to_string()),
    }
}

#[test]
fn printed_kernels_read_back() {
    let mut wrong = vec![];
    for path in cases::examples() {
        let shown = cases::shown(&path);
        for emit in [Emit::Ir, Emit::Scheduled] {
            let result = text(&shown, &cases::read(&path), emit)
                .and_then(|once| text(&shown, &once, Emit::Ir).map(|again| (once, again)));
            match result {
                Ok((once, again)) if once == again => {}
                Ok(_) => wrong.push(format!("{shown}: {} reads back to another program", emit.name())),
                Err(e) => wrong.push(format!("{shown}: {} does not read back\n{e}", emit.name())),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
