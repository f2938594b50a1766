"""What children/open-checkpoint.ts does, by the reference with numpy. Arguments: verify|tensor INDEX NAME"""

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
    file = safe_open(os.path.join(folder, shard), framework="np")
    held.append(file)
    return file


def verify(weight_map):
    return sum(len(open_shard(shard).keys()) for shard in dict.fromkeys(weight_map.values()))


def one_tensor(weight_map):
    return open_shard(weight_map[name]).get_tensor(name).nbytes


start = time.perf_counter()
with open(path) as file:
    weight_map = json.load(file)["weight_map"]
count = {"verify": verify, "tensor": one_tensor}[method](weight_map)
elapsed = (time.perf_counter() - start) * 1e3
print(json.dumps({"elapsed": elapsed, "count": count}))
