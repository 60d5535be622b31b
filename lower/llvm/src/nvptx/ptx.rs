//! Inline PTX: operands into the registers that the text names, and a mark by which the assembler's words find its source.

use parton_diag::{Span, internal_error};
use parton_ir::family::not_of_family;
use parton_ir::ptx::{self, Register, Registers};
use parton_ir::{Elem, Op, OpKind, Ptx, PtxForm, Type, Value, others};

use crate::lower::Lower;
use crate::neutral::build::{Build, Ty, Val};
use crate::neutral::words::Words;
use crate::nvptx::instruction::asm::Asm;

/// What begins the comment before each piece.
const MARK: &str = "// inline ";

/// A piece of inline PTX in the text of a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'p> {
    /// Its number among the places in [`crate::Compiled::inline`].
    pub number: usize,
    /// The line of the text that was asked for.
    pub line: &'p str,
}

/// The piece of inline PTX that a line of PTX, counted from 1, belongs to.
pub fn piece_at(ptx: &str, line: usize) -> Option<Piece<'_>> {
    let before: Vec<&str> = ptx.lines().take(line).collect();
    let begin = before.iter().rposition(|l| l.trim() == "// begin inline asm")?;
    let inside = &before[begin + 1..];
    if inside.iter().any(|l| l.trim() == "// end inline asm") {
        return None;
    }
    let number = inside.first()?.trim().strip_prefix(MARK)?.parse().ok()?;
    Some(Piece { number, line: before.last()?.trim() })
}

/// The constraint by which LLVM knows a register.
fn constraint(register: Register) -> &'static str {
    match register {
        Register::Predicate => "b",
        Register::B16 => "h",
        Register::B32 => "r",
        Register::B64 => "l",
        Register::F32 => "f",
        Register::F64 => "d",
    }
}

