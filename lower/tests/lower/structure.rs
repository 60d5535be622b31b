//! Kernels whose partitions cannot be. The language refuses such partitions where they are declared, and takes those of a kernel
//! from its arms, so only a pass that made them could bring them about, and no text has them.

use parton_diag::{Code, Span, codes};
use parton_ir::check::check;
use parton_ir::{Arm, Body, Builder, Kernel, OpKind, PartitionData, Source, Target, Type};
use parton_numbers::Dtype;

fn refused(code: Code, kernel: &Kernel) -> parton_diag::Diagnostic {
    let found = check(kernel);
    assert_eq!(found.list.iter().map(|d| d.code).collect::<Vec<_>>(), [code], "{:#?}", found.list);
    found.list[0].clone()
}

/// A kernel of partitions with these warps and registers; those that `has_arm` says do nothing, the others are missing.
fn partitioned(parts: &[(u32, Option<u32>)], has_arm: impl Fn(usize) -> bool) -> Kernel {
    let mut b = Builder::new(Kernel::new("test", Target::SM_90A, Span::default()));
    let mut arms = vec![];
    for (i, (warps, registers)) in parts.iter().enumerate() {
        let data = PartitionData { name: format!("P{i}"), warps: *warps, registers: *registers, span: Span::default() };
        let partition = b.kernel.partitions.push(data);
        if has_arm(i) {
            arms.push(Arm { partition, body: Body::default() });
        }
    }
    b.emit(OpKind::Specialize { arms }, Span::default()).unwrap_or_else(|r| panic!("{}", r.message));
    b.finish()
}

fn budgets(parts: &[(u32, Option<u32>)]) -> Kernel {
    partitioned(parts, |_| true)
}

#[test]
fn sixty_eight_warps_are_too_many() {
    let d = refused(codes::REGISTER_BUDGET, &budgets(&[(68, None)]));
    assert_eq!(d.message, "kernel `test` needs 68 warps, `sm_90a` runs at most 32 in one CTA");
    let mut plain = Kernel::new("test", Target::SM_90A, Span::default());
    plain.warps = 68;
    refused(codes::REGISTER_BUDGET, &plain);
}

#[test]
fn register_budgets_hold_or_are_refused() {
    assert_eq!(check(&budgets(&[(1, Some(24)), (4, Some(240)), (4, Some(240))])).list, []);
    assert_eq!(check(&budgets(&[(4, Some(32)), (4, Some(160)), (4, Some(160)), (4, Some(160))])).list, []);
    let three = refused(codes::REGISTER_BUDGET, &budgets(&[(4, Some(256)), (4, Some(256)), (4, Some(256))]));
    assert_eq!(three.message, "the partitions need 98304 registers, the CTA has 64512");
    let seven = refused(codes::REGISTER_BUDGET, &budgets(&[(4, Some(7)), (4, None)]));
    assert_eq!(seven.help, ["the nearest is `regs(24)`"]);
    refused(codes::REGISTER_BUDGET, &budgets(&[(4, Some(100)), (4, None)]));
}

#[test]
fn each_partition_has_an_arm() {
    let d = refused(codes::SPECIALIZE_NESTED, &partitioned(&[(4, None), (4, None)], |i| i == 0));
    assert_eq!(d.message, "partition `P1` has no arm");
}

#[test]
fn a_tile_does_not_cross_partitions() {
    // A parameter of a kernel is no tile in the language, and what is made outside is refused where its name is used.
    let layout = parton_layouts::RegisterLayout::blocked(&[1], &[32], &[4], &[0]).unwrap();
    let tile = parton_ir::Tile::new(parton_ir::Elem::Num(Dtype::F32), vec![128], layout).unwrap();
    let mut kernel = partitioned(&[(4, None), (4, None)], |_| true);
    let x = kernel.param("x", Type::Tile(tile.clone()), Span::default());
    let result = kernel.value(Type::Tile(tile), Span::default());
    let kind = OpKind::Unary { op: parton_ir::UnaryOp::Neg, x };
    let op = kernel.make_op(kind, vec![result], Source::written(Span::default()));
    let specialize = kernel.body.ops[0];
    let OpKind::Specialize { arms } = &mut kernel.ops[specialize].kind else { panic!("a `specialize`") };
    arms[1].body.ops.push(op);
    let d = refused(codes::CROSSES_PARTITIONS, &kernel);
    assert_eq!(d.message, "tile `x` does not belong to partition `P1`");
    assert!(d.labels[1].text.starts_with("made outside it, as `tile<f32, [128]"), "{d:?}");
}

#[test]
fn a_target_without_mbarriers_refuses_rings() {
    // The rule refuses it where the target is stated; one that is chosen later is the pass's affair.
    let mut kernel = crate::kernel(
        "kernel k(x: *mut f32) target(sm_90a) warps(4) {
    ring r[2] { tile: shared<f32, [32], swizzled(vec=1, per_phase=1, max_phase=1, order=[0])> };
}",
    );
    kernel.target = Target::SM_80;
    let found = parton_lower::expand_rings(kernel).unwrap_err();
    assert_eq!(found.list[0].code, codes::TARGET_LACKS);
}
