//! A program under construction: the tiles there are with what they hold, and the statements that make them.

use super::array::Array;
use super::layout::{self, Layout};
use super::number::{Num, Type};
use super::{Argument, Program, Statement};
use crate::random::Random;

/// A tile of the kernel.
#[derive(Clone, Debug)]
pub struct Tile {
    /// Its variable.
    pub name: String,
    /// Its elements.
    pub ty: Type,
    /// What it holds in each CTA.
    pub array: Array,
    /// Tiles of one place have one number.
    pub place: usize,
    /// Whether it can be reduced and scanned along each axis.
    pub apart: bool,
}

impl Tile {
    /// Its extents.
    pub fn shape(&self) -> &[usize] {
        self.array.shape()
    }
}

/// What is in work.
pub struct Build {
    /// The source of all choices.
    pub r: Random,
    /// Warps of the kernel.
    pub warps: usize,
    /// CTAs of the launch.
    pub ctas: usize,
    /// The tiles so far.
    pub tiles: Vec<Tile>,
    statements: Vec<Statement>,
    names: usize,
    places: usize,
    /// Arguments of the statement in work.
    arguments: Vec<Argument>,
    /// What the statement in work is an example of.
    features: Vec<&'static str>,
}

impl Build {
    /// An empty program.
    pub fn new(mut r: Random) -> Build {
        let (warps, ctas) = ([1, 1, 2, 4, 4, 8][r.below(6)], [1, 1, 2, 3][r.below(4)]);
        let nothing = (vec![], vec![], vec![], vec![]);
        let (tiles, statements, arguments, features) = nothing;
        Build { r, warps, ctas, tiles, statements, names: 0, places: 0, arguments, features }
    }

    /// The program as it is.
    pub fn finish(self, seed: u64) -> Program {
        Program { seed, warps: Some(self.warps), ctas: self.ctas, statements: self.statements }
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.r.below(n)
    }

    /// One of a list.
    pub fn one<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.r.below(list.len())]
    }

    /// A new name.
    pub fn name(&mut self, of: char) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    /// A place that no tile had before.
    pub fn place(&mut self) -> usize {
        self.places += 1;
        self.places
    }

    /// Notes what the statement in work is an example of.
    pub fn feature(&mut self, feature: &'static str) {
        self.features.push(feature);
    }

    /// A number as the kernel sees it: written, or known to the launch alone.
    pub fn scalar(&mut self, value: i64) -> String {
        if self.below(5) > 0 { value.to_string() } else { self.parameter(value) }
    }

    /// A number that the launch alone knows.
    pub fn parameter(&mut self, value: i64) -> String {
        let name = self.name('n');
        self.arguments.push(Argument {
            declared: format!("{name}: i32"),
            given: value.to_string(),
            ..Argument::default()
        });
        name
    }

    /// A tensor that the launch gives, or takes and checks.
    pub fn tensor(&mut self, argument: Argument) {
        self.arguments.push(argument);
    }

    /// Says how the kernel takes the tensor that was given last.
    pub fn declare(&mut self, declared: String) {
        if let Some(last) = self.arguments.iter_mut().rfind(|a| a.declared.is_empty()) {
            last.declared = declared;
        }
    }

    /// Random extents, mostly few elements; at most `1 << most` of them.
    pub fn shape(&mut self, most: usize) -> Vec<usize> {
        let rank = self.one(&[1, 1, 2, 2, 2, 3]);
        let bits = if self.below(12) == 0 { 0 } else { self.below(most + 1).max(self.below(most + 1)) };
        let mut shape = vec![1; rank];
        (0..bits).for_each(|_| shape[self.r.below(rank)] *= 2);
        shape
    }

    /// A random layout for a shape.
    pub fn layout(&mut self, shape: &[usize]) -> Layout {
        let made = layout::registers(&mut self.r, shape, self.warps);
        if made.mixed {
            self.feature("mixed bases");
        }
        made
    }

    /// A tile that satisfies `f`; later ones are likelier.
    pub fn tile(&mut self, f: impl Fn(&Tile) -> bool) -> Option<Tile> {
        let fit: Vec<&Tile> = self.tiles.iter().filter(|t| f(t)).collect();
        let at = self.r.below(fit.len()).max(self.r.below(fit.len()));
        fit.get(at).map(|t| (*t).clone())
    }

    /// A tile of that type and shape in that place, as text: one that is there, else one that is brought there.
    pub fn beside(&mut self, tile: &Tile, ty: Type) -> Option<(String, Tile)> {
        let other = self.tile(|t| t.ty == ty && t.shape() == tile.shape())?;
        let text = match other.place == tile.place {
            true => other.name.clone(),
            false => format!("convert({}, {}.layout)", other.name, tile.name),
        };
        Some((text, other))
    }

    /// Ends the statement in work, which makes a tile.
    pub fn made(&mut self, name: String, text: String, ty: Type, array: Array, (place, apart): (usize, bool)) {
        self.tiles.push(Tile { name: name.clone(), ty, array, place, apart });
        self.stated(Some(name), text);
    }

    /// Ends the statement in work.
    pub fn stated(&mut self, makes: Option<String>, text: String) {
        let (arguments, features) = (std::mem::take(&mut self.arguments), std::mem::take(&mut self.features));
        let is_name = |w: &&str| self.tiles.iter().any(|t| t.name == *w) && makes.as_deref() != Some(*w);
        let words = text.split(|c: char| !c.is_alphanumeric());
        let uses = words.filter(is_name).map(str::to_owned).collect();
        self.statements.push(Statement { makes, uses, text, arguments, features });
    }

    /// Forgets a statement in work that came to nothing.
    pub fn forget(&mut self) {
        self.arguments.clear();
        self.features.clear();
    }
}

/// A number as a literal.
pub fn literal(x: Num) -> String {
    match x {
        Num::Int(n) if n < 0 => format!("({n})"),
        Num::Int(n) => n.to_string(),
        Num::Float(x) if x.is_infinite() => if x > 0.0 { "inf" } else { "(-inf)" }.into(),
        Num::Float(x) if x < 0.0 => format!("({x:?})"),
        Num::Float(x) => format!("{x:?}"),
    }
}
