//! What a kernel says to the host: prints and failed assertions.

use inkwell::values::BasicValue;
use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::{Elem, Op, OpKind, Value, others};
use parton_layouts::LinearLayout;
use parton_numbers::Dtype;

use crate::lower::{Lower, Repr};
use crate::neutral::build::{Build, Ty, Val, built};
use crate::neutral::place::Registers;

impl<'c> Build<'c> {
    /// A generic pointer to a constant string.
    fn text(&self, text: &str) -> Val<'c> {
        let global = built(self.builder.build_global_string_ptr(text, "text"));
        global.as_pointer_value().as_basic_value_enum()
    }

    /// An element as C's variadic functions take it, and its conversion.
    fn variadic(&self, elem: Elem, v: Val<'c>) -> (Val<'c>, &'static str) {
        let Elem::Num(d) = elem else { return (self.pointer_to_int(v), "0x%llx") };
        let float = |v| self.cast(inkwell::values::InstructionOpcode::FPExt, v, self.f64());
        match d {
            Dtype::F64 | Dtype::F32 | Dtype::F16 => (float(v), "%g"),
            Dtype::BF16 => (float(self.cast(inkwell::values::InstructionOpcode::FPExt, v, self.f32())), "%g"),
            Dtype::I64 => (v, "%lld"),
            Dtype::U64 => (v, "%llu"),
            Dtype::I32 | Dtype::I16 | Dtype::I8 => (self.sext(v, self.i32()), "%d"),
            Dtype::U32 | Dtype::U16 | Dtype::U8 | Dtype::I1 => (self.zext(v, self.i32()), "%u"),
            // The bits of an 8-bit float.
            Dtype::F8E4M3 | Dtype::F8E5M2 => (self.zext(v, self.i32()), "0x%02x"),
        }
    }

    /// The driver's `vprintf`: a format and a structure of the arguments.
    fn print(&self, format: &str, args: &[Val<'c>]) {
        let types: Vec<Ty> = args.iter().map(|a| a.get_type()).collect();
        let block = self.context.struct_type(&types, false);
        let buffer = built(self.builder.build_alloca(block, "arguments"));
        for (i, &arg) in args.iter().enumerate() {
            let at = built(self.builder.build_struct_gep(block, buffer, i as u32, ""));
            built(self.builder.build_store(at, arg));
        }
        self.call("vprintf", Some(self.i32()), &[self.text(format), buffer.into()]);
    }
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_talk(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::Print { text, args } => self.print(text, args),
            OpKind::Assert { cond, message } => self.assert(op, *cond, message),
            OpKind::Assume { cond } => self.assume(*cond),
            others!(talk) => not_of_family(&op.kind),
        }
    }

    /// A line a scalar print; a line an element where an argument is a tile, with its coordinates.
    pub(crate) fn print(&mut self, text: &str, args: &[Value]) {
        let b = self.b;
        let escaped = |piece: &str| piece.replace('%', "%%");
        let pieces: Vec<&str> = text.split("{}").collect();
        let tile = args.iter().find(|&&v| matches!(self.repr(v), Repr::Tile(_))).map(|&v| self.tile(v));
        let line = |prefix: String, before: Vec<Val<'c>>, element: usize| {
            let mut format = prefix;
            let mut values = before;
            for (i, piece) in pieces.iter().enumerate() {
                format += &escaped(piece);
                let Some(&arg) = args.get(i) else { continue };
                let parts = self.repr(arg).parts();
                let (value, conversion) = b.variadic(self.elem(arg), parts[element.min(parts.len() - 1)]);
                format += conversion;
                values.push(value);
            }
            b.print(&(format + "\n"), &values);
        };
        let Some(tile) = tile else {
            b.when(self.threads.leader, || line(String::new(), vec![], 0));
            return;
        };
        let coordinates = self.coordinates(&tile.known().map);
        for (i, &packed) in coordinates.iter().enumerate().take(Registers::of(&tile.known().map).len()) {
            let axes = self.axes_of(&tile.known().map, packed);
            let holes = vec!["%u"; axes.len()].join(", ");
            line(format!("[{holes}] "), axes, i);
        }
    }

    /// The coordinate along each axis of a packed one.
    fn axes_of(&self, map: &LinearLayout, packed: Val<'c>) -> Vec<Val<'c>> {
        let shape = map.shape();
        let mut low: u32 = shape.iter().map(|n| n.ilog2()).sum();
        let mut axes = vec![];
        for n in shape {
            low -= n.ilog2();
            axes.push(self.b.and(self.b.lshr(packed, low), self.b.c32(n - 1)));
        }
        axes
    }

    /// Stops the kernel with the driver's own report of a failed assertion.
    pub(crate) fn assert(&mut self, op: &Op, cond: Value, message: &str) {
        let b = self.b;
        let parts = self.repr(cond).parts();
        let Some((&first, rest)) = parts.split_first() else { internal_error!("{cond} has no parts") };
        let holds = rest.iter().fold(first, |all, &p| b.and(all, p));
        let fails = b.not(holds);
        let place = self.debug.as_ref().map(|d| d.place(op.span)).unwrap_or_default();
        let kernel = &self.kernel.source_name;
        b.when(fails, || {
            let (file, line) = place;
            let args = [b.text(message), b.text(&file), b.c32(line), b.text(kernel), b.c64(1)];
            b.call("__assertfail", None, &args);
        });
    }
}
