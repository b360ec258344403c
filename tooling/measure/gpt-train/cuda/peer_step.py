#!/usr/bin/env python3
"""Runs the PyTorch yardstick on a model that it may not know: the yardstick's file as it is, with one preset put in.

  peer_step.py YARDSTICK.py '{"name": "megatron-1.2b", "shape": [40, 1536, 16, 1024, 51200, 8]}' FLAGS OF THE YARDSTICK

The shape is layers, hidden, heads, sequence, padded vocabulary, micro-batch. A preset of the yardstick's own must be the
same model. With "llama": [feed-forward width, groups of keys and values] the yardstick trains a Llama (peer_llama.py). Prints what the yardstick prints; without memory on the GPU it prints {"out_of_memory": true} and ends with 0.
"""
import importlib.util, json, sys
import torch

path, given = sys.argv[1], json.loads(sys.argv[2])
spec = importlib.util.spec_from_file_location("yardstick", path)
yardstick = importlib.util.module_from_spec(spec)
spec.loader.exec_module(yardstick)
name, shape = given["name"], tuple(given["shape"])
known = yardstick.PRESETS.get(name, shape)
if tuple(known[:5]) != shape[:5]:
    sys.exit(f"the yardstick's {name} is {known}, ours {shape}")
yardstick.PRESETS[name] = shape
if given.get("llama"):
    from peer_llama import llama_of

    yardstick.GPT = llama_of(*given["llama"])
sys.argv = [path, "--preset", name, *sys.argv[3:]]
try:
    yardstick.main()
except torch.OutOfMemoryError:
    print(json.dumps(dict(out_of_memory=True)))
