#!/usr/bin/env python3
"""A GPT on characters by the CPU quick-start recipe of nanoGPT's README, in PyTorch, for docs/studies/default-presets.md.

Four layers of width 128 with 4 heads, context 64, 12 rows a step, no dropout, no biases, AdamW with betas 0.9 and
0.99, weight decay 0.1, clipping at 1, 100 steps of warm-up, one cosine to a tenth of the peak rate. The number of
steps is what fits --seconds by the median of 50 timed steps. Prints one JSON line; bits per byte are of all
characters of --valid, in rows of 64.

  python char_gpt_torch.py --train TEXT --valid TEXT --seconds 120 --lr 1e-3 [--threads 2]
"""
import argparse
import json
import math
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, CONTEXT, ROWS, WARM_UP = 4, 4, 128, 64, 12, 100


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH, bias=False)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.projection = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp_norm = nn.LayerNorm(WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        rows, length, _ = x.shape
        heads = self.qkv(self.attention_norm(x)).view(rows, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class CharacterModel(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            residual = name.endswith(("projection.weight", "down.weight"))
            nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * LAYERS) if residual else 1))

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def loss_of(model, tokens, reduction="mean"):
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction=reduction)


def rate_of(step, steps, peak):
    if step < WARM_UP:
        return peak * (step + 1) / (WARM_UP + 1)
    share = (step - WARM_UP) / max(1, steps - WARM_UP)
    return 0.1 * peak + 0.45 * peak * (1 + math.cos(math.pi * min(1, share)))


@torch.no_grad()
def nats_of(model, text):
    whole = (len(text) - 1) // CONTEXT
    rows = torch.stack([text[i * CONTEXT : i * CONTEXT + CONTEXT + 1] for i in range(whole)])
    total = sum(loss_of(model, part, "sum").item() for part in rows.split(256))
    rest = text[whole * CONTEXT :]
    return total + (loss_of(model, rest[None], "sum").item() if len(rest) > 1 else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    parser.add_argument("--valid", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1337)
    texts = {}
    for part in ("train", "valid"):
        with open(getattr(options, part), encoding="utf-8", newline="") as file:
            texts[part] = file.read()
    characters = sorted(set(texts["train"] + texts["valid"]))
    number = {character: index for index, character in enumerate(characters)}
    tokens = {part: torch.tensor([number[c] for c in text]) for part, text in texts.items()}

    model = CharacterModel(len(characters))
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=options.lr, betas=(0.9, 0.99), fused=True)
    generator = torch.Generator().manual_seed(1337)

    def step(rate):
        starts = torch.randint(len(tokens["train"]) - CONTEXT, (ROWS,), generator=generator)
        batch = torch.stack([tokens["train"][start : start + CONTEXT + 1] for start in starts])
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = loss_of(model, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    def timed(rate):
        start = time.perf_counter()
        step(rate)
        return time.perf_counter() - start

    # timed with a learning rate of 0, so that no weight changes; only AdamW's averages change
    seconds = statistics.median(timed(0.0) for _ in range(50))
    steps = int(options.seconds / seconds)
    begun = time.perf_counter()
    for index in range(steps):
        step(rate_of(index, steps, options.lr))
    spent = time.perf_counter() - begun
    valid_bytes = len(texts["valid"].encode("utf-8"))
    print(
        json.dumps(
            {
                "lr": options.lr,
                "steps": steps,
                "seconds": round(spent, 1),
                "characters": len(characters),
                "bits_per_byte": nats_of(model, tokens["valid"]) / math.log(2) / valid_bytes,
                "torch": torch.__version__,
            }
        )
    )


main()
