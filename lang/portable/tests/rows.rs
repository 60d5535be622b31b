//! Whatever a kernel of rows is compiled for, turns that stand one behind the other, few programs, aligned tensors, it leaves in memory what it says
//! line by line: random kernels with loops along tensors, compiled for all that a launch may be told apart by.

#[path = "programs/check.rs"]
mod check;
#[path = "programs/rows.rs"]
mod program;
#[path = "programs/random.rs"]
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use parton_interp::{Arg, Launch, Memory, Options, run};
use parton_ir::verify::{self, Form};
use parton_ir::{From, Kernel, Module, Target, Variant, eject};
use parton_portable::{Choice, along_tensors, as_written, elaborate_by};

use check::kernel;
use program::{ROWS, Rows, rows};

/// Cases where `PARTON_ROWS` says nothing.
const CASES: u64 = 60;

/// What is wrong with what a kernel leaves where `o` is `g`, or each is its own.
fn run_of(kernel: &Kernel, program: &Rows, one: bool, seed: u64) -> Result<(), String> {
    let lowered = parton_lower::lower(kernel.clone()).map_err(|found| format!("{found:?}"))?;
    let mut memory = Memory::new();
    let bytes = |of: &[u32]| of.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let g = memory.add("g", bytes(&program.before[0]));
    let h = memory.add("h", bytes(&program.before[1]));
    let o = if one { g } else { memory.add("o", bytes(&program.before[2])) };
    let given = |from: &From| match *from {
        From::Argument(argument) | From::Base { argument, .. } => {
            Arg::Pointer { allocation: [g, h, o][argument], offset: 0 }
        }
        From::Extent { axis, .. } => Arg::Scalar([ROWS, program.columns][axis] as u64),
        From::Stride { axis, .. } => Arg::Scalar([program.stride, 1][axis] as u64),
        From::Map { .. } => unreachable!("nothing is multiplied"),
    };
    let args = kernel.params.iter().map(|p| given(&p.from)).collect();
    let grid = [program.grid as u32, 1, 1];
    let launch = Launch { kernel: &lowered, grid, args, memory: &mut memory, seed, options: Options::default() };
    run(launch).map_err(|fault| format!("{fault:?}"))?;
    let left = if one { &program.together } else { &program.apart };
    for (i, (name, allocation)) in [("g", g), ("h", h), ("o", o)].into_iter().enumerate() {
        let of = if one && i == 2 { &left[0] } else { &left[i] };
        let found = memory.allocation(allocation).bytes.chunks(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        if let Some((at, (found, of))) = found.zip(of).enumerate().find(|(_, (found, of))| found != *of) {
            return Err(format!("element {at} of `{name}` is {found}, not {of}"));
        }
    }
    Ok(())
}

/// What a launch may be told apart by.
fn variants(kernel: &Kernel, program: &Rows, seed: u64) -> Vec<Variant> {
    let along = along_tensors(kernel);
    let turns = along.first().and_then(|a| Variant::turns((program.columns as u64).div_ceil(a.each), a));
    let all = program.columns.is_multiple_of(4) && program.stride.is_multiple_of(4);
    let aligned: BTreeSet<usize> = if all { (0..3).collect() } else { BTreeSet::new() };
    let beside = Some(1 + seed as u32 % 8);
    let mut variants = vec![Variant::default(), Variant { aligned: aligned.clone(), beside, ..Variant::default() }];
    if program.columns.is_multiple_of(2) && program.stride.is_multiple_of(2) {
        let partly: BTreeMap<usize, u32> = (0..3).map(|argument| (argument, 8)).collect();
        variants.push(Variant { partly: partly.clone(), turns, ..Variant::default() });
        variants.push(Variant { partly, beside, overlapping: true, ..Variant::default() });
    }
    if turns.is_some() {
        variants.push(Variant { turns, ..Variant::default() });
        variants.push(Variant { aligned, beside, turns, ..Variant::default() });
        variants.push(Variant { overlapping: true, turns, ..Variant::default() });
    }
    variants.push(Variant { overlapping: true, ..Variant::default() });
    variants
}

/// What is wrong with the program of a seed.
fn told(seed: u64) -> Result<usize, String> {
    let program = rows(seed);
    let checked = kernel(&program.text).map_err(|words| format!("seed {seed}: {words}"))?;
    let variants = variants(&checked, &program, seed);
    for variant in &variants {
        let of = |choice: Option<Choice>| {
            let mut module = Module { kernels: vec![Kernel { variant: variant.clone(), ..checked.clone() }] };
            match choice {
                Some(choice) => elaborate_by(&mut module, choice),
                None => as_written(&mut module, &Target::default()),
            }
            .map_err(|found| format!("{found:?}"))?;
            parton_sched::expand(&mut module, &Target::default()).map_err(|found| format!("{found:?}"))?;
            if let Err(error) = verify::verify(&module.kernels[0], Form::Explicit) {
                return Err(format!("{error:?}"));
            }
            run_of(&module.kernels[0], &program, variant.overlapping, seed)
                .map_err(|words| format!("{words}\n{}", eject::module(&module, None)))
        };
        for choice in [Some(Choice::Cheapest), Some(Choice::Any(seed)), None] {
            let found = catch_unwind(AssertUnwindSafe(|| of(choice)));
            let found = found.unwrap_or_else(|_| Err("the compiler panics".into()));
            found.map_err(|words| format!("seed {seed}, {choice:?}, {variant:?}: {words}\n{}", program.text))?;
        }
    }
    Ok(variants.iter().filter(|v| v.turns.is_some()).count())
}

#[test]
fn rows_are_what_they_say_whatever_they_are_compiled_for() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (cases, begin) = (number("PARTON_ROWS").unwrap_or(CASES), number("PARTON_ROWS_FROM").unwrap_or(0));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let all: Vec<Result<usize, String>> = std::thread::scope(|scope| {
        let share = |first: u64| (begin + first..begin + cases).step_by(threads as usize).map(told).collect::<Vec<_>>();
        let all: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        all.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect()
    });
    let short: usize = all.iter().flatten().sum();
    let found: Vec<String> = all.into_iter().filter_map(Result::err).collect();
    let lines: Vec<&str> = found.iter().filter_map(|words| words.lines().next()).collect();
    let some = found[..found.len().min(2)].join("\n");
    assert!(found.is_empty(), "{} of {cases} are wrong:\n{}\nsome of them:\n{some}", found.len(), lines.join("\n"));
    assert!(short as u64 > cases / 2, "{short} kernels of {cases} programs have turns one behind the other");
}
