"""Times PyTorch's matmuls for bench/matmuls.mjs: see time_matmuls.cc, whose protocol this is.

A forward matmul is torch.nn.functional.linear; a weight gradient is the product and its sum into the main gradient.
"""

import sys
import time

import torch
from torch.nn.functional import linear

SECONDS = 0.05
BYTES = 64 << 20

torch.set_num_threads(int(sys.argv[1]))
torch.set_grad_enabled(False)


def make_call(rows, columns, inner, transpose_left, transpose_right, accumulate, dtype):
    left = torch.randn((inner, rows) if transpose_left else (rows, inner)).to(dtype)
    right = torch.randn((columns, inner) if transpose_right else (inner, columns)).to(dtype)
    if accumulate:
        output = torch.zeros(rows, columns)
        return lambda: output.add_((left.t() if transpose_left else left) @ right)
    if transpose_right and not transpose_left:
        return lambda: linear(left, right)
    return lambda: (left.t() if transpose_left else left) @ (right.t() if transpose_right else right)


print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
for line in sys.stdin:
    *sizes, name = line.split()
    rows, columns, inner, *flags = (int(size) for size in sizes)
    dtype = getattr(torch, name)
    bytes_of_call = (rows * inner + inner * columns) * dtype.itemsize + rows * columns * (4 if flags[2] else dtype.itemsize)
    calls = [make_call(rows, columns, inner, *flags, dtype) for _ in range(-(-BYTES // bytes_of_call))]
    calls[0]()
    start, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - start < SECONDS:
        for call in calls:
            call()
        count += len(calls)
    print((time.perf_counter() - start) / count, flush=True)
