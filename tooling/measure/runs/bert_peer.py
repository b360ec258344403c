"""The other side of bert-against-transformers.mjs: pretraining steps of transformers' BertForPreTraining.

Commands come as JSON lines on standard input, answers go as JSON lines to standard output. Needs torch and transformers.
"""

import json
import resource
import sys
import time

import torch
import torch.nn.functional as F
import transformers
from transformers import BertForPreTraining


def answer(**values):
    print(json.dumps(values), flush=True)


class Peer:
    def __init__(self, directory, dtype, threads, dropout):
        torch.set_num_threads(threads)
        self.autocast = dtype == "bfloat16"
        self.model = BertForPreTraining.from_pretrained(
            directory, attn_implementation="sdpa", dtype=torch.float32,
            hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
        self.model.train()
        # as in our optimizer, vectors have no weight decay
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        vectors = [p for p in self.model.parameters() if p.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.999), eps=1e-6, fused=True)

    def step(self, batches):
        """One step on the micro-batches of a global batch: both losses are means over the global batch."""
        masked_count = sum(len(label) for b in batches for label in [b["maskedLabels"]])
        samples = sum(len(b["order"]) for b in batches)
        loss = torch.zeros(())
        start, cpu = time.perf_counter(), time.process_time()
        for b in batches:
            ids, types, mask = (torch.tensor(b[k]) for k in ("tokens", "types", "mask"))
            labels = torch.full_like(ids, -100)
            labels.view(-1)[torch.tensor(b["maskedPositions"])] = torch.tensor(b["maskedLabels"])
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
                result = self.model(input_ids=ids, token_type_ids=types, attention_mask=mask)
                logits, order = result.prediction_logits, result.seq_relationship_logits
                # the sums that BertForPreTraining's own loss divides by the counts of a micro-batch
                masked = F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), reduction="sum")
                part = masked / masked_count + F.cross_entropy(order, torch.tensor(b["order"]), reduction="sum") / samples
            part.backward()
            loss += part.detach().float()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {"loss": loss.item(), "norm": norm.item(), "wall": time.perf_counter() - start,
                "cpu": time.process_time() - cpu}


def main():
    peer = None
    answer(torch=torch.__version__, transformers=transformers.__version__)
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "build":
            peer = None
            peer = Peer(command["directory"], command["dtype"], command["threads"], command["dropout"])
            answer(built=True)
        elif command["do"] == "memory":
            answer(bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        elif command["do"] == "profile":
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                peer.step(command["batches"])
            print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=25), file=sys.stderr)
            answer(profiled=True)
        else:
            answer(**peer.step(command["batches"]))


transformers.logging.set_verbosity_error()
main()
