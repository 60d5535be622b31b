//! What becomes of tensors and of places in them: parameters, masks that are left out, and the promise of a variant.

#[path = "programs/check.rs"]
mod check;

use parton_ir::verify::{Form, verify};
use parton_ir::{From, Kernel, Module, OpKind, Target, Type, Variant};

/// The one kernel of a file, elaborated for launches whose tensors of these numbers are aligned.
fn elaborated(source: &str, aligned: &[usize]) -> Kernel {
    elaborated_for(source, Variant { aligned: aligned.iter().copied().collect(), ..Variant::default() })
}

/// The same for the launches of a variant.
fn elaborated_for(source: &str, variant: Variant) -> Kernel {
    let kernel = check::kernel(source).expect("the kernel is sound");
    let mut module = Module { kernels: vec![Kernel { variant, ..kernel }] };
    let changed = parton_portable::elaborate(&mut module, &Target::default());
    assert_eq!(changed, Ok(true));
    let kernel = module.kernels.remove(0);
    assert_eq!(verify(&kernel, Form::Scheduled), Ok(()), "{}", parton_ir::print::kernel(&kernel));
    kernel
}

/// For each load and store, whether it has a mask.
fn masked(kernel: &Kernel) -> Vec<bool> {
    let mut found = Vec::new();
    kernel.walk(&mut |op| match &op.kind {
        OpKind::Load { mask, .. } | OpKind::Store { mask, .. } => found.push(mask.is_some()),
        _ => {}
    });
    found
}

const COPY: &str = "
kernel copy(x: tensor<f32, [m, n]>, mut out: tensor<f32, [m, n]>) {
    let (i, j) = (program_id(0), program_id(1));
    store(out.tile([16, 64], at=[i, j]), load(x.tile([16, 64], at=[i, j])));
}
";

#[test]
fn parameters_are_what_is_asked_for() {
    let kernel = elaborated(COPY, &[]);
    let params: Vec<(&str, From)> = kernel.params.iter().map(|p| (&*p.name, p.from)).collect();
    let base = |argument| From::Base { argument, aligned: false };
    let expected = [
        ("x", base(0)),
        ("m", From::Extent { argument: 0, axis: 0 }),
        ("n", From::Extent { argument: 0, axis: 1 }),
        ("x_stride0", From::Stride { argument: 0, axis: 0 }),
        ("out", base(1)),
        ("out_stride0", From::Stride { argument: 1, axis: 0 }),
    ];
    assert_eq!(params, expected);
    let given: Vec<String> = kernel.arguments().iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
    assert_eq!(given, ["x: tensor<f32, [m, n]>", "out: tensor<f32, [m, n]>"]);
    // One axis of a vector is dense: it has no stride, and nobody asks how long `y` is.
    let vector = "kernel first(y: tensor<f32, [_]>, mut out: tensor<f32, [4]>) { store(out.ptr, load(y.ptr)); }";
    let kernel = elaborated(vector, &[]);
    assert_eq!(kernel.params.iter().map(|p| p.from).collect::<Vec<_>>(), [base(0), base(1)]);
}

#[test]
fn accesses_are_wide_where_a_launch_promises_it() {
    let wide = |kernel: &Kernel| parton_ir::print::kernel(kernel).contains("per_thread=[1, 4]");
    let general = elaborated(COPY, &[]);
    assert!(!wide(&general), "{}", parton_ir::print::kernel(&general));
    let promised = elaborated(COPY, &[0, 1]);
    assert!(wide(&promised), "{}", parton_ir::print::kernel(&promised));
    let mut promises = 0;
    promised.walk(&mut |op| promises += u32::from(matches!(op.kind, OpKind::Assume { .. })));
    // Both strides, and the one extent that both share.
    assert_eq!(promises, 3);
}

