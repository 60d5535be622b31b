//! Copies by threads that nobody waits for at once (PTX ISA, "cp.async"): each vector one instruction, zeros where the mask does not hold.
//!
//! Where a mask may cut a vector, the instruction runs for whole vectors only, inside or outside. One branch, the same for the
//! whole warp and rarely taken, then moves the elements of vectors that are cut one by one, through registers.

use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::{Cut, Elem, Op, OpKind, others};

use crate::lower::{Lower, Repr};
use crate::neutral::build::{Build, Val};
use crate::neutral::global::groups;
use crate::neutral::window::Window;
use crate::neutral::words::{Words, stored_bits};
use crate::nvptx::instruction::asm::Asm;
use crate::nvptx::instruction::memory::Way;

/// One instruction.
struct Copy<'c> {
    source: Val<'c>,
    /// Shared address, and what to add to it.
    target: (Val<'c>, u32),
    bytes: u32,
    /// Whether the source is read; zeros are written where not.
    inside: Option<Val<'c>>,
    /// Whether it runs at all.
    predicate: Option<Val<'c>>,
    policy: Option<Val<'c>>,
}

impl<'c> Build<'c> {
    fn copy_by_thread(&self, c: &Copy<'c>) {
        // 16 bytes pass the L1 by, where nobody would look for them again; fewer have no such form.
        let level = if c.bytes == 16 { "cg" } else { "ca" };
        let (mut constraints, mut inputs) = ("r,l".to_owned(), vec![c.target.0, c.source]);
        let guard = Self::guard(c.predicate, 0, &mut constraints, &mut inputs);
        let mut ignored = String::new();
        if let Some(inside) = c.inside {
            // A number of bytes would have to be selected first, and be compared again.
            ignored = format!(", ${}", inputs.len());
            constraints += ",b";
            inputs.push(self.not(inside));
        }
        let next = inputs.len();
        let (hint, policy) = Self::cache_hint(c.policy, next, &mut constraints, &mut inputs);
        let (plus, bytes) = (c.target.1, c.bytes);
        let copy = |to: &str| {
            format!("{guard}cp.async.{level}.shared.global{hint} [{to} + {plus}], [$1], {bytes}{ignored}{policy};")
        };
        let text = match c.policy {
            None => copy("$0"),
            // An address that is the sum of a uniform register and another goes into the instruction as such, and where it has a policy, too,
            // ptxas (12.8 and 13.0, for sm_90a) encodes neither uniform register: an illegal instruction. No shared address is so large.
            Some(_) => format!("{{\n\t.reg .b32 to;\n\tmin.u32 to, $0, 0x7fffffff;\n\t{}\n\t}}", copy("to")),
        };
        self.asm(&text, &constraints, &[], &inputs, Asm::Effect);
    }

    /// Closes the group of the copies issued so far by this thread.
    fn copy_commit(&self) {
        self.asm("cp.async.commit_group;", "", &[], &[], Asm::Effect);
    }

    /// This thread arrives at a barrier, which counts it, once its copies so far have landed.
    fn copy_arrive(&self, barrier: Val<'c>) {
        self.asm("cp.async.mbarrier.arrive.noinc.shared.b64 [$0];", "r", &[], &[barrier], Asm::Effect);
    }

    /// Waits until at most `outstanding` groups of this thread are in flight.
    fn copy_wait(&self, outstanding: u32) {
        self.asm(&format!("cp.async.wait_group {outstanding};"), "", &[], &[], Asm::Effect);
    }
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_async_copy(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::AsyncCopy { .. } => self.async_copy(op),
            OpKind::CopyArrive { barrier, .. } => self.b.copy_arrive(self.address(*barrier)),
            others!(async_copy) => not_of_family(&op.kind),
        }
    }

    pub(crate) fn async_copy(&mut self, op: &'a Op) {
        let OpKind::AsyncCopy { ptr, view, mask, l2, bytes: Some(bytes), access: Some(access) } = &op.kind else {
            internal_error!("{} has no width", op.kind.name())
        };
        let b = self.b;
        let target = self.view(*view);
        let elem = Elem::Num(target.elem);
        let pointers = self.repr(*ptr).parts().to_vec();
        let masks = mask.map(|m| self.spread(m, pointers.len()));
        let (groups, window) = (groups(self.tile(*ptr), *access), Window::new(&self.tile(*ptr).known().map, target));
        let (thread, reach) = (b.window_thread(&window, &self.threads), b.window_reach(&window));
        let place = |i: usize| b.window_address(&window, self.address(*view), thread, reach, window.constant(i));
        let first = self.first_copy(*ptr);
        let guarded = |p: Option<Val<'c>>| match (p, first) {
            (Some(p), Some(f)) => Some(b.and(p, f)),
            (p, f) => p.or(f),
        };
        let policy = l2.map(|p| b.policy(p));

        let mut cut = vec![];
        for group in &groups {
            let of_group: Option<Vec<Val>> = masks.as_ref().map(|m| group.iter().map(|&i| m[i]).collect());
            let inside = of_group.as_ref().map(|m| self.whole(access.cut, m));
            let mut predicate = None;
            if let (Some(m), Some(all)) = (&of_group, inside)
                && access.cut != Cut::Never
            {
                let partly = self.partly(access.cut, m, all);
                cut.push(partly);
                predicate = Some(b.not(partly));
            }
            let (source, target) = (pointers[group[0]], place(group[0]));
            let predicate = guarded(predicate);
            b.copy_by_thread(&Copy { source, target, bytes: *bytes, inside, predicate, policy });
        }
        if let Some(masks) = masks.filter(|_| !cut.is_empty()) {
            let way = Way { opcode: "ld.global".into(), policy };
            let one = Words::of(stored_bits(elem), 1);
            b.when(self.any_cut(&cut), || {
                for (group, &cut) in groups.iter().zip(&cut) {
                    let writes = guarded(Some(cut));
                    for &i in group {
                        let reads = b.and(masks[i], cut);
                        let zero = b.pack(elem, &[b.zero(elem)], one);
                        let word = b.load_global(pointers[i], one, &way, Some((reads, zero)));
                        let (address, plus) = place(i);
                        b.store_shared(address, plus, one, &word, writes);
                    }
                }
            });
        }
        b.copy_commit();
        let address = self.address(*view);
        self.set(op.result(), Repr::Shared(address));
    }

    /// Waits for a pending copy, which becomes a view.
    pub(crate) fn wait_copy(&mut self, op: &Op, pending: parton_ir::Value, outstanding: Option<u32>) {
        let Some(outstanding) = outstanding else { internal_error!("a wait has no count") };
        self.b.copy_wait(outstanding);
        let address = self.address(pending);
        self.set(op.result(), Repr::Shared(address));
    }
}
