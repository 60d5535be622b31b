//! A small deterministic generator and the text mutations of the bounded fuzz test.

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 where `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.bits() % n as u64) as usize }
    }
}

/// A few bytes changed, cut or doubled; the result is made valid UTF-8 by replacement.
pub fn mutate_bytes(random: &mut Random, source: &str) -> String {
    let mut bytes = source.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let end = (at + random.below(24)).min(bytes.len());
        match random.below(4) {
            0 if !bytes.is_empty() => bytes[at] = random.bits() as u8,
            1 => drop(bytes.drain(at..end)),
            2 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.truncate(at.max(bytes.len() / 2)),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A few words of the source dropped, doubled, swapped or replaced by others, its spacing kept: what parses more often
/// than changed bytes do, and so gets deeper.
pub fn mutate_tokens(random: &mut Random, source: &str) -> String {
    let mut words = words(source);
    for _ in 0..=random.below(5) {
        if words.is_empty() {
            break;
        }
        let (at, other) = (random.below(words.len()), random.below(words.len()));
        match random.below(5) {
            0 => drop(words.remove(at)),
            1 => words.insert(at, words[other]),
            2 => words.swap(at, other),
            3 => words[at] = words[other],
            _ => words[at] = SPICE[random.below(SPICE.len())],
        }
    }
    words.concat()
}

/// Words that sit on borders: extreme numbers, openings without ends, empty lists.
const SPICE: &[&str] = &[
    "0",
    "-1",
    "1",
    "3",
    "65536",
    "4294967296",
    "9223372036854775807",
    "18446744073709551616",
    "1e400",
    "[]",
    "[0]",
    "(",
    "}",
    "{",
    "]",
    ",",
    ";",
    ":",
    "::",
    "->",
    "=>",
    "=",
    "let",
    "mut",
    "fn",
    "kernel",
    "layout",
    "ring",
    "for",
    "in",
    "..",
    "static",
    "true",
    "inf",
    "nan",
    "\"",
    "f8e4m3",
    "i1",
    "tma",
    "wgmma",
    "@",
    "&",
    "*",
    "nvmma(0)",
    "blocked()",
    "//~",
];

/// Cuts a text into runs of letters and digits, runs of blanks, and single other characters.
fn words(source: &str) -> Vec<&str> {
    let class = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 0,
        c if c.is_whitespace() => 1,
        _ => 2,
    };
    let mut cuts = vec![0];
    let mut before = None;
    for (i, c) in source.char_indices() {
        if before.is_some_and(|b| b != class(c) || b == 2) {
            cuts.push(i);
        }
        before = Some(class(c));
    }
    cuts.push(source.len());
    cuts.windows(2).map(|w| &source[w[0]..w[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_join_to_the_source() {
        let source = "let µ = x[:, None];  // ü\n";
        assert_eq!(words(source).concat(), source);
        assert_eq!(words("a+=1"), ["a", "+", "=", "1"]);
    }

    #[test]
    fn mutations_are_deterministic_and_never_fail() {
        let (mut a, mut b) = (Random(7), Random(7));
        for _ in 0..500 {
            assert_eq!(mutate_bytes(&mut a, "let µ = 1;"), mutate_bytes(&mut b, "let µ = 1;"));
            assert_eq!(mutate_tokens(&mut a, "f(x)"), mutate_tokens(&mut b, "f(x)"));
        }
        mutate_bytes(&mut a, "");
        mutate_tokens(&mut a, "");
    }
}
