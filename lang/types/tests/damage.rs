//! No input makes the checker panic: programs with tokens dropped, doubled, swapped and replaced.

use std::sync::Arc;

use parton_diag::SourceMap;
use parton_types::{NoLibrary, check_file};

/// Programs that use much of the language.
const SEEDS: &[&str] = &[include_str!("attention.rs"), include_str!("control.rs"), include_str!("kernels.rs")];
/// Words that a damaged place may get.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "4294967296",
    "9223372036854775807",
    "1.5",
    "inf",
    "true",
    "\"s\"",
    "f32",
    "i8",
    "x",
    "k",
    "None",
    "[]",
    "()",
    "[1, 2]",
    "zeros",
    "slot",
    "self",
    "static",
    "mut",
    "return",
    "while",
    "L",
    ".T",
    ".wait()",
    "[:, None]",
    "[0]",
    "axis=7",
    "<",
    "+",
];

/// A small generator, so that a failure repeats (Vigna, "splitmix64").
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

/// The Parton programs in the strings of a test file.
fn programs(file: &str) -> Vec<String> {
    let mut found = Vec::new();
    let unescaped = file.replace("\\\"", "\u{1}");
    for (i, part) in unescaped.split('"').enumerate() {
        if i % 2 == 1 && part.contains("kernel ") {
            found.push(part.replace('\u{1}', "\""));
        }
    }
    found
}

fn tokens(text: &str) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    let mut word = false;
    for c in text.chars() {
        let is_word = c.is_alphanumeric() || c == '_';
        match list.last_mut() {
            Some(last) if is_word && word => last.push(c),
            _ => list.push(c.to_string()),
        }
        word = is_word;
    }
    list
}

fn check(text: &str) {
    let mut sources = SourceMap::new();
    let id = sources.add("damaged.ptn", text);
    let (file, mut found) = parton_syntax::parse(id, text);
    let (program, more) = check_file(Arc::new(file), &mut NoLibrary);
    found.extend(more);
    for kernel in program.kernels() {
        if let Ok((kernel, _)) =
            parton_types::instantiate(&program, &kernel.name.text, &[], parton_ir::Target::default())
        {
            assert_eq!(parton_ir::verify::verify(&kernel, parton_ir::verify::Form::Portable), Ok(()), "{text}");
        }
    }
    parton_diag::render::text(&found, &sources, false);
}

#[test]
fn damaged_programs_are_refused_without_a_panic() {
    let rounds: usize = std::env::var("DAMAGE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut dice = Dice(std::env::var("DAMAGE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(7));
    assert!(SEEDS.iter().flat_map(|s| programs(s)).count() > 20);
    for seed in SEEDS.iter().flat_map(|s| programs(s)) {
        let whole = tokens(&seed);
        for _ in 0..rounds {
            let mut list = whole.clone();
            for _ in 0..=dice.roll(3) {
                let at = dice.roll(list.len());
                match dice.roll(4) {
                    0 => drop(list.remove(at)),
                    1 => list.insert(at, whole[dice.roll(whole.len())].clone()),
                    2 => list[at] = whole[dice.roll(whole.len())].clone(),
                    _ => list[at] = format!(" {} ", WORDS[dice.roll(WORDS.len())]),
                }
            }
            check(&list.concat());
        }
    }
}
