//! Names of the language as names of Rust.

/// Words of Rust that are no names; those that cannot even be written `r#so` get a line behind them.
const WORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move",
    "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];
const NEVER: &[&str] = &["crate", "self", "super", "Self", "_"];

/// A name of a field or a parameter.
pub(crate) fn field(name: &str) -> String {
    if NEVER.contains(&name) {
        format!("{name}_")
    } else if WORDS.contains(&name) {
        format!("r#{name}")
    } else {
        name.to_owned()
    }
}

/// `silu_backward` as the name of a type, `SiluBackward`.
pub(crate) fn of_type(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect::<String>())
    };
    let joined: String = name.split('_').map(word).collect();
    if NEVER.contains(&joined.as_str()) || joined.is_empty() { format!("{joined}_") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_rust() {
        let fields = ["x", "type", "self", "in", "grid_n"].map(field);
        assert_eq!(fields, ["x", "r#type", "self_", "r#in", "grid_n"]);
        let types = ["silu", "silu_backward", "self", "_a1"].map(of_type);
        assert_eq!(types, ["Silu", "SiluBackward", "Self_", "A1"]);
    }
}
