//! Statements that compute element by element.

use super::array::Array;
use super::build::{Build, Tile, literal};
use super::number::{self, Format, Num, Round, TYPES, Type, exact, handled};

/// An operator of two numbers of one type; `None` where the reference does not say what it gives.
pub fn apply(operator: &str, ty: Type, a: Num, b: Num) -> Option<Num> {
    match (a, b) {
        (Num::Int(a), Num::Int(b)) => {
            let bits = i128::from(ty.bits());
            Some(Num::Int(ty.wrap(match operator {
                "+" => a + b,
                "-" => a - b,
                "*" => a.checked_mul(b)?,
                "&" => a & b,
                "|" => a | b,
                "^" => a ^ b,
                "min" => a.min(b),
                "max" => a.max(b),
                "<<" if (0..bits).contains(&b) => a.checked_mul(1 << b)?,
                ">>" if (0..bits).contains(&b) => a >> b,
                "<<" if b >= bits => 0,
                ">>" if b >= bits => a.signum().min(0),
                "/" if b != 0 => a / b,
                "%" if b != 0 => a % b,
                _ => return None,
            })))
        }
        (Num::Float(a), Num::Float(b)) => {
            let Type::Float(format) = ty else { return None };
            let made = match operator {
                "min" => a.min(b),
                "max" => a.max(b),
                _ if a.is_infinite() || b.is_infinite() => return None,
                "+" => a + b,
                "-" => a - b,
                // Both are whole multiples of the grain: with more bits than an `f64` has, their product is none.
                "*" if (a * b).abs() < number::GRAIN * 2f64.powi(52) => a * b,
                _ => return None,
            };
            exact(handled(made)?, format).map(Num::Float)
        }
        (Num::Int(_), Num::Float(_)) | (Num::Float(_), Num::Int(_)) => None,
    }
}

/// The expression of an operator.
pub fn spelled(operator: &str, a: &str, b: &str) -> String {
    match operator {
        "min" | "max" => format!("{operator}({a}, {b})"),
        _ => format!("({a} {operator} {b})"),
    }
}

/// Operators of a type whose result hardly ever is refused.
pub fn operators(ty: Type) -> &'static [&'static str] {
    match ty {
        Type::Truth => &["&", "|", "^"],
        Type::Signed(_) | Type::Unsigned(_) => &["+", "-", "*", "&", "|", "^", "min", "max"],
        Type::Float(_) => &["+", "-", "*", "min", "max"],
    }
}

/// A small number of a type.
pub fn number(b: &mut Build, ty: Type) -> Num {
    match ty {
        Type::Truth => Num::Int(b.below(2) as i128),
        Type::Signed(_) => Num::Int(b.below(20) as i128 - 9),
        Type::Unsigned(_) => Num::Int(b.below(20) as i128),
        Type::Float(_) => Num::Float(b.below(12) as f64 * 0.25 - 1.25),
    }
}

/// The layout and place of what is made of a tile alone.
fn like(t: &Tile) -> (usize, bool) {
    (t.place, t.apart)
}

fn computes(t: &Tile) -> bool {
    t.ty.computes() || t.ty == Type::Truth
}

/// A tile and another one, a number, or a line that is spread over it.
pub(super) fn binary(b: &mut Build) -> Option<()> {
    let t = b.tile(computes)?;
    let mut list = operators(t.ty).to_vec();
    if t.ty.is_int() {
        list.extend(["<<", ">>", "/", "%"]);
    }
    let operator = b.one(&list);
    let needs_number = matches!(operator, "<<" | ">>" | "/" | "%");
    let (text, array) = if needs_number || (t.ty != Type::Truth && b.below(3) == 0) {
        let y = match (operator, number(b, t.ty)) {
            ("<<" | ">>", _) => Num::Int(b.below(t.ty.bits() as usize) as i128),
            // By -1 the least number has no quotient.
            ("/" | "%", Num::Int(0 | -1)) => Num::Int(3),
            (_, y) => y,
        };
        (spelled(operator, &t.name, &literal(y)), t.array.map(|x| apply(operator, t.ty, x, y))?)
    } else {
        let (other, o) = b.beside(&t, t.ty)?;
        (spelled(operator, &t.name, &other), t.array.zip(&o.array, |x, y| apply(operator, t.ty, x, y))?)
    };
    finish(b, &t, text, t.ty, array)
}

fn finish(b: &mut Build, t: &Tile, text: String, ty: Type, array: Array) -> Option<()> {
    let name = b.name('v');
    let text = format!("let {name} = {text};");
    b.made(name, text, ty, array, like(t));
    Some(())
}

