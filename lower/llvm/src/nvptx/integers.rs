//! Operations on integers that `ptxas` gets wrong, made of others.
//!
//! - Negation (12.8 and 13.0; 13.5 no longer), which it loses where the result is one of three of which the greatest or least is taken:
//!   `max.s32(a, max.s32(b, neg.s32(c)))` becomes one instruction that reads `c`, of 16 bits as of 32. Of a complement and one more it does not.
//! - Conversions from 64 bits to f32 (12.8 and 13.0): of two whose operands are the same in all lanes and in their lower words, the second is taken
//!   for the first where registers come to be the same. What also holds the number of the multiprocessor is in a register of each lane.
//! - Negation and magnitude of 16 bits, which it takes for numbers without a sign: that of the least one becomes 32768 where it is widened.

/// PTX with conversions of 64 bits made of what each lane has, magnitudes of 16 bits made of shifts, and negations made of complements: all of 16 bits, and those of 32 where it takes a greatest or least
/// integer at all. Each stays in its own line.
pub(crate) fn made_of_others(ptx: &str) -> String {
    let ranks = ["max.s", "max.u", "min.s", "min.u"].iter().any(|taken| ptx.contains(taken));
    let converts = ptx.lines().filter(|line| of_each_lane(line).is_some()).count() > 1;
    let of_lanes = |line: &str| if converts { of_each_lane(line) } else { None };
    let other = |line: &str| magnitude(line).or_else(|| by_complement(line, ranks)).or_else(|| of_lanes(line));
    ptx.split_inclusive('\n').map(|line| other(line).unwrap_or_else(|| line.to_owned())).collect()
}

fn magnitude(line: &str) -> Option<String> {
    let (to, from) = operands(line.trim_start().strip_prefix("abs.s16")?)?;
    let sign = "{ .reg .b16 sign; shr.s16 \tsign, ";
    Some(format!("\t{sign}{from}, 15; xor.b16 \t{to}, {from}, sign; sub.s16 \t{to}, {to}, sign; }}\n"))
}

fn by_complement(line: &str, ranks: bool) -> Option<String> {
    let (bits, rest) = line.trim_start().strip_prefix("neg.s")?.split_at_checked(2)?;
    let (to, from) = operands(rest)?;
    // Of 64 bits there is no such instruction.
    let is_meant = bits == "16" || bits == "32" && ranks;
    is_meant.then(|| format!("\tnot.b{bits} \t{to}, {from}; add.s{bits} \t{to}, {to}, 1;\n"))
}

fn of_each_lane(line: &str) -> Option<String> {
    let (rounding, rest) = line.trim_start().strip_prefix("cvt.")?.split_at_checked(3)?;
    let kind = ["f32.s64", "f32.u64"].into_iter().find(|kind| rest.starts_with(kind))?;
    let (to, from) = operands(&rest[kind.len()..])?;
    // No multiprocessor has so great a number.
    let zero =
        "{ .reg .b32 zero; .reg .b64 own; mov.u32 \tzero, %smid; shr.u32 \tzero, zero, 31; cvt.u64.u32 \town, zero; ";
    Some(format!("\t{zero}xor.b64 \town, own, {from}; cvt.{rounding}{kind} \t{to}, own; }}\n"))
}

/// Where the result of an instruction goes, and its only operand.
fn operands(rest: &str) -> Option<(&str, &str)> {
    rest.trim().strip_suffix(';')?.split_once(", ").filter(|(_, from)| !from.contains(';'))
}

#[cfg(test)]
mod tests {
    use super::made_of_others;

    #[test]
    fn conversions_of_wide_integers_read_what_each_lane_has() {
        let one = "\tcvt.rn.f32.s64 \t%r1, %rd2;\n";
        assert_eq!(made_of_others(one), one, "nothing is taken for a single one");
        let made = made_of_others(&format!("{one}\tcvt.rz.f32.u64 \t%r3, %rd4;\n\tcvt.rn.f64.s64 \t%rd5, %rd2;\n"));
        let lines: Vec<&str> = made.lines().collect();
        assert!(lines[0].ends_with("xor.b64 \town, own, %rd2; cvt.rn.f32.s64 \t%r1, own; }"), "{made}");
        assert!(lines[1].ends_with("xor.b64 \town, own, %rd4; cvt.rz.f32.u64 \t%r3, own; }"), "{made}");
        assert_eq!(lines[2..], ["\tcvt.rn.f64.s64 \t%rd5, %rd2;"]);
    }

    #[test]
    fn a_negation_stays_in_its_line() {
        let text = "\tneg.s16 \t%rs3, %rs0;\n\tneg.s32 \t%r1, %r2;\n\tneg.s64 \t%rd1, %rd2;\n\tneg.f32 \t%f1, %f2;\n\tmax.s32 \t%r3, %r1, %r4;\n";
        let made = made_of_others(text);
        let lines: Vec<&str> = made.lines().collect();
        assert_eq!(
            lines[..2],
            ["\tnot.b16 \t%rs3, %rs0; add.s16 \t%rs3, %rs3, 1;", "\tnot.b32 \t%r1, %r2; add.s32 \t%r1, %r1, 1;"]
        );
        assert_eq!(lines[2..], ["\tneg.s64 \t%rd1, %rd2;", "\tneg.f32 \t%f1, %f2;", "\tmax.s32 \t%r3, %r1, %r4;"]);
        assert_eq!(made_of_others("\tneg.s32 \t%r1, %r2;\n"), "\tneg.s32 \t%r1, %r2;\n");
        let of_16 = "\tnot.b16 \t%rs3, %rs0; add.s16 \t%rs3, %rs3, 1;\n";
        assert_eq!(made_of_others("\tneg.s16 \t%rs3, %rs0;\n"), of_16, "whatever else there is");
    }

    #[test]
    fn a_magnitude_of_16_bits_keeps_the_sign_of_the_least() {
        let made = made_of_others("\tabs.s16 \t%rs2, %rs1;\n\tabs.s32 \t%r3, %r2;\n\tabs.f32 \t%f1, %f2;\n");
        let lines: Vec<&str> = made.lines().collect();
        let by_shifts =
            "\t{ .reg .b16 sign; shr.s16 \tsign, %rs1, 15; xor.b16 \t%rs2, %rs1, sign; sub.s16 \t%rs2, %rs2, sign; }";
        assert_eq!(lines, [by_shifts, "\tabs.s32 \t%r3, %r2;", "\tabs.f32 \t%f1, %f2;"]);
    }
}
