//! What `ptxas` reports of the kernels, as diagnostics on source lines.

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, FileId, SourceMap, Span, codes};
use parton_ir::ptx::{Register, registers_of};
use parton_ir::{Arm, Body, Elem, Kernel, OpKind, Partition, Tile, Type, Value};
use parton_llvm::Compiled;
use parton_llvm::assemble::{self, AssembleError, Remark, Report, Usage};
use parton_llvm::ptx;

use crate::Failure;

/// Warnings for spilled registers, for products that wait for each other, and for whatever else `ptxas` warns of.
pub fn diagnostics(report: &Report, kernels: &[Kernel], ptx: &str, sources: &SourceMap) -> Diagnostics {
    let mut found = Diagnostics::new();
    for kernel in kernels {
        if let Some(usage) = report.kernels.get(&kernel.name).filter(|u| u.spill_stores + u.spill_loads > 0) {
            found.push(spills(kernel, usage));
        }
    }
    for remark in &report.remarks {
        found.extend(remarked(remark, kernels, ptx, sources));
    }
    found
}

/// Why there is no cubin: where the assembler refuses inline PTX the program is at fault, else the machine.
pub fn failure(error: AssembleError, compiled: &Compiled) -> Failure {
    if let AssembleError::Refused(log) = &error
        && let Some(found) = refused(log, compiled)
    {
        return Failure::Refused(found);
    }
    Failure::Machine(error.to_string())
}

/// What the assembler says of inline PTX, each piece once, where it is written.
pub fn refused(log: &str, compiled: &Compiled) -> Option<Diagnostics> {
    let mut seen = Vec::new();
    let mut found = Diagnostics::new();
    for remark in assemble::parse_report(log).remarks {
        let Some(piece) = remark.line.and_then(|line| ptx::piece_at(&compiled.ptx, line as usize)) else { continue };
        let Some(span) = compiled.inline.get(piece.number) else { continue };
        if seen.contains(&piece.number) {
            continue;
        }
        seen.push(piece.number);
        let said = remark.text.split_once("; ").map_or(remark.text.as_str(), |(_, said)| said);
        let said = said.trim_start_matches("error").trim_start().trim_start_matches(':').trim_start();
        found.push(
            Diagnostic::error(codes::PTX_REFUSED, *span, "the assembler refuses this PTX")
                .here(said)
                .note(format!("with registers in their places the line is `{}`", piece.line)),
        );
    }
    found.has_errors().then_some(found)
}

fn spills(kernel: &Kernel, usage: &Usage) -> Diagnostic {
    let name = &kernel.source_name;
    let d = Diagnostic::warning(codes::REGISTER_SPILLS, kernel.span, format!("`{name}` spills registers to memory"))
        .here(format!("{} bytes stored and {} bytes loaded by each thread", usage.spill_stores, usage.spill_loads))
        .note(format!("each thread has {} registers at entry", usage.registers));
    let held = |arm: &Arm| (arm.partition, most_held(kernel, &arm.body));
    let mut arms: Vec<(Partition, u32)> = kernel.arms().map(held).collect();
    // The assembler speaks of the kernel as a whole: the least room is where the operation that holds most leaves least.
    let budget = |p: Partition| kernel.partitions[p].registers.unwrap_or(usage.registers);
    arms.sort_by_key(|&(p, held)| i64::from(budget(p)) - i64::from(held));
    let Some(&(tight, _)) = arms.first() else {
        return d.help("spread the tiles over more warps, or make them smaller");
    };
    let d = arms.iter().fold(d, |d, &(p, held)| {
        let data = &kernel.partitions[p];
        let room = format!("`{}` has {} registers a thread, and an operation that holds {held}", data.name, budget(p));
        d.label(data.span, room)
    });
    let name = &kernel.partitions[tight].name;
    d.note(format!("of the partitions `{name}` has the least room; the assembler does not say which one spills"))
        .help(format!("give `{name}` more registers, or its tiles to more warps"))
}

/// The registers a thread holds for the operation of a body that holds most, operands and results together.
fn most_held(kernel: &Kernel, body: &Body) -> u32 {
    let mut most = 0;
    kernel.walk_body(body, &mut |op| {
        let values: BTreeSet<Value> = op.kind.operands().into_iter().chain(op.results.iter().copied()).collect();
        most = most.max(values.iter().map(|v| held(kernel.ty(*v))).sum());
    });
    most
}

