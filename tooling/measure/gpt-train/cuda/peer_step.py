#!/usr/bin/env python3
"""Runs the script that times PyTorch on a model that it may not know: the script as it is, with one preset put in.

  peer_step.py PEER.py '{"name": "megatron-1.2b", "shape": [40, 1536, 16, 1024, 51200, 8]}' FLAGS OF THE PEER

The shape is layers, hidden, heads, sequence, padded vocabulary, micro-batch. A preset of the script's own must be the
same model. With "llama": [feed-forward width, groups of keys and values] the script trains a Llama (peer_llama.py). Prints what the script prints; without memory on the GPU it prints {"out_of_memory": true} and ends with 0.
"""
import importlib.util, json, sys
import torch

path, given = sys.argv[1], json.loads(sys.argv[2])
spec = importlib.util.spec_from_file_location("peer", path)
peer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer)
name, shape = given["name"], tuple(given["shape"])
known = peer.PRESETS.get(name, shape)
if tuple(known[:5]) != shape[:5]:
    sys.exit(f"the peer's {name} is {known}, ours {shape}")
peer.PRESETS[name] = shape
if given.get("llama"):
    from peer_llama import llama_of

    peer.GPT = llama_of(*given["llama"])
sys.argv = [path, "--preset", name, *sys.argv[3:]]
try:
    peer.main()
except torch.OutOfMemoryError:
    print(json.dumps(dict(out_of_memory=True)))
