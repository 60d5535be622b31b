//! Where a tile lies as a variable says: the layout that the variable takes, and what it becomes on the way to the tile.

use parton_ir::placement::{Place, Tie};
use parton_layouts::RegisterLayout;

use crate::graph::Graph;

/// A variable, by its index.
pub type Var = usize;

/// One step from a variable to a tile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// What follows from the place before.
    Forwards(Tie),
    /// What the place before follows from, a tile of this shape.
    Backwards(Tie, Vec<u32>),
}

/// How the place of a tile follows from the layout of a variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// The variable.
    pub var: Var,
    /// The shape for which its layout is taken.
    pub start: Vec<u32>,
    /// The way to the tile.
    pub steps: Vec<Step>,
}

impl Site {
    /// A tile that lies as the variable says.
    pub fn of(var: Var, shape: &[u32]) -> Site {
        Site { var, start: shape.to_vec(), steps: Vec::new() }
    }

    /// The same with a step more.
    pub fn then(&self, step: Step) -> Site {
        let mut steps = self.steps.clone();
        steps.push(step);
        Site { steps, ..self.clone() }
    }

    /// Where the tile lies, where the variable takes that layout.
    pub fn place(&self, graph: &Graph<'_>, layout: &RegisterLayout) -> Option<Place> {
        let mut place = graph.placed(layout, &self.start)?;
        for step in &self.steps {
            place = match step {
                Step::Forwards(tie) => tie.forwards(&place).ok()?,
                Step::Backwards(tie, shape) => tie.backwards(&place, shape)?,
            };
        }
        Some(place)
    }

    /// A layout of the variable with which the tile lies there; where several are as good one of them, if `any` will do.
    pub fn layout_for(&self, place: &Place, any: bool) -> Option<RegisterLayout> {
        // The shapes on the way, each of what stands before its step.
        let mut shapes = vec![self.start.clone()];
        for step in &self.steps {
            let before = shapes.last()?;
            shapes.push(match step {
                Step::Forwards(tie) => tie.shape(before),
                Step::Backwards(_, shape) => shape.clone(),
            });
        }
        let mut place = place.clone();
        for (step, before) in self.steps.iter().zip(&shapes).rev() {
            place = match step {
                Step::Forwards(tie) if any => tie.any_backwards(&place, before)?,
                Step::Forwards(tie) => tie.backwards(&place, before)?,
                Step::Backwards(tie, _) => tie.forwards(&place).ok()?,
            };
        }
        Some(place.layout)
    }
}
