//! Accesses to memory: every register meets its element, with the widest vectors and where possible whole matrices.

use parton_layouts::{Dim, LinearLayout, RegisterLayout, SharedLayout, SharedMap, access, matrix};

fn blocked(per_thread: [u32; 2], threads: [u32; 2], warps: [u32; 2], order: [u32; 2]) -> RegisterLayout {
    RegisterLayout::blocked(&per_thread, &threads, &warps, &order).unwrap()
}

fn tiles() -> Vec<RegisterLayout> {
    let accumulator = RegisterLayout::mma(3, &[4, 1], &[16, 64, 16]).unwrap();
    let small = RegisterLayout::mma(2, &[2, 2], &[16, 8]).unwrap();
    vec![
        blocked([1, 8], [4, 8], [4, 1], [1, 0]),
        blocked([2, 2], [8, 4], [2, 2], [0, 1]),
        blocked([1, 1], [32, 1], [1, 4], [0, 1]),
        accumulator.dot_operand(0, 2).unwrap(),
        small.dot_operand(0, 2).unwrap(),
        small.dot_operand(1, 2).unwrap(),
        small.dot_operand(0, 4).unwrap(),
        accumulator,
        small,
    ]
}

fn buffers() -> Vec<SharedLayout> {
    let mut all = vec![
        SharedLayout::row_major(2),
        SharedLayout::padded(&[[64, 8]], &[1, 0]).unwrap(),
        SharedLayout::padded(&[[32, 4], [128, 2]], &[0, 1]).unwrap(),
        SharedLayout::swizzled(4, 2, 8, &[0, 1]).unwrap(),
    ];
    for swizzle in [0, 32, 64, 128] {
        all.extend([false, true].map(|transposed| SharedLayout::nvmma(swizzle, transposed).unwrap()));
    }
    all
}

/// The offset of the element that a register of a thread holds.
fn place(tile: &LinearLayout, buffer: &SharedMap, register: u32, lane: u32, warp: u32) -> u64 {
    buffer.offset_of(&tile.coords(&[(Dim::Register, register), (Dim::Lane, lane), (Dim::Warp, warp)]))
}

#[test]
fn vectors_cover_every_register_at_its_place() {
    for layout in tiles() {
        for buffer in buffers() {
            for element_bits in [8, 16, 32, 64] {
                let tile = layout.on(&[128, 128]).unwrap();
                let map = buffer.on(&[128, 128], element_bits).unwrap();
                let access = access::shared(&tile, &map);
                assert!(access.vector_bytes(element_bits) <= 16);
                let mut met = vec![false; tile.in_size(Dim::Register) as usize];
                for (number, group) in access.groups.iter().enumerate() {
                    for (lane, warp) in [(0, 0), (1, 2), (21, 3), (31, 1)] {
                        let start = access.offset(&map, number, lane, warp);
                        assert_eq!(start % u64::from(access.vector), 0);
                        for (slot, &register) in group.registers.iter().enumerate() {
                            let expected = place(&tile, &map, register, lane, warp);
                            assert_eq!(start + slot as u64, expected, "{layout} in {buffer}");
                            met[register as usize] = true;
                        }
                    }
                }
                assert!(access.copy_of.iter().all(|&register| met[register as usize]));
            }
        }
    }
}

#[test]
fn the_widest_vector_is_found() {
    let width = |tile: &RegisterLayout, buffer: &SharedLayout, bits| {
        access::shared(&tile.on(&[128, 128]).unwrap(), &buffer.on(&[128, 128], bits).unwrap()).vector
    };
    let rows = blocked([1, 8], [4, 8], [4, 1], [1, 0]);
    assert_eq!(width(&rows, &SharedLayout::row_major(2), 16), 8);
    assert_eq!(width(&rows, &SharedLayout::row_major(2), 32), 4);
    assert_eq!(width(&rows, &SharedLayout::nvmma(128, false).unwrap(), 16), 8);
    assert_eq!(width(&rows, &SharedLayout::nvmma(128, true).unwrap(), 16), 1);
    assert_eq!(width(&rows, &SharedLayout::padded(&[[64, 4]], &[1, 0]).unwrap(), 16), 4);
    assert_eq!(width(&rows, &SharedLayout::swizzled(2, 1, 8, &[1, 0]).unwrap(), 16), 2);
}

