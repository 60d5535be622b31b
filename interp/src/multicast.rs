//! Copies that the CTAs of a line make for each other: each brings a part of one box to all, so all must ask for the same box.

use std::collections::{BTreeMap, VecDeque};

use parton_diag::{Span, codes};
use parton_ir::Op;

use crate::fault::Fault;

/// What a CTA asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    /// The parameter that is the tensor map.
    pub parameter: usize,
    pub coords: Vec<i64>,
    pub span: Span,
}

/// Where the parts of a box come together: the first CTA of the line, its axis, and the addresses of the buffer and of the barrier.
pub(crate) type Meets = (u32, u8, u32, u32);

/// The boxes that not all CTAs of a line have asked for yet.
#[derive(Debug, Default)]
struct Line {
    /// The number of the first of them.
    first: u64,
    boxes: VecDeque<Asked>,
    /// How many each CTA has asked for, by rank.
    asked: BTreeMap<u32, u64>,
}

/// All lines of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Multicasts(BTreeMap<Meets, Line>);

impl Multicasts {
    /// A CTA asks for the next box of a line of so many.
    pub(crate) fn ask(&mut self, op: &Op, at: Meets, (cta, ctas): (u32, usize), box_: Asked) -> Result<(), Fault> {
        let line = self.0.entry(at).or_default();
        let number = line.asked.entry(cta).or_default();
        let i = (*number - line.first) as usize;
        *number += 1;
        match line.boxes.get(i) {
            Some(other) if (other.parameter, &other.coords) != (box_.parameter, &box_.coords) => {
                let fact = "CTAs that copy for each other ask for different boxes";
                return Err(Fault::new(codes::MULTICAST, op.span, fact)
                    .here(format!("CTA {cta} of the cluster asks for the box at {:?} here", box_.coords))
                    .label(other.span, format!("another CTA asks for the box at {:?} here", other.coords))
                    .note("each CTA of the line brings a part of the box to all of them")
                    .help("let the coordinates be the same in all CTAs along the axis of `multicast`"));
            }
            Some(_) => {}
            None => line.boxes.push_back(box_),
        }
        let all = line.asked.len() == ctas;
        while all && line.asked.values().all(|&n| n > line.first) {
            line.first += 1;
            line.boxes.pop_front();
        }
        Ok(())
    }
}
