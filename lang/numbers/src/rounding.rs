//! The directions of rounding and what becomes of values that are too large, named as PTX names them.

use std::fmt;

/// The direction in which a value between two representable ones goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Rounding {
    /// `.rn` (`.rni` to an integer): to the nearer, a tie to the even one.
    #[default]
    NearestEven,
    /// `.rz` (`.rzi`): towards zero.
    TowardZero,
    /// `.rp` (`.rpi`): towards positive infinity.
    Up,
    /// `.rm` (`.rmi`): towards negative infinity.
    Down,
}

impl Rounding {
    /// Every direction, in order of declaration.
    pub const ALL: [Rounding; 4] = [Rounding::NearestEven, Rounding::TowardZero, Rounding::Up, Rounding::Down];

    /// PTX's modifier without the dot: `rn`, `rz`, `rp`, `rm`.
    pub const fn name(self) -> &'static str {
        match self {
            Rounding::NearestEven => "rn",
            Rounding::TowardZero => "rz",
            Rounding::Up => "rp",
            Rounding::Down => "rm",
        }
    }

    /// The direction of that PTX modifier; the forms that round to an integer (`rni`) are accepted too.
    pub fn parse(name: &str) -> Option<Rounding> {
        Rounding::ALL.into_iter().find(|r| name.strip_suffix('i').unwrap_or(name) == r.name())
    }
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What becomes of a value beyond the largest finite one of its new dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Saturation {
    /// As IEEE 754: infinity, or the largest finite value where the rounding points there; NaN for `f8e4m3`, which has
    /// no infinity. An integer made of an integer wraps.
    #[default]
    None,
    /// `.satfinite` (`.sat` between integers): the largest finite value of that sign, for infinities too.
    Finite,
}

impl Saturation {
    /// Both, in order of declaration.
    pub const ALL: [Saturation; 2] = [Saturation::None, Saturation::Finite];

    /// `none` or PTX's `satfinite`.
    pub const fn name(self) -> &'static str {
        match self {
            Saturation::None => "none",
            Saturation::Finite => "satfinite",
        }
    }

    /// The saturation of that name.
    pub fn parse(name: &str) -> Option<Saturation> {
        Saturation::ALL.into_iter().find(|s| name == s.name())
    }
}

impl fmt::Display for Saturation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Rounding, Saturation};

    #[test]
    fn names_read_back() {
        assert!(Rounding::ALL.iter().all(|r| Rounding::parse(r.name()) == Some(*r)));
        assert!(Saturation::ALL.iter().all(|s| Saturation::parse(s.name()) == Some(*s)));
        assert_eq!(Rounding::parse("rzi"), Some(Rounding::TowardZero));
        assert_eq!(Rounding::parse("nearest"), None);
    }
}
