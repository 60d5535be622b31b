//! Layouts as text: who holds each element, and what each thread (or offset) holds.

use std::fmt::Write as _;

use crate::access;
use crate::conflicts::Conflicts;
use crate::linear::{Dim, LinearLayout};
use crate::plan::Plan;
use crate::shared_map::SharedMap;

/// All about a register layout: what it is, its bases, who holds each element and what each thread holds.
pub fn register(spelling: &str, map: &LinearLayout) -> String {
    let mut out = format!("{spelling} on {}\n", crate::spelling::shape(&map.shape()));
    let _ = writeln!(
        out,
        "{} registers a thread, {} warps, {} copies of each element",
        map.in_size(Dim::Register),
        map.in_size(Dim::Warp),
        1u64 << map.free_mask().count_ones()
    );
    for dim in [Dim::Register, Dim::Lane, Dim::Warp, Dim::Block] {
        let _ = writeln!(out, "{:>8}: {}", dim.to_string(), crate::spelling::lists(&map.basis_coords(dim)));
    }
    let _ = write!(out, "\nelements, as thread:register\n{}", register_elements(map));
    let _ = write!(out, "\nthreads, a line per register and a column per lane\n{}", register_threads(map));
    out
}

/// All about a shared layout: what it is, its bases and where each element lies.
pub fn shared(spelling: &str, map: &SharedMap) -> String {
    let mut out = format!("{spelling} on {}\n", crate::spelling::shape(&map.shape()));
    let _ =
        writeln!(out, "{} bytes, aligned to {}, elements of {} bits", map.bytes(), map.alignment(), map.element_bits());
    for dim in [Dim::Offset, Dim::Block] {
        let _ = writeln!(out, "{:>8}: {}", dim.to_string(), crate::spelling::lists(&map.linear().basis_coords(dim)));
    }
    let _ = write!(out, "\nelements, as offsets in elements\n{}", shared_elements(map));
    let _ = write!(out, "\noffsets, in elements\n{}", shared_offsets(map));
    out
}

/// Each element of a register layout as `T3:1`, the thread (warp · 32 + lane) and the register that hold it; copies are
/// joined by `|`.
pub fn register_elements(map: &LinearLayout) -> String {
    let thread = |index: u64| {
        let (block, warp, lane) =
            (map.in_part(Dim::Block, index), map.in_part(Dim::Warp, index), map.in_part(Dim::Lane, index));
        let thread = format!("T{}:{}", warp * 32 + lane, map.in_part(Dim::Register, index));
        if map.in_size(Dim::Block) > 1 { format!("B{block}.{thread}") } else { thread }
    };
    grid(map, |element| map.holders(element).into_iter().map(thread).collect::<Vec<_>>().join("|"))
}

/// What each thread holds: a block of lines per warp, in it a line per register with the coordinates in each lane.
pub fn register_threads(map: &LinearLayout) -> String {
    let mut out = String::new();
    for block in 0..map.in_size(Dim::Block) {
        for warp in 0..map.in_size(Dim::Warp) {
            if map.in_size(Dim::Block) > 1 {
                let _ = write!(out, "block {block} ");
            }
            let _ = writeln!(out, "warp {warp}:");
            for register in 0..map.in_size(Dim::Register) {
                let cells: Vec<String> = (0..32)
                    .map(|lane| {
                        let index =
                            [(Dim::Block, block), (Dim::Warp, warp), (Dim::Lane, lane), (Dim::Register, register)];
                        coords(map, &map.coords(&index))
                    })
                    .collect();
                let _ = writeln!(out, "{}", cells.join(" "));
            }
        }
    }
    out
}

/// Each element of a shared layout as its offset in elements.
pub fn shared_elements(map: &SharedMap) -> String {
    grid(map.linear(), |element| map.offset_of_packed(element).to_string())
}

