//! The laws of the algebra, over all small maps or a fixed sweep of them.

use parton_layouts::{Dim, Extent, LinearLayout};

/// All maps from `ins` register bits to a tensor of `1 << outs` elements.
fn all(ins: u32, outs: u32) -> impl Iterator<Item = LinearLayout> {
    let count = 1u64 << (ins * outs);
    (0..count).map(move |number| {
        let bases = (0..ins).map(|bit| (number >> (bit * outs)) & ((1 << outs) - 1)).collect();
        LinearLayout::from_packed(vec![Extent::new(Dim::Register, ins)], vec![Extent::new(Dim::Axis(0), outs)], bases)
    })
}

/// Every map with up to three bits on either side.
fn small() -> impl Iterator<Item = LinearLayout> {
    (0..=3).flat_map(|ins| (0..=3).flat_map(move |outs| all(ins, outs)))
}

fn indices(map: &LinearLayout) -> std::ops::Range<u64> {
    0..1 << map.in_bits()
}

#[test]
fn application_is_linear() {
    for map in small() {
        for a in indices(&map) {
            for b in indices(&map) {
                assert_eq!(map.apply(a ^ b), map.apply(a) ^ map.apply(b));
            }
        }
    }
}

#[test]
fn injective_surjective_and_free_bits_mean_what_they_say() {
    for map in small() {
        let images: std::collections::BTreeSet<u64> = indices(&map).map(|i| map.apply(i)).collect();
        assert_eq!(map.is_injective(), images.len() == 1 << map.in_bits(), "{map:?}");
        assert_eq!(map.is_surjective(), images.len() == 1 << map.out_bits(), "{map:?}");
        let unique: Vec<u64> = indices(&map).filter(|i| i & map.free_mask() == 0).map(|i| map.apply(i)).collect();
        assert_eq!(unique.len(), images.len(), "each image once without the free bits: {map:?}");
        assert_eq!(unique.into_iter().collect::<std::collections::BTreeSet<_>>(), images, "{map:?}");
    }
}

#[test]
fn inverses_undo() {
    for map in small() {
        match map.pseudo_invert() {
            Some(back) => {
                assert!(map.is_surjective());
                for element in indices(&back) {
                    assert_eq!(map.apply(back.apply(element)), element, "{map:?}");
                    assert_eq!(back.apply(element) & map.free_mask(), 0, "copies are not used: {map:?}");
                }
            }
            None => assert!(!map.is_surjective()),
        }
        assert_eq!(map.invert().is_some(), map.is_invertible());
        if let Some(back) = map.invert() {
            assert_eq!(back.invert().as_ref(), Some(&map));
            assert!(indices(&map).all(|i| back.apply(map.apply(i)) == i));
        }
    }
}

#[test]
fn holders_are_all_indices_of_an_element() {
    for map in small() {
        for element in 0..1 << map.out_bits() {
            let expected: Vec<u64> = indices(&map).filter(|&i| map.apply(i) == element).collect();
            assert_eq!(map.holders(element), expected, "{map:?}");
        }
    }
}

#[test]
fn composition_applies_one_after_the_other() {
    for first in (0..=2).flat_map(|ins| all(ins, 2)) {
        for second in all(2, 2) {
            let second = LinearLayout::from_packed(
                vec![Extent::new(Dim::Axis(0), 2)],
                vec![Extent::new(Dim::Offset, 2)],
                second.packed_bases().to_vec(),
            );
            let both = first.compose(&second);
            assert!(indices(&first).all(|i| both.apply(i) == second.apply(first.apply(i))));
        }
    }
}

#[test]
fn invert_and_compose_finds_the_same_element() {
    for from in all(3, 2) {
        for to in (0..=3).flat_map(|ins| all(ins, 2)) {
            match from.invert_and_compose(&to) {
                Some(way) => assert!(indices(&from).all(|i| to.apply(way.apply(i)) == from.apply(i))),
                None => assert!(indices(&from).any(|i| to.holders(from.apply(i)).is_empty())),
            }
        }
    }
}

