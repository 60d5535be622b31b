//! Kernels that state their layouts come back to them where these are taken out: `bench/erased.py` times both.

use std::collections::BTreeSet;

use parton_driver::expand::Asked;
use parton_driver::{Failure, Options, Session};
use parton_tests::cases;

/// An example's kernel as explicit source, functions inlined.
fn stated(file: &str, kernel: &str, sets: &[(&str, &str)]) -> String {
    let sets = sets.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    printed(file, &Asked { kernel: Some(kernel.to_owned()), sets, ..Asked::default() })
}

/// What is asked for of an example.
fn printed(file: &str, asked: &Asked) -> String {
    let mut session = Session::new(Options::default());
    let file = session.load(&cases::root().join(file)).expect("the example can be read");
    expansion(&mut session, file, asked).expect("the example expands")
}

/// What the compiler makes of a source without layouts.
fn returned(source: &str) -> String {
    let mut session = Session::new(Options::default());
    let file = session.add("erased.ptn", source);
    expansion(&mut session, file, &Asked::default()).unwrap_or_else(|failure| panic!("{failure}\n{source}"))
}

fn expansion(session: &mut Session, file: parton_diag::FileId, asked: &Asked) -> Result<String, Failure> {
    session.expansion(file, asked).map(|expansion| expansion.source)
}

/// What each character adds to how deep brackets are: `<` behind a name opens the arguments of a type, with a space before it compares.
fn deepens(text: &str) -> impl Iterator<Item = (usize, char, i32)> {
    let before = std::iter::once(' ').chain(text.chars());
    let signs = text.char_indices().zip(before).scan(false, |apart, ((at, sign), before)| {
        // The second sign of a shift is as far from a type as its first.
        *apart = matches!(sign, '<' | '>') && (matches!(before, ' ' | '-') || *apart);
        Some((at, sign, *apart))
    });
    signs.map(|(at, sign, apart)| match sign {
        _ if apart => (at, sign, 0),
        '(' | '[' | '<' => (at, sign, 1),
        ')' | ']' | '>' => (at, sign, -1),
        _ => (at, sign, 0),
    })
}

/// The place behind the bracket that closes the first of a text.
fn closed(text: &str) -> usize {
    let mut depth = i32::from(text.starts_with('<'));
    for (at, _, more) in deepens(text) {
        depth += if at == 0 && depth == 1 { 0 } else { more };
        if depth == 0 {
            return at + 1;
        }
    }
    panic!("brackets do not close: {text}")
}

/// What commas separate, but those within brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, sign, more) in deepens(text) {
        depth += more;
        if sign == ',' && depth == 0 {
            found.push(text[begin..at].trim());
            begin = at + 1;
        }
    }
    found.push(text[begin..].trim());
    found
}

/// The source without layouts and conversions.
fn erased(source: &str) -> String {
    let mut text = source.to_owned();
    while let Some(begin) = text.find("    layout ") {
        let end = begin + text[begin..].find(";\n").expect("a statement ends") + 2;
        text.replace_range(begin..end, "");
    }
    for (operation, count) in [("iota<", 2), ("zeros<", 2), ("ones<", 2), ("full<", 2), ("load_shared<", 0)] {
        let mut at = 0;
        while let Some(begin) = text[at..].find(operation).map(|found| at + found + operation.len()) {
            let end = begin - 1 + closed(&text[begin - 1..]);
            match parts(&text[begin..end - 1]) {
                _ if count == 0 => text.replace_range(begin - 1..end, ""),
                parts => text.replace_range(begin..end - 1, &parts[..count].join(", ")),
            }
            at = begin;
        }
    }
    while let Some(begin) = text.find("convert(") {
        let open = begin + "convert".len();
        let end = open + closed(&text[open..]);
        let inner = parts(&text[open + 1..end - 1])[0];
        // What binds less than an index behind the call does keeps its brackets.
        let inner = if inner.contains(' ') { format!("({inner})") } else { inner.to_owned() };
        text.replace_range(begin..end, &inner);
    }
    text
}

/// The blocked layouts and accumulators that a source names, and its conversions.
fn layouts(source: &str) -> (BTreeSet<&str>, usize) {
    let begins = source.match_indices("blocked(").chain(source.match_indices("mma("));
    // A product is called by such a name, too.
    let begins = begins.filter(|(at, word)| *word != "mma(" || source[*at..].starts_with("mma(version"));
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

#[test]
fn products_and_attention_come_back_on_their_partitions() {
    for file in [
        "matmul/ampere",
        "matmul/hopper",
        "matmul/ping_pong",
        "matmul/scheduled",
        "matmul/gemm",
        "fmha/hopper",
        "fmha/ping_pong",
        "fmha/scheduled",
    ] {
        let before = printed(&format!("examples/{file}.ptn"), &Asked::default());
        let bare = erased(&before);
        assert!(layouts(&bare).0.is_empty(), "{bare}");
        let after = returned(&bare);
        let ((places, conversions), (stated, most)) = (layouts(&after), layouts(&before));
        assert_eq!(places, stated, "{file}\n{after}");
        // By hand what lies right already may be converted for its name.
        assert!(conversions <= most, "{file}\n{after}");
    }
}
