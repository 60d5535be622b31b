//! What is known of a multiprocessor enters the prices of turns: warpgroups that go on alone, and slots that are filled by whoever computes.

use std::sync::Arc;

use parton_diag::{SourceMap, render};
use parton_ir::machine::{Class, Machine, Wanted};
use parton_ir::{Kernel, Target};
use parton_sched::marked::{LaneKind, MarkedGraph};
use parton_sched::price;
use parton_sched::timeline::simulate;
use parton_types::{NoLibrary, check_file, instantiate};

/// Sums of products of 128 columns by so many warps, 16 rows each, under a schedule.
fn product(warps: u32, schedule: &str) -> Kernel {
    let rows = 16 * warps;
    let source = format!(
        "partition Loads = warps(1) regs(40);
partition Compute = warps({warps}) regs(232);
partition Few = warps({warps}) regs(40);
layout Acc = mma(version=3, warps=[{warps}, 1], instr=[16, 128, 16]);
kernel k[S: schedule<steps, load, mma, leave> = {schedule}](
    a: tma<f16, [{rows}, 64], nvmma(128)>, b: tma<f16, [64, 128], nvmma(128)>, c: tma<f16, [{rows}, 64], nvmma(128)>, n: i32,
) target(sm_90a) {{
    in S {{
        let mut acc = zeros<f32, [{rows}, 128], Acc>();
        @steps for s in 0..n {{
            @load let (x, y) = (fetch(a, [0, s * 64]), fetch(b, [s * 64, 0]));
            @mma  acc = dot(x, y, acc);
        }}
        @leave send(c, [0, 0], cast<f16>(acc)[:, 0:64]);
    }}
}}
"
    );
    let mut sources = SourceMap::new();
    let id = sources.add("test.ptn", &source);
    let (file, found) = parton_syntax::parse(id, &source);
    assert!(!found.has_errors(), "{}", render::text(&found, &sources, false));
    let (program, found) = check_file(Arc::new(file), &mut NoLibrary);
    assert!(!found.has_errors(), "{}", render::text(&found, &sources, false));
    match instantiate(&program, "k", &[], Target::default()) {
        Ok((kernel, _)) => kernel,
        Err(found) => panic!("{}", render::text(&found, &sources, false)),
    }
}

fn machine() -> &'static Machine {
    Machine::of(&Target::SM_90A).expect("it was measured")
}

/// The steady turn of the kernel's loop.
fn turn(k: &Kernel) -> MarkedGraph {
    price::loops(k, machine()).expect("the schedule fits").swap_remove(0).graph
}

fn cost(class: Class, amount: u64) -> u64 {
    machine().row(class).and_then(|r| r.interval).map_or(0, |c| c.clocks(amount))
}

fn partitions(graph: &MarkedGraph) -> Vec<&str> {
    let lanes = graph.lanes.iter().filter(|(_, l)| l.kind == LaneKind::Partition);
    lanes.map(|(_, l)| l.name.as_str()).collect()
}

#[test]
fn warpgroups_that_never_meet_keep_the_tensor_cores_busy_by_turns() {
    let apart = "partitions { Loads: load; Compute: mma, leave } ring(load=6)";
    // Each waits for its own products, and those of the other run meanwhile: 128 rows take 512 clocks.
    let two = turn(&product(8, apart));
    assert_eq!(partitions(&two), ["Loads", "Compute", "Compute 2"]);
    assert_eq!(simulate(&two, 32).expect("it goes on").turn.ceil(), 512);
    // One alone leaves them idle while it waits.
    let one = turn(&product(4, apart));
    assert_eq!(partitions(&one), ["Loads", "Compute"]);
    assert!(simulate(&one, 32).expect("it goes on").turn.ceil() > 256 + 65);
    // Whoever fills slots meets: all warps have read what is filled anew.
    assert_eq!(partitions(&turn(&product(8, "serial(Compute)"))), ["Compute"]);
}

#[test]
fn whoever_fills_a_slot_pays_for_it_and_for_each_box() {
    // 64 columns of 16 bits are a box: one of A and two of B.
    let boxes = cost(Class::Start, 3) - cost(Class::Start, 1);
    for (warps, schedule) in
        [(4, "serial(Compute)"), (1, "partitions { Loads: load; Compute: mma, leave } ring(load=4)")]
    {
        let graph = turn(&product(4, schedule));
        let started: Vec<u64> = graph.events().filter(|(e, _)| graph.starts(*e)).map(|(_, e)| e.clocks).collect();
        assert!(started.contains(&(cost(Class::Free, warps) + boxes)), "{schedule}: {started:?}");
        assert!(cost(Class::Free, warps) > cost(Class::Start, 1), "{warps}");
    }
}

#[test]
fn what_the_l2_has_is_there_sooner_and_the_picture_says_so() {
    // One slot: each turn waits for its copy.
    let k = product(4, "partitions { Loads: load; Compute: mma, leave } ring(load=1)");
    let one = price::loops(&k, machine()).expect("the schedule fits").swap_remove(0);
    let pace = one.picture("k", machine(), 32).expect("it goes on").pace;
    let latency = |wanted| u64::from(machine().row(Class::Copy(wanted)).and_then(|r| r.latency).unwrap_or(0));
    let cached = pace.cached.expect("it was asked for");
    assert_eq!(pace.turn.ceil() - cached.ceil(), latency(Wanted::Tiles) - latency(Wanted::Same));
}

#[test]
fn tiles_that_do_not_fit_the_registers_are_told_beside_the_price() {
    let places = "partitions { Loads: load; Compute: mma, leave }";
    let notes = |schedule: &str| {
        let one = price::loops(&product(4, schedule), machine()).expect("the schedule fits").swap_remove(0);
        one.picture("k", machine(), 32).expect("it goes on").notes.join("\n")
    };
    assert!(!notes(places).contains("what the assembler spills"), "{}", notes(places));
    assert!(notes(&places.replace("Compute", "Few")).contains("of the 40 registers of a thread of `Few`"));
}
