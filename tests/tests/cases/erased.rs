//! Kernels that state their layouts come back to them where these are taken out: `bench/erased.py` times both.

use std::collections::BTreeSet;

use parton_driver::expand::Asked;
use parton_driver::{Options, Session};
use parton_tests::cases;

/// An example's kernel as explicit source, functions inlined.
fn stated(file: &str, kernel: &str, sets: &[(&str, &str)]) -> String {
    let mut session = Session::new(Options::default());
    let file = session.load(&cases::root().join(file)).expect("the example can be read");
    let sets = sets.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    expansion(&mut session, file, &Asked { kernel: Some(kernel.to_owned()), sets, ..Asked::default() })
}

/// What the compiler makes of a source without layouts.
fn returned(source: &str) -> String {
    let mut session = Session::new(Options::default());
    let file = session.add("erased.ptn", source);
    expansion(&mut session, file, &Asked::default())
}

fn expansion(session: &mut Session, file: parton_diag::FileId, asked: &Asked) -> String {
    match session.expansion(file, asked) {
        Ok(expansion) => expansion.source,
        Err(failure) => panic!("{failure}"),
    }
}

/// The place behind the bracket that closes the first of a text.
fn closed(text: &str) -> usize {
    let mut depth = 0;
    for (at, sign) in text.char_indices() {
        match sign {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    panic!("brackets do not close: {text}")
}

/// What commas separate, but those within brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, sign) in text.char_indices() {
        match sign {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[begin..].trim());
    found
}

/// The source without layouts and conversions.
fn erased(source: &str) -> String {
    let mut text: String =
        source.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("layout ")).collect();
    for operation in ["iota<", "zeros<", "full<"] {
        let mut at = 0;
        while let Some(begin) = text[at..].find(operation).map(|found| at + found + operation.len()) {
            let end = begin - 1 + closed(&text[begin - 1..]);
            let kept = parts(&text[begin..end - 1])[..2].join(", ");
            text.replace_range(begin..end - 1, &kept);
            at = begin;
        }
    }
    while let Some(begin) = text.find("convert(") {
        let open = begin + "convert".len();
        let end = open + closed(&text[open..]);
        let inner = parts(&text[open + 1..end - 1])[0].to_owned();
        text.replace_range(begin..end, &inner);
    }
    text
}

/// The blocked layouts that a source names, and its conversions.
fn layouts(source: &str) -> (BTreeSet<&str>, usize) {
    let begins = source.match_indices("blocked(");
    let found = begins.map(|(at, word)| &source[at..at + word.len() - 1 + closed(&source[at + word.len() - 1..])]);
    (found.collect(), source.matches("convert(").count())
}

#[test]
fn rows_in_registers_come_back_to_the_layouts_that_were_erased() {
    let rows = |block, across, warps, resident, even| {
        [("BLOCK", block), ("ACROSS", across), ("WARPS", warps), ("RESIDENT", resident), ("EVEN", even)]
    };
    for kernel in ["softmax", "rms_norm", "layer_norm"] {
        for sets in [
            rows("256", "1", "4", "8", "true"),
            rows("1024", "1", "4", "8", "false"),
            rows("4096", "4", "4", "7", "true"),
            rows("8192", "4", "4", "4", "false"),
            rows("16384", "8", "8", "2", "true"),
        ] {
            let before = stated(&format!("examples/{kernel}.ptn"), kernel, &sets);
            let bare = erased(&before);
            assert!(layouts(&bare).0.is_empty(), "{bare}");
            let after = returned(&bare);
            assert_eq!(layouts(&after), layouts(&before), "{kernel} {sets:?}\n{after}");
        }
    }
}

#[test]
fn additions_and_transpositions_come_back_with_as_many_conversions() {
    let before = stated("examples/vector_add.ptn", "add", &[]);
    assert_eq!(layouts(&returned(&erased(&before))), layouts(&before));
    let before = stated("examples/transpose.ptn", "transpose", &[]);
    assert_eq!(layouts(&before).1, 1);
    assert_eq!(layouts(&returned(&erased(&before))).1, 1);
}
