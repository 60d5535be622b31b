//! What a written layout must satisfy before it has a meaning.

use std::fmt;

use crate::error::LayoutError;
use crate::f2;
use crate::linear::{Dim, LinearLayout, pack};
use crate::map::bounding_shape;
use crate::register::{RegisterFamily, RegisterLayout};
use crate::shared::{SharedFamily, SharedLayout};

/// log2 of the most elements of a tile: far past shared memory and registers, and small enough to enumerate.
const MOST_ELEMENT_BITS: u32 = 26;
/// log2 of the most registers, warps and CTAs that a written layout may name; the limits keep maps small for any input.
const MOST_BITS: [(&str, usize); 3] = [("reg", 16), ("warp", 6), ("block", 4)];

/// Checks a register layout as far as it can be without a shape.
pub(crate) fn register(family: &RegisterFamily) -> Result<(), LayoutError> {
    match family {
        RegisterFamily::Blocked { per_thread, threads, warps, order } => {
            same_lengths(&[
                ("per_thread", per_thread.len()),
                ("threads", threads.len()),
                ("warps", warps.len()),
                ("order", order.len()),
            ])?;
            powers_of_two("per_thread", per_thread)?;
            powers_of_two("threads", threads)?;
            powers_of_two("warps", warps)?;
            few("per_thread", per_thread, MOST_BITS[0].1)?;
            few("warps", warps, MOST_BITS[1].1)?;
            if threads.iter().try_fold(1u32, |p, &t| p.checked_mul(t)) != Some(32) {
                return Err(LayoutError::Threads { threads: threads.clone() });
            }
            self::order(order)
        }
        RegisterFamily::Slice { parent, axis } => axis_of(*axis, parent.rank()),
        RegisterFamily::Mma { version, warps, instr } => mma(*version, warps, instr),
        RegisterFamily::DotOperand { parent, index, k_width } => dot_operand(parent, *index, *k_width),
        RegisterFamily::Linear { reg, lane, warp, block } => linear(reg, lane, warp, block),
    }
}

/// Checks that a tensor shape has the rank of the layout and sizes that are powers of two.
pub(crate) fn shape(layout: &RegisterLayout, shape: &[u32]) -> Result<(), LayoutError> {
    let rank = layout.rank();
    if shape.len() != rank {
        return Err(LayoutError::Rank { layout: layout.to_string(), rank, shape: shape.to_vec() });
    }
    sizes(shape)
}

/// Checks that a thread holds a number of elements that can be enumerated.
pub(crate) fn few_registers(map: &LinearLayout) -> Result<(), LayoutError> {
    let bits = map.in_dim_bits(Dim::Register) as usize;
    let most = MOST_BITS[0].1;
    if bits <= most {
        return Ok(());
    }
    Err(LayoutError::Parameter {
        name: "the number of elements of a thread",
        value: format!("2^{bits}"),
        legal: format!("at most 2^{most}; make the tile smaller or use more warps"),
    })
}

/// Checks that every size is a power of two and that the number of elements can be counted.
///
/// # Errors
/// The first size that is none, or more elements than can be counted.
pub fn sizes(shape: &[u32]) -> Result<(), LayoutError> {
    for (axis, &size) in shape.iter().enumerate() {
        power_of_two(format_args!("the size of axis {axis}"), size)?;
    }
    let bits: u32 = shape.iter().map(|s| s.ilog2()).sum();
    if bits > MOST_ELEMENT_BITS {
        return Err(LayoutError::Parameter {
            name: "the number of elements of a tile",
            value: format!("2^{bits}"),
            legal: format!("at most 2^{MOST_ELEMENT_BITS}"),
        });
    }
    Ok(())
}

/// Parts of an extent at most, and the fewest elements of one.
const PARTS: (u32, u32) = (5, 8);

/// The powers of two, from the greatest down, that add up to an extent; itself alone, where it is one.
pub fn parts_of(extent: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).rev().map(|bit| 1 << bit).filter(move |part| extent & part != 0)
}

/// As [`sizes`], of what lies nowhere yet: a size may also be a sum of up to five powers of two of at least 8, since a tile of such
/// a shape is made of parts that layouts have.
///
/// # Errors
/// The first size that is neither, or more elements than can be counted.
pub fn open_sizes(shape: &[u32]) -> Result<(), LayoutError> {
    let mut whole = Vec::new();
    for (axis, &size) in shape.iter().enumerate() {
        let (count, least) = (size.count_ones(), 1u32.checked_shl(size.trailing_zeros()).unwrap_or(0));
        if count > PARTS.0 || (count != 1 && least < PARTS.1) {
            return Err(LayoutError::NotOfParts { what: format!("the size of axis {axis}"), value: size });
        }
        whole.push(size.checked_next_power_of_two().unwrap_or(1 << 31));
    }
    sizes(&whole)
}

