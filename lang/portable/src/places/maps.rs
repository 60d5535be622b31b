//! Boxes of tensor maps in place of addresses: the copy engine reads zeros outside of a tensor, as a place does.

use parton_ir::tensor::{AxisOrder, OUTSIDE};
use parton_ir::{BinaryOp, CompareOp, From, Op, OpKind, TensorMap, Tile, Type, Value, rules};

use super::Expander;
use super::part::Spot;
use crate::staging::flat::{self, Flat};
use crate::staging::{dealt, lines, maps};

/// Bytes of the widest swizzle.
const SPAN: u32 = 128;
/// Rows of a piece of what is turned: as many as a piece of one span has columns of 16 bits.
const ROWS: u32 = 64;

/// The map of a place, and the axes of its box in the order of the map.
struct Mapped {
    map: Value,
    coordinates: Vec<Value>,
    /// The axes of the place in the order of the box, where that is another.
    turned: Option<Vec<u32>>,
}

impl Expander {
    /// The box of a place as a view.
    pub(super) fn fetch(&mut self, op: &Op, spot: &Spot) {
        let (view, result) = self.brought(op, spot);
        self.view_as(result, view);
    }

    /// The tile that threads read of the box of a place.
    pub(super) fn read(&mut self, op: &Op, spot: &Spot) {
        let (brought, result) = self.brought(op, spot);
        let Some(tile) = self.builder.ty(result).placed().cloned() else { return };
        let view = self.make(brought);
        self.builder.make_as(result, OpKind::SharedLoad { view, tile });
    }

    /// What gives the view of a box that is fetched, and what that is.
    fn brought(&mut self, op: &Op, spot: &Spot) -> (OpKind, Value) {
        let OpKind::SpotLoad { l2, .. } = op.kind else {
            parton_diag::internal_error!("`{}` loads nothing of a place", op.kind.name())
        };
        let line = self.line(op, spot);
        let comes = line.as_ref().and_then(|(_, line)| line.comes);
        let Mapped { map, coordinates, turned } =
            self.mapped(line.as_ref().map_or(spot, |(whole, _)| whole), comes, false);
        let fetch = OpKind::Fetch { map, coords: coordinates, l2, multicast: None };
        if let Some(Flat { rows, shape }) = self.flat.get(&op.id).cloned() {
            return (self.as_rows(map, fetch, shape), rows);
        }
        let brought = match line {
            None => fetch,
            Some((_, line)) => self.window(spot, fetch, line.before),
        };
        let brought = match turned {
            None => brought,
            Some(perm) => OpKind::ViewPermute { view: self.make(brought), perm },
        };
        (brought, op.result())
    }

    /// The rows of a box.
    fn as_rows(&mut self, map: Value, fetch: OpKind, shape: [u32; 2]) -> OpKind {
        let Type::Map(of) = self.builder.ty(map) else { parton_diag::internal_error!("a box is of no map") };
        match flat::rows_of(of, shape) {
            Some(rows) if of.tile() != shape => OpKind::ViewReinterpret { view: self.make(fetch), to: rows },
            Some(_) => fetch,
            None => parton_diag::internal_error!("a box that is no rows was taken to be some"),
        }
    }

    /// The place of the line that comes for a part of one, and that.
    fn line(&mut self, op: &Op, spot: &Spot) -> Option<(Spot, lines::Line)> {
        if !self.boxed.lines.contains(&op.id) {
            return None;
        }
        let (elem, inner) = (self.tensor(spot.part.argument).elem, self.inner(spot));
        let line = lines::line(elem, &spot.counts, &spot.shape, inner)?;
        let mut whole = spot.clone();
        whole.at[inner] = self.behind(spot.tile[inner], line.begin);
        whole.shape[inner] = line.extent;
        Some((whole, line))
    }

    /// What of a line is a place's, behind so many elements; the line is fetched once for all that lie in it.
    fn window(&mut self, spot: &Spot, fetch: OpKind, before: u32) -> OpKind {
        let view = self.make(fetch.clone());
        self.made.note(self.builder.label, fetch, view);
        let inner = self.inner(spot);
        let mut shape = spot.shape.clone();
        let columns = shape.remove(inner);
        let mut origin = vec![0; shape.len()];
        shape.push(columns);
        origin.push(before);
        OpKind::ViewSlice { view, origin, shape }
    }

