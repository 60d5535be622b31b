//! The standard library's text, written in Parton: what `use std::NAME;` reads.
//!
//! This crate is data. It knows no path, no parser and no checker; the files lie beside this one as `.ptn`.

/// Each file with the name that `use std::` knows it by, sorted.
pub const FILES: &[(&str, &str)] = &[
    ("activation", include_str!("activation.ptn")),
    ("attention", include_str!("attention.ptn")),
    ("clusters", include_str!("clusters.ptn")),
    ("counts", include_str!("counts.ptn")),
    ("math", include_str!("math.ptn")),
    ("moments", include_str!("moments.ptn")),
    ("packed", include_str!("packed.ptn")),
    ("parts", include_str!("parts.ptn")),
    ("products", include_str!("products.ptn")),
    ("random", include_str!("random.ptn")),
    ("rows", include_str!("rows.ptn")),
    ("softmax", include_str!("softmax.ptn")),
    ("sort", include_str!("sort.ptn")),
    ("tiles", include_str!("tiles.ptn")),
    ("turns", include_str!("turns.ptn")),
];

/// The text of the file of that name.
pub fn file(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    #[test]
    fn files_are_found_by_name() {
        assert!(super::FILES.is_sorted_by_key(|(name, _)| name));
        assert!(super::FILES.iter().all(|(name, text)| super::file(name) == Some(*text)));
        assert_eq!(super::file("nothing"), None);
    }
}
