"""What work.mjs does, by the reference with numpy. Arguments: verify|tensor INDEX NAME"""

import json
import os
import sys
import time

import ml_dtypes  # noqa: F401, imported before the clock starts
import numpy  # noqa: F401
from safetensors import safe_open

method, path, name = sys.argv[1:]
folder = os.path.dirname(path)
held = []


def open_shard(shard):
    held.append(safe_open(os.path.join(folder, shard), framework="np"))
    return held[-1]


start = time.perf_counter()
with open(path) as file:
    weight_map = json.load(file)["weight_map"]
tensors = len(weight_map)
if method == "verify":
    tensors = sum(len(open_shard(shard).keys()) for shard in dict.fromkeys(weight_map.values()))
else:
    open_shard(weight_map[name]).get_tensor(name)
elapsed = (time.perf_counter() - start) * 1e3
print(json.dumps({"elapsed": elapsed, "tensors": tensors}))
