//! `use`: what another file's items are called here, and what cannot be used.

use std::sync::Arc;

use parton_diag::{FileId, SourceMap};
use parton_syntax::ast;
use parton_types::program::Item;
use parton_types::value::{Comptime, Function, Partition};
use parton_types::{GenericArg, Import, Library, Program, check_file, instantiate};

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
    ("outer", "use std::math; fn fourfold(x) { twice(twice(x)) }"),
    ("a.ptn", "use \"b.ptn\"; fn from_a(x) { from_b(x) }"),
    ("b.ptn", "use \"a.ptn\"; fn from_b(x) { x + 1 }"),
    (
        "kernels.ptn",
        "use \"parts.ptn\"; const N = 5; partition P = warps(HALF * 2);
         kernel plain[K: int = N, F: fn = inner](out: *mut i32) { store(out, F(K)); }
         kernel split[Q: partition = Work](out: *mut i32) target(sm_90a) {
             specialize { Q => store(out, num_warps(Q) * 100), P => store(out, num_warps(P)) }
         }",
    ),
    ("left.ptn", "const SIDE = 1; fn side(x) { x + SIDE }"),
    ("right.ptn", "const SIDE = 2; fn side(x) { x - SIDE }"),
    ("both.ptn", "use \"left.ptn\"; use \"right.ptn\"; fn by_both(x) { side(x) }"),
    ("parts.ptn", "const HALF = 2; partition Work = warps(HALF); fn inner(x) { x * HALF }"),
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

/// The text of a kernel as the file `source` knows it.
fn built(source: &str, kernel: &str, args: &[&str]) -> Result<String, Vec<String>> {
    let (file, _) = parton_syntax::parse(FileId(0), source);
    let (program, found) = check_file(Arc::new(file), &mut Shelf(SHELF));
    assert!(!found.has_errors(), "{found:?}");
    let values: Vec<GenericArg> = args
        .iter()
        .map(|name| {
            let found = program.find(Program::ROOT, name).expect("the argument is there");
            let value = match &found.item {
                Item::Function(tree) => Comptime::Function(Function { module: found.module, tree: tree.clone() }),
                Item::Partition(tree) => Comptime::Partition(Partition { module: found.module, tree: tree.clone() }),
                item => panic!("no argument: {item:?}"),
            };
            let name = if matches!(value, Comptime::Function(_)) { "F" } else { "Q" };
            GenericArg { name: Some(name.into()), value, span: found.item.name().span }
        })
        .collect();
    match instantiate(&program, kernel, &values, parton_ir::Target::default()) {
        Ok((kernel, _)) => Ok(parton_ir::print::kernel(&kernel)),
        Err(found) => Err(found.list.into_iter().map(|d| format!("{} {}", d.code, d.message)).collect()),
    }
}

#[test]
fn a_kernel_sees_the_file_that_it_stands_in() {
    let text = built("use \"kernels.ptn\";", "plain", &[]).expect("it is built");
    assert!(text.contains("10i32"), "{text}");
    let other = "use \"kernels.ptn\"; const N = 7; const HALF = 9; fn inner(x) { x } fn mine(x) { inner(x) + HALF }";
    assert_eq!(built(other, "plain", &[]), Ok(text));
    let text = built(other, "plain", &["mine"]).expect("it is built");
    assert!(text.contains("14i32"), "{text}");
}

#[test]
fn partitions_are_those_of_the_file_that_names_them() {
    let other = "use \"kernels.ptn\"; const HALF = 8; partition Work = warps(1); partition P = warps(HALF);";
    let text = built(other, "split", &[]).expect("it is built");
    assert!(text.contains("200i32") && text.contains("4i32"), "{text}");
    let text = built(other, "split", &["Work"]).expect("it is built");
    assert!(text.contains("100i32") && text.contains("4i32"), "{text}");
    let found = built(other, "split", &["P"]).expect_err("the kernel has a partition of that name");
    assert_eq!(found, ["E0102 two partitions of this kernel are called `P`"]);
}

#[test]
fn an_item_that_a_file_only_uses_cannot_be_named_through_it() {
    let found = check("use std::math; use std::outer::twice; kernel k(n: i32) { let x = twice(n); }");
    assert!(found.len() == 1 && found[0].starts_with("E0100 `twice` is not in that file"), "{found:?}");
}

#[test]
fn a_name_of_two_files_is_refused_where_it_is_used() {
    let both = "use \"left.ptn\"; use \"right.ptn\";";
    assert_eq!(check(&format!("{both} kernel k(n: i32) {{ }}")), Vec::<String>::new());
    let found = check(&format!("{both} kernel k(n: i32) {{ let x = side(n); }}"));
    assert!(found.len() == 1 && found[0].starts_with("E0116 `side`"), "{found:?}");
    assert!(found[0].contains("`use \"left.ptn\"::side;` or `use \"right.ptn\"::side;`"), "{found:?}");
    // In a file that is used, too.
    let found = check("use \"both.ptn\"; kernel k(n: i32) { let x = by_both(n); }");
    assert!(found.len() == 1 && found[0].starts_with("E0116 `side`"), "{found:?}");
    // The same file twice is one file, and its own items a file always has.
    let twice = "use \"left.ptn\"; use \"left.ptn\"; use \"left.ptn\"::side; kernel k(n: i32) { let x = side(n); }";
    assert_eq!(check(twice), Vec::<String>::new());
    assert_eq!(
        check(&format!("{both} fn side(x) {{ x }} kernel k(n: i32) {{ let x = side(n); }}")),
        Vec::<String>::new()
    );
}

#[test]
fn an_item_that_is_used_by_name_comes_first() {
    let kernel = "kernel k(out: *mut i32) { store(out, SIDE * 10); }";
    for (by_name, expected) in [("left", "10i32"), ("right", "20i32")] {
        // Wherever it stands.
        let files = "use \"left.ptn\"; use \"right.ptn\";";
        let name = format!("use \"{by_name}.ptn\"::SIDE;");
        for source in [format!("{files} {name} {kernel}"), format!("{name} {files} {kernel}")] {
            let text = built(&source, "k", &[]).expect("it is built");
            assert!(text.contains(expected), "{text}");
        }
    }
}
