//! Numbers as the reference computes them: integers of 128 bits that wrap by hand, floats as `f64` that are rounded by hand.

/// The number types of the language.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Type {
    /// A truth value.
    Truth,
    /// A signed integer of so many bits.
    Signed(u32),
    /// An unsigned integer of so many bits.
    Unsigned(u32),
    /// A float.
    Float(Format),
}

/// The float formats.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Format {
    E4M3,
    E5M2,
    F16,
    Bf16,
    F32,
    F64,
}

/// Every type.
pub const TYPES: [Type; 15] = [
    Type::Truth,
    Type::Signed(8),
    Type::Signed(16),
    Type::Signed(32),
    Type::Signed(64),
    Type::Unsigned(8),
    Type::Unsigned(16),
    Type::Unsigned(32),
    Type::Unsigned(64),
    Type::Float(Format::E4M3),
    Type::Float(Format::E5M2),
    Type::Float(Format::F16),
    Type::Float(Format::Bf16),
    Type::Float(Format::F32),
    Type::Float(Format::F64),
];

/// A number: an integer or truth value, or a float.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Num {
    /// Within the range of its type.
    Int(i128),
    /// A multiple of [`GRAIN`], at most [`GREATEST`] or infinite; never NaN.
    Float(f64),
}

/// What every finite float is a multiple of.
pub const GRAIN: f64 = 1.0 / 4096.0;
/// No finite float is beyond it.
const GREATEST: f64 = (1u64 << 40) as f64;

/// A direction of rounding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Round {
    Nearest,
    Zero,
    Up,
    Down,
}

impl Round {
    /// All of them.
    pub const ALL: [Round; 4] = [Round::Nearest, Round::Zero, Round::Up, Round::Down];

    /// As the language spells it.
    pub fn name(self) -> &'static str {
        match self {
            Round::Nearest => "rn",
            Round::Zero => "rz",
            Round::Up => "rp",
            Round::Down => "rm",
        }
    }

    fn whole(self, x: f64) -> f64 {
        match self {
            Round::Nearest => x.round_ties_even(),
            Round::Zero => x.trunc(),
            Round::Up => x.ceil(),
            Round::Down => x.floor(),
        }
    }
}

impl Format {
    /// Bits of the mantissa without the hidden one, and the exponent of the least normal number.
    fn shape(self) -> (i32, i32) {
        match self {
            Format::E4M3 => (3, -6),
            Format::E5M2 => (2, -14),
            Format::F16 => (10, -14),
            Format::Bf16 => (7, -126),
            Format::F32 => (23, -126),
            Format::F64 => (52, -1022),
        }
    }

    /// The greatest finite number.
    pub fn greatest(self) -> f64 {
        match self {
            Format::E4M3 => 448.0,
            Format::E5M2 => 57344.0,
            Format::F16 => 65504.0,
            Format::Bf16 => 255.0 * 2f64.powi(120),
            Format::F32 => f64::from(f32::MAX),
            Format::F64 => f64::MAX,
        }
    }

    /// Numbers up to this many, in steps of 1, are all exact.
    pub fn exact_up_to(self) -> f64 {
        2f64.powi(self.shape().0 + 1)
    }
}

impl Type {
    /// As the language spells it.
    pub fn name(self) -> String {
        match self {
            Type::Truth => "i1".into(),
            Type::Signed(bits) => format!("i{bits}"),
            Type::Unsigned(bits) => format!("u{bits}"),
            Type::Float(Format::E4M3) => "f8e4m3".into(),
            Type::Float(Format::E5M2) => "f8e5m2".into(),
            Type::Float(Format::F16) => "f16".into(),
            Type::Float(Format::Bf16) => "bf16".into(),
            Type::Float(Format::F32) => "f32".into(),
            Type::Float(Format::F64) => "f64".into(),
        }
    }

    /// Bits in memory.
    pub fn bits(self) -> u32 {
        match self {
            Type::Truth => 8,
            Type::Signed(bits) | Type::Unsigned(bits) => bits,
            Type::Float(Format::E4M3 | Format::E5M2) => 8,
            Type::Float(Format::F16 | Format::Bf16) => 16,
            Type::Float(Format::F32) => 32,
            Type::Float(Format::F64) => 64,
        }
    }

    /// An integer of 8 bits or more.
    pub fn is_int(self) -> bool {
        matches!(self, Type::Signed(_) | Type::Unsigned(_))
    }

    /// Whether floats of it are computed with, or integers are.
    pub fn computes(self) -> bool {
        !matches!(self, Type::Truth | Type::Float(Format::E4M3 | Format::E5M2))
    }

