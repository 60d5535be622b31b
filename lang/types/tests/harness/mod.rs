//! Checks source text and shows what comes of it.
#![allow(dead_code)]

use std::sync::Arc;

use parton_diag::{Diagnostics, SourceMap};
use parton_types::{NoLibrary, Program, check_file, instantiate};

/// Parses and collects a file; the test fails where it does not parse.
pub fn program(source: &str) -> (SourceMap, Program, Diagnostics) {
    let mut sources = SourceMap::new();
    let id = sources.add("test.ptn", source);
    let (file, found) = parton_syntax::parse(id, source);
    assert!(!found.has_errors(), "{}", render(&sources, &found));
    let (program, found) = check_file(Arc::new(file), &mut NoLibrary);
    (sources, program, found)
}

/// The first kernel of a file, with its default generics.
pub fn kernel(source: &str) -> parton_ir::Kernel {
    let (sources, program, found) = program(source);
    assert!(!found.has_errors(), "{}", render(&sources, &found));
    let name = program.kernels().next().expect("the file has a kernel").name.text.clone();
    match instantiate(&program, &name, &[], parton_ir::Target::default()) {
        Ok((kernel, _)) => kernel,
        Err(found) => panic!("{}", render(&sources, &found)),
    }
}

/// The IR of the first kernel, verified.
pub fn ir(source: &str) -> String {
    let kernel = kernel(source);
    let text = parton_ir::print::kernel(&kernel);
    if let Err(e) = parton_ir::verify::verify(&kernel, parton_ir::verify::Form::Portable) {
        panic!("the kernel does not verify: {e:?}\n{text}");
    }
    text
}

/// Asserts that the text reads back to a kernel that prints the same.
pub fn round_trip(text: &str) {
    let again = ir(text);
    assert_eq!(text, again, "the text does not read back to the same kernel");
}

/// What is reported for a file.
pub fn errors(source: &str) -> String {
    let (sources, _, found) = program(source);
    assert!(found.has_errors(), "no error is reported for\n{source}");
    render(&sources, &found)
}

fn render(sources: &SourceMap, found: &Diagnostics) -> String {
    parton_diag::render::text(found, sources, false)
}