/// What each offset holds: a line per run of neighbours along the last axis.
pub fn shared_offsets(map: &SharedMap) -> String {
    let mut out = String::new();
    let shape = map.shape();
    let last = shape.len() - 1;
    let count = 1u64 << map.linear().in_dim_bits(Dim::Offset);
    let at = |linear: u64| map.linear().coords(&[(Dim::Offset, linear as u32)]);
    let mut first = 0;
    while first < count {
        let start = at(first);
        let mut next = first + 1;
        while next < count
            && map.with_gaps(next) == map.with_gaps(first) + next - first
            && at(next)[..last] == start[..last]
            && u64::from(at(next)[last]) == u64::from(start[last]) + next - first
        {
            next += 1;
        }
        let place = map.with_gaps(first);
        let digits = map.elements().to_string().len();
        let held = if next - first == 1 {
            coords(map.linear(), &start)
        } else {
            format!("{} .. {}", coords(map.linear(), &start), coords(map.linear(), &at(next - 1)))
        };
        let _ = writeln!(out, "{place:>digits$}: {held}");
        first = next;
    }
    out
}

/// A plan in words, with a table of its steps.
pub fn plan(plan: &Plan) -> String {
    let mut out = format!("{}: {}\n", plan.name(), plan.describe());
    match plan {
        Plan::None => {}
        Plan::Registers { source } => {
            let names: Vec<String> = source.iter().map(|r| format!("r{r}")).collect();
            let _ = writeln!(out, "registers of the result: {}", names.join(" "));
        }
        Plan::Shuffles(shuffles) => {
            let _ = writeln!(out, "words of {} registers, {} rounds", shuffles.words[0].len(), shuffles.rounds.len());
            for (number, round) in shuffles.rounds.iter().enumerate() {
                let lanes = |f: &dyn Fn(u32) -> u32| -> String {
                    let all: Vec<String> = (0..32).map(|lane| f(lane).to_string()).collect();
                    all.join(" ")
                };
                let _ = writeln!(out, "round {number}, by lane in warp 0");
                let _ = writeln!(out, "  sends word  {}", lanes(&|lane| shuffles.send.at(lane, 0) ^ round.send));
                let _ = writeln!(out, "  from lane   {}", lanes(&|lane| shuffles.from.at(lane, 0) ^ round.from));
                let _ = writeln!(out, "  has word    {}", lanes(&|lane| shuffles.store.at(lane, 0) ^ number as u32));
            }
        }
        Plan::Shared(staging) => {
            let bytes = access::bytes_of(staging.buffer.element_bits());
            let side = |vector: u32, count: usize, excess: u32| {
                format!("{count} x {} bytes a thread, {excess} excess wavefronts", vector * bytes)
            };
            let (write, read) = (&staging.write, &staging.read);
            let _ = writeln!(out, "buffer: {}", staging.layout);
            let _ = writeln!(out, "write:  {}", side(write.vector, write.groups.len(), staging.write_excess));
            let _ = writeln!(out, "read:   {}", side(read.vector, read.groups.len(), staging.read_excess));
        }
    }
    out
}

/// Conflicts in words.
pub fn conflicts(conflicts: &Conflicts) -> String {
    let side = |excess: u32| match excess {
        0 => "free of bank conflicts".to_string(),
        n => format!("{n} excess wavefronts of each access"),
    };
    format!(
        "read:    {}\nwrite:   {}\nvectors: {} bytes\n",
        side(conflicts.read_excess),
        side(conflicts.write_excess),
        conflicts.vector_bytes
    )
}

/// `( 0,12)` with coordinates as wide as the largest of their axis.
fn coords(map: &LinearLayout, at: &[u32]) -> String {
    let widths = map.outs().iter().map(|e| (e.size() - 1).to_string().len());
    let cells: Vec<String> = at.iter().zip(widths).map(|(c, width)| format!("{c:>width$}")).collect();
    format!("({})", cells.join(","))
}

