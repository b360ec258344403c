#!/usr/bin/env python3
"""PyTorch's rates on this GPU, which our kernels are compared with. Prints one JSON line.

  peer_kernels.py '{"attention": [[2048, 4, 16, 128, true]], "copy_bytes": [...], "products": [8192]}' [--device cuda]

Attention [S, B, A, D, causal] is torch's scaled_dot_product_attention in bfloat16, forward and backward timed apart.
Times are medians of runs between events, after a warm-up; on a processor (--device cpu) between clock readings.
"""
import argparse, json, statistics, time
import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("what", type=json.loads)
parser.add_argument("--device", default="cuda")
parser.add_argument("--runs", type=int, default=20)
options = parser.parse_args()
cuda = options.device == "cuda"


def seconds(body, prepare=lambda: None):
    """Median seconds of `body`; `prepare` runs before each, untimed."""
    times = []
    for run in range(options.runs + 3):
        prepare()
        if cuda:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            body()
            end.record()
            end.synchronize()
            taken = start.elapsed_time(end) / 1e3
        else:
            start = time.perf_counter()
            body()
            taken = time.perf_counter() - start
        if run >= 3:
            times.append(taken)
    return statistics.median(times)


def attention(s, b, a, d, causal):
    q, k, v = (torch.randn(b, a, s, d, device=options.device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    gradient = torch.randn_like(q)
    kept = {}

    def forward():
        kept["output"] = F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def backward():
        torch.autograd.grad(kept["output"], (q, k, v), gradient)

    return dict(shape=[s, b, a, d], causal=causal, forward_s=seconds(forward), backward_s=seconds(backward, forward))


def product(n):
    left, right = (torch.randn(n, n, device=options.device, dtype=torch.bfloat16) for _ in range(2))
    output = torch.empty_like(left)
    return dict(n=n, tflops=2 * n**3 / seconds(lambda: torch.mm(left, right, out=output)) / 1e12)


def copy(size):
    source = torch.empty(size // 2, device=options.device, dtype=torch.uint8)
    target = torch.empty_like(source)
    return dict(bytes=size, gb_per_s=size / seconds(lambda: target.copy_(source)) / 1e9)


print(json.dumps(dict(
    torch=torch.__version__, device=torch.cuda.get_device_name() if cuda else "cpu",
    attention=[attention(*shape) for shape in options.what["attention"]],
    products=[product(n) for n in options.what["products"]],
    copies=[copy(size) for size in options.what["copy_bytes"]])))