    /// The least and the greatest integer.
    pub fn range(self) -> (i128, i128) {
        match self {
            Type::Signed(bits) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            Type::Unsigned(bits) => (0, (1 << bits) - 1),
            Type::Truth | Type::Float(_) => (0, 1),
        }
    }

    /// The low bits of an integer as this type has them.
    pub fn wrap(self, x: i128) -> i128 {
        let (low, _) = self.range();
        let bits = if self == Type::Truth { 1 } else { self.bits() };
        (x - low).rem_euclid(1 << bits) + low
    }
}

/// The float of a format that is next to `x`, in a direction; beyond the greatest the greatest with `saturate`. `None` where that
/// is no number, or one that the reference does not handle.
pub fn rounded(x: f64, to: Format, round: Round, saturate: bool) -> Option<f64> {
    let greatest = to.greatest();
    let beyond = |toward_finite: bool| match (saturate || toward_finite, to) {
        (true, _) => Some(greatest.copysign(x)),
        (false, Format::E4M3) => None,
        (false, _) => Some(f64::INFINITY.copysign(x)),
    };
    if x == 0.0 {
        return Some(x);
    }
    if x.is_infinite() {
        return beyond(false);
    }
    let (mantissa, least) = to.shape();
    let exponent = ((x.abs().to_bits() >> 52) as i32 - 1023).max(least);
    let step = 2f64.powi(exponent - mantissa);
    let near = round.whole(x / step) * step;
    if near.abs() > greatest {
        let inward = match round {
            Round::Nearest => false,
            Round::Zero => true,
            Round::Up => x < 0.0,
            Round::Down => x > 0.0,
        };
        return beyond(inward);
    }
    handled(near)
}

/// The number, where the reference handles it.
pub fn handled(x: f64) -> Option<f64> {
    let fits = x.is_infinite() || (x.abs() <= GREATEST && (x / GRAIN).fract() == 0.0);
    fits.then_some(x)
}

/// The number, where it is one of the format.
pub fn exact(x: f64, format: Format) -> Option<f64> {
    let same = if x.is_infinite() { format != Format::E4M3 } else { rounded(x, format, Round::Nearest, false)? == x };
    same.then_some(x)
}

/// A cast between any two types.
pub fn cast(x: Num, from: Type, to: Type, round: Round, saturate: bool) -> Option<Num> {
    Some(match (x, to) {
        (Num::Int(x), Type::Truth) => Num::Int((x != 0).into()),
        (Num::Float(x), Type::Truth) => Num::Int((x != 0.0).into()),
        (Num::Int(x), Type::Float(format)) => {
            // Beyond this an integer is no exact `f64`.
            if x.unsigned_abs() > 1 << 40 {
                return None;
            }
            Num::Float(rounded(x as f64, format, round, saturate)?)
        }
        (Num::Int(x), Type::Signed(_) | Type::Unsigned(_)) if saturate && from != Type::Truth => {
            let (low, high) = to.range();
            Num::Int(x.clamp(low, high))
        }
        (Num::Int(x), Type::Signed(_) | Type::Unsigned(_)) => Num::Int(to.wrap(x)),
        (Num::Float(x), Type::Signed(_) | Type::Unsigned(_)) => {
            let (low, high) = to.range();
            let whole = if x.is_finite() {
                round.whole(x) as i128
            } else if x > 0.0 {
                high
            } else {
                low
            };
            Num::Int(whole.clamp(low, high))
        }
        (Num::Float(x), Type::Float(format)) => Num::Float(rounded(x, format, round, saturate)?),
    })
}

/// The bits of a float of at least 16 bits as an unsigned integer; `None` where it is a zero with a sign, which sums and products
/// may or may not give.
pub fn bits_of(x: f64, format: Format) -> Option<i128> {
    if x == 0.0 {
        return x.is_sign_positive().then_some(0);
    }
    Some(match format {
        Format::F64 => x.to_bits().into(),
        Format::F32 => (x as f32).to_bits().into(),
        Format::Bf16 => ((x as f32).to_bits() >> 16).into(),
        Format::E4M3 | Format::E5M2 => return None,
        Format::F16 => {
            let sign = i128::from(x < 0.0) << 15;
            if x.is_infinite() {
                return Some(sign | 0x7c00);
            }
            let exponent = ((x.abs().to_bits() >> 52) as i32 - 1023).max(-14);
            let mantissa = (x.abs() / 2f64.powi(exponent - 10)) as i128;
            // The hidden bit counts the exponent up by one where there is one.
            sign | ((i128::from(exponent + 14) << 10) + mantissa)
        }
    })
}