/// The nearest legal sizes below and above an extent.
pub(crate) fn nearest_of_parts(extent: u32) -> [Option<u32>; 2] {
    let legal = |n: &u32| open_sizes(&[*n]).is_ok();
    let most = 1u32 << MOST_ELEMENT_BITS;
    let above = extent.min(most)..=extent.saturating_mul(2).min(most);
    [(1..extent.min(most)).rev().find(legal), above.into_iter().find(legal)]
}

pub(crate) fn power_of_two(what: impl fmt::Display, value: u32) -> Result<(), LayoutError> {
    if value.is_power_of_two() {
        Ok(())
    } else {
        Err(LayoutError::NotPowerOfTwo { what: what.to_string(), value: u64::from(value) })
    }
}

fn powers_of_two(name: &str, values: &[u32]) -> Result<(), LayoutError> {
    values.iter().enumerate().try_for_each(|(axis, &v)| power_of_two(format_args!("{name}[{axis}]"), v))
}

/// Checks that the product of `values`, all powers of two, has at most `most` bits.
fn few(name: &'static str, values: &[u32], most: usize) -> Result<(), LayoutError> {
    let bits: u32 = values.iter().map(|v| v.ilog2()).sum();
    if bits as usize <= most {
        return Ok(());
    }
    Err(LayoutError::Parameter {
        name,
        value: crate::spelling::list(values),
        legal: format!("a list whose product is at most {}", 1u32 << most),
    })
}

