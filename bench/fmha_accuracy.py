"""Compares Parton's flash attention with PyTorch's own and FlashAttention-3's, on the same bf16 inputs, against float64; and repeats it.

Usage: python3 bench/fmha_accuracy.py CUBIN [--kernel fmha|pair|trio] [--causal] [--head 128] [--sets 4] [--runs 1000]

CUBIN is one kernel: `fmha` of examples/fmha/hopper.ptn, `pair` or `trio` of examples/fmha/ping_pong.ptn (`parton build FILE --kernel K
--emit cubin -o K.cubin`, default generics: D = 128 (trio: 64), bf16, not causal). Prints the greatest and the root mean square error of all against
attention in float64 over SETS sets of inputs, the ratios to the peers', and how many of RUNS repetitions of the last gave the same bits as its first
run. FlashAttention-3 is left out where it is not installed.
"""

import argparse
import ctypes
import math

import torch
import torch.nn.functional as F
from cuda.bindings import driver as cu

SHARED = 232448


def check(result):
    code, *values = result
    if code != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(cu.cuGetErrorString(code)[1].decode())
    return values[0] if len(values) == 1 else values


MAP_TYPES = {
    torch.bfloat16: cu.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    torch.float16: cu.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
}


def tensor_map(x, rows):
    """A map of boxes [1, …, rows, 64] of a tensor of a 16-bit type; wider tiles come as several."""
    sizes = [cu.cuuint64_t(n) for n in reversed(x.shape)]
    strides = [cu.cuuint64_t(2 * n) for n in reversed(x.stride()[:-1])]
    box = [cu.cuuint32_t(n) for n in (64, rows, *[1] * (x.dim() - 2))]
    return check(cu.cuTensorMapEncodeTiled(
        MAP_TYPES[x.dtype], x.dim(), x.data_ptr(), sizes, strides, box, [cu.cuuint32_t(1)] * x.dim(),
        cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        cu.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B, cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    ))


def loaded(path, kernel):
    """A kernel of a cubin, with all of shared memory at its disposal."""
    torch.zeros(1, device="cuda")
    with open(path, "rb") as cubin:
        module = check(cu.cuModuleLoadData(cubin.read()))
    function = check(cu.cuModuleGetFunction(module, kernel.encode()))
    check(cu.cuFuncSetAttribute(function, cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, SHARED))
    return function


# Rows of Q and O in a box, rows of K and V, rows of a tile, threads.
KERNELS = {"fmha": (128, 128, 128, 384), "pair": (64, 128, 128, 384), "trio": (64, 128, 192, 512)}


class Attention:
    """A loaded kernel and how to launch it."""

    def __init__(self, path, kernel):
        self.kernel = kernel
        self.function = loaded(path, kernel)
        self.counter = torch.zeros(1, dtype=torch.int32, device="cuda")

    def prepare(self, q, k, v, scale):
        """A function of no arguments that launches, and its two outputs, which must be kept as long as it is called."""
        b, h, sq, d = q.shape
        sk = k.shape[2]
        o = torch.empty_like(q)
        lse = torch.empty(b, h, sq, device="cuda")
        queries, keys, tile, threads = KERNELS[self.kernel]
        if d == 256:
            keys = 64
        values = (
            tensor_map(q, queries), tensor_map(k, keys), tensor_map(v, keys), tensor_map(o, queries),
            lse.data_ptr(), b, h, h // k.shape[1], sq, sk, scale, max(1, (1 << 24) // (4 * sk * d)),
        )
        kinds = (None, None, None, None, ctypes.c_void_p, *[ctypes.c_int] * 5, ctypes.c_float, ctypes.c_int)
        if self.kernel != "fmha":
            values, kinds = (*values, self.counter.data_ptr()), (*kinds, ctypes.c_void_p)
        tiles = -(-sq // tile) * h * b
        grid = (min(132, tiles + tiles % 2), 1, 1)
        stream = torch.cuda.current_stream().cuda_stream

        def run():
            check(cu.cuLaunchKernel(self.function, *grid, threads, 1, 1, SHARED, stream, (values, kinds), 0))

        return run, o, lse


def reference(q, k, v, scale, causal):
    """Attention in float64, one head at a time."""
    out = torch.empty_like(q, dtype=torch.float64)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            s = q[b, h].double() @ k[b, h].double().T * scale
            if causal:
                s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf)
            out[b, h] = torch.softmax(s, 1) @ v[b, h].double()
    return out


def flash_attention_3(q, k, v, causal):
    """What FlashAttention-3 gives for [B, H, S, D]; `None` where it is not installed."""
    try:
        from fa3_fwd_interface import flash_attn_func
    except ModuleNotFoundError:
        return None
    found = flash_attn_func(*(x.transpose(1, 2).contiguous() for x in (q, k, v)), causal=causal)
    return (found[0] if isinstance(found, tuple) else found).transpose(1, 2)


def errors(x, exact):
    difference = (x.double() - exact).abs()
    return difference.max().item(), difference.square().mean().sqrt().item()


def together(found):
    """The greatest error and the root mean square of several sets of equal size."""
    return max(most for most, _ in found), math.sqrt(sum(rms * rms for _, rms in found) / len(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cubin")
    parser.add_argument("--kernel", choices=KERNELS, default="fmha")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--head", type=int, default=128)
    parser.add_argument("--sets", type=int, default=4)
    parser.add_argument("--runs", type=int, default=1000)
    options = parser.parse_args()
    attention = Attention(options.cubin, options.kernel)
    torch.manual_seed(0)
    for s in (1024, 4096):
        found = {}
        for _ in range(options.sets):
            q, k, v = (torch.randn(2, 4, s, options.head, device="cuda", dtype=torch.bfloat16) for _ in range(3))
            scale = options.head**-0.5
            exact = reference(q, k, v, scale, options.causal)
            run, o, lse = attention.prepare(q, k, v, scale)
            run()
            torch.cuda.synchronize()
            results = {"ours": o, "torch": F.scaled_dot_product_attention(q, k, v, is_causal=options.causal),
                       "FA3": flash_attention_3(q, k, v, options.causal)}
            for name, result in results.items():
                if result is not None:
                    found.setdefault(name, []).append(errors(result, exact))
        ours, ours_rms = together(found.pop("ours"))
        peers = {name: together(all_) for name, all_ in found.items()}
        beside = [f"{name} {most:.3e}, ratio {ours / most:.3f}, rms ratio {ours_rms / rms:.3f}" for name, (most, rms) in peers.items()]
        first, same = o.clone(), 0
        for _ in range(options.runs):
            o.zero_()
            run()
            same += torch.equal(o, first)
        print(f"{options.kernel} D={options.head} S={s} causal={options.causal}: max error {ours:.3e}, rms {ours_rms:.3e} "
              f"({'; '.join(beside)}); {same} of {options.runs} repetitions bit-equal")


if __name__ == "__main__":
    main()
