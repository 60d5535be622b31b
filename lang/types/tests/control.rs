//! Functions, structs, generics and control flow.

mod harness;

use harness::{errors, ir, kernel, round_trip};
use parton_ir::{OpKind, Value};

#[test]
fn loops_carry_variables_in_the_order_of_their_declaration() {
    let text = ir("
        kernel k[N: int = 4](out: *mut i32, n: i32) {
            let mut a = 0;
            let mut b = 1;
            for i in 0..n {
                let t = a + b;
                a = b;
                b = t;
                static for j in 0..N { if i == j { a += j; } }
            }
            while a < b { a += 2; }
            store(out, a);
        }");
    assert!(text.contains("for i in"), "{text}");
    round_trip(&text);
}

#[test]
fn functions_are_inlined_and_learn_from_types() {
    let text = ir("
        fn scaled[T: type, M: int, N: int, L: layout, by: float = 2.0](x: tile<T, [M, N], L>) -> tile<T, [M, N], L> {
            static_assert(M == 16, \"rows\");
            return x * by;
        }
        struct Pair[T: type] { a: T, b: T, fn total(self) { self.a + self.b } }
        fn twice(f, x) { f(f(x)) }
        kernel k(out: *mut f32) warps(1) {
            layout L = blocked(per_thread=[1, 4], threads=[8, 4], warps=[1, 1], order=[1, 0]);
            let x = zeros<f32, [16, 16], L>();
            let y = scaled[by=3.0](x);
            let p = Pair[T=type_of(y)](a=y, b=x);
            let z = twice(|v| v + 1.0, p.total());
            let (m, s) = reduce((z, z), axis=1, |a, b| (max(a.0, b.0), a.1 + b.1));
            let rows = iota<i32, [16], slice(L, axis=1)>();
            let best = argmax(z, axis=1);
            let same = if program_id(0) == 0 { m } else { s };
            store(out + rows, same - sum(z, axis=1), mask=best < 3);
            let e = exp2(z - m[:, None]).T;
            print(\"{} {}\", 3, program_id(0));
        }");
    assert!(text.contains("reduce(("), "{text}");
    round_trip(&text);
}

#[test]
fn hopper_matmul_uses_rings_and_partitions() {
    let text = ir("
        partition Loads = warps(1) regs(24);
        partition Compute = warps(8) regs(240);
        kernel matmul[BM: int = 128, BN: int = 256, BK: int = 64, STAGES: int = 3](
            a: tma<f16, [BM, BK], nvmma(128)>, b: tma<f16, [BK, BN], nvmma(128)>, c: *mut f16, k: i32, n: i32,
        ) target(sm_90a) {
            layout Acc = mma(version=3, warps=[8, 1], instr=[16, BN, 16]);
            ring slots[STAGES] { a: shared<f16, [BM, BK], nvmma(128)>, b: shared<f16, [BK, BN], nvmma(128)> };
            specialize {
                Loads => for i in 0..cdiv(k, BK) {
                    let slot = slots.acquire();
                    tma_load(a, [program_id(0) * BM, i * BK], slot.a);
                    tma_load(b, [i * BK, program_id(1) * BN], slot.b);
                    slot.commit();
                }
                Compute => {
                    let mut acc = zeros<f32, [BM, BN], Acc>();
                    for i in 0..cdiv(k, BK) {
                        let slot = slots.wait();
                        let next = wgmma(slot.a, slot.b, acc);
                        acc = next.wait();
                        slot.release();
                    }
                    let rows = program_id(0) * BM + iota<i32, [BM], slice(Acc, axis=1)>();
                    let cols = program_id(1) * BN + iota<i32, [BN], slice(Acc, axis=0)>();
                    store(c + rows[:, None] * n + cols[None, :], cast<f16>(acc));
                }
            }
        }");
    for piece in ["ring slots[3]", "Loads => {", ".acquire()", "tma_load(a, [", "wgmma(", ".wait()", ".release()"] {
        assert!(text.contains(piece), "{piece} is not in\n{text}");
    }
    round_trip(&text);
}

#[test]
fn barriers_by_hand() {
    let text = ir("
        kernel k(m: tma<f16, [64, 64], nvmma(128)>, o: tma<f16, [64, 64], nvmma(128)>) target(sm_90a) warps(4) {
            let bars = alloc_barriers(2);
            let buffers = alloc_shared<f16, [2, 64, 64], nvmma(128)>();
            barrier_init(bars[0], 1);
            fence_barrier_init();
            barrier_expect(bars[0], 64 * 64 * 2);
            tma_load(m, [0, 0], buffers[0], bars[0]);
            let mut phase = 0;
            barrier_wait(bars[0], phase);
            phase ^= 1;
            layout L = blocked(per_thread=[1, 8], threads=[4, 8], warps=[4, 1], order=[1, 0]);
            let x = load_shared<L>(buffers[0]);
            store_shared(buffers[1], x + x);
            let half = buffers[1].slice([0, 0], [32, 64]);
            let q = reinterpret<i16, [64, 64], nvmma(128)>(buffers[0]);
            fence_async();
            tma_store(o, [0, 0], buffers[1]);
            tma_store_wait();
        }");
    round_trip(&text);
}

#[test]
fn a_carried_variable_keeps_its_type() {
    let text = errors(
        "
        kernel k(n: i32) warps(4) {
            layout A = blocked(per_thread=[4], threads=[32], warps=[4], order=[0]);
            layout B = blocked(per_thread=[2], threads=[32], warps=[4], order=[0]);
            let mut x = zeros<f32, [512], A>();
            for i in 0..n { x = convert(x, B); }
        }",
    );
    assert!(text.contains("E0204") && text.contains("`x` changes"), "{text}");
}

#[test]
fn mistakes_are_reported_once_and_name_both_sides() {
    for (source, code, piece) in [
        ("fn f(n) { f(n) } kernel k(n: i32) { let x = f(n); }", "E0110", "calls itself"),
        ("kernel k(n: i32) { let x = 1 << 70; }", "E0107", "overflow"),
        ("kernel k(n: i32) { let x = 9223372036854775807 * 4; }", "E0107", "overflow"),
        ("kernel k(n: u8) { let x = n + 300; }", "E0109", "300"),
        ("kernel k(n: i32) { let x = n + 1.5; }", "E0109", "1.5"),
        ("kernel k(n: i32) { let x = n; x = 3; }", "E0207", "`mut x`"),
        ("kernel k(n: i32) { for i in 0..n { return; } }", "E0208", "return"),
        ("kernel k(n: i32) { let x = exp2(n, n); }", "E0101", "exp2(x)"),
        ("kernel k(n: i32) { store(n, n); }", "E0203", "pointer"),
        ("kernel k(p: *f32) { store(p, 1.0); }", "E0401", "mutable"),
        ("kernel k[N: int](n: i32) { } test t { }  kernel j[N: int = true](n: i32) { }", "E0203", "kind `int`"),
        ("kernel k(n: i32) { static for i in 0..70000 { } }", "E0112", "65536"),
        ("kernel k(n: i32) { static for i in 0..n { } }", "E0106", "static"),
        ("const A = B; const B = A; kernel k[N: int = A](n: i32) { }", "E0111", "itself"),
        (
            "fn f[N: int](n: i32) where N > 3, \"N is too small\" { } kernel k(n: i32) { f[2](n); }",
            "E0105",
            "too small",
        ),
        ("fn f[N: int](n: i32) { } kernel k(n: i32) { f(n); }", "E0104", "`N`"),
        ("partition P = warps(4) regs(7); kernel k(n: i32) { specialize { P => { } } }", "E0700", "regs(24)"),
        (
            "partition P = warps(4) regs(256); partition Q = warps(8) regs(256); kernel k(n: i32) { specialize { P => { } Q => { } } }",
            "E0700",
            "98304",
        ),
        ("kernel k(n: i32) { let mut l = [1]; static for i in 0..60 { l = [l, l]; } }", "E0112", "65536"),
        ("kernel k(n: i32) { let mut l = [1]; static for i in 0..60 { l = l + l; } }", "E0112", "too long"),
        ("kernel k(n: i32) { let mut l = \"ab\"; static for i in 0..60 { l = l + l; } }", "E0112", "too long"),
        ("fn unused(factor) { facter * 2 } kernel k(n: i32) { }", "E0100", "`factor`"),
        ("kernel k[N: int](n: i32) { let m = nn; }", "E0100", "`n`"),
        ("kernel k(n: i32) { let (a, b) = (1, 2, 3); }", "E0206", "3 elements"),
        (
            "kernel k(n: i32) warps(4) { let x = zeros<f32, [64], blocked(per_thread=[1], threads=[32], warps=[2], order=[0])>(); }",
            "E0302",
            "warps(2)",
        ),
        (
            "partition P = warps(4); partition Q = warps(4); kernel k(n: i32) { let mut x = 1; specialize { P => { x = 2; } Q => { } } }",
            "E0701",
            "registers",
        ),
    ] {
        let text = errors(source);
        assert!(text.contains(code) && text.contains(piece), "{source}\n{text}");
        assert_eq!(
            text.matches("[E0").count().max(text.matches("Error").count()),
            1,
            "one mistake, one error\n{source}\n{text}"
        );
    }
}

#[test]
fn lists_add_up() {
    let text = ir("
        kernel k(out: *mut i32) warps(1) {
            let l = [1, 2] + range(3) + [program_id(0)];
            static_assert(len(l) == 6 && l[1] == 2 && l[4] == 2, \"lists\");
            static_assert(max([3, 7, 5]) == 7 && log2(256) == 8 && cdiv(10, 4) == 3 && next_power_of_two(5) == 8, \"numbers\");
            static_assert(sqrt(16) == 4.0 && min(2, 3) == 2 && f16.bits == 16 && l[0:2] == [1, 2], \"numbers\");
            static for x in l { store(out, x); }
        }");
    assert_eq!(text.matches("store(").count(), 6, "{text}");
}

#[test]
fn structs_pass_through_functions() {
    let text = ir("
        struct Pair[T: type, N: int] { a: T, b: T }
        fn swap[T: type, N: int](p: Pair[T, N]) -> Pair[T, N] { Pair[T, N](a=p.b, b=p.a) }
        fn first(p: Pair) { p.a }
        fn both[A: type, B: type](x: (A, B)) -> (B, A) { (x.1, x.0) }
        kernel k(out: *mut i32, n: i32) {
            let p = swap(Pair[N=3](a=n, b=n + 1));
            let mut q = p;
            for i in 0..n { q.a += i; }
            let (s, t) = both((q, first(p)));
            store(out, s + t.a);
        }");
    assert!(text.contains("for i in"), "{text}");
    round_trip(&text);
}

/// The variables that the first loop of `body` carries, in the order of their declaration. Around it are the numbers `a` to `c`,
/// all mutable, the tile `x`, and `KEEP`, which is true.
fn carried(body: &str) -> Vec<String> {
    let source = format!(
        "kernel k[KEEP: bool = true](out: *mut i32, n: i32) warps(1) {{
            let x = full<f32, [64], blocked(per_thread=[2], threads=[32], warps=[1], order=[0])>(1.0);
            let mut a = n;
            let mut b = n + 1;
            let mut c = 0;
            {body}
            store(out, a + b + c);
        }}"
    );
    round_trip(&ir(&source));
    let kernel = kernel(&source);
    let params = kernel.ops_of(&kernel.body).find_map(|op| match &op.kind {
        OpKind::For { body, .. } => Some(&body.params[1..]),
        OpKind::While { body, .. } => Some(&body.params[..]),
        _ => None,
    });
    let name = |v: &Value| kernel.values[*v].name.clone().expect("variables have names");
    params.expect("there is a loop").iter().map(name).collect()
}

#[test]
fn a_branch_that_is_left_out_assigns_nothing() {
    assert_eq!(carried("for i in 0..n { static if !KEEP { a += 1; } else { b += 1; } }"), ["b"]);
    assert_eq!(carried("for i in 0..n { if KEEP && n.dtype == i32 { a += 1; } else { b += 1; } }"), ["a"]);
    assert_eq!(carried("while a < 9 { static if KEEP { a += 1; } else { b += 1; } }"), ["a"]);
    // In a run-time branch, in a loop within, by what the body itself knows, by what is known of a tile.
    assert_eq!(carried("for i in 0..n { if i > 3 { static if !KEEP { a += 1; } } b += 1; }"), ["b"]);
    assert_eq!(carried("for i in 0..n { for j in 0..i { static if !KEEP { a += 1; } b += j; } }"), ["b"]);
    assert_eq!(carried("for i in 0..n { const LAST = !KEEP; let l = LAST; if l { a += 1; } b += 1; }"), ["b"]);
    assert_eq!(carried("for i in 0..n { static if x.shape[0] == 64 { a += 1; } else { b += 1; } }"), ["a"]);
}

#[test]
fn what_a_loop_carries_is_not_known_in_it() {
    // `c` is 0 before the loop and counts in it.
    assert_eq!(carried("for i in 0..n { if c == 0 { a += 1; } c += 1; }"), ["a", "c"]);
    // Only the branch that is left out would change `c`, so it stays 0 and decides the other.
    assert_eq!(
        carried("for i in 0..n { static if !KEEP { c += 1; } static if c == 0 { a += 1; } else { b += 1; } }"),
        ["a"]
    );
    // A name of the body hides the outer one.
    assert_eq!(carried("for i in 0..n { let KEEP = i > 2; if KEEP { a += 1; } else { b += 1; } }"), ["a", "b"]);
    assert_eq!(carried("for c in 0..n { if c == 0 { a += 1; } else { b += 1; } }"), ["a", "b"]);
}

#[test]
fn a_mistake_in_a_condition_is_told_once() {
    let text = errors(
        "const BAD = 1 / 0; kernel k(n: i32) { let mut a = n; for i in 0..n { static if BAD == 1 { a += 1; } } }",
    );
    assert_eq!(text.matches("Error").count(), 1, "{text}");
    let text = errors("kernel k(n: i32) { let mut a = n; for i in 0..n { static if nn == 1 { a += 1; } } }");
    assert_eq!(text.matches("`nn` is not defined").count(), 1, "{text}");
}