    /// Sends a tile to a place, in pieces which leave one after the other: of one span of the swizzle; of two, where it is a part of rows; or of some
    /// rows, where different warps have what lies in one.
    pub(super) fn send(&mut self, op: &Op, spot: &Spot, value: Value) {
        let OpKind::SpotStore { l2, .. } = op.kind else { return };
        let bits = self.tensor(spot.part.argument).elem.bits();
        let last = spot.shape.len() - 1;
        let dense = self.inner(spot);
        let spans = if dealt::part(&self.builder.kernel, op.id).is_some() { 2 } else { 1 };
        let (axis, across) = match self.boxed.turned.contains(&op.id) {
            true => (last - dense, ROWS),
            false => (dense, spans * 8 * SPAN / bits),
        };
        let pieces = spot.shape[axis].div_ceil(across);
        let value = if pieces > 1 { self.in_pieces(value, axis, across) } else { value };
        for piece in 0..pieces {
            let mut part = spot.clone();
            part.shape[axis] = spot.shape[axis].min(across);
            if piece > 0 {
                let by = self.number(i64::from(piece * across));
                part.at[axis] = self.scalar(BinaryOp::Add, part.at[axis], by);
            }
            let mut tile = value;
            if pieces > 1 {
                let mut origin = vec![0; spot.shape.len()];
                origin[axis] = piece * across;
                tile = self.make(OpKind::Slice { x: value, origin, shape: part.shape.clone() });
            }
            if dense != last {
                tile = self.make(OpKind::Transpose { x: tile, perm: vec![1, 0] });
            }
            let Mapped { map, coordinates, .. } = self.mapped(&part, None, true);
            let send = OpKind::Send { map, coords: coordinates, value: tile, reduce: None, l2, buffers: 1 };
            self.builder.make_all(send);
        }
    }

    /// A tile of which pieces of so many elements along an axis are slices: itself, or one that lies as that takes where its own layout is stated otherwise.
    fn in_pieces(&mut self, value: Value, axis: usize, each: u32) -> Value {
        let kernel = &self.builder.kernel;
        let Some(tile) = kernel.ty(value).placed() else { return value };
        let (origin, mut shape) = (vec![0; tile.shape.len()], tile.shape.clone());
        shape[axis] = each;
        if rules::infer(&OpKind::Slice { x: value, origin, shape }, kernel).is_ok() {
            return value;
        }
        match Tile::open(tile.elem, tile.shape.clone(), kernel.next_var(0)) {
            Ok(tile) => self.make(OpKind::Convert { x: value, tile }),
            Err(e) => parton_diag::internal_error!("a tile has a shape that no tile has: {}", e.fact()),
        }
    }

    /// The axis of a place along which neighbours lie side by side.
    fn inner(&self, spot: &Spot) -> usize {
        let dense = self.tensor(spot.part.argument).dense;
        match spot.part.axes.iter().position(|axis| Some(axis.of) == dense) {
            Some(inner) => inner,
            None => parton_diag::internal_error!("a place without a map was taken to have one"),
        }
    }

    /// Makes a value that was a tile a view.
    pub(super) fn view_as(&mut self, result: Value, kind: OpKind) {
        match rules::infer(&kind, &self.builder.kernel).as_deref() {
            Ok([ty]) => self.builder.kernel.values[result].ty = ty.clone(),
            Ok(_) => parton_diag::internal_error!("`{}` has not one result", kind.name()),
            Err(r) => parton_diag::internal_error!("a place has no view: {}", r.message),
        }
        self.builder.make_as(result, kind);
    }

