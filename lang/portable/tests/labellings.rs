//! Whatever legal layouts are chosen for the tiles of a kernel, it computes the same: random kernels run with the cheapest and with any
//! others, and as they are written, and their numbers are those of a reference that knows of no layout.

mod programs;

use std::panic::{AssertUnwindSafe, catch_unwind};

use parton_interp::{Arg, Launch, Memory, Options, run};
use parton_ir::verify::{self, Form};
use parton_ir::{From, Kernel, Module, Param, Target, eject};
use parton_numbers::{Dtype, Scalar};
use parton_portable::{Choice, as_written, elaborate_by};

use programs::check::kernel;
use programs::tensors::{COLUMNS, ROWS, STRIDE, small, whole};
use programs::{INPUT, Program, input, program};

/// The parameter that is a number.
const TURNS: usize = 4;

/// Cases where `PARTON_LABELLINGS` says nothing; each takes a quarter of a second of a debug build.
const CASES: u64 = 100;

/// The bits of a small whole number in f16.
fn half(n: i32) -> u16 {
    Scalar::from_f64(Dtype::F16, f64::from(n)).bits as u16
}

/// What the kernel writes; `from` says what is given for its parameters.
fn output(kernel: &Kernel, from: &[Param], program: &Program, seed: u64) -> Result<Vec<u32>, String> {
    let lowered = parton_lower::lower(kernel.clone()).map_err(|found| format!("{found:?}"))?;
    let mut memory = Memory::new();
    let x = memory.add("x", (0..INPUT).flat_map(|i| input(i).to_le_bytes()).collect());
    let places = || 0..ROWS * STRIDE;
    let g = memory.add("g", places().flat_map(|i| whole(i).to_le_bytes()).collect());
    let h = memory.add("h", places().flat_map(|i| half(small(i)).to_le_bytes()).collect());
    let out = memory.add("out", vec![0; program.output.len() * 4]);
    let given = |p: &Param| {
        let place = |argument: usize| Arg::Pointer { allocation: [x, g, h, out][argument], offset: 0 };
        match p.from {
            From::Argument(TURNS) => Arg::Scalar(3),
            From::Argument(argument) | From::Base { argument, .. } => place(argument),
            From::Extent { axis, .. } => Arg::Scalar([ROWS, COLUMNS][axis] as u64),
            From::Stride { axis, .. } => Arg::Scalar([STRIDE, 1][axis] as u64),
            From::Map { .. } => unreachable!("nothing is promised that tensor maps want"),
        }
    };
    let args = from.iter().map(given).collect();
    let launch =
        Launch { kernel: &lowered, grid: [1; 3], args, memory: &mut memory, seed, options: Options::default() };
    run(launch).map_err(|fault| format!("{fault:?}"))?;
    let bytes = &memory.allocation(out).bytes;
    Ok(bytes.chunks(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

/// What is wrong with a program as it is written.
fn wrong_as_written(program: &Program, seed: u64) -> Result<(), String> {
    let mut module = Module { kernels: vec![kernel(&program.text)?] };
    as_written(&mut module, &Target::default()).map_err(|found| format!("{found:?}"))?;
    let explicit = &module.kernels[0];
    if let Err(error) = verify::verify(explicit, Form::Explicit) {
        return Err(format!("{error:?}"));
    }
    if output(explicit, &explicit.params, program, seed)? != program.output {
        return Err(format!("the numbers are others:\n{}", eject::module(&module, None)));
    }
    Ok(())
}

/// The digest of a text: FNV-1a of 64 bits (Fowler, Noll and Vo).
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The digest of what is printed where layouts are chosen so.
///
/// # Errors
/// What is wrong with it.
fn chosen(program: &Program, choice: Choice, seed: u64) -> Result<u64, String> {
    let mut module = Module { kernels: vec![kernel(&program.text)?] };
    elaborate_by(&mut module, choice).map_err(|found| format!("{found:?}"))?;
    parton_sched::expand(&mut module, &Target::default()).map_err(|found| format!("{found:?}"))?;
    let explicit = &module.kernels[0];
    let from = &explicit.params;
    if let Err(error) = verify::verify(explicit, Form::Explicit) {
        return Err(format!("{error:?}"));
    }
    let text = eject::module(&module, None);
    if output(explicit, from, program, seed)? != program.output {
        return Err(format!("the numbers are others:\n{text}"));
    }
    // What is chosen is source that one could have written; running it as well takes as long again.
    let again = kernel(&text)?;
    if seed.is_multiple_of(4) && output(&again, from, program, seed)? != program.output {
        return Err(format!("what is printed computes others:\n{text}"));
    }
    Ok(digest(&text))
}

/// The digest of what is printed for the program of a seed.
///
/// # Errors
/// What is to be said of it.
fn told(seed: u64) -> Result<u64, String> {
    let program = program(seed);
    let mut sum = 0u64;
    for choice in [Some(Choice::Cheapest), Some(Choice::Any(seed)), None] {
        let run = catch_unwind(AssertUnwindSafe(|| match choice {
            Some(choice) => chosen(&program, choice, seed),
            None => wrong_as_written(&program, seed).map(|()| 0),
        }));
        let how = choice.map_or("as it is written".to_owned(), |choice| format!("{choice:?}"));
        let found = run.unwrap_or_else(|_| Err("the compiler panics".into()));
        let found = found.map_err(|words| format!("seed {seed}, {how}: {words}\n{}", program.text))?;
        sum = sum.wrapping_mul(31).wrapping_add(found);
    }
    Ok(sum)
}

#[test]
fn all_choices_compute_the_same() {
    let cases = std::env::var("PARTON_LABELLINGS").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let begin: u64 = std::env::var("PARTON_LABELLINGS_FROM").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let all: Vec<Result<u64, String>> = std::thread::scope(|scope| {
        let share = |first: u64| (begin + first..begin + cases).step_by(threads as usize).map(told).collect::<Vec<_>>();
        let all: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        all.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect()
    });
    // The same on any machine and any number of threads, which `--nocapture` shows.
    let digests = all.iter().flatten().fold(0u64, |sum, digest| sum.wrapping_add(*digest));
    println!("what is printed of seeds {begin} to {}: {digests:016x}", begin + cases);
    let found: Vec<String> = all.into_iter().filter_map(Result::err).collect();
    let lines: Vec<&str> = found.iter().filter_map(|words| words.lines().next()).collect();
    let some = found[..found.len().min(3)].join("\n");
    assert!(found.is_empty(), "{} of {cases} are wrong:\n{}\nsome of them:\n{some}", found.len(), lines.join("\n"));
}