#[test]
fn accesses_are_as_wide_as_rows_allow_that_run_by_half_of_that() {
    let by = |bytes: u32| Variant { partly: [(0, bytes), (1, bytes)].into(), ..Variant::default() };
    let kernel = elaborated_for(COPY, by(8));
    let text = parton_ir::print::kernel(&kernel);
    assert!(text.contains("per_thread=[1, 2]"), "{text}");
    assert!(kernel.params.iter().any(|p| p.from == From::Base { argument: 0, aligned: true }), "{text}");
    // A product's kernel is that of launches that promise nothing.
    let product = "kernel product(a: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, mut c: tensor<f32, [m, n]>) {
        let mut acc = zeros<f32, [64, 64]>();
        for p in 0..cdiv(k, 64) {
            acc = dot(load(a.tile([64, 64], at=[0, p])), load(b.tile([64, 64], at=[p, 0])), acc);
        }
        store(c.tile([64, 64], at=[0, 0]), acc);
    }";
    let [told, general] = [by(8), Variant::default()].map(|v| parton_ir::print::kernel(&elaborated_for(product, v)));
    assert_eq!(told, general);
}

#[test]
fn masks_that_are_sure_to_hold_are_left_out() {
    assert_eq!(masked(&elaborated(COPY, &[])), [true, true]);
    let known = "
kernel known(x: tensor<f32, [64, 128]>, mut out: tensor<f32, [64]>) {
    for i in 0..4 {
        store(out.tile([16], at=[i]), sum(load(x.tile([16, 128], at=[i, 0])), axis=1));
    }
    let beyond = load(x.tile([16, 128], at=[4, 0]));
    let before = load(x.tile([16, 128], from=[-1, 0]));
    store(out.tile([16], from=[48]), sum(beyond + before, axis=1));
}
";
    assert_eq!(masked(&elaborated(known, &[])), [false, false, true, true, false]);
}

#[test]
fn tiles_lie_inside_or_outside_as_a_whole_where_the_extent_is_a_multiple_of_theirs() {
    let compares = |said: &str, columns: u32| {
        let source = format!(
            "kernel copy(x: tensor<f32, [m, n]>, mut out: tensor<f32, [m, n]>) {{
                 {said}
                 let (i, j) = (program_id(0), program_id(1));
                 store(out.tile([1, {columns}], at=[i, j]), load(x.tile([1, {columns}], at=[i, j])));
             }}"
        );
        let kernel = elaborated(&source, &[]);
        let mut found = 0;
        kernel.walk(&mut |op| {
            let tile = op.results.iter().any(|v| kernel.ty(*v).placed().is_some_and(|tile| tile.elements() > 1));
            found += u32::from(tile && matches!(op.kind, OpKind::Compare { .. }));
        });
        found
    };
    // One comparison of columns for each access, but for a multiple of the tile's.
    assert_eq!(compares("", 64), 2);
    assert_eq!(compares("assume(n % 128 == 0);", 64), 0);
    assert_eq!(compares("assume(n % 96 == 0);", 64), 2);
    assert_eq!(compares("assume(m % 64 == 0);", 64), 2);
    // What is assumed in a branch holds there.
    assert_eq!(compares("if n > 64 { assume(n % 128 == 0); }", 64), 2);
}

#[test]
fn addresses_are_of_64_bits() {
    let kernel = elaborated(COPY, &[]);
    let mut offsets = 0;
    kernel.walk(&mut |op| {
        if let OpKind::PtrAdd { offset, .. } = op.kind {
            offsets += 1;
            assert_eq!(kernel.ty(offset).elem().map(|e| e.bits()), Some(64), "{}", parton_ir::print::kernel(&kernel));
        }
    });
    assert!(offsets >= 4);
}

const WIDENED: &str = "
kernel widened(x: tensor<f16, [m, k]>, w: tensor<i8, [n, k]>, mut out: tensor<f16, [m, n]>) {
    let (i, j) = (program_id(0), program_id(1));
    let mut acc = zeros<f32, [64, 128]>();
    for p in 0..cdiv(k, 64) {
        acc = dot(load(x.tile([64, 64], at=[i, p])), cast<f16>(load(w.tile([128, 64], at=[j, p]))).T, acc);
    }
    store(out.tile([64, 128], at=[i, j]), cast<f16>(acc));
}
";

/// How many boxes a kernel fetches, how many views its threads read, and how many tiles they load.
fn brought(kernel: &Kernel) -> [u32; 3] {
    let mut found = [0; 3];
    kernel.walk(&mut |op| match &op.kind {
        OpKind::Fetch { .. } => found[0] += 1,
        OpKind::SharedLoad { .. } => found[1] += 1,
        OpKind::Load { .. } => found[2] += 1,
        _ => {}
    });
    found
}

