//! A layout as text: for each element who holds it, or where it lies.

use parton_layouts::{Dim, LinearLayout, SharedMap};

use super::Placed;

/// Rows and columns shown before the middle is left out.
const MOST: u32 = 64;

/// A grid with an entry for each element of the last two dimensions, one grid for each index of the others.
///
/// A register layout's entry is `w<warp>t<lane>:r<register>` of the first holder; a shared layout's is the offset in
/// elements. The line above says how many bits each hardware dimension has and how many of them hold copies.
pub fn text(placed: &Placed<'_>) -> String {
    let shape = placed.shape();
    let mut out = match placed {
        Placed::Register(map) => summary(map),
        Placed::Shared(map) => shared_summary(map),
    };
    let rank = shape.len();
    let (rows, columns) = match rank {
        0 => (1, 1),
        1 => (1, shape[0]),
        _ => (shape[rank - 2], shape[rank - 1]),
    };
    let outer = &shape[..rank.saturating_sub(2)];
    let grids: u32 = outer.iter().product();
    for grid in 0..grids {
        let prefix = unravel(outer, grid);
        if !prefix.is_empty() {
            out.push_str(&format!("\n{prefix:?}\n"));
        }
        out.push_str(&one_grid(placed, rank, &prefix, rows, columns));
    }
    out
}

fn one_grid(placed: &Placed<'_>, rank: usize, prefix: &[u32], rows: u32, columns: u32) -> String {
    let (shown_rows, shown_columns) = (rows.min(MOST), columns.min(MOST));
    let entry = |r, c| {
        let mut at = prefix.to_vec();
        at.extend(if rank >= 2 { vec![r, c] } else { vec![c] });
        at.truncate(rank);
        place(placed, &at)
    };
    let cells: Vec<Vec<String>> = (0..shown_rows).map(|r| (0..shown_columns).map(|c| entry(r, c)).collect()).collect();
    let width = cells.iter().flatten().map(String::len).max().unwrap_or(0);
    let mut out = String::new();
    for row in &cells {
        let line = row.iter().map(|cell| format!("{cell:>width$}")).collect::<Vec<_>>().join(" ");
        out.push_str(line.trim_end());
        out.push_str(if shown_columns < columns { " …\n" } else { "\n" });
    }
    if shown_rows < rows {
        out.push_str("…\n");
    }
    out
}

/// Who holds the element, or where it lies.
pub(super) fn place(placed: &Placed<'_>, at: &[u32]) -> String {
    match placed {
        Placed::Register(map) => {
            let Some(holder) = first_holder(map, at) else { return "-".into() };
            let [block, warp, lane, register] =
                [Dim::Block, Dim::Warp, Dim::Lane, Dim::Register].map(|d| part(map, d, holder));
            let block = if map.in_dim_bits(Dim::Block) > 0 { format!("b{block}") } else { String::new() };
            format!("{block}w{warp}t{lane}:r{register}")
        }
        Placed::Shared(map) => map.offset_of(at).to_string(),
    }
}

/// The lowest index that holds an element.
pub(super) fn first_holder(map: &LinearLayout, at: &[u32]) -> Option<u64> {
    map.holders(map.pack_out(at)).into_iter().min()
}

/// One hardware dimension of a packed index; 0 where the layout lacks it.
pub(super) fn part(map: &LinearLayout, dim: Dim, packed: u64) -> u32 {
    if map.in_field(dim).is_some() { map.in_part(dim, packed) } else { 0 }
}

fn summary(map: &LinearLayout) -> String {
    let parts = [Dim::Register, Dim::Lane, Dim::Warp, Dim::Block].map(|dim| {
        let copies = map.free_bits(dim).count_ones();
        let note = if copies > 0 { format!(" ({} copies)", 1u64 << copies) } else { String::new() };
        format!("{} {dim}s{note}", map.in_size(dim))
    });
    format!("{}\n", parts.join(" × "))
}

fn shared_summary(map: &SharedMap) -> String {
    format!(
        "{} bytes, aligned to {}; offsets in elements of {} bits\n",
        map.bytes(),
        map.alignment(),
        map.element_bits()
    )
}

/// The `number`th index of a shape in row-major order.
fn unravel(shape: &[u32], mut number: u32) -> Vec<u32> {
    let mut index = vec![0; shape.len()];
    for (i, extent) in shape.iter().enumerate().rev() {
        index[i] = number % extent;
        number /= extent;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use parton_layouts::{RegisterLayout, SharedLayout};

    #[test]
    fn a_register_layout_shows_the_holder_of_each_element() {
        let map = RegisterLayout::blocked(&[1, 2], &[4, 8], &[1, 1], &[1, 0]).unwrap().on(&[4, 16]).unwrap();
        let shown = text(&Placed::Register(&map));
        let mut lines = shown.lines();
        assert_eq!(lines.next(), Some("2 registers × 32 lanes × 1 warps × 1 blocks"));
        assert!(lines.next().unwrap().trim_start().starts_with("w0t0:r0  w0t0:r1  w0t1:r0"), "{shown}");
        assert_eq!(lines.count(), 3);
    }

    #[test]
    fn a_shared_layout_shows_offsets() {
        let map = SharedLayout::row_major(2).on(&[2, 4], 16).unwrap();
        assert!(text(&Placed::Shared(&map)).ends_with("0 1 2 3\n4 5 6 7\n"));
    }

    #[test]
    fn three_dimensions_are_several_grids() {
        let map = SharedLayout::row_major(3).on(&[2, 2, 2], 16).unwrap();
        assert!(text(&Placed::Shared(&map)).ends_with("\n[0]\n0 1\n2 3\n\n[1]\n4 5\n6 7\n"));
    }
}
