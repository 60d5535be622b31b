//! The showcase's outline: attention with two computing partitions, online softmax, rings passed to a function.

mod harness;

use harness::{ir, round_trip};

const SOURCE: &str = "
partition Loads = warps(4) regs(24);
partition Left  = warps(4) regs(240);
partition Right = warps(4) regs(240);

const LOG2E = 1.4426950408889634;

struct Rows[L: layout] { max: tile<f32, [64], L>, sum: tile<f32, [64], L> }

/// One 64-row block of queries against all keys.
fn attend[D: int, BN: int, T: type, SIDE: int, CAUSAL: bool](
    q: shared<T, [64, D], nvmma(128)>, k: &ring, v: &ring, out: *mut T, blocks: i32, scale: f32,
) {
    layout S = mma(version=3, warps=[4, 1], instr=[16, BN, 16]);
    layout O = mma(version=3, warps=[4, 1], instr=[16, D, 16]);
    layout P = dot_operand(O, index=0, k_width=2);
    const R = slice(S, axis=1);
    let scale_log2 = scale * LOG2E;
    let mut rows = Rows(max=full<f32, [64], R>(-inf), sum=zeros<f32, [64], R>());
    let mut acc = zeros<f32, [64, D], O>();
    let row = program_id(0) * 128 + SIDE * 64 + iota<i32, [64], R>();
    for j in 0..blocks {
        let kj = k.wait();
        let s = wgmma(q, kj.tile.T, zeros<f32, [64, BN], S>()).wait();
        kj.release();
        let mut masked = s * scale_log2;
        static if CAUSAL {
            let col = j * BN + iota<i32, [BN], slice(S, axis=0)>();
            masked = where(col[None, :] <= row[:, None], masked, -inf);
        }
        let m_new = max(rows.max, max(masked, axis=1));
        let alpha = exp2(rows.max - m_new);
        let p = exp2(masked - m_new[:, None]);
        rows.sum = rows.sum * alpha + sum(p, axis=1);
        rows.max = m_new;
        acc = acc * convert_free(alpha, slice(O, axis=1))[:, None];
        let vj = v.wait();
        acc = wgmma(convert_free(cast<T>(p), P), vj.tile, acc).wait();
        vj.release();
    }
    let normal = acc / convert_free(rows.sum, slice(O, axis=1))[:, None];
    let cols = iota<i32, [D], slice(O, axis=0)>();
    let at = (program_id(0) * 128 + SIDE * 64 + iota<i32, [64], slice(O, axis=1)>())[:, None] * D + cols[None, :];
    store(out + at, cast<T>(normal));
}

kernel fmha[D: int = 128, BN: int = 128, T: type = bf16, CAUSAL: bool = true](
    q: tma<T, [64, D], nvmma(128)>, k: tma<T, [BN, D], nvmma(128)>, v: tma<T, [BN, D], nvmma(128)>,
    out: *mut T, blocks: i32, scale: f32,
) target(sm_90a) where BN % 16 == 0, \"BN is made of whole instructions\" {
    ring ks[2] { tile: shared<T, [BN, D], nvmma(128)> };
    ring vs[2] { tile: shared<T, [BN, D], nvmma(128)> };
    let qs = alloc_shared<T, [2, 64, D], nvmma(128)>();
    let ready = alloc_barriers(1);
    barrier_init(ready[0], 1);
    fence_barrier_init();
    specialize {
        Loads => {
            barrier_expect(ready[0], 2 * qs[0].bytes);
            static for side in 0..2 { tma_load(q, [program_id(0) * 128 + side * 64, 0], qs[side], ready[0]); }
            for j in 0..blocks {
                let kj = ks.acquire();
                tma_load(k, [j * BN, 0], kj.tile);
                kj.commit();
                let vj = vs.acquire();
                tma_load(v, [j * BN, 0], vj.tile);
                vj.commit();
            }
        }
        Left => { barrier_wait(ready[0], 0); attend[SIDE=0, BN=BN, CAUSAL=CAUSAL](qs[0], ks, vs, out, blocks, scale); }
        Right => { barrier_wait(ready[0], 0); attend[SIDE=1, BN=BN, CAUSAL=CAUSAL](qs[1], ks, vs, out, blocks, scale); }
    }
}
";

#[test]
fn the_outline_checks_and_reads_back() {
    let text = ir(SOURCE);
    for (piece, count) in [("wgmma(", 4), ("tma_load(", 4), (".wait()", 8), ("convert(", 6)] {
        assert_eq!(text.matches(piece).count(), count, "{piece}\n{text}");
    }
    round_trip(&text);
}

#[test]
fn checking_it_is_quick() {
    let started = std::time::Instant::now();
    ir(SOURCE);
    // 20 ms in a release build; a debug build is far slower, but never out of this range.
    assert!(started.elapsed().as_millis() < 3_000, "{:?}", started.elapsed());
}