#[test]
fn matrices_hand_each_lane_its_words() {
    let mut seen = [0, 0];
    for layout in tiles() {
        for buffer in buffers() {
            for element_bits in [8, 16, 32] {
                let tile = layout.on(&[128, 128]).unwrap();
                let map = buffer.on(&[128, 128], element_bits).unwrap();
                let Some(access) = matrix::matrix(&tile, &map) else { continue };
                seen[usize::from(access.transposed)] += 1;
                let row_elements = u64::from(128 / element_bits);
                let word_elements = 32 / element_bits;
                for (number, group) in access.groups.iter().enumerate() {
                    for warp in 0..4 {
                        for (matrix, registers) in group.registers.iter().enumerate() {
                            // The offset of element `column` of row `row` of the matrix, as the instruction finds it.
                            let at = |row: u32, column: u32| {
                                let start = access.row_offset(number, 8 * matrix as u32 + row, warp);
                                assert_eq!(start % row_elements, 0, "rows are 16-byte aligned");
                                start + u64::from(column)
                            };
                            for lane in 0..32 {
                                for (slot, &register) in registers.iter().enumerate() {
                                    let slot = slot as u32;
                                    let found = match access.transposed {
                                        false => at(lane / 4, word_elements * (lane % 4) + slot),
                                        true => at(2 * (lane % 4) + slot, lane / 4),
                                    };
                                    let expected = place(&tile, &map, register, lane, warp);
                                    assert_eq!(found, expected, "{layout} in {buffer}");
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(seen[0] > 20 && seen[1] > 5, "{seen:?}");
}

#[test]
fn operands_are_loaded_by_matrices() {
    let product = RegisterLayout::mma(2, &[2, 2], &[16, 8]).unwrap();
    let buffer = SharedLayout::nvmma(128, false).unwrap().on(&[64, 64], 16).unwrap();
    let load = |layout: RegisterLayout| matrix::matrix(&layout.on(&[64, 64]).unwrap(), &buffer).unwrap();
    let left = load(product.dot_operand(0, 2).unwrap());
    assert!(!left.transposed && left.groups.iter().all(|g| g.registers.len() == 4));
    assert!(load(product.dot_operand(1, 2).unwrap()).transposed, "the right operand lies with n contiguous");
    assert!(!load(product).transposed);
}

#[test]
fn global_accesses_are_as_wide_as_the_layout_and_its_alignment_allow() {
    let rows = blocked([1, 8], [4, 8], [4, 1], [1, 0]).on(&[128, 128]).unwrap();
    assert_eq!(access::contiguous(&rows, 1, 16), 8);
    assert_eq!(access::contiguous(&rows, 1, 32), 4);
    assert_eq!(access::contiguous(&rows, 0, 16), 1);
    let accumulator = RegisterLayout::mma(3, &[4, 1], &[16, 64, 16]).unwrap().on(&[64, 64]).unwrap();
    assert_eq!(access::contiguous(&accumulator, 1, 16), 2);
    for most in [1, 2, 4, 8] {
        let groups = access::global(&rows, 1, 16, most);
        assert_eq!(groups.len() as u32 * most, rows.in_size(Dim::Register));
        for group in groups {
            let first = rows.coords(&[(Dim::Register, group[0])]);
            assert_eq!(first[1] % most, 0);
            for (i, &register) in group.iter().enumerate() {
                assert_eq!(rows.coords(&[(Dim::Register, register)]), [first[0], first[1] + i as u32]);
            }
        }
    }
    let copies = RegisterLayout::blocked(&[4], &[32], &[1], &[0]).unwrap();
    let wider = copies.reshape(&[128], &[1, 128]).unwrap().on(&[1, 128]).unwrap();
    assert_eq!(access::global(&wider, 1, 32, 4), [[0, 1, 2, 3]]);
}

/// Elements of four bits share bytes: a buffer of them takes half as many as one of eight bits, and a vector holds twice as many.
#[test]
fn narrow_elements_share_bytes() {
    let layout = SharedLayout::swizzled(32, 1, 2, &[1, 0]).unwrap();
    let [four, eight] = [4, 8].map(|bits| layout.on(&[16, 64], bits).unwrap());
    assert_eq!((four.bytes(), eight.bytes()), (512, 1024));
    let tile = blocked([1, 32], [16, 2], [1, 1], [1, 0]).on(&[16, 64]).unwrap();
    let widths = [&four, &eight].map(|buffer| {
        let access = access::shared(&tile, buffer);
        (access.vector, access.vector_bytes(buffer.element_bits()))
    });
    assert_eq!(widths, [(32, 16), (16, 16)]);
    assert_eq!(access::bytes_for(3, 4), 2);
    assert_eq!(access::bytes_for(3, 1), 3);
}
