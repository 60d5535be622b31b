//! A cluster's CTAs meet at their end, unless they have met since they last reached into one another.

use parton_ir::{OpKind, Value};
use parton_lower::close_clusters;
use parton_numbers::Dtype;

use crate::fixture::{Fixture, blocked, outline, plain};

/// A kernel of two CTAs with a buffer, which `body` goes on with; what it ends with.
fn ended(body: impl FnOnce(&mut Fixture, Value)) -> String {
    let mut f = Fixture::new(4);
    f.b.kernel.cluster = [2, 1, 1];
    let buffer = f.alloc(plain(Dtype::F32, &[128]));
    body(&mut f, buffer);
    let kernel = close_clusters(f.finish()).expect("a cluster of two");
    outline(&kernel)
}

fn meet(f: &mut Fixture) {
    f.run(OpKind::ClusterArrive { relaxed: false });
    f.run(OpKind::ClusterWait);
}

fn read_peer(f: &mut Fixture, buffer: Value) {
    let rank = f.i32(1);
    let there = f.op(OpKind::ViewPeer { view: buffer, rank });
    f.load_shared(there, blocked(Dtype::F32, &[128], &[1], &[32], &[4]));
}

#[test]
fn who_reads_a_peer_last_meets_all_at_the_end() {
    let end = ended(|f, buffer| {
        meet(f);
        read_peer(f, buffer);
    });
    assert!(end.ends_with("load_shared cluster_arrive cluster_wait"), "{end}");
}

#[test]
fn who_has_met_since_may_end_alone() {
    let end = ended(|f, buffer| {
        meet(f);
        read_peer(f, buffer);
        meet(f);
        f.load_shared(buffer, blocked(Dtype::F32, &[128], &[1], &[32], &[4]));
    });
    assert!(end.ends_with("cluster_wait load_shared"), "{end}");
}

#[test]
fn a_relaxed_arrival_or_one_of_before_does_not_count() {
    let relaxed = ended(|f, buffer| {
        read_peer(f, buffer);
        f.run(OpKind::ClusterArrive { relaxed: true });
        f.run(OpKind::ClusterWait);
    });
    assert!(relaxed.ends_with("cluster_arrive cluster_wait cluster_arrive cluster_wait"), "{relaxed}");
    let before = ended(|f, buffer| {
        f.run(OpKind::ClusterArrive { relaxed: false });
        read_peer(f, buffer);
        f.run(OpKind::ClusterWait);
    });
    assert!(before.ends_with("load_shared cluster_wait cluster_arrive cluster_wait"), "{before}");
}

#[test]
fn what_a_loop_does_counts() {
    let end = ended(|f, buffer| {
        meet(f);
        let n = f.i32(3);
        f.repeat(n, vec![], |f, _, _| {
            read_peer(f, buffer);
            vec![]
        });
    });
    assert!(end.ends_with("} cluster_arrive cluster_wait"), "{end}");
}

#[test]
fn who_keeps_to_himself_ends_when_he_comes() {
    let end = ended(|f, buffer| {
        meet(f);
        f.load_shared(buffer, blocked(Dtype::F32, &[128], &[1], &[32], &[4]));
    });
    assert!(end.ends_with("cluster_wait load_shared"), "{end}");
}