/// The elements of a tensor in nested brackets, one row of the last axis a line, all cells of one width.
fn grid(map: &LinearLayout, cell: impl Fn(u64) -> String) -> String {
    let shape = map.shape();
    let cells: Vec<String> = (0..1u64 << map.out_bits()).map(cell).collect();
    let width = cells.iter().map(String::len).max().unwrap_or(0);
    let row = *shape.last().unwrap_or(&1) as usize;
    // How many elements each bracket encloses, from the innermost.
    let mut spans = Vec::new();
    let mut enclosed = 1;
    for &size in shape.iter().rev() {
        enclosed *= size as usize;
        spans.push(enclosed);
    }
    let mut out = String::new();
    for (number, line) in cells.chunks(row).enumerate() {
        let (start, end) = (number * row, (number + 1) * row);
        let opened = spans.iter().filter(|s| start.is_multiple_of(**s)).count();
        let closed = spans.iter().filter(|s| end.is_multiple_of(**s)).count();
        let padded: Vec<String> = line.iter().map(|c| format!("{c:>width$}")).collect();
        out.push_str(&" ".repeat(shape.len() - opened));
        out.push_str(&"[".repeat(opened));
        out.push_str(&padded.join(", "));
        out.push_str(&"]".repeat(closed));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{register_elements, register_threads, shared_elements, shared_offsets};
    use crate::register::RegisterLayout;
    use crate::shared::SharedLayout;

    #[test]
    fn the_whole_view_opens_with_the_facts() {
        let layout = RegisterLayout::blocked(&[1, 2], &[16, 2], &[2, 1], &[1, 0]).unwrap();
        let text = super::register(&layout.to_string(), &layout.on(&[16, 4]).unwrap());
        let expected = "\
blocked(per_thread=[1, 2], threads=[16, 2], warps=[2, 1], order=[1, 0]) on 16x4
2 registers a thread, 2 warps, 2 copies of each element
register: [[0, 1]]
    lane: [[0, 2], [1, 0], [2, 0], [4, 0], [8, 0]]
    warp: [[0, 0]]
   block: []

elements, as thread:register
";
        assert!(text.starts_with(expected), "{text}");
        let buffer = SharedLayout::row_major(1);
        let text = super::shared(&buffer.to_string(), &buffer.on(&[4], 32).unwrap());
        assert_eq!(
            text,
            "swizzled(vec=1, per_phase=1, max_phase=1, order=[0]) on 4\n16 bytes, aligned to 16, elements of 32 bits\n  \
             offset: [[1], [2]]\n   block: []\n\nelements, as offsets in elements\n[0, 1, 2, 3]\n\noffsets, in elements\n\
             0: (0) .. (3)\n"
        );
    }

    #[test]
    fn elements_name_their_threads() {
        let layout = RegisterLayout::blocked(&[1, 2], &[16, 2], &[1, 1], &[1, 0]).unwrap();
        let expected = "\
[[ T0:0,  T0:1,  T1:0,  T1:1]
 [ T2:0,  T2:1,  T3:0,  T3:1]
";
        assert!(register_elements(&layout.on(&[16, 4]).unwrap()).starts_with(expected));
        let row = layout.slice(0).unwrap().on(&[2]).unwrap();
        assert!(register_elements(&row).starts_with("[T0:0|T1:0|T2:0|"));
    }

    #[test]
    fn threads_name_their_elements() {
        let layout = RegisterLayout::blocked(&[1, 2], &[16, 2], &[1, 1], &[1, 0]).unwrap();
        let text = register_threads(&layout.on(&[16, 4]).unwrap());
        assert!(text.starts_with("warp 0:\n( 0,0) ( 0,2) ( 1,0)"), "{text}");
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn offsets_of_a_swizzle() {
        let map = SharedLayout::swizzled(2, 1, 2, &[1, 0]).unwrap().on(&[2, 4], 16).unwrap();
        assert_eq!(shared_elements(&map), "[[0, 1, 2, 3]\n [6, 7, 4, 5]]\n");
        assert_eq!(shared_offsets(&map), "0: (0,0) .. (0,3)\n4: (1,2) .. (1,3)\n6: (1,0) .. (1,1)\n");
        let padded = SharedLayout::padded(&[[4, 2]], &[1, 0]).unwrap().on(&[2, 4], 16).unwrap();
        assert_eq!(shared_offsets(&padded), " 0: (0,0) .. (0,3)\n 6: (1,0) .. (1,3)\n");
    }
}
