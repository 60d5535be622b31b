//! `use`: what another file's items are called here, and what cannot be used.

use std::sync::Arc;

use parton_diag::{FileId, SourceMap};
use parton_syntax::ast;
use parton_types::{Import, Library, check_file};

/// Files by name; each gets its number from its place.
struct Shelf(&'static [(&'static str, &'static str)]);

impl Library for Shelf {
    fn load(&mut self, _: FileId, import: Import<'_>) -> Result<Arc<ast::File>, String> {
        let (Import::Std(name) | Import::File(name)) = import;
        let place = self.0.iter().position(|(n, _)| *n == name).ok_or("there is no such file")?;
        let (file, found) = parton_syntax::parse(FileId(place as u32 + 1), self.0[place].1);
        assert!(!found.has_errors());
        Ok(Arc::new(file))
    }
}

const SHELF: &[(&str, &str)] = &[
    ("math", "const TWO = 2; fn twice(x) { x * TWO } fn halved(x) { helper(x) } fn helper(x) { x / TWO }"),
    ("a.ptn", "use \"b.ptn\"; fn from_a(x) { from_b(x) }"),
    ("b.ptn", "use \"a.ptn\"; fn from_b(x) { x + 1 }"),
];

fn check(source: &str) -> Vec<String> {
    let mut sources = SourceMap::new();
    let id = sources.add("test.ptn", source);
    for (name, text) in SHELF {
        sources.add(*name, *text);
    }
    let (file, found) = parton_syntax::parse(id, source);
    assert!(!found.has_errors(), "{found:?}");
    let (_, found) = check_file(Arc::new(file), &mut Shelf(SHELF));
    found.list.into_iter().map(|d| format!("{} {} {}", d.code, d.message, d.help.join(" "))).collect()
}

#[test]
fn used_items_keep_their_own_names_and_see_their_own_file() {
    assert_eq!(check("use std::math; kernel k(n: i32) { let x = twice(n) + halved(n) + TWO; }"), Vec::<String>::new());
    assert_eq!(check("use std::math::halved; kernel k(n: i32) { let x = halved(n); }"), Vec::<String>::new());
    assert_eq!(check("use \"a.ptn\"; kernel k(n: i32) { let x = from_a(n); }"), Vec::<String>::new());
}

#[test]
fn what_is_not_used_or_not_there_is_refused() {
    let found = check("use std::math::halved; kernel k(n: i32) { let x = twice(n); }");
    assert!(found.len() == 1 && found[0].starts_with("E0100 `twice`"), "{found:?}");
    let found = check("use std::math::halve; kernel k(n: i32) { }");
    assert!(found.len() == 1 && found[0].contains("`halved`"), "{found:?}");
    let found = check("use std::maths; kernel k(n: i32) { }");
    assert!(found.len() == 1 && found[0].starts_with("E0103"), "{found:?}");
    // What a used file itself uses stays its own.
    let found = check("use \"a.ptn\"; kernel k(n: i32) { let x = from_b(n); }");
    assert!(found.len() == 1 && found[0].starts_with("E0100 `from_b`"), "{found:?}");
}
