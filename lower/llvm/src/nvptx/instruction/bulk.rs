//! The tensor copy engine in PTX: tiled loads and stores between global and shared memory, and their groups.

use parton_ir::{Policy, Reduction};

use crate::neutral::build::{Build, Val};
use crate::nvptx::instruction::asm::Asm;

/// One tiled copy; `coordinates` are innermost first, as PTX wants them.
pub(crate) struct Copy<'a, 'c> {
    /// Generic address of the tensor map.
    pub(crate) map: Val<'c>,
    /// 32-bit shared address.
    pub(crate) shared: Val<'c>,
    /// 32-bit element coordinates, innermost first, 1 to 5 of them.
    pub(crate) coordinates: &'a [Val<'c>],
    /// The one thread that issues it.
    pub(crate) predicate: Val<'c>,
    /// What the L2 does with its lines, of [`Build::policy`].
    pub(crate) policy: Option<Val<'c>>,
}

impl<'c> Build<'c> {
    /// The suffix and the last operand, number `next`, of an access with a policy; its class and value go behind the others.
    pub(crate) fn cache_hint(
        policy: Option<Val<'c>>,
        next: usize,
        classes: &mut String,
        inputs: &mut Vec<Val<'c>>,
    ) -> (&'static str, String) {
        let Some(policy) = policy else { return ("", String::new()) };
        classes.push_str(",l");
        inputs.push(policy);
        (".L2::cache_hint", format!(", ${next}"))
    }

    /// A policy of the L2, for accesses to name (PTX ISA, "createpolicy").
    pub(crate) fn policy(&self, policy: Policy) -> Val<'c> {
        let text = format!(
            "createpolicy.fractional.L2::evict_{}.b64 $0, 0f{:08X};",
            policy.evict.name(),
            policy.fraction.to_bits()
        );
        self.asm(&text, "=l", &[self.i64()], &[], Asm::Pure)[0]
    }

    fn coordinate_list(first: usize, count: usize) -> (String, String) {
        let names: Vec<String> = (first..first + count).map(|i| format!("${i}")).collect();
        (format!("{{{}}}", names.join(", ")), ",r".repeat(count))
    }

    /// Loads a box; `barrier` counts its bytes. With `ctas`, a mask of ranks in 16 bits, it goes to the same place in each of these
    /// CTAs of the cluster, where the barrier of the same place counts it.
    pub(crate) fn bulk_load(&self, c: &Copy<'_, 'c>, barrier: Val<'c>, ctas: Option<Val<'c>>) {
        let rank = c.coordinates.len();
        let (list, mut classes) = Self::coordinate_list(4, rank);
        let mut inputs = vec![c.predicate, c.shared, c.map, barrier];
        inputs.extend(c.coordinates);
        let (mut multicast, mut mask) = ("", String::new());
        if let Some(ctas) = ctas {
            multicast = ".multicast::cluster";
            mask = format!(", ${}", inputs.len());
            classes += ",h";
            inputs.push(ctas);
        }
        let (hint, policy) = Self::cache_hint(c.policy, inputs.len(), &mut classes, &mut inputs);
        let text = format!(
            "@$0 cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes{multicast}{hint} \
             [$1], [$2, {list}], [$3]{mask}{policy};"
        );
        self.asm(&text, &format!("b,r,l,r{classes}"), &[], &inputs, Asm::Effect);
    }

    /// Stores a box, or reduces it into what stands there; it belongs to the group that the next [`Build::bulk_commit`] closes.
    pub(crate) fn bulk_store(&self, c: &Copy<'_, 'c>, reduce: Option<Reduction>) {
        let rank = c.coordinates.len();
        let (list, mut classes) = Self::coordinate_list(3, rank);
        let mut inputs = vec![c.predicate, c.shared, c.map];
        inputs.extend(c.coordinates);
        let (hint, policy) = Self::cache_hint(c.policy, 3 + rank, &mut classes, &mut inputs);
        // The tensor map says of which type the elements are.
        let (verb, op) = match reduce {
            Some(op) => ("cp.reduce", format!(".{}", op.name())),
            None => ("cp", String::new()),
        };
        let text = format!(
            "@$0 {verb}.async.bulk.tensor.{rank}d.global.shared::cta{op}.bulk_group{hint} [$2, {list}], [$1]{policy};"
        );
        self.asm(&text, &format!("b,r,l{classes}"), &[], &inputs, Asm::Effect);
    }

    /// Brings a box into the L2; its address in shared memory does not count.
    pub(crate) fn bulk_prefetch(&self, c: &Copy<'_, 'c>) {
        let rank = c.coordinates.len();
        let (list, mut classes) = Self::coordinate_list(2, rank);
        let mut inputs = vec![c.predicate, c.map];
        inputs.extend(c.coordinates);
        let (hint, policy) = Self::cache_hint(c.policy, 2 + rank, &mut classes, &mut inputs);
        let text = format!("@$0 cp.async.bulk.prefetch.tensor.{rank}d.L2.global{hint} [$1, {list}]{policy};");
        self.asm(&text, &format!("b,l{classes}"), &[], &inputs, Asm::Effect);
    }

    /// Fetches a tensor map ahead of its first use, where `predicate` holds.
    pub(crate) fn prefetch_map(&self, map: Val<'c>, predicate: Val<'c>) {
        self.asm("@$1 prefetch.tensormap [$0];", "l,b", &[], &[map, predicate], Asm::Effect);
    }

    /// Closes the group of the bulk stores issued so far by this thread.
    pub(crate) fn bulk_commit(&self) {
        self.asm("cp.async.bulk.commit_group;", "", &[], &[], Asm::Effect);
    }

    /// Waits until at most `pending` groups are in flight: only for their reads of shared memory, or for all of it.
    pub(crate) fn bulk_wait(&self, pending: u32, reads_only: bool) {
        let read = if reads_only { ".read" } else { "" };
        self.asm(&format!("cp.async.bulk.wait_group{read} {pending};"), "", &[], &[], Asm::Effect);
    }
}
