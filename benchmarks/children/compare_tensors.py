"""How far the tensors of two files are apart. Arguments: METHOD FILE OTHER. Prints how many values differ."""

import json
import sys

import torch
from safetensors import safe_open

_, path, other = sys.argv[1:]
changed = []
with safe_open(path, framework="pt") as a, safe_open(other, framework="pt") as b:
    for name in a.keys():
        x, y = a.get_tensor(name), b.get_tensor(name)
        if torch.equal(x, y):
            continue
        x, y = x.float().flatten(), y.float().flatten()
        (x - y).abs().max().item()
        torch.nn.functional.cosine_similarity(x, y, dim=0).item()
        changed.append({"name": name, "values": {"differing": (x != y).sum().item()}})
print(json.dumps({"changed": changed}))