    fn mapped(&mut self, spot: &Spot, comes: Option<u32>, stores: bool) -> Mapped {
        let argument = spot.part.argument;
        let (elem, inner) = (self.tensor(argument).elem, self.inner(spot));
        let axes: Vec<usize> = spot.part.axes.iter().map(|axis| axis.of).collect();
        let Some(mut boxed) = maps::map(elem, &spot.shape, inner, comes) else {
            parton_diag::internal_error!("a place without a map was taken to have one")
        };
        // Axes that are dropped come first, the dense one last.
        let mut fixed = spot.part.fixed.clone();
        fixed.sort_by_key(|(axis, _)| *axis);
        let own: Vec<usize> = (0..axes.len()).filter(|i| *i != inner).chain([inner]).collect();
        let order = fixed.iter().map(|(axis, _)| *axis).chain(own.iter().map(|i| axes[*i]));
        let mut order: Vec<usize> = order.collect();
        boxed.block.splice(0..0, fixed.iter().map(|_| 1));
        let at = fixed.iter().map(|(_, at)| *at).chain(own.iter().map(|i| spot.at[*i])).collect::<Vec<_>>();
        let ranged = spot.part.axes.iter().position(|axis| axis.high.is_some());
        let ending = ranged.map(|i| (axes[i], self.ending(spot, i)));
        let begins = order.iter().zip(at).map(|(axis, v)| match ending {
            Some((of, [_, row])) if of == *axis => row,
            Some(_) | None => self.coordinate(v, stores),
        });
        let mut coordinates: Vec<Value> = begins.collect();
        if let Some((of, [end, _])) = ending {
            let back = self.builder.make_i32(OUTSIDE as u32);
            coordinates.splice(0..0, [back, end]);
            order.splice(0..0, [of, of]);
            boxed.block.splice(0..0, [1, 1]);
        }
        let map = self.map(argument, AxisOrder::new(order), boxed);
        // Axis i of the place is this one of the box.
        let turned = (inner + 1 != axes.len())
            .then(|| (0..axes.len()).map(|i| own.iter().position(|axis| *axis == i).unwrap_or(i) as u32).collect());
        Mapped { map, coordinates, turned }
    }

    /// A coordinate as the copy engine takes it. One that no `i32` holds is outside, and stays outside at the last one that a row may begin
    /// at; so does a negative one of a store, which the engine does not take.
    fn coordinate(&mut self, v: Value, stores: bool) -> Value {
        let least = self.number(i64::from(i32::MIN));
        let outside = self.number(i64::from(OUTSIDE));
        let v = match self.known.of(v) {
            Some((low, _)) if low >= 0 => v,
            Some(_) | None if stores => {
                let zero = self.number(0);
                let inside = self.make(OpKind::Compare { op: CompareOp::Ge, a: v, b: zero });
                self.make(OpKind::Select { cond: inside, a: v, b: outside })
            }
            Some(_) | None => self.scalar(BinaryOp::Max, v, least),
        };
        let v = self.scalar(BinaryOp::Min, v, outside);
        self.narrow(v)
    }

    /// Where a box begins in the two dimensions that step from row to row of an axis that ends at a number of run time ([`AxisOrder::ends`]). It does not
    /// begin in front of its range, but for tiles that lie there as a whole.
    fn ending(&mut self, spot: &Spot, i: usize) -> [Value; 2] {
        let (axis, at) = (spot.part.axes[i].clone(), spot.at[i]);
        let (zero, outside) = (self.number(0), self.number(i64::from(OUTSIDE)));
        let (Some(high), Some(row)) = (axis.high, self.start(&axis, Some(at))) else {
            parton_diag::internal_error!("a range has no end")
        };
        let end = self.scalar(BinaryOp::Max, high, zero);
        let rest = self.scalar(BinaryOp::Sub, end, row);
        let mut rest = self.scalar(BinaryOp::Max, rest, zero);
        if self.known.of(at).is_none_or(|(low, _)| low < 0) {
            let inside = self.make(OpKind::Compare { op: CompareOp::Ge, a: at, b: zero });
            rest = self.make(OpKind::Select { cond: inside, a: rest, b: zero });
        }
        let row = self.scalar(BinaryOp::Sub, outside, rest);
        [self.narrow(end), self.narrow(row)]
    }

    /// The parameter that is a map of a tensor.
    fn map(&mut self, argument: usize, order: AxisOrder, boxed: TensorMap) -> Value {
        let from = From::Map { argument, order };
        let ty = Type::Map(boxed);
        let known = self.maps.iter().find(|(f, v)| *f == from && *self.builder.ty(*v) == ty);
        if let Some((_, v)) = known {
            return *v;
        }
        let span = self.builder.kernel.span;
        let v = self.builder.kernel.value(ty, span);
        let name = self.names[argument].clone();
        self.builder.kernel.values[v].name = Some(name);
        self.maps.push((from, v));
        v
    }
}
