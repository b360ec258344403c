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


def make_call(batch, rows, columns, inner, transpose_left, transpose_right, accumulate, dtype):
    def stored(rows, columns, transposed):
        shape = (columns, rows) if transposed else (rows, columns)
        return torch.randn(shape if batch == 1 else (batch, *shape)).to(dtype)

    left, right = stored(rows, inner, transpose_left), stored(inner, columns, transpose_right)
    if accumulate:
        output = torch.zeros(rows, columns) if batch == 1 else torch.zeros(batch, rows, columns)
        return lambda: output.add_((left.mT if transpose_left else left) @ right)
    if transpose_right and not transpose_left and batch == 1:
        return lambda: linear(left, right)
    return lambda: (left.mT if transpose_left else left) @ (right.mT if transpose_right else right)


print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
for line in sys.stdin:
    *sizes, name = line.split()
    batch, rows, columns, inner, *flags = (int(size) for size in sizes)
    dtype = getattr(torch, name)
    of_output = 4 if flags[2] else dtype.itemsize
    bytes_of_call = batch * ((rows * inner + inner * columns) * dtype.itemsize + rows * columns * of_output)
    calls = [make_call(batch, rows, columns, inner, *flags, dtype) for _ in range(-(-BYTES // bytes_of_call))]
    calls[0]()
    start, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - start < SECONDS:
        for call in calls:
            call()
        count += len(calls)
    print((time.perf_counter() - start) / count, flush=True)
