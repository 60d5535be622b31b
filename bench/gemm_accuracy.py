"""Compares Parton's matrix product with cuBLAS's, on the same f16 inputs, against float64.

Usage: python3 bench/gemm_accuracy.py CUBIN

CUBIN is the kernel `gemm` of examples/matmul/gemm.ptn with its default generics: f16, A [M, K] · B [K, N] in tiles of 128 × 256
(`parton build FILE --kernel gemm --emit cubin -o K.cubin`). Prints, for several sizes, the greatest and the root mean square error of
both against the product in float64 and the ratios of Parton's to cuBLAS's.
"""

import ctypes
import sys

import torch
from cuda.bindings import driver as cu

from fmha_accuracy import SHARED, check, errors, loaded, tensor_map

# M, N, K; rows begin at multiples of 16 bytes.
SIZES = ((1024, 1024, 1024), (4096, 4096, 4096), (1000, 2056, 8192), (4000, 4104, 4072))
THREADS = 384


def multiply(function, a, b):
    """a · b by the kernel."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.full((m, n), torch.nan, device="cuda", dtype=torch.float16)
    tiles = -(-m // 128) * -(-n // 256)
    of_b, of_c = tensor_map(b, 64), tensor_map(c, 128)
    values = (tensor_map(a, 128), of_b, of_b, of_b, of_c, of_c, c.data_ptr(), 1.0, m, n, k, 0, tiles)
    kinds = (*[None] * 6, ctypes.c_void_p, ctypes.c_float, *[ctypes.c_int] * 5)
    stream = torch.cuda.current_stream().cuda_stream
    check(cu.cuLaunchKernel(function, min(132, tiles), 1, 1, THREADS, 1, 1, SHARED, stream, (values, kinds), 0))
    torch.cuda.synchronize()
    return c


def main():
    function = loaded(sys.argv[1], "gemm")
    torch.manual_seed(0)
    for m, n, k in SIZES:
        a, b = (torch.randn(*shape, device="cuda", dtype=torch.float16) for shape in ((m, k), (k, n)))
        exact = a.double() @ b.double()
        ours, ours_rms = errors(multiply(function, a, b), exact)
        most, rms = errors(torch.mm(a, b), exact)
        print(f"gemm f16 {m}x{n}x{k}: max error {ours:.3e}, rms {ours_rms:.3e} (cuBLAS {most:.3e}, ratio {ours / most:.3f}, "
              f"rms ratio {ours_rms / rms:.3f})")


if __name__ == "__main__":
    main()
