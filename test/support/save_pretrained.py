"""Writes a small random model in shards, twice, and what its state dict holds; prints its parameters."""

import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(1)
config = GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2)
model = GPT2LMHeadModel(config)
folder = sys.argv[1]
model.save_pretrained(folder, max_shard_size="10KB")
model.save_pretrained(folder, max_shard_size="12KB", variant="fp16")
tensors = {
    name: {"shape": list(tensor.shape), "bytes": tensor.contiguous().numpy().tobytes().hex()}
    for name, tensor in model.state_dict().items()
    if name != "lm_head.weight"
}
with open(os.path.join(folder, "tensors.json"), "w") as file:
    json.dump(tensors, file)
print(model.num_parameters())
