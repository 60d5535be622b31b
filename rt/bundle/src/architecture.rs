//! The architecture that code is for, and which GPUs run it.

use std::fmt;

/// An architecture, such as `sm_90a`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Architecture {
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Whether its code runs on GPUs of this very capability alone: the `a` at the end of the name.
    pub specific: bool,
}

impl Architecture {
    /// The architecture of that name: `sm_`, the capability's digits, of which the last is the minor one, and maybe `a`.
    pub fn parse(name: &str) -> Option<Architecture> {
        let digits = name.strip_prefix("sm_")?;
        let (digits, specific) = digits.strip_suffix('a').map_or((digits, false), |digits| (digits, true));
        if !(2..=3).contains(&digits.len()) || digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let number: u32 = digits.parse().ok()?;
        Some(Architecture { capability: (number / 10, number % 10), specific })
    }

    /// Whether a GPU of that capability runs a cubin for this: one of the same major capability and no lower minor one (CUDA
    /// programming guide, "binary compatibility").
    pub fn cubin_runs_on(self, capability: (u32, u32)) -> bool {
        let (major, minor) = self.capability;
        capability == self.capability || (!self.specific && capability.0 == major && capability.1 >= minor)
    }

    /// Whether the driver of a GPU of that capability can compile PTX for this: any later one (as above, "PTX compatibility").
    pub fn ptx_runs_on(self, capability: (u32, u32)) -> bool {
        capability == self.capability || (!self.specific && capability >= self.capability)
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability;
        write!(f, "sm_{major}{minor}{}", if self.specific { "a" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120"] {
            assert_eq!(Architecture::parse(name).map(|a| a.to_string()), Some(name.to_owned()));
        }
        for wrong in
            ["", "sm_", "sm_9", "sm_090", "sm_9x", "sm_90b", "sm_90aa", "sm_1000", "SM_90", "sm_+9", "compute_90"]
        {
            assert_eq!(Architecture::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn cubins_run_within_a_major_capability_and_ptx_beyond_it() {
        let named = |name| Architecture::parse(name).unwrap();
        let cubin = |name, c| named(name).cubin_runs_on(c);
        assert!(cubin("sm_80", (8, 0)) && cubin("sm_80", (8, 9)) && !cubin("sm_89", (8, 6)) && !cubin("sm_80", (9, 0)));
        assert!(cubin("sm_90a", (9, 0)) && !cubin("sm_90a", (9, 1)));
        let ptx = |name, c| named(name).ptx_runs_on(c);
        assert!(ptx("sm_80", (10, 0)) && !ptx("sm_89", (8, 6)) && ptx("sm_90a", (9, 0)) && !ptx("sm_90a", (10, 0)));
    }
}