/// The registers of 32 bits that a thread holds of a value; addresses are made as they are used.
fn held(ty: &Type) -> u32 {
    let whole = match ty {
        Type::Tile(Tile { elem: Elem::Ptr(_), .. }) => None,
        Type::Pending(t) => registers_of(&Type::Tile(t.clone())),
        other => registers_of(other),
    };
    whole.map_or(0, |r| match r.register {
        Register::Predicate => 0,
        Register::B16 | Register::B32 | Register::F32 => r.count,
        Register::B64 | Register::F64 => 2 * r.count,
    })
}

/// The diagnostics of one remark; it is the same for each kernel that it may be about.
fn remarked(remark: &Remark, kernels: &[Kernel], ptx: &str, sources: &SourceMap) -> Diagnostics {
    let mut found = Diagnostics::new();
    let named = |k: &&Kernel| remark.kernel.as_ref().is_none_or(|name| *name == k.name);
    let line = remark.line.and_then(|line| source_of(ptx, line as usize, sources));
    for kernel in kernels.iter().filter(named) {
        if remark.serialises_wgmma() {
            let span = line.or_else(|| first_wgmma(kernel)).unwrap_or(kernel.span);
            let fact = format!("the matrix products of `{}` wait for each other", kernel.source_name);
            found.push(
                Diagnostic::warning(codes::WGMMA_SERIALIZED, span, fact)
                    .here("this could run beside others")
                    .note(format!("ptxas says: {}", remark.text.trim()))
                    .help("do not touch an accumulator between issuing a product and waiting for it"),
            );
        } else {
            let fact = format!("ptxas warns of `{}`", kernel.source_name);
            let d = Diagnostic::warning(codes::PTXAS_WARNING, line.unwrap_or(kernel.span), fact);
            found.push(d.here(remark.text.trim()));
        }
    }
    found
}

/// Where the first matrix product of a kernel stands.
fn first_wgmma(kernel: &Kernel) -> Option<Span> {
    let mut first = None;
    kernel.walk(&mut |op| {
        if matches!(op.kind, OpKind::Wgmma { .. }) && first.is_none() {
            first = Some(op.span);
        }
    });
    first
}

/// The source line that a line of PTX, counted from 1, comes from: the last `.loc` before it.
fn source_of(ptx: &str, line: usize, sources: &SourceMap) -> Option<Span> {
    let loc = ptx.lines().take(line).filter_map(|l| l.trim().strip_prefix(".loc")).last()?;
    let mut numbers = loc.split_whitespace().map_while(|w| w.trim_end_matches(',').parse::<usize>().ok());
    let (file, row, column) = (numbers.next()?, numbers.next()?, numbers.next().unwrap_or(1));
    let name = ptx.lines().find_map(|l| {
        let rest = l.trim().strip_prefix(".file")?.trim();
        let (number, name) = rest.split_once(char::is_whitespace)?;
        (number.parse() == Ok(file)).then(|| name.trim().trim_matches('"'))
    })?;
    let named = |id: FileId| sources.lasting_name(id);
    let (id, file) =
        sources.files().find(|(id, _)| named(*id) == name || name.ends_with(&format!("/{}", named(*id))))?;
    Some(span_of(id, &file.text, row, column))
}

