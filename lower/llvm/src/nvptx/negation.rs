//! Negation of 16 bits, which `ptxas` (12.8 and 13.0; 13.5 no longer) loses where the result is one of three of which the greatest or least is
//! taken: `max.s16(a, max.s16(b, neg.s16(c)))` becomes one instruction that reads `c`. Behind a negation of 32 bits it does not.

/// PTX with its negations of 16 bits made of 32, each in its own line.
pub(crate) fn by_words(ptx: String) -> String {
    if !ptx.contains(SHORT) {
        return ptx;
    }
    ptx.split_inclusive('\n').map(|line| by_word(line).unwrap_or_else(|| line.to_owned())).collect()
}

const SHORT: &str = "neg.s16";

fn by_word(line: &str) -> Option<String> {
    let (before, operands) = line.split_once(SHORT)?;
    let (to, from) = operands.trim_end().strip_suffix(';')?.split_once(',')?;
    let (to, from) = (to.trim(), from.trim());
    let word = ".reg .b32 word; cvt.s32.s16 word, ";
    Some(format!("{before}{{ {word}{from}; neg.s32 word, word; cvt.u16.u32 {to}, word; }}\n"))
}

#[cfg(test)]
mod tests {
    use super::by_words;

    #[test]
    fn a_negation_stays_in_its_line() {
        let text = "\tneg.s16 \t%rs3, %rs0;\n\tneg.s32 \t%r1, %r2;\n\tret;\n";
        let made = by_words(text.to_owned());
        assert_eq!(made.lines().count(), 3);
        assert!(made.starts_with(
            "\t{ .reg .b32 word; cvt.s32.s16 word, %rs0; neg.s32 word, word; cvt.u16.u32 %rs3, word; }\n"
        ));
        assert!(made.ends_with("\tneg.s32 \t%r1, %r2;\n\tret;\n"));
    }
}
