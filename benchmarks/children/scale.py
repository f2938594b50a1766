"""What children/scale.ts does, by the reference with numpy or torch. Arguments: FRAMEWORK METHOD PATH"""

import json
import os
import sys
import time

framework, method, path = sys.argv[1:]
if framework == "pt":
    import torch
else:
    import ml_dtypes  # noqa: F401, lets numpy know bfloat16
from safetensors import safe_open

held = []


def read_memory():
    fields = {}
    for name in ("status", "smaps_rollup"):
        with open(f"/proc/self/{name}") as lines:
            fields |= dict(line.split(":", 1) for line in lines if ":" in line)
    size = lambda field: int(fields[field].split()[0]) * 1024
    return {
        "anonymous": size("RssAnon"),
        "fileBacked": size("RssFile"),
        "proportional": size("Pss"),
    }


def bytes_of(tensor):
    held.append(tensor)
    return tensor.view(torch.uint8).flatten() if framework == "pt" else tensor.view("u1").ravel()


def read_huge():
    file = safe_open(path, framework=framework)
    held.append(file)
    data = bytes_of(file.get_tensor(file.offset_keys()[-1]))
    return len(data) + int(data[0]) + int(data[-1])


def read_files():
    total = 0
    for name in os.listdir(path):
        file = safe_open(os.path.join(path, name), framework=framework)
        held.append(file)
        total += sum(int(bytes_of(file.get_tensor(key))[0]) for key in file.offset_keys())
    return total


before = read_memory()
start = time.perf_counter()
result = {"huge": read_huge, "files": read_files}[method]()
elapsed = (time.perf_counter() - start) * 1e3
after = read_memory()
print(json.dumps({"elapsed": elapsed, "sum": str(result), "before": before, "after": after}))
