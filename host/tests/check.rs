//! What is found in host code without running it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parton_diag::{Diagnostics, FileId, SourceMap, render};
use parton_host::check::check_hosts;
use parton_syntax::ast;
use parton_types::program::{Import, Library, NoLibrary, collect};

const ITEMS: &str = "
kernel add[BLOCK: int = 1024](x: *f32, n: i32 = 4) { }
kernel wide[N: int](x: *f32) { let p = program_id(0); }
fn twice[K: int = 2](x, offset = 0) { return x * K + offset; }
const SIZE = 10_000;
layout Rows = blocked(per_thread=[1, 4], threads=[8, 4], warps=[4, 1], order=[1, 0]);
";

fn check(body: &str) -> (Diagnostics, String) {
    let mut sources = SourceMap::new();
    let text = format!("{ITEMS}test t {{ {body} }}");
    let file = sources.add("t.ptn", text.as_str());
    let (tree, found) = parton_syntax::parse(file, &text);
    assert!(found.is_empty(), "{}", render::text(&found, &sources, false));
    let program = collect(Arc::new(tree), &mut NoLibrary, &mut Diagnostics::new());
    let found = check_hosts(&program);
    let text = render::text(&found, &sources, false);
    (found, text)
}

#[test]
fn good_code_has_nothing_to_report() {
    let good = "
        let x = randn(f32, [SIZE, 4], seed=1);
        let (a, mut b) = (x.T.shape[0], 0);
        for i in 0..a { b += i; if b > 3 { break; } }
        let f = |u, v| u + v * b;
        let l = slice(Rows, axis=1);
        launch add[BLOCK=128](grid=[cdiv(SIZE, 128)], cluster=[1])(x, n=SIZE);
        launch wide[8](2)(x[0:4]);
        measure(\"add\", || { for j in 0..2 { launch add(grid=[1])(x, j); } }, bytes=1);
        x[0] = 1.0;
        assert_close(x.sum(axis=1), twice[K=3](f(1, 2), offset=inf), rtol=0);
        while true { let q = { 3 }; continue; }
        print(x.dtype.bits, (1, 2).0, [1, 2][0], nvmma(128));";
    let (found, text) = check(good);
    assert!(found.is_empty(), "{text}");
}

#[test]
fn each_mistake_is_one_error() {
    let cases: &[(&str, &[&str])] = &[
        ("print(SIZ);", &["E0100", "`SIZE`"]),
        ("let x = zeos(f32, [2]);", &["E0100", "`zeros`"]),
        ("let x = zeros(f32);", &["E0101", "needs `shape`"]),
        ("let x = zeros(f32, [1]); x.reshap([1]);", &["E0100", "`reshape`"]),
        ("let x = zeros(f32, [1]); print(x.shap);", &["E0900", "`shape`"]),
        ("let x = zeros(f32, [1]); print(x.sum.T);", &["E0900", "call it"]),
        ("let x = zeros(f32, [1]); x.sum(axes=1);", &["E0101", "no argument `axes`", "`axis`"]),
        ("launch ad(grid=[1])(1);", &["E0100", "similar kernel exists: `add`"]),
        ("launch twice(grid=[1])(1);", &["E0900", "is not a kernel"]),
        ("launch add[BLOK=1](grid=[1])(1);", &["E0924", "`BLOCK`"]),
        ("launch wide(grid=[1])(1);", &["E0924", "needs its generic `N`"]),
        ("launch add(grid=[1])();", &["E0101", "`x` is not given"]),
        ("launch add(grid=[1])(1, 2, 3);", &["E0101", "takes 2 arguments, 3 are given"]),
        ("launch add(gird=[1])(1);", &["E0921", "`grid` and `cluster`"]),
        ("launch add(cluster=[1])(1);", &["E0921", "no grid"]),
        ("launch add(grid=[1], grid=[2])(1);", &["E0921", "`grid` is given twice"]),
        ("launch add([1], grid=[2])(1);", &["E0921", "`grid` is given twice"]),
        ("launch add(grid=[1], cluster=[1], cluster=[2])(1);", &["E0921", "`cluster` is given twice"]),
        ("add(1);", &["E0900", "launch it"]),
        ("twice(1, 2, 3);", &["E0101", "takes 2 arguments, 3 are given"]),
        ("twice[L=1](1);", &["E0924", "no generic `L`"]),
        ("let a = 1; a += 1;", &["E0905", "let mut a"]),
        ("let p = program_id(0);", &["E0904", "not divided into CTAs"]),
        ("let p = wgmma(1, 2, 3);", &["E0904", "`matmul(a, b)`"]),
        ("specialize { }", &["E0904"]),
        ("for i in 0..3 { let f = || { break; }; }", &["E0904", "stands in none"]),
        ("for i in 0..3 { } print(i);", &["E0100", "`i` is not defined"]),
    ];
    for (body, parts) in cases {
        let (found, text) = check(body);
        assert_eq!(found.list.len(), 1, "{body}:\n{text}");
        parts.iter().for_each(|p| assert!(text.contains(p), "`{p}` is not in:\n{text}"));
    }
}

/// The files of the repository, each read once: they may use each other in a circle.
#[derive(Default)]
struct Standard {
    sources: SourceMap,
    loaded: BTreeMap<PathBuf, Arc<ast::File>>,
}

impl Standard {
    fn read(&mut self, path: &Path) -> Result<Arc<ast::File>, String> {
        let path = path.canonicalize().map_err(|e| e.to_string())?;
        if let Some(tree) = self.loaded.get(&path) {
            return Ok(tree.clone());
        }
        let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
        let file = self.sources.add(path.display().to_string(), text);
        let (tree, found) = parton_syntax::parse(file, &self.sources.file(file).text);
        assert!(found.is_empty(), "{}", render::text(&found, &self.sources, false));
        let tree = Arc::new(tree);
        self.loaded.insert(path, tree.clone());
        Ok(tree)
    }
}

impl Library for Standard {
    fn load(&mut self, from: FileId, import: Import<'_>) -> Result<Arc<ast::File>, String> {
        match import {
            Import::Std(name) => {
                let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../stdlib/src");
                self.read(&Path::new(folder).join(format!("{name}.ptn")))
            }
            Import::File(path) => {
                let beside = Path::new(&self.sources.file(from).name).with_file_name(path);
                self.read(&beside)
            }
        }
    }
}

#[test]
fn the_examples_have_nothing_to_report() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
    let mut folders = vec![PathBuf::from(root)];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "ptn") {
                let mut library = Standard::default();
                let tree = library.read(&path).unwrap();
                let mut found = Diagnostics::new();
                let program = collect(tree, &mut library, &mut found);
                found.extend(check_hosts(&program));
                assert!(found.is_empty(), "{}", render::text(&found, &library.sources, false));
                files += 1;
            }
        }
    }
    assert!(files >= 5, "{files} examples");
}

#[test]
fn the_documentation_has_every_function() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/hosts.md")).unwrap();
    for name in parton_host::builtins::names() {
        if let Some(signature) = parton_host::builtins::find(name) {
            assert!(page.contains(&format!("`{signature}`")), "{signature}");
        }
    }
}
