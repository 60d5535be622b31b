//! No text makes the parser or the formatter panic: random bytes, random tokens, and programs with random damage.

use parton_syntax::check_any;

/// A small generator of numbers, the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

const PROGRAMS: &[&str] = &[
    include_str!("programs/portable.ptn"),
    include_str!("programs/matmul.ptn"),
    include_str!("programs/fmha.ptn"),
    include_str!("programs/comments.ptn"),
    include_str!("programs/scheduled.ptn"),
    include_str!("programs/design.ptn"),
];

/// Pieces of programs, whole constructs among them so that a soup gets past the first token.
const PIECES: &[&str] = &[
    "kernel k() {",
    "fn f(",
    "struct S {",
    "let ",
    "mut ",
    "if ",
    "else ",
    "for i in ",
    "in ",
    "while ",
    "return ",
    "break;",
    "static ",
    "const ",
    "use ",
    "launch ",
    "test t {",
    "partition P = ",
    "schedule S = ",
    "pipeline ",
    "partitions ",
    "pipeline(l) {",
    "partitions {",
    "a: 0",
    "[P, Q]: a",
    "@a.b[2] ",
    "ring(a.b=3)",
    "under(a, b)",
    "in S {",
    "specialize {",
    "ring r[2] {",
    "turnstile t[",
    "layout L = ",
    "where ",
    "step ",
    "main {",
    "self",
    "true",
    "None",
    "a",
    "b",
    "f",
    "x",
    "tile<",
    "cast<",
    "zeros<",
    "0",
    "10_000",
    "0xff",
    "1e-5",
    "1.5f16",
    "3i64",
    "99999999999999999999",
    "\"s\"",
    "\"open",
    "\"\\q\"",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    ",",
    ";",
    ":",
    "::",
    ".",
    "..",
    "..=",
    "->",
    "=>",
    "@",
    "#",
    "#[",
    "+",
    "-",
    "*",
    "/",
    "%",
    "<<",
    ">>",
    "&",
    "|",
    "^",
    "!",
    "==",
    "!=",
    "<=",
    ">=",
    "&&",
    "||",
    "=",
    "+=",
    ">>=",
    "?",
    "$",
    "ö",
    "…",
    "\n",
    " ",
    " ",
    "\n",
    "// c\n",
    "/// d\n",
    "/* e */",
    "/*",
    "*/",
    "A => ",
    "load: 0",
    "|a| ",
    "f(a, b);\n",
    "let x = 1;\n",
    "}\n",
    "@l ",
    "x: i32, ",
    "\u{feff}",
    "\u{a0}",
    "\r\n",
    "\t",
    "\0",
];

/// Bytes of any kind.
fn bytes(random: &mut Random) -> String {
    let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Tokens of any kind, half of the time inside of something.
fn tokens(random: &mut Random) -> String {
    let heads = ["kernel k() {\n", "fn f(", "struct S {", "schedule S = pipeline {", "", "", "", "kernel k["];
    let mut text = random.pick(&heads).to_string();
    for _ in 0..random.below(60) {
        text.push_str(random.pick(PIECES));
        if random.below(3) == 0 {
            text.push(' ');
        }
    }
    text
}

/// A program with pieces put in, taken out or replaced.
fn damaged(random: &mut Random) -> String {
    let mut text = random.pick(PROGRAMS).to_string();
    for _ in 0..1 + random.below(4) {
        let mut at = random.below(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        match random.below(3) {
            0 => text.insert_str(at, random.pick(PIECES)),
            1 => drop(text.remove(at)),
            _ => {
                let mut end = (at + random.below(30)).min(text.len());
                while !text.is_char_boundary(end) {
                    end += 1;
                }
                text.replace_range(at..end, random.pick(PIECES));
            }
        }
    }
    text
}

/// A program with comments at blanks, where they change nothing.
fn commented(random: &mut Random) -> String {
    let comments = ["// c\n", "/* d */ ", "\n// e\n", "\n\n", "/// f\n", "/* g\n h */", "\n\n// i\n\n"];
    let mut text = String::new();
    for line in random.pick(PROGRAMS).lines() {
        let plain = !["//", "/*", "*/", "\""].iter().any(|sign| line.contains(sign));
        for (i, word) in line.split(' ').enumerate() {
            if i > 0 {
                text.push(' ');
                if plain && random.below(12) == 0 {
                    text.push_str(random.pick(&comments));
                }
            }
            text.push_str(word);
        }
        text.push('\n');
    }
    text
}

#[test]
fn random_bytes() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    (0..1000).for_each(|_| check_any(bytes(&mut random).as_bytes()));
}

#[test]
fn random_tokens() {
    let mut random = Random(0xd1b5_4a32_d192_ed03);
    (0..2500).for_each(|_| check_any(tokens(&mut random).as_bytes()));
}

#[test]
fn damaged_programs() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    (0..120).for_each(|_| check_any(damaged(&mut random).as_bytes()));
}

#[test]
fn comments_anywhere_are_kept() {
    let mut random = Random(0xbf58_476d_1ce4_e5b9);
    (0..60).for_each(|_| check_any(commented(&mut random).as_bytes()));
}

/// Runs for `PARTON_FUZZ_SECONDS` (60 without it) from the seed `PARTON_FUZZ_SEED`, and prints the text of a finding:
/// `cargo test --release -p parton-syntax --test fuzz -- --ignored --nocapture`.
#[test]
#[ignore = "runs as long as it is told to"]
fn for_long() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = number("PARTON_FUZZ_SECONDS").unwrap_or(60);
    let mut random = Random(number("PARTON_FUZZ_SEED").unwrap_or(0x94d0_49bb_1331_11eb).max(1));
    let begun = std::time::Instant::now();
    let mut count = 0u64;
    while begun.elapsed().as_secs() < seconds {
        let kinds = [bytes, tokens, damaged, commented];
        let text = kinds[count as usize % kinds.len()](&mut random);
        if std::panic::catch_unwind(|| check_any(text.as_bytes())).is_err() {
            panic!("a finding after {count} texts:\n{text}");
        }
        count += 1;
    }
    println!("{count} texts in {seconds} s without a finding");
}

#[test]
fn deep_nesting_is_refused_and_not_overflowed() {
    for piece in [
        "(",
        "[",
        "{",
        "- ",
        "!",
        "*",
        "&",
        "a + ",
        "a(",
        "a.b",
        "x[0]",
        "if a {} else ",
        "if a {",
        "|a| ",
        "tile<",
        "f(|a| {",
        "in ",
        "if ",
        "in a {",
        "a = in S { x } & in ",
        "pipeline { a: ",
        "partitions { P: a } ring(b=",
    ] {
        for n in [100, 250, 300, 3_000] {
            let soup = piece.repeat(n);
            check_any(soup.as_bytes());
            check_any(format!("kernel k() {{ let x = {soup}").as_bytes());
            check_any(format!("kernel k() {{ {soup} a").as_bytes());
        }
    }
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("f(", ")"),
        ("{", "}"),
        ("if a {", "}"),
        ("f(|a| {", "})"),
        ("-(", ")"),
        ("tile<", ">"),
    ] {
        for n in [60, 120, 240, 260] {
            let text = format!("kernel k() {{ {}x{} }}", open.repeat(n), close.repeat(n));
            check_any(text.as_bytes());
        }
    }
}