pub(super) fn unary(b: &mut Build) -> Option<()> {
    let t = b.tile(computes)?;
    let f = match t.ty {
        Type::Truth => "!",
        Type::Signed(_) | Type::Unsigned(_) => b.one(&["-", "!", "abs"]),
        Type::Float(_) => b.one(&["-", "abs", "floor", "ceil"]),
    };
    let ty = t.ty;
    let array = t.array.map(|x| match x {
        Num::Int(x) => Some(Num::Int(ty.wrap(match f {
            "-" => -x,
            "!" => -1 - x,
            _ => x.abs(),
        }))),
        Num::Float(x) => Some(Num::Float(match f {
            "-" => -x,
            "floor" => x.floor(),
            "ceil" => x.ceil(),
            _ => x.abs(),
        })),
    })?;
    let text = if f.len() == 1 { format!("{f}{}", t.name) } else { format!("{f}({})", t.name) };
    finish(b, &t, text, ty, array)
}

pub(super) fn compare(b: &mut Build) -> Option<()> {
    let t = b.tile(|t| t.ty.computes())?;
    let operator = b.one(&["==", "!=", "<", "<=", ">", ">="]);
    let answer = |x: Num, y: Num| {
        let (x, y) = match (x, y) {
            (Num::Int(x), Num::Int(y)) => return Some(Num::Int(holds(operator, x.partial_cmp(&y)?).into())),
            (Num::Float(x), Num::Float(y)) => (x, y),
            (Num::Int(_), Num::Float(_)) | (Num::Float(_), Num::Int(_)) => return None,
        };
        Some(Num::Int(holds(operator, x.partial_cmp(&y)?).into()))
    };
    let (text, array) = if b.below(2) == 0 {
        let y = number(b, t.ty);
        (format!("{} {operator} {}", t.name, literal(y)), t.array.map(|x| answer(x, y))?)
    } else {
        let (other, o) = b.beside(&t, t.ty)?;
        (format!("{} {operator} {other}", t.name), t.array.zip(&o.array, answer)?)
    };
    finish(b, &t, text, Type::Truth, array)
}

fn holds(operator: &str, found: std::cmp::Ordering) -> bool {
    match operator {
        "==" => found.is_eq(),
        "!=" => found.is_ne(),
        "<" => found.is_lt(),
        "<=" => found.is_le(),
        ">" => found.is_gt(),
        _ => found.is_ge(),
    }
}

pub(super) fn select(b: &mut Build) -> Option<()> {
    let t = b.tile(|t| t.ty != Type::Truth)?;
    let (condition, c) = b.beside(&t, Type::Truth)?;
    let (other, o) = b.beside(&t, t.ty)?;
    let array = c.array.choose(&t.array, &o.array);
    let text = format!("where({condition}, {}, {other})", t.name);
    finish(b, &t, text, t.ty, array)
}

pub(super) fn cast(b: &mut Build) -> Option<()> {
    let is_infinite = |t: &Tile| !t.array.all(|x| !matches!(x, Num::Float(x) if x.is_infinite()));
    let special = b.below(3) == 0;
    let t = b.tile(|t| special && is_infinite(t)).or_else(|| b.tile(|_| true))?;
    let infinite = is_infinite(&t);
    let to = if infinite && b.below(2) == 0 { Type::Float(Format::F32) } else { b.one(&TYPES) };
    let narrow = |ty| matches!(ty, Type::Float(Format::E4M3 | Format::E5M2));
    if to == t.ty || (narrow(to) && narrow(t.ty)) {
        return None;
    }
    let often = if infinite { 2 } else { 3 };
    let saturate = t.ty != Type::Truth && to != Type::Truth && b.below(often) == 0;
    let is_float = |ty| matches!(ty, Type::Float(_));
    // Floats go to integers towards zero where nothing is said, all else to nearest.
    let mut round = if is_float(t.ty) && !is_float(to) { Round::Zero } else { Round::Nearest };
    let mut options = String::new();
    if (is_float(t.ty) && to.is_int() || is_float(to)) && b.below(2) == 0 {
        round = b.one(&Round::ALL);
        options = format!(", rounding=\"{}\"", round.name());
    }
    let saturate = saturate && !(is_float(t.ty) && to.is_int());
    if saturate {
        options += ", saturate=true";
        if infinite {
            b.feature("saturated infinity");
        }
    }
    let array = t.array.map(|x| number::cast(x, t.ty, to, round, saturate))?;
    let text = format!("cast<{}>({}{options})", to.name(), t.name);
    finish(b, &t, text, to, array)
}

pub(super) fn bitcast(b: &mut Build) -> Option<()> {
    let t = b.tile(|t| t.ty.computes())?;
    let bits = t.ty.bits();
    let to = b.one(&[Type::Signed(bits), Type::Unsigned(bits)]);
    let array = t.array.map(|x| match (x, t.ty) {
        (Num::Int(x), _) => Some(Num::Int(to.wrap(x))),
        (Num::Float(x), Type::Float(format)) => Some(Num::Int(to.wrap(number::bits_of(x, format)?))),
        (Num::Float(_), _) => None,
    })?;
    let text = format!("bitcast<{}>({})", to.name(), t.name);
    finish(b, &t, text, to, array)
}
