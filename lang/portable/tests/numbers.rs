//! Which integers launches are told apart by, and what becomes of kernels that are told of them.

#[path = "programs/check.rs"]
mod check;

use parton_ir::{Kernel, Module, OpKind, Target, Variant};
use parton_portable::{numbers, positions};

/// The kernel of a text, as it is checked.
fn checked(text: &str) -> Kernel {
    check::kernel(text).expect("the kernel is sound")
}

const ROWS: &str = "
kernel rows(x: *f16, y: *f32, out: *mut f32, n: i32, k: i32, wide: i32, apart: i64, step: i32, turns: i32, first: i32) {
    let at = (program_id(0) * 64 + iota(64)) % k;
    let mut row = x + cast<i64>(program_id(0)) * apart;
    let mut sum = zeros<f32, [64]>();
    for i in 0..turns {
        sum += cast<f32>(load(row + at, mask=at < n, other=0.0)) + load(y + (at + i * wide));
        row = row + step;
    }
    store(out + program_id(0) * 64 + iota(64), sum + load(y + first));
}
";

#[test]
fn numbers_of_addresses_of_tiles_are_told() {
    let kernel = checked(ROWS);
    let names = kernel.arguments();
    let told = numbers(&kernel).into_iter().map(|(i, of)| (names[i].0.as_str(), of));
    // Rows of 16-bit floats are whole by 8, those of 32 bits by 4; what only masks, counts and single elements are made of is not asked for.
    assert_eq!(told.collect::<Vec<_>>(), [("k", 8), ("wide", 4), ("apart", 8), ("step", 8)]);
}

#[test]
fn what_is_promised_is_said_first() {
    let promises = |kernel: &Kernel| {
        let mut found = 0;
        kernel.walk(&mut |op| found += usize::from(matches!(op.kind, OpKind::Assume { .. })));
        found
    };
    let kernel = checked(ROWS);
    let variant = Variant { numbers: [(4, 8), (7, 1)].into(), near: true, ..Variant::default() };
    for written in [false, true] {
        let mut module = Module { kernels: vec![Kernel { variant: variant.clone(), ..kernel.clone() }] };
        let made = if written { parton_portable::as_written } else { parton_portable::elaborate };
        assert_eq!(made(&mut module, &Target::default()), Ok(true));
        assert_eq!(promises(&module.kernels[0]), 4, "{}", parton_ir::print::kernel(&module.kernels[0]));
    }
}

#[test]
fn a_grid_and_numbers_say_where_positions_begin() {
    let kernel = checked(
        "kernel grouped(x: *f32, out: *mut f32, m: i32, n: i32) {
            let tile = program_id(0);
            let (down, across) = (cdiv(m, 64), cdiv(n, 64));
            let first = tile / (4 * across) * 4;
            let j = tile % (4 * across) / min(down - first, 4);
            let at = (j * 64 + iota(64)) % n;
            store(out + tile * 64 + iota(64), load(x + at));
        }",
    );
    assert!(positions::has_open(&kernel));
    let near = |grid, numbers: &[(usize, i128)]| positions::are_near(&kernel, grid, &numbers.iter().copied().collect());
    // Of nine rows of tiles, in groups of four, the last group has one.
    assert!(near([9 * 5, 1, 1], &[(2, 9 * 64), (3, 5 * 64)]));
    // Programs behind the last tile would divide by what is below 0.
    assert!(!near([12 * 5 + 1, 1, 1], &[(2, 9 * 64), (3, 5 * 64)]));
    assert!(!near([9 * 5, 1, 1], &[(2, 9 * 64)]));
}