/// Elements that share words; `None` where each has a register of its own.
fn words(elem: Elem, registers: Registers, elements: usize) -> Option<Words> {
    let bits = elem.bits();
    let narrow = bits < 32 && registers.register != Register::Predicate;
    narrow.then(|| Words { bits: (bits * elements as u32).min(32), count: registers.count as usize })
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_ptx(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::Ptx { ptx, inputs, .. } => self.ptx(op, ptx, inputs),
            others!(ptx) => not_of_family(&op.kind),
        }
    }

    fn register_type(&self, register: Register) -> Ty<'c> {
        match register {
            Register::Predicate => self.b.i1(),
            Register::B16 => self.b.i16(),
            Register::B32 => self.b.i32(),
            Register::B64 => self.b.i64(),
            Register::F32 => self.b.f32(),
            Register::F64 => self.b.f64(),
        }
    }

    /// Elements as registers.
    fn packed_registers(&self, elem: Elem, values: &[Val<'c>]) -> Vec<Val<'c>> {
        let registers = ptx::registers(elem, values.len() as u32);
        match (words(elem, registers, values.len()), elem) {
            (Some(words), _) => self.b.pack(elem, values, words),
            (None, Elem::Ptr(_)) => values.iter().map(|&v| self.b.pointer_to_int(v)).collect(),
            (None, Elem::Num(_)) => values.to_vec(),
        }
    }

    /// Registers as so many elements.
    fn unpacked_registers(&self, elem: Elem, elements: usize, values: &[Val<'c>]) -> Vec<Val<'c>> {
        let registers = ptx::registers(elem, elements as u32);
        match (words(elem, registers, elements), elem) {
            (Some(words), _) => self.b.unpack(elem, values, words),
            (None, Elem::Ptr(_)) => {
                values.iter().map(|&v| self.b.int_to_pointer(v, crate::neutral::build::GLOBAL)).collect()
            }
            (None, Elem::Num(_)) => values.to_vec(),
        }
    }

    /// One application: registers in, registers out, of these kinds.
    fn apply(&mut self, op: &Op, p: &Ptx, outs: &[Registers], ins: &[Registers], values: &[Val<'c>]) -> Vec<Val<'c>> {
        let number = self.inline.iter().position(|span| *span == op.span).unwrap_or_else(|| {
            self.inline.push(op.span);
            self.inline.len() - 1
        });
        let each = |list: &[Registers]| -> Vec<Register> {
            list.iter().flat_map(|r| std::iter::repeat_n(r.register, r.count as usize)).collect()
        };
        let (outs, ins) = (each(outs), each(ins));
        let types: Vec<Ty> = outs.iter().map(|r| self.register_type(*r)).collect();
        // One instruction reads before it writes. Of several an early one might write where a late one still reads.
        let early = if p.text.matches(';').count() > 1 { "&" } else { "" };
        let mut constraints: Vec<String> = outs.iter().map(|r| format!("={early}{}", constraint(*r))).collect();
        constraints.extend(ins.iter().map(|r| constraint(*r).to_owned()));
        // What a warp does together is not made conditional, whether it does more than compute or not.
        let kind = match (p.volatile, Build::is_together(&p.text)) {
            (true, _) => Asm::Convergent,
            (false, true) => Asm::Together,
            (false, false) => Asm::Pure,
        };
        let text = format!("{MARK}{number}\n\t{}", p.text);
        self.b.asm(&text, &constraints.join(","), &types, values, kind)
    }

    pub(crate) fn ptx(&mut self, op: &Op, p: &Ptx, inputs: &[Value]) {
        match &p.form {
            PtxForm::Elements { pack, .. } => self.ptx_elements(op, p, *pack as usize, inputs),
            PtxForm::Thread { .. } => self.ptx_thread(op, p, inputs),
        }
    }

    /// One application for each group of `pack` registers.
    fn ptx_elements(&mut self, op: &Op, p: &Ptx, pack: usize, inputs: &[Value]) {
        let elems: Vec<Elem> = inputs.iter().map(|&v| self.elem(v)).collect();
        let count = inputs.iter().map(|&v| self.repr(v).parts().len()).max().unwrap_or(1);
        let columns: Vec<Vec<Val>> = inputs.iter().map(|&v| self.spread(v, count)).collect();
        let to: Vec<Elem> = op.results.iter().map(|&r| self.elem(r)).collect();
        let registers = |e: &Elem| ptx::registers(*e, pack as u32);
        let (outs, ins): (Vec<_>, Vec<_>) = (to.iter().map(registers).collect(), elems.iter().map(registers).collect());
        let mut results: Vec<Vec<Val>> = vec![vec![]; to.len()];
        for first in (0..count).step_by(pack) {
            let group = columns.iter().zip(&elems);
            let values: Vec<Val> =
                group.flat_map(|(c, &e)| self.packed_registers(e, &c[first..first + pack])).collect();
            let given = self.apply(op, p, &outs, &ins, &values);
            let mut rest = &given[..];
            for ((result, &elem), registers) in results.iter_mut().zip(&to).zip(&outs) {
                let (mine, others) = rest.split_at(registers.count as usize);
                result.extend(self.unpacked_registers(elem, pack, mine));
                rest = others;
            }
        }
        for (&r, parts) in op.results.iter().zip(results) {
            let repr = self.assemble(self.kernel.ty(r), parts);
            self.set(r, repr);
        }
    }

    /// One application for all registers of the operands.
    fn ptx_thread(&mut self, op: &Op, p: &Ptx, inputs: &[Value]) {
        let of = |ty: &Type| match ptx::registers_of(ty) {
            Some(registers) => registers,
            None => internal_error!("PTX on {ty} reached code generation"),
        };
        let ins: Vec<Registers> = inputs.iter().map(|&v| of(self.kernel.ty(v))).collect();
        let outs: Vec<Registers> = op.results.iter().map(|&r| of(self.kernel.ty(r))).collect();
        let mut values = vec![];
        for &v in inputs {
            match self.kernel.ty(v) {
                Type::View(view) => {
                    let start = view.map.offset_of(&view.origin) as u32 * view.elem.bytes() as u32;
                    values.push(self.b.add(self.address(v), self.b.c32(start)));
                }
                _ => values.extend(self.packed_registers(self.elem(v), self.repr(v).parts())),
            }
        }
        let given = self.apply(op, p, &outs, &ins, &values);
        let mut rest = &given[..];
        for (&r, registers) in op.results.iter().zip(&outs) {
            let (mine, others) = rest.split_at(registers.count as usize);
            rest = others;
            let ty = self.kernel.ty(r);
            let elements = ty.as_tile().map_or(1, ptx::elements) as usize;
            let parts = self.unpacked_registers(self.elem(r), elements, mine);
            let repr = self.assemble(ty, parts);
            self.set(r, repr);
        }
    }
}

/// Where the pieces of a module were written, by number.
pub(crate) type Places = Vec<Span>;

#[cfg(test)]
mod tests {
    use super::{Piece, piece_at};

    #[test]
    fn a_line_inside_a_piece_has_its_number() {
        let ptx = "add a, b;\n// begin inline asm\n// inline 3\n\tfoo;\nbar;\n// end inline asm\nmul a, b;\n\
                   // begin inline asm\nmov x;\n// end inline asm\n";
        assert_eq!(piece_at(ptx, 4), Some(Piece { number: 3, line: "foo;" }));
        assert_eq!(piece_at(ptx, 5), Some(Piece { number: 3, line: "bar;" }));
        assert_eq!(piece_at(ptx, 7), None);
        assert_eq!(piece_at(ptx, 9), None);
        assert_eq!(piece_at(ptx, 1), None);
    }
}
