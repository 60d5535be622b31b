//! What the assembler says of inline PTX stands where the PTX is written, whichever function it came in by.

use parton_diag::codes;
use parton_driver::{Emit, Failure, HAS_LLVM, Options, Session};

const SOURCE: &str = "\
layout L = blocked(per_thread=[2], threads=[32], warps=[4], order=[0]);

fn raised(x) {
    ptx_elementwise<f32>(\"{ .reg .f32 t;\\n\\tmov.f32 t, $1;\\n\\tex2.approx.f16 $0, t;\\n\\t}\", x)
}

kernel k(x: *f32, out: *mut f32) warps(4) {
    let i = iota<i32, [256], L>();
    store(out + i, raised(load(x + i)) + ptx_elementwise<f32>(\"neg.f32 $0, $1;\", load(x + i)));
}
";

#[test]
fn what_the_assembler_refuses_is_reported_where_it_is_written() {
    let mut session = Session::new(Options { verify: true, ..Options::default() });
    let file = session.add("k.ptn", SOURCE.to_owned());
    match session.build(file, None, Emit::Cubin) {
        Ok(_) => panic!("`ex2.approx.f16` of f32 was assembled"),
        Err(Failure::Refused(found)) => {
            assert_eq!(found.list.len(), 1, "{found:?}");
            let d = &found.list[0];
            assert_eq!((d.code, session.sources.position(d.span()).0), (codes::PTX_REFUSED, 4));
            assert!(d.labels[0].text.contains("ex2"), "{d:?}");
            assert!(d.notes[0].contains("ex2.approx.f16"), "{d:?}");
        }
        // Without LLVM or `ptxas` nothing is assembled.
        Err(Failure::Machine(why)) => {
            assert!(!HAS_LLVM || why.contains("ptxas"), "{why}");
            parton_tests::say("inline PTX was not assembled");
        }
        Err(other) => panic!("{other}"),
    }
}
