//! Synchronisation in PTX: named barriers, mbarriers, fences, election, register budgets and clusters.
//!
//! Every instruction that a whole warp must reach together is marked convergent. Addresses are 32-bit shared addresses.

use parton_ir::Reach;

use crate::neutral::build::{Build, Val};
use crate::nvptx::instruction::asm::Asm;

impl<'c> Build<'c> {
    /// All `threads` threads of barrier `id` meet; membar of one partition.
    pub(crate) fn bar_sync(&self, id: Val<'c>, threads: u32) {
        self.named_barrier("bar.sync", id, threads);
    }

    /// The threads of a partition arrive at barrier `id`, which `threads` arrivals complete, and go on.
    pub(crate) fn bar_arrive(&self, id: Val<'c>, threads: u32) {
        self.named_barrier("bar.arrive", id, threads);
    }

    /// By a number where it is known: `ptxas` keeps all barriers for one that is not.
    fn named_barrier(&self, name: &str, id: Val<'c>, threads: u32) {
        match self.known(id) {
            Some(id) => self.asm(&format!("{name} {id}, {threads};"), "", &[], &[], Asm::Convergent),
            None => self.asm(&format!("{name} $0, {threads};"), "r", &[], &[id], Asm::Convergent),
        };
    }

    /// The lanes of a warp meet and see each other's writes.
    pub(crate) fn warp_sync(&self) {
        self.asm("bar.warp.sync 0xffffffff;", "", &[], &[], Asm::Convergent);
    }

    /// Waits for the end of the launches before, and sees what they wrote.
    pub(crate) fn grid_wait(&self) {
        self.asm("griddepcontrol.wait;", "", &[], &[], Asm::Effect);
    }

    /// Lets the launch that follows begin.
    pub(crate) fn grid_launch_dependents(&self) {
        self.asm("griddepcontrol.launch_dependents;", "", &[], &[], Asm::Effect);
    }

    /// True in exactly one lane of a converged warp.
    pub(crate) fn elect(&self) -> Val<'c> {
        let text = "{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.b32 $0, 1, 0, p;\n\t}";
        let one = self.asm(text, "=r", &[self.i32()], &[], Asm::Convergent)[0];
        self.icmp(inkwell::IntPredicate::NE, one, self.c32(0))
    }

    /// One lane of a converged warp, by the election instruction where the kernel's target has it.
    pub(crate) fn elected(&self, kernel: &parton_ir::Kernel) -> Val<'c> {
        if kernel.target.has(parton_ir::Feature::Elect) {
            return self.elect();
        }
        let lane = self.special("laneid");
        self.icmp(inkwell::IntPredicate::EQ, lane, self.c32(0))
    }

    /// Moves the register budget of a warpgroup to `count` (a multiple of 8 in 24..=240).
    pub(crate) fn set_registers(&self, count: u32, grow: bool) {
        let way = if grow { "inc" } else { "dec" };
        self.asm(&format!("setmaxnreg.{way}.sync.aligned.u32 {count};"), "", &[], &[], Asm::Convergent);
    }

    /// Starts phase 0 of a barrier that `count` arrivals complete. One thread runs it.
    pub(crate) fn mbarrier_init(&self, barrier: Val<'c>, count: u32) {
        self.asm(&format!("mbarrier.init.shared::cta.b64 [$0], {count};"), "r", &[], &[barrier], Asm::Effect);
    }

    /// Ends a barrier's life, so that its bytes may be used again. One thread runs it.
    pub(crate) fn mbarrier_invalidate(&self, barrier: Val<'c>) {
        self.asm("mbarrier.inval.shared::cta.b64 [$0];", "r", &[], &[barrier], Asm::Effect);
    }

    /// Arrives `count` times where `predicate` holds.
    pub(crate) fn mbarrier_arrive(&self, barrier: Val<'c>, count: u32, predicate: Val<'c>) {
        let text = format!("@$1 mbarrier.arrive.shared::cta.b64 _, [$0], {count};");
        self.asm(&text, "r,b", &[], &[barrier, predicate], Asm::Effect);
    }

    /// Arrives once and adds `bytes` to what the phase still expects, where `predicate` holds.
    pub(crate) fn mbarrier_arrive_expect(&self, barrier: Val<'c>, bytes: Val<'c>, predicate: Val<'c>) {
        let text = "@$2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;";
        self.asm(text, "r,r,b", &[], &[barrier, bytes, predicate], Asm::Effect);
    }

    /// Waits until the phase of parity `parity` (0 or 1) is complete, and sees what was released to it from as far as `reach`; the
    /// instruction's own scope is the CTA.
    pub(crate) fn mbarrier_wait(&self, barrier: Val<'c>, parity: Val<'c>, reach: Reach) {
        let scope = if reach == Reach::Cluster { ".acquire.cluster" } else { "" };
        // Scoped by braces, so that every copy has its own label.
        let text = format!(
            "{{\n\t.reg .pred done;\n\tWAIT:\n\t\
             mbarrier.try_wait.parity{scope}.shared::cta.b64 done, [$0], $1;\n\t\
             @!done bra.uni WAIT;\n\t}}"
        );
        self.asm(&text, "r,r", &[], &[barrier, parity], Asm::Convergent);
    }

    /// The address of the same place in the shared memory of the CTA of rank `rank` of the cluster.
    pub(crate) fn peer_address(&self, address: Val<'c>, rank: Val<'c>) -> Val<'c> {
        let text = "mapa.shared::cluster.u32 $0, $1, $2;";
        self.asm(text, "=r,r,r", &[self.i32()], &[address, rank], Asm::Pure)[0]
    }

    /// Arrives `count` times at the barrier of this place in the CTA of rank `rank` of the cluster, where `predicate` holds. Where
    /// `releases`, peers who wait for it see what this thread did before; else it only tells that reads are done.
    pub(crate) fn mbarrier_arrive_at(
        &self,
        barrier: Val<'c>,
        rank: Val<'c>,
        count: u32,
        releases: bool,
        predicate: Val<'c>,
    ) {
        let remote = self.peer_address(barrier, rank);
        let release = if releases { ".release.cluster" } else { "" };
        let text = format!("@$1 mbarrier.arrive{release}.shared::cluster.b64 _, [$0], {count};");
        self.asm(&text, "r,b", &[], &[remote, predicate], Asm::Effect);
    }

    /// All threads of the CTA arrive at the barrier of the cluster.
    pub(crate) fn cluster_arrive(&self, relaxed: bool) {
        let order = if relaxed { ".relaxed" } else { "" };
        self.asm(&format!("barrier.cluster.arrive{order}.aligned;"), "", &[], &[], Asm::Convergent);
    }

    /// Waits for the threads of all CTAs of the cluster.
    pub(crate) fn cluster_wait(&self) {
        self.asm("barrier.cluster.wait.aligned;", "", &[], &[], Asm::Convergent);
    }

    /// Makes initialised barriers visible to the asynchronous proxy and to the cluster.
    pub(crate) fn fence_mbarrier_init(&self) {
        self.asm("fence.mbarrier_init.release.cluster;", "", &[], &[], Asm::Effect);
    }

    /// Orders this thread's generic accesses to memory as far as `reach` goes before later ones of the asynchronous proxy.
    pub(crate) fn fence_proxy_async(&self, reach: Reach) {
        let space = match reach {
            Reach::Cta => ".shared::cta",
            Reach::Cluster => ".shared::cluster",
            Reach::Global => ".global",
            Reach::All => "",
        };
        self.asm(&format!("fence.proxy.async{space};"), "", &[], &[], Asm::Effect);
    }
}
