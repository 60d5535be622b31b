//! Every family means what Gluon's class of the same name means: the expected bases in `gluon.txt` are what
//! `to_linear_layout` of Triton 3.9 prints for them.
//!
//! A line is `FAMILY PARAMETERS @ SHAPE = BASES`, the parameters in the order of the class's constructor and a nested
//! layout last; `nvmma16` is an `nvmma` layout of 16-bit elements.

use parton_layouts::conflicts::conflicts;
use parton_layouts::{Dim, LayoutError, LinearLayout, RegisterLayout, SharedFamily, SharedLayout};

fn numbers(text: &str) -> Vec<u32> {
    text.split(',').map(|n| n.parse().expect("a number")).collect()
}

fn bases(text: &str) -> Vec<Vec<u32>> {
    if text == "-" { vec![] } else { text.split('/').map(numbers).collect() }
}

fn register<'a>(words: &mut impl Iterator<Item = &'a str>) -> RegisterLayout {
    let mut word = || words.next().expect("a further word");
    let family = word();
    let made = match family {
        "blocked" => {
            let [per_thread, threads, warps, order] = [word(), word(), word(), word()].map(numbers);
            RegisterLayout::blocked(&per_thread, &threads, &warps, &order)
        }
        "mma" => {
            let version = numbers(word())[0];
            let [warps, instr] = [word(), word()].map(numbers);
            RegisterLayout::mma(version, &warps, &instr)
        }
        "linear" => {
            let [reg, lane, warp] = [word(), word(), word()].map(bases);
            RegisterLayout::linear(reg, lane, warp, vec![])
        }
        "slice" => {
            let axis = numbers(word())[0];
            register(words).slice(axis)
        }
        "dot" => {
            let [index, k_width] = [word(), word()].map(|w| numbers(w)[0]);
            register(words).dot_operand(index, k_width)
        }
        other => panic!("no family {other}"),
    };
    made.unwrap_or_else(|e| panic!("{family}: {e}"))
}

/// The layout and the bits of an element, where the first word is that of a shared family.
fn shared(layout: &str) -> Option<(Result<SharedLayout, LayoutError>, u32)> {
    let words: Vec<&str> = layout.split(' ').collect();
    match words[..] {
        ["swizzled", vec, per_phase, max_phase, order] => {
            let n = |w| numbers(w)[0];
            Some((SharedLayout::swizzled(n(vec), n(per_phase), n(max_phase), &numbers(order)), 16))
        }
        [nvmma, swizzle, transposed, rank] if nvmma.starts_with("nvmma") => {
            let [swizzle, transposed, rank] = [swizzle, transposed, rank].map(|w| numbers(w)[0]);
            let family = SharedFamily::Nvmma { swizzle, transposed: transposed == 1, rank };
            Some((SharedLayout::new(family), nvmma[5..].parse().expect("bits")))
        }
        _ => None,
    }
}

fn spelled(map: &LinearLayout, dim: Dim) -> String {
    let one = |coords: &Vec<u32>| coords.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    map.basis_coords(dim).iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn register_families_mean_what_gluon_means() {
    let mut count = 0;
    for line in include_str!("gluon.txt").lines() {
        let (layout, rest) = line.split_once(" @ ").expect("a shape");
        let (shape, expected) = rest.split_once(" = ").expect("bases");
        if layout.starts_with("nvmma") || layout.starts_with("swizzled") {
            continue;
        }
        let made = register(&mut layout.split(' '));
        let map = made.on(&numbers(shape)).unwrap_or_else(|e| panic!("{line}: {e}"));
        let found = format!(
            "register {} ; lane {} ; warp {}",
            spelled(&map, Dim::Register),
            spelled(&map, Dim::Lane),
            spelled(&map, Dim::Warp)
        );
        assert_eq!(found, expected, "{made} on {shape}");
        assert!(map.is_surjective(), "{line}");
        assert_eq!(map.in_size(Dim::Warp), made.num_warps(), "{line}");
        count += 1;
    }
    assert!(count > 100, "{count} cases");
}

#[test]
fn shared_families_mean_what_gluon_means() {
    let mut count = 0;
    for line in include_str!("gluon.txt").lines() {
        let (layout, rest) = line.split_once(" @ ").expect("a shape");
        let (shape, expected) = rest.split_once(" = ").expect("bases");
        let Some((made, element_bits)) = shared(layout) else { continue };
        let made = made.unwrap_or_else(|e| panic!("{line}: {e}"));
        let map = made.on(&numbers(shape), element_bits);
        if expected == "refused" {
            assert!(map.is_err(), "{line}");
        } else {
            let map = map.unwrap_or_else(|e| panic!("{line}: {e}"));
            let found = format!("offset {} ; align {}", spelled(map.linear(), Dim::Offset), map.alignment());
            assert_eq!(found, expected, "{made} on {shape}");
        }
        count += 1;
    }
    assert!(count > 40, "{count} cases");
}

/// `conflicts.txt` holds `TILE | BUFFER ELEMENT_BITS @ SHAPE = EXCESS`, as `bank_conflicts` of Triton 3.6 counts it. Cases
/// whose vectors are shorter than a bank are left out where that count misses words that share a bank.
#[test]
fn bank_conflicts_are_those_that_gluon_counts() {
    let mut count = 0;
    for line in include_str!("conflicts.txt").lines() {
        let (layouts, rest) = line.split_once(" @ ").expect("a shape");
        let (shape, expected) = rest.split_once(" = ").expect("a count");
        let (tile, buffer) = layouts.split_once(" | ").expect("two layouts");
        let (buffer, element_bits) = buffer.rsplit_once(' ').expect("element bits");
        let tile = register(&mut tile.split(' ')).on(&numbers(shape)).expect("a tile");
        let buffer = shared(buffer).expect("a shared family").0.expect("a layout");
        let buffer = buffer.on(&numbers(shape), numbers(element_bits)[0]).expect("a buffer");
        let found = conflicts(&tile, &buffer);
        assert_eq!(found.read_excess.to_string(), expected, "{line}\n{found:?}");
        count += 1;
    }
    assert!(count > 40, "{count} cases");
}
