"""What merge.mjs does, by PEFT, and by the steps of mergekit's linear method in NumPy. Arguments: METHOD FILE FOLDER TARGET

mergekit computes one tensor after the other: it reads those of all models, casts them to the dtype of the merge, stacks
them, sums them up times their weights, and divides by the sum of the weights. The file is written at the end.
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

base, other = (os.path.join(folder, name) for name in ("base", "other"))


def merge_adapter():
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    model = PeftModel.from_pretrained(model, os.path.join(folder, "adapter")).merge_and_unload()
    model.save_pretrained(target)


def merge_linear():
    files = [safe_open(os.path.join(path, "model.safetensors"), framework="np") for path in (base, other)]
    weights = np.array([0.5, 0.5], np.float32)
    merged = {}
    for name in files[0].keys():
        stacked = np.stack([file.get_tensor(name).astype(np.float32) for file in files])
        values = (stacked * weights.reshape(-1, *[1] * (stacked.ndim - 1))).sum(0) / weights.sum()
        merged[name] = values.astype(ml_dtypes.bfloat16)
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
merge_adapter() if method == "adapter" else merge_linear()
for path in [*(os.path.join(target, name) for name in os.listdir(target)), target]:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
elapsed = (time.perf_counter() - start) * 1e3
is_done.set()
watcher.join()
print(json.dumps({"elapsed": elapsed, "privateMemory": most - before}), flush=True)
sys.stdin.read()