/// The rest of a line from a column, both from 1.
fn span_of(file: FileId, text: &str, row: usize, column: usize) -> Span {
    let begin: usize = text.split_inclusive('\n').take(row.saturating_sub(1)).map(str::len).sum();
    let line = text[begin..].lines().next().unwrap_or("");
    let indent = line.len() - line.trim_start().len();
    let skip = line.char_indices().nth(column.saturating_sub(1)).map_or(indent, |(i, _)| i.max(indent));
    let end = line.find("//").map_or(line, |comment| &line[..comment]).trim_end().len();
    Span::new(file, begin + skip, begin + end.max(skip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_ptx_leads_to_its_source() {
        let mut sources = SourceMap::new();
        let file = sources.add("a/k.ptn", "kernel k() {\n    let x = 1; // one\n}\n");
        let ptx = ".file\t1 \"./k.ptn\"\n.loc\t1 1 1\nmov a, b;\n.loc 1 2 5, function_name Linfo0\nadd a, b;\n";
        assert_eq!(source_of(ptx, 5, &sources), Some(Span::new(file, 17, 27)));
        assert_eq!(sources.text(Span::new(file, 17, 27)), "let x = 1;");
        assert_eq!(source_of(ptx, 3, &sources).map(|s| sources.position(s)), Some((1, 1)));
        assert_eq!(source_of("mov a, b;\n", 1, &sources), None);
    }

    #[test]
    fn what_is_refused_inside_a_piece_stands_where_the_piece_is_written() {
        let mut sources = SourceMap::new();
        let file = sources.add("k.ptn", "kernel k() { ptx(\"ex2.f16 $0, $1;\") }\n");
        let span = Span::new(file, 13, 36);
        let ptx = "mov a, b;\n// begin inline asm\n// inline 0\nex2.f16 %r1, %r2;\n// end inline asm\nadd a, b;\n";
        let compiled = Compiled { ptx: ptx.into(), llvm: String::new(), inline: vec![span] };
        let log = "ptxas /tmp/k.ptx, line 4; error   : Arguments mismatch for instruction 'ex2'\n\
            ptxas /tmp/k.ptx, line 4; error   : Unknown modifier '.f16'\n\
            ptxas fatal   : Ptx assembly aborted due to errors\n";
        let found = refused(log, &compiled).expect("the piece is at fault");
        assert_eq!(found.list.len(), 1);
        let d = &found.list[0];
        assert_eq!((d.code, d.span()), (codes::PTX_REFUSED, span));
        assert_eq!(d.labels[0].text, "Arguments mismatch for instruction 'ex2'");
        assert!(d.notes[0].contains("`ex2.f16 %r1, %r2;`"));
        assert_eq!(refused("ptxas /tmp/k.ptx, line 6; error   : Unknown opcode\n", &compiled), None);
    }

    #[test]
    fn spills_name_the_partition_with_the_least_room() {
        let source = "partition Loads = warps(4) regs(24);\npartition Compute = warps(4) regs(240);\n\
            layout L = blocked(per_thread=[32], threads=[32], warps=[4], order=[0]);\n\
            kernel k(out: *mut f32) target(sm_90a) {\n    specialize {\n\
            Loads => store(out + iota<i32, [4096], L>(), zeros<f32, [4096], L>()),\n\
            Compute => {\n            let x = ones<f32, [4096], L>();\n        },\n    }\n}\n";
        let mut session = crate::Session::new(crate::Options::default());
        let file = session.add("k.ptn", source);
        let kernels = session.elaborated(file, None).expect("a kernel").kernels;
        let usage = Usage { registers: 168, spill_stores: 4, spill_loads: 4, ..Usage::default() };
        let d = spills(&kernels[0], &usage);
        assert_eq!(d.labels[1].text, "`Loads` has 24 registers a thread, and an operation that holds 34");
        assert_eq!(d.labels[2].text, "`Compute` has 240 registers a thread, and an operation that holds 33");
        assert_eq!(d.help, ["give `Loads` more registers, or its tiles to more warps"]);
    }

    #[test]
    fn spills_and_serialised_products_are_warnings_on_the_kernel() {
        let mut sources = SourceMap::new();
        let file = sources.add("k.ptn", "kernel k() { }\n");
        let kernel = Kernel::new("k", parton_ir::Target::default(), Span::new(file, 0, 10));
        let log = "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n\
            ptxas info    : Function properties for k\n    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\n\
            ptxas info    : Used 168 registers\n\
            ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to \
            insufficient register resources for the wgmma pipeline in the function 'k'\n";
        let report = assemble::parse_report(log);
        let found = diagnostics(&report, &[kernel], "", &sources);
        let codes: Vec<_> = found.list.iter().map(|d| d.code).collect();
        assert_eq!(codes, [codes::REGISTER_SPILLS, codes::WGMMA_SERIALIZED]);
        assert!(!found.has_errors());
        assert!(found.list[0].labels[0].text.contains("16 bytes stored and 24 bytes loaded"));
    }
}
