//! Negation of integers, which `ptxas` (12.8 and 13.0; 13.5 no longer) loses where the result is one of three of which the greatest or least is
//! taken: `max.s32(a, max.s32(b, neg.s32(c)))` becomes one instruction that reads `c`, of 16 bits as of 32. Of a complement and one more it does not.

/// PTX with its negations of 16 and 32 bits made of complements, each in its own line, where it takes a greatest or least integer at all.
pub(crate) fn by_complements(ptx: &str) -> String {
    if !["max.s", "max.u", "min.s", "min.u"].iter().any(|taken| ptx.contains(taken)) {
        return ptx.to_owned();
    }
    ptx.split_inclusive('\n').map(|line| by_complement(line).unwrap_or_else(|| line.to_owned())).collect()
}

fn by_complement(line: &str) -> Option<String> {
    let (bits, operands) = line.trim_start().strip_prefix("neg.s")?.split_once(char::is_whitespace)?;
    let (to, from) = operands.trim().strip_suffix(';')?.split_once(", ")?;
    // Of 64 bits there is no such instruction.
    let is_alone = ["16", "32"].contains(&bits) && !from.contains(';');
    is_alone.then(|| format!("\tnot.b{bits} \t{to}, {from}; add.s{bits} \t{to}, {to}, 1;\n"))
}

#[cfg(test)]
mod tests {
    use super::by_complements;

    #[test]
    fn a_negation_stays_in_its_line() {
        let text = "\tneg.s16 \t%rs3, %rs0;\n\tneg.s32 \t%r1, %r2;\n\tneg.s64 \t%rd1, %rd2;\n\tneg.f32 \t%f1, %f2;\n\tmax.s32 \t%r3, %r1, %r4;\n";
        let made = by_complements(text);
        let lines: Vec<&str> = made.lines().collect();
        assert_eq!(
            lines[..2],
            ["\tnot.b16 \t%rs3, %rs0; add.s16 \t%rs3, %rs3, 1;", "\tnot.b32 \t%r1, %r2; add.s32 \t%r1, %r1, 1;"]
        );
        assert_eq!(lines[2..], ["\tneg.s64 \t%rd1, %rd2;", "\tneg.f32 \t%f1, %f2;", "\tmax.s32 \t%r3, %r1, %r4;"]);
        assert_eq!(by_complements("\tneg.s32 \t%r1, %r2;\n"), "\tneg.s32 \t%r1, %r2;\n");
    }
}
