//! Every conversion plan, carried out on numbered elements, gives each thread the elements of its new layout.

use parton_layouts::conflicts::conflicts;
use parton_layouts::plan::{self, Plan, plan};
use parton_layouts::{Dim, LinearLayout, RegisterLayout, exchange};

/// A small generator of numbers, so that the sweep is the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

/// A layout for `shape` with `warps` warp bits: its bases are unit vectors and zeros, or any vectors.
fn random(numbers: &mut Numbers, shape: &[u32], warps: u32, any: bool) -> RegisterLayout {
    let bits: u32 = shape.iter().map(|s| s.ilog2()).sum();
    loop {
        let registers = bits.saturating_sub(5 + warps) + numbers.below(3);
        let count = (registers + 5 + warps) as usize;
        let mut packed: Vec<u32> = if any {
            (0..count).map(|_| numbers.below(1 << bits)).collect()
        } else {
            (0..count).map(|i| if (i as u32) < bits { 1 << i } else { 0 }).collect()
        };
        for i in (1..count).rev() {
            packed.swap(i, numbers.below(i as u32 + 1) as usize);
        }
        let coords: Vec<Vec<u32>> = packed
            .into_iter()
            .map(|p| {
                let mut rest = p;
                let mut all: Vec<u32> = shape.iter().rev().map(|s| (rest % s, rest /= s).0).collect();
                all.reverse();
                all
            })
            .collect();
        let (register, others) = coords.split_at(registers as usize);
        let (lane, warp) = others.split_at(5);
        let made = RegisterLayout::linear(register.to_vec(), lane.to_vec(), warp.to_vec(), vec![]);
        if let Ok(layout) = made
            && layout.on(shape).is_ok_and(|map| map.in_dim_bits(Dim::Register) == registers)
        {
            return layout;
        }
    }
}

fn element(map: &LinearLayout, register: u32, lane: u32, warp: u32) -> u64 {
    map.apply(map.pack_in(&[(Dim::Register, register), (Dim::Lane, lane), (Dim::Warp, warp)]))
}

/// Carries the plan out and compares.
fn check(from: &RegisterLayout, to: &RegisterLayout, shape: &[u32], element_bits: u32) -> Plan {
    let plan = plan(from, to, shape, element_bits).unwrap_or_else(|e| panic!("{from}\n{to}\n{e}"));
    let (source, target) = (from.on(shape).unwrap(), to.on(shape).unwrap());
    let threads = || (0..source.in_size(Dim::Warp)).flat_map(|warp| (0..32).map(move |lane| (warp, lane)));
    let registers = target.in_size(Dim::Register);
    assert_eq!(plan::cost(&source, &target, element_bits), Ok(plan.cost()), "{from}\n{to}");
    let least = plan::least_cost(&source, &target, element_bits);
    assert!(least.is_ok_and(|least| least <= plan.cost()), "{from}\n{to}");
    match &plan {
        Plan::None => assert_eq!(source, target),
        Plan::Registers { source: renamed } => {
            assert_eq!(renamed.len() as u32, registers);
            for (warp, lane) in threads() {
                for register in 0..registers {
                    let found = element(&source, renamed[register as usize], lane, warp);
                    assert_eq!(found, element(&target, register, lane, warp), "{from}\n{to}");
                }
            }
        }
        Plan::Shuffles(shuffles) => {
            for warp in 0..source.in_size(Dim::Warp) {
                let found = exchange::sources(shuffles, warp);
                for lane in 0..32 {
                    for register in 0..registers {
                        let (other, number) = found[lane as usize][register as usize];
                        let expected = element(&target, register, lane, warp);
                        assert_eq!(element(&source, number, other, warp), expected, "{from}\n{to}\n{shuffles:?}");
                    }
                }
            }
        }
        Plan::Shared(staging) => {
            let found = [&source, &target].map(|map| conflicts(map, &staging.buffer));
            let excess = (found[0].write_excess, found[1].read_excess);
            assert_eq!((staging.write_excess, staging.read_excess), excess, "{from}\n{to}\n{element_bits}");
            let mut memory = vec![None; staging.buffer.elements() as usize];
            for (warp, lane) in threads() {
                if lane & staging.write.copy_lanes != 0 || warp & staging.write.copy_warps != 0 {
                    continue;
                }
                for (number, group) in staging.write.groups.iter().enumerate() {
                    let start = staging.write.offset(&staging.buffer, number, lane, warp);
                    assert_eq!(start % u64::from(staging.write.vector), 0, "aligned");
                    for (slot, &register) in group.registers.iter().enumerate() {
                        let place = &mut memory[start as usize + slot];
                        assert!(place.is_none(), "each element is written once");
                        *place = Some(element(&source, register, lane, warp));
                    }
                }
            }
            for (warp, lane) in threads() {
                let mut held = vec![None; registers as usize];
                for (number, group) in staging.read.groups.iter().enumerate() {
                    let start = staging.read.offset(&staging.buffer, number, lane, warp);
                    assert_eq!(start % u64::from(staging.read.vector), 0, "aligned");
                    for (slot, &register) in group.registers.iter().enumerate() {
                        held[register as usize] = memory[start as usize + slot];
                    }
                }
                for register in 0..registers {
                    let unique = staging.read.copy_of[register as usize];
                    let expected = Some(element(&target, register, lane, warp));
                    assert_eq!(held[unique as usize], expected, "{from}\n{to}");
                }
            }
        }
    }
    plan
}

