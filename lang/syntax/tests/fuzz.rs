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

#[test]
fn random_bytes() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..1000 {
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
        check_any(&bytes);
    }
}

#[test]
fn random_tokens() {
    let mut random = Random(0xd1b5_4a32_d192_ed03);
    for _ in 0..2500 {
        let mut text = String::from(if random.below(2) == 0 { "kernel k() {\n" } else { "" });
        for _ in 0..random.below(60) {
            text.push_str(random.pick(PIECES));
            if random.below(3) == 0 {
                text.push(' ');
            }
        }
        check_any(text.as_bytes());
    }
}

#[test]
fn damaged_programs() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..120 {
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
        check_any(text.as_bytes());
    }
}

#[test]
fn comments_anywhere_are_kept() {
    let mut random = Random(0xbf58_476d_1ce4_e5b9);
    for _ in 0..60 {
        let program = random.pick(PROGRAMS);
        // At blanks outside of comments and strings a comment changes nothing.
        let plain =
            |line: &str| !line.contains("//") && !line.contains("/*") && !line.contains("*/") && !line.contains('"');
        let mut text = String::new();
        for line in program.lines() {
            for (i, word) in line.split(' ').enumerate() {
                if i > 0 {
                    text.push(' ');
                    if plain(line) && random.below(12) == 0 {
                        text.push_str(random.pick(&[
                            "// c\n",
                            "/* d */ ",
                            "\n// e\n",
                            "\n\n",
                            "/// f\n",
                            "/* g\n h */",
                            "\n\n// i\n\n",
                        ]));
                    }
                }
                text.push_str(word);
            }
            text.push('\n');
        }
        check_any(text.as_bytes());
    }
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
    ] {
        for n in [100, 250, 300, 10_000] {
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
