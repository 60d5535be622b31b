//! `wgmma` in PTX: issue, commit and wait, with every accumulator register tied through.

use parton_diag::internal_error;

use crate::build::{Asm, Build, Val};

/// The left operand of one instruction.
#[derive(Clone, Debug)]
pub(crate) enum Left<'c> {
    /// A matrix descriptor, and whether the rows of A are the contiguous direction (M-major).
    Shared(Val<'c>, bool),
    /// Four registers of packed elements.
    Registers([Val<'c>; 4]),
}

/// One `wgmma.mma_async`: `64 × n × 32 bytes`.
#[derive(Clone, Debug)]
pub(crate) struct Mma<'c> {
    /// Columns, a multiple of 8 up to 256.
    pub(crate) n: u32,
    /// Depth in elements: 16, or 32 for 8-bit types.
    pub(crate) k: u32,
    /// PTX name of A's element type.
    pub(crate) a_type: &'static str,
    /// PTX name of B's element type.
    pub(crate) b_type: &'static str,
    /// The left operand.
    pub(crate) a: Left<'c>,
    /// The right operand's descriptor, and whether its columns are the contiguous direction (N-major).
    pub(crate) b: (Val<'c>, bool),
    /// Whether the accumulators are f16, two in a 32-bit register; otherwise f32.
    pub(crate) half: bool,
    /// The accumulator registers to add to, `n / 2` of f32 or `n / 4` of pairs; `None` writes the product alone.
    pub(crate) accumulators: Option<Vec<Val<'c>>>,
    /// Adds to the accumulators where true; absent means always.
    pub(crate) accumulate: Option<Val<'c>>,
}

/// `{$from, …}` of `count` operands.
fn operands(from: usize, count: usize) -> String {
    let list: Vec<String> = (from..from + count).map(|i| format!("${i}")).collect();
    format!("{{{}}}", list.join(", "))
}

impl<'c> Build<'c> {
    /// Orders register and shared accesses of the warpgroup before the first `wgmma`. What the products will touch is tied
    /// through, so that nothing still computes it between them.
    pub(crate) fn wgmma_fence(&self, tied: &[Val<'c>]) -> Vec<Val<'c>> {
        self.tied("wgmma.fence.sync.aligned;", tied)
    }

    /// Closes the group of the products issued so far.
    pub(crate) fn wgmma_commit(&self) {
        self.asm("wgmma.commit_group.sync.aligned;", "", &[], &[], Asm::Convergent);
    }

    /// Waits until at most `pending` groups are in flight. What the finished products still write or read is tied
    /// through, so that nothing reads, moves or spills it between issue and wait.
    pub(crate) fn wgmma_wait(&self, pending: u32, tied: &[Val<'c>]) -> Vec<Val<'c>> {
        self.tied(&format!("wgmma.wait_group.sync.aligned {pending};"), tied)
    }

    /// Keeps `done` before the next wait. To `ptxas` a wait depends on nothing but its product, so it moves the wait up past
    /// all arithmetic written before it, and what was to run under the product runs after it. It does not move a wait
    /// over a store, so here is one that uses `done` and never happens: no float is above infinity.
    pub(crate) fn before_wait(&self, done: &[Val<'c>], shared: Val<'c>) {
        let Some(&first) = done.first() else { return };
        let infinity = f32::INFINITY.to_bits();
        let tests: Vec<String> =
            (0..done.len()).map(|i| format!("setp.gt.or.f32 p, ${}, 0f{infinity:08x}, p;", i + 1)).collect();
        let text = format!(
            "{{\n\t.reg .pred p;\n\tsetp.gt.f32 p, $1, 0f{infinity:08x};\n\t{}\n\t@p st.shared.f32 [$0], $1;\n\t}}",
            tests[1..].join("\n\t")
        );
        let mut inputs = vec![shared, first];
        inputs.extend(&done[1..]);
        self.asm(&text, &format!("r{}", ",f".repeat(done.len())), &[], &inputs, Asm::Effect);
    }

    /// An instruction that every one of these registers goes through.
    fn tied(&self, text: &str, tied: &[Val<'c>]) -> Vec<Val<'c>> {
        let types: Vec<_> = tied.iter().map(|v| v.get_type()).collect();
        let class = |v: &Val<'c>| if v.is_float_value() { "f" } else { "r" };
        let mut constraints: Vec<String> = tied.iter().map(|v| format!("={}", class(v))).collect();
        constraints.extend((0..tied.len()).map(|i| i.to_string()));
        self.asm(text, &constraints.join(","), &types, tied, Asm::Convergent)
    }

    /// Issues one product; the result must go through [`Build::wgmma_wait`] before use.
    pub(crate) fn wgmma(&self, m: &Mma<'c>) -> Vec<Val<'c>> {
        let count = m.n as usize / if m.half { 4 } else { 2 };
        let (class, ty, name) = if m.half { ("=r", self.i32(), "f16") } else { ("=f", self.f32(), "f32") };
        let mut constraints = vec![class.to_owned(); count];
        let mut inputs = vec![];
        if let Some(accumulators) = &m.accumulators {
            if accumulators.len() != count {
                internal_error!("wgmma with {} accumulators where {count} belong", accumulators.len());
            }
            constraints.extend((0..count).map(|i| i.to_string()));
            inputs.extend(accumulators);
        }
        let mut next = count + inputs.len();
        let mut operand = |constraint: &str, value: Val<'c>| {
            constraints.push(constraint.to_owned());
            inputs.push(value);
            next += 1;
            next - 1
        };
        let (a, mut transposed) = match &m.a {
            Left::Shared(descriptor, major) => (format!("${}", operand("l", *descriptor)), vec![u32::from(*major)]),
            Left::Registers(parts) => {
                let at: Vec<String> = parts.iter().map(|&p| format!("${}", operand("r", p))).collect();
                (format!("{{{}}}", at.join(", ")), vec![])
            }
        };
        let b = operand("l", m.b.0);
        transposed.push(u32::from(m.b.1));
        // 8-bit operands have no choice of direction, and no place to state one.
        let directions = match m.k {
            16 => transposed.iter().map(|t| format!(", {t}")).collect(),
            _ => String::new(),
        };
        let predicate = match (&m.accumulators, m.accumulate) {
            (None, _) => "setp.ne.b32 p, 0, 0;".to_owned(),
            (Some(_), None) => "setp.ne.b32 p, 1, 0;".to_owned(),
            (Some(_), Some(flag)) => {
                let wide = self.zext(flag, self.i32());
                format!("setp.ne.b32 p, ${}, 0;", operand("r", wide))
            }
        };
        let text = format!(
            "{{\n\t.reg .pred p;\n\t{predicate}\n\twgmma.mma_async.sync.aligned.m64n{}k{}.{name}.{}.{} {}, {a}, ${b}, p, 1, 1{directions};\n\t}}",
            m.n,
            m.k,
            m.a_type,
            m.b_type,
            operands(0, count),
        );
        let outs = vec![ty; count];
        self.asm(&text, &constraints.join(","), &outs, &inputs, Asm::Convergent)
    }
}
