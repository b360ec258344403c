"""Times PyTorch's scaled_dot_product_attention for bench/attention.mjs, which names one problem a line:
  sequence batch heads head_size causal dropout float32|bfloat16
The answer is the milliseconds of the fastest forward and of the fastest backward pass.
"""

import sys
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

SECONDS = 0.5

torch.set_num_threads(int(sys.argv[1]))
print(f"PyTorch {torch.__version__}", flush=True)
for line in sys.stdin:
    *sizes, causal, dropout, name = line.split()
    sequence, batch, heads, head_size = (int(size) for size in sizes)
    # as a model has them: heads of one projection, positions outside
    qkv = torch.randn(batch, sequence, heads, 3, head_size).to(getattr(torch, name))
    query, key, value = (part.transpose(1, 2).requires_grad_() for part in qkv.unbind(3))
    gradient = torch.randn(batch, heads, sequence, head_size).to(qkv.dtype)
    fastest = [float("inf"), float("inf")]
    start = time.perf_counter()
    while time.perf_counter() - start < 2 * SECONDS or fastest[1] == float("inf"):
        times = [time.perf_counter()]
        output = scaled_dot_product_attention(query, key, value, is_causal=causal == "1", dropout_p=float(dropout))
        times.append(time.perf_counter())
        torch.autograd.grad(output, (query, key, value), gradient)
        times.append(time.perf_counter())
        fastest = [min(best, times[i + 1] - times[i]) for i, best in enumerate(fastest)]
    print(*(1000 * best for best in fastest), flush=True)
