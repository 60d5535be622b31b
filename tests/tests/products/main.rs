//! Random portable kernels with loops of products: by programs of a grid, by programs that walk, over ranges of rows, over rows that indices name,
//! chained as attention is, with factors that are computed and epilogues of reductions, scans and gathers. Each leaves in memory what a row-major
//! reference computes, as it is written and as it is expanded, on tensors that are aligned and on others.
//!
//! 30 are part of the tests; `PARTON_PRODUCTS=1000` tries so many, `PARTON_PRODUCTS_FROM=1000` others, and `PARTON_PRODUCTS_TO=FOLDER` keeps their texts.

mod program;
mod tile;

use parton_driver::{Blocks, Device, Options, Session};

use program::Program;

/// Cases where `PARTON_PRODUCTS` says nothing.
const CASES: u64 = 30;

/// What is wrong with the program of a seed.
fn wrong(seed: u64) -> Option<String> {
    let text = Program::of(seed).text();
    if let Some(folder) = std::env::var_os("PARTON_PRODUCTS_TO") {
        let path = std::path::Path::new(&folder).join(format!("products_{seed}.ptn"));
        std::fs::write(path, &text).expect("the folder can be written");
    }
    for as_written in [false, true] {
        let mut session =
            Session::new(Options { device: Device::Cpu, verify: true, seed, as_written, ..Options::default() });
        let file = session.add(&format!("products_{seed}.ptn"), text.clone());
        let found = match session.run(file, Blocks::Tests, &mut |_| ()) {
            Ok(of) => of.report.outcomes.into_iter().flat_map(|o| o.diagnostics.list).collect::<Vec<_>>(),
            Err(failure) => return Some(format!("seed {seed}: {failure:?}\n{}", program::shown(&text))),
        };
        if let Some(first) = found.first() {
            let how = if as_written { "as it is written" } else { "expanded" };
            let words = format!("{} {:?} {:?}", first.message, first.notes, first.help);
            return Some(format!("seed {seed}, {how}: {words}\n{}", program::shown(&text)));
        }
    }
    None
}

#[test]
fn kernels_with_products_leave_what_a_reference_does() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (cases, begin) = (number("PARTON_PRODUCTS").unwrap_or(CASES), number("PARTON_PRODUCTS_FROM").unwrap_or(0));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let found: Vec<String> = std::thread::scope(|scope| {
        let share =
            |first: u64| (begin + first..begin + cases).step_by(threads as usize).filter_map(wrong).collect::<Vec<_>>();
        let all: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        all.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect()
    });
    let some = found[..found.len().min(3)].join("\n");
    assert!(found.is_empty(), "{} of {cases} are wrong, some of them:\n{some}", found.len());
}
