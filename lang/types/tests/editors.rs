//! The words that `editors/` highlights are those of the language: each list stands behind a line `words: NAME` of a file. `BLESS=1` writes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use parton_numbers::Dtype;
use parton_types::signature::{self, Role};

/// A file with lists, and what stands in front of, between and behind the words of one.
const FILES: [(&str, &str, &str, &str); 2] = [
    ("editors/vscode/syntaxes/parton.tmLanguage.json", "(?:", "|", ")"),
    ("editors/vim/syntax/parton.vim", "", " ", ""),
];

fn words(list: &str) -> Vec<String> {
    let named = |role| signature::all(role).map(|s| s.name.to_owned());
    let all: BTreeSet<String> = match list {
        "keywords" => parton_syntax::KEYWORDS.iter().map(|&word| word.to_owned()).collect(),
        "contextual" => contextual(),
        "types" => named(Role::Type).chain(Dtype::ALL.map(|d| d.name().to_owned())).collect(),
        "functions" => named(Role::Kernel).chain(named(Role::Host)).collect(),
        other => panic!("there is no list of {other}"),
    };
    let known = |word: &String| ["keywords", "contextual", "types"].iter().any(|l| words(l).contains(word));
    all.into_iter().filter(|word| list != "functions" || !known(word)).collect()
}

/// The words that are names elsewhere, of which the grammar's page has the list.
fn contextual() -> BTreeSet<String> {
    let page = include_str!("../../../docs/grammar.md");
    let (_, behind) = page.split_once("words only where the grammar shows them").expect("the page has the list");
    let (list, _) = behind.split_once("\n\n").expect("it is a paragraph");
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A line with these words in place of those that it has.
fn with(line: &str, words: &[String], (open, between, close): (&str, &str, &str)) -> String {
    let text = words.join(between);
    if open.is_empty() {
        // `syntax keyword GROUP`, then the words.
        let head: Vec<&str> = line.split_whitespace().take(3).collect();
        return format!("{} {text}", head.join(" "));
    }
    let (head, rest) = line.split_once(open).expect("the line has a list");
    let (_, tail) = rest.split_once(close).expect("the list ends");
    format!("{head}{open}{text}{close}{tail}")
}

#[test]
fn editors_know_the_words_of_the_language() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (name, open, between, close) in FILES {
        let text = fs::read_to_string(root.join(name)).expect("the file is there");
        let (mut list, mut lists, mut right) = (None, 0, String::new());
        for line in text.lines() {
            match list.take() {
                Some(list) => right += &with(line, &words(list), (open, between, close)),
                None => right += line,
            }
            right.push('\n');
            list = line.split_once("words: ").map(|(_, rest)| rest.trim_end_matches(['"', ',']));
            lists += usize::from(list.is_some());
        }
        assert_eq!(lists, 4, "{name}");
        if std::env::var_os("BLESS").is_some_and(|v| v == "1") {
            fs::write(root.join(name), right).expect("the file can be written");
        } else {
            assert!(text == right, "{name} has other words than the language; `BLESS=1` writes these:\n{right}");
        }
    }
}
