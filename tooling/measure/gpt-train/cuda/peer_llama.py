"""A model of the Llama family in PyTorch, in the place of the peer's GPT: grouped queries, rotary embeddings, RMSNorm,
a gated feed-forward network, no biases, tied embeddings; PyTorch's own operations throughout, for torch.compile."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

ROTARY_BASE = 500_000.0


def rotary_table(seq, size):
    """Cosines and sines of [seq, size / 2] angles, in float32."""
    frequencies = ROTARY_BASE ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
    angles = torch.outer(torch.arange(seq, dtype=torch.float32), frequencies)
    return angles.cos(), angles.sin()


def rotated(x, cos, sin):
    """Rotates elements i and i + size / 2 of each head; x is [batch, heads, seq, size]."""
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).type_as(x)


class Block(nn.Module):
    def __init__(self, hidden, heads, groups, width):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, hidden // heads
        self.norm_1, self.norm_2 = nn.RMSNorm(hidden, eps=1e-5), nn.RMSNorm(hidden, eps=1e-5)
        self.qkv = nn.Linear(hidden, (heads + 2 * groups) * self.size, bias=False)
        self.proj = nn.Linear(hidden, hidden, bias=False)
        self.gate_up, self.down = nn.Linear(hidden, 2 * width, bias=False), nn.Linear(width, hidden, bias=False)

    def forward(self, x, cos, sin):
        b, s, h = x.shape
        split = [n * self.size for n in (self.heads, self.groups, self.groups)]
        q, k, v = (t.view(b, s, -1, self.size).transpose(1, 2) for t in self.qkv(self.norm_1(x)).split(split, -1))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.groups != self.heads)
        x = x + self.proj(a.transpose(1, 2).reshape(b, s, h))
        gate, up = self.gate_up(self.norm_2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def llama_of(width, groups):
    """A class with the constructor of the peer's GPT, for a feed-forward width and groups of keys and values."""

    class Llama(nn.Module):
        def __init__(self, layers, hidden, heads, seq, vocab, dropout=0.0):
            super().__init__()
            assert dropout == 0.0, "dropout is not in this model"
            self.wte = nn.Embedding(vocab, hidden)
            self.blocks = nn.ModuleList(Block(hidden, heads, groups, width) for _ in range(layers))
            self.norm = nn.RMSNorm(hidden, eps=1e-5)
            cos, sin = rotary_table(seq, hidden // heads)
            self.register_buffer("cos", cos, persistent=False)
            self.register_buffer("sin", sin, persistent=False)
            for name, p in self.named_parameters():
                if p.dim() > 1:
                    std = 0.02 / math.sqrt(2 * layers) if name.endswith(("proj.weight", "down.weight")) else 0.02
                    nn.init.normal_(p, 0.0, std)

        def forward(self, ids, labels):
            x = self.wte(ids)
            for block in self.blocks:
                x = block(x, self.cos[: ids.shape[1]], self.sin[: ids.shape[1]])
            logits = F.linear(self.norm(x), self.wte.weight)
            return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels.reshape(-1))

    return Llama
