"""What calls.mjs does, by the reference with torch. Arguments: METHOD FILE PASSES"""

import json
import sys
import time

import torch  # noqa: F401, imported before the clock starts
from safetensors import safe_open

_, path, passes = sys.argv[1:]
file = safe_open(path, framework="pt")
names = file.offset_keys()
held = []
first = None
start = time.perf_counter()
for name in names:
    held.append(file.get_tensor(name))
    if first is None:
        first = time.perf_counter() - start
all_tensors = time.perf_counter() - start


def time_calls(passes):
    start = time.perf_counter()
    for _ in range(passes):
        for name in names:
            file.get_tensor(name)
    return (time.perf_counter() - start) / (passes * len(names))


time_calls(int(passes))
again = time_calls(int(passes))
print(json.dumps({"first": first * 1e3, "all": all_tensors * 1e3, "again": again * 1e3}))
