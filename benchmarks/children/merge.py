"""What merge.mjs does, by PEFT, and by the steps of mergekit's methods in NumPy. Arguments: METHOD FILE FOLDER TARGET

mergekit computes one tensor after the other: it reads those of all models, and casts them to the dtype of the merge.
Linear: it stacks them, sums them up times their weights, and divides by the sum of the weights. TIES: it subtracts the
base, sorts the magnitudes to keep the largest ones, stacks what is left, and adds up the values of the sign that has
the larger sum. The file is written at the end.
"""

import json
import os
import sys
import threading
import time

from memory import field

method, _, folder, target = sys.argv[1:]
if method == "adapter":
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM
else:
    import ml_dtypes
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import save_file

base, other, third = (os.path.join(folder, name) for name in ("base", "other", "third"))


def merge_adapter():
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    model = PeftModel.from_pretrained(model, os.path.join(folder, "adapter")).merge_and_unload()
    model.save_pretrained(target)


def linear(stacked, weights):
    return (stacked * weights).sum(0) / weights.sum()


def ties(stacked, weights, density=0.5):
    first, *others = stacked
    deltas = []
    for model in others:
        delta = model - first
        kept = np.argsort(-np.abs(delta), axis=None)[: int(density * delta.size)]
        mask = np.zeros(delta.size, np.float32)
        mask[kept] = 1
        deltas.append(delta * mask.reshape(delta.shape))
    scaled = np.stack(deltas) * weights
    sign = np.where(scaled.sum(0) >= 0, 1, -1)
    agree = np.sign(scaled) == sign
    divisor = (agree * weights).sum(0)
    divisor[np.abs(divisor) < 1e-8] = 1
    return first + (scaled * agree).sum(0) / divisor


def merge_models(paths, combine):
    files = [safe_open(os.path.join(path, "model.safetensors"), framework="np") for path in paths]
    merged = {}
    for name in files[0].keys():
        stacked = np.stack([file.get_tensor(name).astype(np.float32) for file in files])
        weights = np.full((2, *[1] * (stacked.ndim - 1)), 0.5, np.float32)
        merged[name] = combine(stacked, weights).astype(ml_dtypes.bfloat16)
    os.makedirs(target)
    save_file(merged, os.path.join(target, "model.safetensors"), {"format": "pt"})


before = most = field("RssAnon")
is_done = threading.Event()


def watch():
    global most
    while not is_done.wait(0.02):
        most = max(most, field("RssAnon"))


watcher = threading.Thread(target=watch)
watcher.start()
start = time.perf_counter()
if method == "adapter":
    merge_adapter()
elif method == "linear":
    merge_models((base, other), linear)
else:
    merge_models((base, other, third), ties)
for path in [*(os.path.join(target, name) for name in os.listdir(target)), target]:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
elapsed = (time.perf_counter() - start) * 1e3
is_done.set()
watcher.join()
print(json.dumps({"elapsed": elapsed, "privateMemory": most - before}), flush=True)
sys.stdin.read()
