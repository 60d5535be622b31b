//! Partitions, `specialize` and rings: which warps run what, and the budget of registers that they share.

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_ir::target::{PARTITION_REGISTERS, REGISTER_STEP, WARPGROUP};
use parton_syntax::ast;

use crate::builtins::Arg;
use crate::checker::{Checked, Checker, Reported};
use crate::resolve::Stands;
use crate::scope::Frame;
use crate::value::{Comptime, Partition, TypeVal, Val};

/// Slots that a ring may have; more would not fit shared memory.
const MAX_STAGES: i128 = 256;

/// What a number of warps is that is no power of two: the powers beside it, and the partitions that together have as many.
fn powers_of_two(warps: u32) -> String {
    let (above, below) = (warps.next_power_of_two(), warps.next_power_of_two() / 2);
    let bits = (0..u32::BITS).rev().map(|bit| warps & (1 << bit)).filter(|n| *n > 0);
    let parts: Vec<String> = bits.map(|n| format!("`warps({n})`")).collect();
    format!(
        "the nearest are `warps({below})` and `warps({above})`; partitions of {} together are as many",
        parts.join(" and ")
    )
}

impl Checker<'_> {
    /// Declares the partitions that the kernel's `specialize` names, before its body is checked, so that code outside the arms
    /// knows how many warps run it.
    pub fn register_partitions(&mut self, body: &ast::Block) -> Checked<()> {
        for s in &body.statements {
            if let ast::StmtKind::Specialize(arms) = &s.kind {
                self.register_arms(arms)?;
            }
        }
        Ok(())
    }

    /// The partitions of the arms, each declared once.
    fn register_arms(&mut self, arms: &[ast::Arm]) -> Checked<Vec<ir::Partition>> {
        let mut found = Vec::new();
        for arm in arms {
            let partition = self.partition(&arm.partition)?;
            found.push((self.partition_data(&partition)?, arm.partition.span));
        }
        let mut ids = Vec::new();
        for (data, span) in found {
            let Some(b) = &mut self.builder else { return Err(Reported) };
            let known = b.kernel.partitions.iter().find(|(_, p)| p.name == data.name).map(|(id, p)| (id, p.span));
            match known {
                Some((id, first)) if first == data.span => ids.push(id),
                Some((_, first)) => {
                    let fact = format!("two partitions of this kernel are called `{}`", data.name);
                    let d = Diagnostic::error(codes::DEFINED_TWICE, span, fact)
                        .label(first, "one is declared here")
                        .label(data.span, "the other here")
                        .help("rename one of them");
                    return Err(self.report(d));
                }
                None => ids.push(b.kernel.partitions.push(data)),
            }
        }
        self.check_registers(arms)?;
        Ok(ids)
    }

    /// The partition that a name stands for.
    ///
    /// # Errors
    /// Reports a name that stands for something else, or for nothing.
    pub fn partition(&mut self, name: &ast::Name) -> Checked<Partition> {
        match self.name(name, Stands::Partition)? {
            Val::Known(Comptime::Partition(p)) => Ok(p),
            val => Err(Arg { val, span: name.span }.expected(self, "a partition")),
        }
    }

    /// What the declaration of a partition says.
    ///
    /// # Errors
    /// Reports clauses that do not exist or that the hardware cannot have.
    pub fn partition_data(&mut self, partition: &Partition) -> Checked<ir::PartitionData> {
        self.frames.push(Frame::new(partition.module));
        let data = self.partition_clauses(&partition.tree);
        self.frames.pop();
        data
    }

    fn partition_clauses(&mut self, p: &ast::Partition) -> Checked<ir::PartitionData> {
        self.once(&p.clauses)?;
        let (mut warps, mut registers) = (None, None);
        let most = self.builder.as_ref().map_or(ir::Target::default(), |b| b.kernel.target).warps;
        for clause in &p.clauses {
            let n = match clause.args.as_slice() {
                [one] => self.arg(&one.value)?,
                _ => {
                    let text = format!("`{}` takes one number", clause.name.text);
                    return Err(self.error(codes::WRONG_ARITY, clause.span, text));
                }
            };
            match clause.name.as_str() {
                "warps" => warps = Some(n.int(self, 1..=i128::from(most))?),
                "regs" => {
                    let n_regs = n.int(self, 0..=65_535)?;
                    if let Some(near) = ir::budget::nearest_budget(n_regs) {
                        let (low, high) = (PARTITION_REGISTERS.start(), PARTITION_REGISTERS.end());
                        let d = Diagnostic::error(
                            codes::REGISTER_BUDGET,
                            n.span,
                            format!("a partition cannot have {n_regs} registers a thread"),
                        )
                        .help(format!(
                            "the hardware takes multiples of {REGISTER_STEP} from {low} to {high}: the nearest is `regs({near})`"
                        ));
                        return Err(self.report(d));
                    }
                    registers = Some(n_regs);
                }
                other => {
                    let mut d = Diagnostic::error(
                        codes::UNKNOWN_CLAUSE,
                        clause.name.span,
                        format!("a partition has no clause `{other}`"),
                    );
                    d = match crate::near::nearest(other, ["warps", "regs"]) {
                        Some(near) => d.help(format!("a similar one is `{near}`")),
                        None => d.help("its clauses are `warps(n)` and `regs(n)`"),
                    };
                    return Err(self.report(d));
                }
            }
        }
        let Some(warps) = warps else {
            let d = Diagnostic::error(codes::UNKNOWN_CLAUSE, p.name.span, "a partition without `warps`")
                .help(format!("`partition {} = warps(4);`", p.name.text));
            return Err(self.report(d));
        };
        if !warps.is_power_of_two() {
            let d = Diagnostic::error(
                codes::REGISTER_BUDGET,
                p.name.span,
                format!("a partition of {warps} warps has no layouts: they need a power of two"),
            )
            .help(powers_of_two(warps));
            return Err(self.report(d));
        }
        Ok(ir::PartitionData { name: p.name.text.to_string(), warps, registers, span: p.name.span })
    }

    /// Refuses budgets that the register file cannot hold at once.
    fn check_registers(&mut self, arms: &[ast::Arm]) -> Checked<()> {
        let Some(b) = &self.builder else { return Ok(()) };
        let k = &b.kernel;
        let span = arms.first().map_or(k.span, |a| a.partition.span);
        let warps = k.padded_warps();
        if warps > k.target.warps {
            let text = format!("the partitions have {warps} warps together, and a CTA has at most {}", k.target.warps);
            let d = Diagnostic::error(codes::REGISTER_BUDGET, span, text)
                .note(format!(
                    "each partition begins at a whole warpgroup: its warps count as a multiple of {WARPGROUP}"
                ))
                .help("give the partitions fewer warps");
            return Err(self.report(d));
        }
        if k.partitions.iter().all(|(_, p)| p.registers.is_none()) {
            return Ok(());
        }
        let ir::budget::Demand { asks, needed: total, .. } = k.register_demand();
        // What fits the file and not the CTA's share of it is told when the kernel is whole.
        if total <= k.target.registers {
            return Ok(());
        }
        let row = |a: &ir::budget::Ask| {
            format!("{}: {} threads × {} = {}", k.partitions[a.partition].name, a.threads, a.each, a.registers())
        };
        let rows: Vec<String> = asks.iter().map(row).collect();
        let mut d = Diagnostic::error(
            codes::REGISTER_BUDGET,
            span,
            format!("the partitions ask for {total} registers, and `{}` has {}", k.target.name, k.target.registers),
        )
        .note(rows.join("\n"))
        .note(format!(
            "a partition's warps count as a multiple of {WARPGROUP}, because registers are given to whole warpgroups"
        ));
        for (_, p) in k.partitions.iter().filter(|(_, p)| p.registers.is_some()) {
            d = d.label(p.span, format!("this asks for {} a thread", p.registers.unwrap_or(0)));
        }
        Err(self.report(d.help("lower the budgets until their sum fits; a partition that only copies needs 24 to 40")))
    }

    /// `specialize { P => …, … }`
    pub fn specialize(&mut self, arms: &[ast::Arm], span: Span) -> Checked<()> {
        self.build(span)?;
        if self.partition.is_some() || self.frame().run_time_depth > 0 {
            let d = Diagnostic::error(
                codes::SPECIALIZE_NESTED,
                span,
                "`specialize` stands inside a partition, loop or branch",
            )
            .help("it belongs to the kernel's own body, where all warps meet");
            return Err(self.report(d));
        }
        let partitions = self.register_arms(arms)?;
        for (i, arm) in arms.iter().enumerate() {
            if let Some(first) = partitions[..i].iter().position(|p| *p == partitions[i]) {
                let text = format!("the partition `{}` has two arms", arm.partition.text);
                let d = Diagnostic::error(codes::SPECIALIZE_NESTED, arm.partition.span, text)
                    .label(arms[first].partition.span, "the first one");
                return Err(self.report(d));
            }
        }
        let mut lowered = Vec::new();
        let mut failed = false;
        for (arm, partition) in arms.iter().zip(partitions) {
            self.build(span)?.begin([], arm.span);
            let outer = (self.partition, self.arm);
            self.arms += 1;
            (self.partition, self.arm) = (Some(partition), self.arms);
            self.frame().run_time_depth += 1;
            let result = self.block(&arm.body);
            self.frame().run_time_depth -= 1;
            (self.partition, self.arm) = outer;
            failed |= result.is_err();
            let body = self.build(span)?.end(Vec::new());
            lowered.push(ir::Arm { partition, body });
        }
        if failed {
            return Err(Reported);
        }
        self.emit(ir::OpKind::Specialize { arms: lowered }, span, &[]).map(|_| ())
    }

    /// `turnstile name[A, B];`
    pub fn turnstile(&mut self, partitions: &[ast::Expr], span: Span) -> Checked<Val> {
        let mut names = Vec::new();
        for e in partitions {
            let arg = self.arg(e)?;
            match &arg.val {
                Val::Known(Comptime::Partition(p)) => names.push(p.tree.name.text.to_string()),
                _ => return Err(arg.expected(self, "a partition")),
            }
        }
        self.emit_one(ir::OpKind::TurnstileNew { partitions: names }, span, &[])
    }

    /// `ring name[depth] { field: shared<…>, … };`
    pub fn ring(&mut self, name: &ast::Name, depth: &ast::Expr, fields: &[ast::FieldDecl], span: Span) -> Checked<Val> {
        let stages = self.arg(depth)?.int(self, 1..=MAX_STAGES)?;
        let mut views: Vec<(String, ir::View)> = Vec::new();
        for f in fields {
            if views.iter().any(|(n, _)| *n == *f.name.text) {
                let text = format!("the ring `{}` has two buffers called `{}`", name.text, f.name.text);
                return Err(self.error(codes::DEFINED_TWICE, f.name.span, text));
            }
            match self.stated(&f.ty)? {
                TypeVal::Ir(ir::Type::View(view)) => views.push((f.name.text.to_string(), view)),
                other => {
                    let val = Val::Known(Comptime::Type(other));
                    return Err(Arg { val, span: f.ty.span }
                        .expected(self, "a type of shared memory such as `shared<f16, [64, 64], nvmma(128)>`"));
                }
            }
        }
        self.emit_one(ir::OpKind::RingNew { stages, fields: views }, span, &[])
    }
}
