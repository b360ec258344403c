"""The other side of llama-against-transformers.mjs: steps of transformers' LlamaForCausalLM (or Qwen3MoeForCausalLM), or of PEFT's adapters of it.

Commands come as JSON lines on standard input, answers go as JSON lines to standard output. Needs torch and
transformers, and peft for adapters.
"""

import json
import resource
import sys
import time

import torch
import transformers
from transformers import AutoModelForCausalLM


def answer(**values):
    print(json.dumps(values), flush=True)


class Peer:
    def __init__(self, base, adapters, dtype, threads, compiled, experts):
        torch.set_num_threads(threads)
        self.autocast = dtype == "bfloat16"
        options = {} if experts is None else {"experts_implementation": experts}
        model = AutoModelForCausalLM.from_pretrained(base, attn_implementation="sdpa", dtype=torch.float32, **options)
        if adapters is not None:
            from peft import PeftModel
            model = PeftModel.from_pretrained(model, adapters, is_trainable=True)
        model.train()
        self.trained = [p for p in model.parameters() if p.requires_grad]
        # as in our optimizer, vectors have no weight decay
        groups = [{"params": [p for p in self.trained if p.dim() > 1], "weight_decay": 0.1},
                  {"params": [p for p in self.trained if p.dim() <= 1], "weight_decay": 0.0}]
        groups = [group for group in groups if group["params"]]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
        self.model = torch.compile(model) if compiled else model

    def step(self, rows):
        start, cpu = time.perf_counter(), time.process_time()
        tokens = torch.tensor(rows)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            logits = self.model(input_ids=tokens[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {"loss": loss.item(), "norm": norm.item(), "wall": time.perf_counter() - start,
                "cpu": time.process_time() - cpu}


def main():
    peer = None
    answer(torch=torch.__version__, transformers=transformers.__version__)
    for line in sys.stdin:
        command = json.loads(line)
        do = command.pop("do")
        if do == "build":
            peer = Peer(**command)
            answer(built=True)
        elif do == "memory":
            answer(bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        else:
            answer(**peer.step(command["rows"]))


transformers.logging.set_verbosity_error()
main()