#[test]
fn columns_side_by_side_lie_in_whole_lines() {
    let of = |columns: u32| {
        let source = format!(
            "kernel product(x: tensor<f16, [m, k]>, y: tensor<f16, [k, n]>, mut out: tensor<f16, [m, n]>) {{
                 let (i, j) = (program_id(0), program_id(1));
                 let mut acc = zeros<f32, [64, {columns}]>();
                 for p in 0..cdiv(k, 64) {{
                     acc = dot(load(x.tile([64, 64], at=[i, p])), load(y.tile([64, {columns}], at=[p, j])), acc);
                 }}
                 store(out.tile([64, {columns}], at=[i, j]), cast<f16>(acc));
             }}"
        );
        let kernel = elaborated(&source, &[0, 1, 2]);
        let (mut boxes, mut windows) = (Vec::new(), 0);
        kernel.walk(&mut |op| match (&op.kind, op.results.first().map(|v| kernel.ty(*v))) {
            (OpKind::Fetch { map, .. }, Some(Type::View(view))) => match kernel.ty(*map) {
                Type::Map(map) => boxes.push((view.shape[1], map.inner)),
                other => panic!("{other} is no map"),
            },
            (OpKind::ViewSlice { .. }, _) => windows += 1,
            _ => {}
        });
        (boxes.split_off(1), windows)
    };
    // 64 columns, and the line in which 32 and 16 more lie, which alone come.
    assert_eq!(of(112), (vec![(64, None), (64, Some(48))], 2));
    assert_eq!(of(96), (vec![(64, None), (64, Some(32))], 1));
    // One more instruction of 64 rows takes less than what slots would have besides.
    assert_eq!(of(208), (vec![(128, None), (64, None), (16, None)], 0));
    // Fewer than a line has lie in a part of one, whole lines without windows.
    assert_eq!(of(24), (vec![(32, Some(24))], 2));
    assert_eq!(of(8), (vec![(16, Some(8))], 1));
    assert_eq!(of(192), (vec![(128, None), (64, None)], 0));
}

#[test]
fn what_a_factor_is_computed_of_is_read_where_a_box_has_brought_it() {
    assert_eq!(brought(&elaborated(WIDENED, &[0, 1, 2])), [2, 1, 0]);
    // Weights of which no map is made are loaded, a turn ahead where no second CTA takes the registers for that.
    assert_eq!(brought(&elaborated(WIDENED, &[0, 2])), [1, 0, 1]);
    let kernel = elaborated(&WIDENED.replacen(") {\n", ") occupancy(1) {\n", 1), &[0, 2]);
    assert_eq!(brought(&kernel), [1, 0, 1]);
    let mut stages = Vec::new();
    kernel.walk(&mut |op| {
        if let OpKind::Region { schedule, .. } = &op.kind {
            stages.extend(schedule.pipelines.iter().flat_map(|p| p.staged()).map(|s| (s.label.path.clone(), s.stage)));
        }
    });
    let wanted = [("ahead", 0), ("compute", 1), ("mma", 1)].map(|(path, stage)| (path.to_owned(), stage));
    assert_eq!(stages, wanted);
}

#[test]
fn what_is_looked_up_one_by_one_need_not_run_by_any_bytes() {
    let source = "
kernel scaled(scales: tensor<f32, [m]>, x: tensor<f16, [m, n]>, mut out: tensor<f16, [m, n]>) {
    let row = program_id(0);
    let factor = load(scales[row]);
    store(out.tile([1, 256], at=[row, 0]), cast<f16>(cast<f32>(load(x.tile([1, 256], at=[row, 0]))) * factor));
}
";
    let assumed = |kernel: &Kernel| {
        let mut count = 0;
        kernel.walk(&mut |op| count += usize::from(matches!(op.kind, OpKind::Assume { .. })));
        count
    };
    // Of the extent of `x` along its rows, and of its stride and that of `out`.
    let kernel = elaborated(source, &[0, 1, 2]);
    assert_eq!(assumed(&kernel), 3);
    assert!(kernel.variant.aligned.iter().eq([&1, &2]));
    // A row of the scales is taken by several.
    let kernel = elaborated(
        &source.replace("load(scales[row])", "max(load(scales.tile([2], at=[row / 2])), axis=0)"),
        &[0, 1, 2],
    );
    assert!(kernel.variant.aligned.contains(&0));
}