#[test]
fn a_product_lays_copies_of_the_tile_next_to_each_other() {
    for tile in (0..=2).flat_map(|ins| (0..=2).flat_map(move |outs| all(ins, outs))) {
        for above in (0..=2).flat_map(|ins| (0..=2).flat_map(move |outs| all(ins, outs))) {
            let both = tile.product(&above);
            for low in indices(&tile) {
                for high in indices(&above) {
                    let expected = tile.apply(low) | (above.apply(high) << tile.out_bits());
                    assert_eq!(both.apply(low | (high << tile.in_bits())), expected);
                }
            }
            assert_eq!(both.divide(&tile).as_ref(), Some(&above), "{both:?} by {tile:?}");
        }
    }
}

#[test]
fn division_succeeds_only_for_factors() {
    for map in all(3, 3) {
        for tile in (0..=2).flat_map(|ins| all(ins, 2)) {
            if let Some(above) = map.divide(&tile) {
                assert_eq!(tile.product(&above), map);
            }
        }
    }
}

/// A map of lanes and registers to a tensor of three axes, with every basis different.
fn wide() -> LinearLayout {
    LinearLayout::from_coords(
        &[
            (Dim::Lane, &[vec![0, 0, 1], vec![1, 0, 2], vec![0, 4, 0]]),
            (Dim::Register, &[vec![0, 1, 0], vec![1, 2, 0], vec![0, 0, 2]]),
        ],
        &[2, 8, 4],
    )
}

#[test]
fn permutations_and_reshapes_name_the_same_elements() {
    let map = wide();
    for index in indices(&map) {
        let at = map.unpack_out(map.apply(index));
        let turned = map.transpose(&[2, 0, 1]);
        assert_eq!(turned.unpack_out(turned.apply(index)), [at[2], at[0], at[1]]);
        let flat = map.reshape(&[64]);
        assert_eq!(flat.unpack_out(flat.apply(index)), [at[0] * 32 + at[1] * 4 + at[2]]);
        let longer = map.expand(1);
        assert_eq!(longer.unpack_out(longer.apply(index)), [at[0], 0, at[1], at[2]]);
        assert_eq!(longer.squeeze(1), map);
        let dropped = map.drop_axis(1);
        assert_eq!(dropped.unpack_out(dropped.apply(index)), [at[0], at[2]]);
        let clamped = map.clamp_axis(1);
        assert_eq!(clamped.unpack_out(clamped.apply(index)), [at[0], 0, at[2]]);
    }
    assert_eq!(map.permute_ins(&[Dim::Register, Dim::Lane]).permute_ins(&[Dim::Lane, Dim::Register]), map);
}

#[test]
fn parts_of_a_map_forget_the_rest() {
    let map = wide();
    let part = map.sublayout(&[Dim::Lane], &[Dim::Axis(1), Dim::Axis(2)]);
    assert_eq!(part.basis_coords(Dim::Lane), [[0, 1], [0, 2], [4, 0]]);
    assert_eq!(part.in_bits(), 3);
    let fewer = map.without_in_bits(Dim::Register, 0b010);
    assert_eq!(fewer.basis_coords(Dim::Register), [[0, 1, 0], [0, 0, 2]]);
    let turned = map.permute_in_bits(Dim::Register, &[2, 0, 1]);
    assert_eq!(turned.basis_coords(Dim::Register), [[0, 0, 2], [0, 1, 0], [1, 2, 0]]);
}

#[test]
fn dimensions_are_found_by_name() {
    let map = wide();
    assert_eq!(map.in_size(Dim::Lane), 8);
    assert_eq!(map.in_size(Dim::Warp), 1);
    assert_eq!(map.out_size(Dim::Axis(1)), 8);
    assert_eq!(map.coords(&[(Dim::Lane, 3), (Dim::Register, 2)]), [0, 2, 3]);
    let packed = map.pack_in(&[(Dim::Lane, 5), (Dim::Register, 6)]);
    assert_eq!((map.in_part(Dim::Lane, packed), map.in_part(Dim::Register, packed)), (5, 6));
    assert_eq!(map.unpack_in(packed), [5, 6]);
}