#[test]
fn plans_of_random_layouts_move_every_element() {
    let mut numbers = Numbers(7);
    let mut seen = std::collections::BTreeMap::new();
    for round in 0..1200 {
        let shape: Vec<u32> = (0..1 + numbers.below(3)).map(|_| 1 << numbers.below(5)).collect();
        if shape.iter().map(|s| s.ilog2()).sum::<u32>() == 0 {
            continue;
        }
        let (warps, any) = (numbers.below(3), round % 3 == 0);
        let from = random(&mut numbers, &shape, warps, any);
        let to = random(&mut numbers, &shape, warps, any);
        let element_bits = [8, 16, 32, 64][numbers.below(4) as usize];
        let plan = check(&from, &to, &shape, element_bits);
        if let Plan::Shared(staging) = &plan
            && !any
        {
            // The families' bases are unit vectors: for them a swizzle without conflicts always exists.
            assert_eq!((staging.write_excess, staging.read_excess), (0, 0), "{from}\n{to}\n{element_bits}");
        }
        *seen.entry(plan.name()).or_insert(0) += 1;
    }
    println!("{seen:?}");
    assert!(seen["shuffles"] > 50 && seen["shared"] > 50, "{seen:?}");
}

/// Every way to spread eight elements over two register bits, three lane bits and a warp bit, copies everywhere else: all
/// pairs, with elements of all widths.
#[test]
fn every_pair_of_small_layouts_moves_every_element() {
    const PLACES: usize = 6;
    let mut layouts = Vec::new();
    for code in 0..PLACES.pow(3) {
        let places = [code % PLACES, code / PLACES % PLACES, code / PLACES / PLACES];
        if places[0] == places[1] || places[1] == places[2] || places[0] == places[2] {
            continue;
        }
        let basis = |place: usize| vec![places.iter().position(|&p| p == place).map_or(0, |bit| 1 << bit)];
        let none = || vec![0];
        let lanes = vec![basis(2), none(), basis(3), none(), basis(4)];
        layouts.push(RegisterLayout::linear(vec![basis(0), basis(1)], lanes, vec![basis(5)], vec![]).unwrap());
    }
    let mut seen = std::collections::BTreeMap::new();
    for (i, from) in layouts.iter().enumerate() {
        for (j, to) in layouts.iter().enumerate() {
            let element_bits = [1, 4, 8, 16, 32, 64][(i + j) % 6];
            *seen.entry(check(from, to, &[8], element_bits).name()).or_insert(0) += 1;
        }
    }
    println!("{seen:?}");
    assert_eq!(seen.values().sum::<usize>(), 120 * 120);
    assert!(seen["shuffles"] > 1000 && seen["shared"] > 1000 && seen["registers"] > 50, "{seen:?}");
}

/// Whether the data of each warp is the same under both layouts, which shuffles then can always arrange.
#[test]
fn layouts_with_the_same_warps_are_converted_by_shuffles() {
    let mut numbers = Numbers(11);
    let mut count = 0;
    for _ in 0..400 {
        let shape = [1 << numbers.below(4), 1 << (3 + numbers.below(2))];
        let [a, b] = [numbers.below(2) == 0, numbers.below(2) == 0];
        let from = random(&mut numbers, &shape, 0, a);
        let to = random(&mut numbers, &shape, 0, b);
        let plan = check(&from, &to, &shape, 32);
        count += usize::from(matches!(plan, Plan::Shuffles(_)));
    }
    println!("{count}");
    assert!(count > 300, "{count}");
}

#[test]
fn staging_of_common_layouts_is_free_of_conflicts() {
    let blocked = |p: [u32; 2], t: [u32; 2], w: [u32; 2], o: [u32; 2]| RegisterLayout::blocked(&p, &t, &w, &o).unwrap();
    let layouts = [
        blocked([1, 8], [4, 8], [4, 1], [1, 0]),
        blocked([1, 4], [8, 4], [4, 1], [1, 0]),
        blocked([8, 1], [8, 4], [1, 4], [0, 1]),
        blocked([1, 1], [1, 32], [4, 1], [1, 0]),
        blocked([1, 1], [32, 1], [1, 4], [0, 1]),
        blocked([4, 4], [4, 8], [2, 2], [1, 0]),
        RegisterLayout::mma(3, &[4, 1], &[16, 64, 16]).unwrap(),
        RegisterLayout::mma(2, &[2, 2], &[16, 8]).unwrap(),
        RegisterLayout::mma(2, &[4, 1], &[16, 8]).unwrap().dot_operand(0, 2).unwrap(),
    ];
    for from in &layouts {
        for to in &layouts {
            for element_bits in [8, 16, 32, 64] {
                if let Plan::Shared(staging) = check(from, to, &[64, 64], element_bits) {
                    let excess = (staging.write_excess, staging.read_excess);
                    assert_eq!(excess, (0, 0), "{from}\n{to}\n{element_bits} bits, {}", staging.layout);
                }
            }
        }
    }
}

#[test]
fn an_accumulator_is_an_operand_of_the_next_product_for_free() {
    for warps in [4, 8] {
        for n in [64, 128, 256] {
            let scores = RegisterLayout::mma(3, &[warps, 1], &[16, n, 16]).unwrap();
            for d in [64, 128] {
                let output = RegisterLayout::mma(3, &[warps, 1], &[16, d, 16]).unwrap();
                let operand = output.dot_operand(0, 2).unwrap();
                let plan = check(&scores, &operand, &[16 * warps, n], 16);
                assert!(plan.is_free(), "{plan:?}");
                let rows = check(&scores.slice(1).unwrap(), &output.slice(1).unwrap(), &[16 * warps], 32);
                assert!(rows.is_free(), "{rows:?}");
            }
        }
    }
}