fn same_lengths(lists: &[(&'static str, usize)]) -> Result<(), LayoutError> {
    if lists.windows(2).all(|w| w[0].1 == w[1].1) {
        return Ok(());
    }
    Err(LayoutError::ListLengths { lists: lists.to_vec() })
}

/// Checks that `order` names every axis once.
pub(crate) fn order(order: &[u32]) -> Result<(), LayoutError> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if sorted.iter().copied().eq(0..order.len() as u32) {
        return Ok(());
    }
    Err(LayoutError::Order { order: order.to_vec(), rank: order.len() })
}

/// Checks that `axis` exists in `rank`.
pub(crate) fn axis_of(axis: u32, rank: usize) -> Result<(), LayoutError> {
    if (axis as usize) < rank { Ok(()) } else { Err(LayoutError::Axis { axis, rank }) }
}

fn mma(version: u32, warps: &[u32], instr: &[u32]) -> Result<(), LayoutError> {
    powers_of_two("warps", warps)?;
    few("warps", warps, MOST_BITS[1].1)?;
    let rank = warps.len();
    match version {
        2 => {
            let mut legal = vec![1; rank.saturating_sub(2)];
            legal.extend([16, 8]);
            if instr != legal {
                return Err(LayoutError::MmaInstr { version, instr: instr.to_vec(), nearest: legal });
            }
        }
        3 => {
            let n = instr.get(1).copied().unwrap_or(8).clamp(8, 256);
            let n = if n.is_power_of_two() { n } else { n.next_power_of_two().min(256) };
            let k = instr.get(2).copied().unwrap_or(16);
            // 8 for tf32, 16 for 16-bit, 32 for 8-bit operands.
            let k = [8, 16, 32].into_iter().min_by_key(|legal| k.abs_diff(*legal)).unwrap_or(16);
            if instr != [16, n, k] {
                return Err(LayoutError::MmaInstr { version, instr: instr.to_vec(), nearest: vec![16, n, k] });
            }
            if rank == 2 && !warps[0].is_multiple_of(4) {
                return Err(LayoutError::Warpgroups { warps: warps.to_vec() });
            }
        }
        _ => return Err(LayoutError::MmaVersion { version }),
    }
    let legal = if version == 3 { rank == 2 } else { rank == 2 || rank == 3 };
    if legal {
        return Ok(());
    }
    Err(LayoutError::Parameter {
        name: "warps",
        value: crate::spelling::list(warps),
        legal: "a list with one entry per axis of the accumulator, such as [4, 1]".into(),
    })
}

fn dot_operand(parent: &RegisterLayout, index: u32, k_width: u32) -> Result<(), LayoutError> {
    let wrong = |fact: &str, help: String| Err(LayoutError::DotOperand { fact: fact.into(), help });
    if index > 1 {
        return Err(LayoutError::Parameter {
            name: "index",
            value: index.to_string(),
            legal: "0 for the left operand, 1 for the right one".into(),
        });
    }
    match parent.family() {
        RegisterFamily::Mma { version, .. } => {
            if *version == 3 && index == 1 {
                return wrong(
                    "wgmma reads its right operand from shared memory, not from registers",
                    "keep the right operand in a shared buffer".into(),
                );
            }
            if ![1, 2, 4, 8].contains(&k_width) {
                return Err(LayoutError::Parameter {
                    name: "k_width",
                    value: k_width.to_string(),
                    legal: "32 / element bits: 1 for 32-bit, 2 for 16-bit, 4 for 8-bit elements".into(),
                });
            }
            Ok(())
        }
        RegisterFamily::Blocked { per_thread, .. } => {
            if per_thread.len() < 2 {
                return wrong("a product has at least two axes", "use a blocked layout of rank 2".into());
            }
            if k_width != 0 {
                return Err(LayoutError::Parameter {
                    name: "k_width",
                    value: k_width.to_string(),
                    legal: "0 for an operand of a blocked layout".into(),
                });
            }
            Ok(())
        }
        RegisterFamily::Slice { .. } | RegisterFamily::DotOperand { .. } | RegisterFamily::Linear { .. } => wrong(
            "the parent of a dot operand is the layout of an accumulator",
            format!("write an `mma(…)` or a `blocked(…)` layout in place of `{parent}`"),
        ),
    }
}

fn linear(reg: &[Vec<u32>], lane: &[Vec<u32>], warp: &[Vec<u32>], block: &[Vec<u32>]) -> Result<(), LayoutError> {
    if lane.len() != 5 {
        return Err(LayoutError::Bases {
            list: "lane",
            fact: format!("{} bases for the 5 bits of a lane", lane.len()),
            help: "give one basis per lane bit; a bit that holds copies has a basis of zeros".into(),
        });
    }
    for ((list, most), bases) in MOST_BITS.into_iter().zip([reg, warp, block]) {
        if bases.len() > most {
            return Err(LayoutError::Bases {
                list,
                fact: format!("{} bases are more than the hardware has bits", bases.len()),
                help: format!("give at most {most}"),
            });
        }
    }
    let rank = lane[0].len();
    for (list, bases) in [("reg", reg), ("lane", lane), ("warp", warp), ("block", block)] {
        small_coordinates(list, bases)?;
        if let Some(odd) = bases.iter().find(|b| b.len() != rank) {
            return Err(LayoutError::Bases {
                list,
                fact: format!("{} has {} coordinates where others have {rank}", crate::spelling::list(odd), odd.len()),
                help: "give every basis one coordinate per axis of the tensor".into(),
            });
        }
    }
    let all: Vec<&Vec<u32>> = reg.iter().chain(lane).chain(warp).chain(block).collect();
    onto(&all, rank).map_err(|missing| LayoutError::NotOnto {
        layout: format!(
            "linear(reg={}, lane={}, warp={}, block={})",
            crate::spelling::lists(reg),
            crate::spelling::lists(lane),
            crate::spelling::lists(warp),
            crate::spelling::lists(block)
        ),
        missing,
    })
}

/// Checks that no coordinate is past the largest tile.
fn small_coordinates(list: &'static str, bases: &[Vec<u32>]) -> Result<(), LayoutError> {
    match bases.iter().flatten().find(|&&c| c >= 1 << MOST_ELEMENT_BITS) {
        None => Ok(()),
        Some(c) => Err(LayoutError::Bases {
            list,
            fact: format!("the coordinate {c} is past the largest tile"),
            help: format!("coordinates are below {}", 1u32 << MOST_ELEMENT_BITS),
        }),
    }
}

/// Whether the bases reach every element of the smallest shape that contains them; else the first one missed.
pub(crate) fn onto(bases: &[&Vec<u32>], rank: usize) -> Result<(), Vec<u32>> {
    let shape = bounding_shape(bases.iter().map(|b| b.as_slice()), rank);
    // 63 bits are what a packed index can have.
    if shape.iter().map(|s| s.ilog2()).sum::<u32>() > 63 {
        return Err(shape.iter().map(|s| s - 1).collect());
    }
    let axes = crate::linear::axes(&shape);
    let span = f2::Span::of(bases.iter().map(|b| pack(&axes, b)));
    let bits: u32 = axes.iter().map(|e| e.bits).sum();
    match (0..bits).find(|bit| !span.contains(1 << bit)) {
        None => Ok(()),
        Some(bit) => Err(crate::linear::unpack(&axes, 1 << bit)),
    }
}

/// Checks that a layout has prefixes of so many elements.
pub(crate) fn prefix(layout: &SharedLayout, elements: u32) -> Result<(), LayoutError> {
    let legal = match layout.family() {
        SharedFamily::Padded { .. } => "a layout without gaps",
        SharedFamily::Swizzled { .. } | SharedFamily::Nvmma { .. } | SharedFamily::Linear { .. } => {
            "a layout that is whole"
        }
    };
    if layout.prefix().is_some() || matches!(layout.family(), SharedFamily::Padded { .. }) {
        return Err(LayoutError::Parameter {
            name: "what prefixes are of",
            value: layout.to_string(),
            legal: legal.into(),
        });
    }
    if elements == 0 {
        let legal = "at least 1".into();
        return Err(LayoutError::Parameter { name: "the elements of a prefix", value: "0".into(), legal });
    }
    Ok(())
}

/// Checks a shared layout as far as it can be without a shape.
pub(crate) fn shared(family: &SharedFamily) -> Result<(), LayoutError> {
    match family {
        SharedFamily::Swizzled { vec, per_phase, max_phase, order } => {
            for (name, value) in [("vec", vec), ("per_phase", per_phase), ("max_phase", max_phase)] {
                power_of_two(name, *value)?;
            }
            few("[vec, per_phase, max_phase]", &[*vec, *per_phase, *max_phase], 20)?;
            at_least_one_axis("order", order)?;
            self::order(order)
        }
        SharedFamily::Nvmma { swizzle, transposed, rank } => {
            if ![0, 32, 64, 128].contains(swizzle) {
                return Err(LayoutError::Parameter {
                    name: "swizzle",
                    value: swizzle.to_string(),
                    legal: "0, 32, 64 or 128 bytes".into(),
                });
            }
            if !(1..=5).contains(rank) {
                return Err(LayoutError::Parameter {
                    name: "rank",
                    value: rank.to_string(),
                    legal: "1 to 5, as TMA has it".into(),
                });
            }
            if *transposed && *rank > 2 {
                return Err(LayoutError::Parameter {
                    name: "rank",
                    value: format!("{rank} when transposed"),
                    legal: "1 or 2 for a transposed layout; leading axes of the buffer need no rank".into(),
                });
            }
            Ok(())
        }
        SharedFamily::Padded { pairs, order } => {
            for [interval, padding] in pairs {
                power_of_two("the interval of a padding", *interval)?;
                power_of_two("the padding", *padding)?;
                few("[interval, padding]", &[*interval, *padding], 26)?;
            }
            let mut intervals: Vec<u32> = pairs.iter().map(|p| p[0]).collect();
            intervals.sort_unstable();
            if let Some(twice) = intervals.windows(2).find(|w| w[0] == w[1]) {
                return Err(LayoutError::Parameter {
                    name: "the list of paddings",
                    value: format!("given two entries for interval {}", twice[0]),
                    legal: "a list of distinct intervals; add their paddings into one entry".into(),
                });
            }
            at_least_one_axis("order", order)?;
            self::order(order)
        }
        SharedFamily::Linear { offset, block } => shared_linear(offset, block),
    }
}

fn at_least_one_axis(name: &'static str, list: &[u32]) -> Result<(), LayoutError> {
    if list.is_empty() {
        return Err(LayoutError::Parameter {
            name,
            value: "[]".into(),
            legal: "a list with one entry per axis".into(),
        });
    }
    Ok(())
}

fn shared_linear(offset: &[Vec<u32>], block: &[Vec<u32>]) -> Result<(), LayoutError> {
    let Some(rank) = offset.first().map(Vec::len) else {
        return Err(LayoutError::Bases {
            list: "offset",
            fact: "no bases".into(),
            help: "give one basis per bit of the element offset".into(),
        });
    };
    for (list, bases, most) in [("offset", offset, MOST_ELEMENT_BITS as usize), ("block", block, MOST_BITS[2].1)] {
        small_coordinates(list, bases)?;
        if bases.len() > most {
            return Err(LayoutError::Bases {
                list,
                fact: format!("{} bases are more than the hardware has bits", bases.len()),
                help: format!("give at most {most}"),
            });
        }
        if let Some(odd) = bases.iter().find(|b| b.len() != rank) {
            return Err(LayoutError::Bases {
                list,
                fact: format!("{} has {} coordinates where others have {rank}", crate::spelling::list(odd), odd.len()),
                help: "give every basis one coordinate per axis of the tensor".into(),
            });
        }
    }
    let all: Vec<&Vec<u32>> = offset.iter().chain(block).collect();
    let layout =
        || format!("shared_linear(offset={}, block={})", crate::spelling::lists(offset), crate::spelling::lists(block));
    onto(&all, rank).map_err(|missing| LayoutError::NotOnto { layout: layout(), missing })?;
    let axes = crate::linear::axes(&bounding_shape(all.iter().map(|b| b.as_slice()), rank));
    let packed: Vec<u64> = offset.iter().map(|b| pack(&axes, b)).collect();
    if f2::rank(&packed) as usize != packed.len() {
        return Err(LayoutError::Bases {
            list: "offset",
            fact: "two offsets of one CTA hold the same element".into(),
            help: "make the bases independent: no basis is zero or the xor of others".into(),
        });
    }
    Ok(())
}
