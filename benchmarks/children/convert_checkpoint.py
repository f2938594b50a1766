"""Converts a PyTorch checkpoint by the steps that the reference's script takes for one file.

Arguments: METHOD SOURCE TARGET. `mapped` only loads and saves. That script, convert.py, is in no package; this is
not its code. Prints the line of convert.mjs.
"""

import json
import os
import sys
import time

import torch
from memory import field
from safetensors.torch import load_file, save_file

method, source, target = sys.argv[1:]
start = time.perf_counter()
is_mapped = method == "mapped"
tensors = torch.load(source, map_location="cpu", weights_only=True, mmap=is_mapped)
tensors = tensors.get("state_dict", tensors)
# Of tensors that begin at the same address, the first is kept.
first = {}
for name, tensor in tensors.items():
    first.setdefault(tensor.data_ptr(), name)
tensors = {name: tensors[name].contiguous() for name in first.values()}
save_file(tensors, target, metadata={"format": "pt"})
if os.path.getsize(target) > 1.01 * os.path.getsize(source):
    raise RuntimeError("the new file is larger than the old one")
written = {} if is_mapped else load_file(target)
for name in written:
    tensor = tensors[name]
    if not torch.equal(tensor, written[name]):
        raise RuntimeError(f"{name} is not the same")
elapsed = (time.perf_counter() - start) * 1e3
print(json.dumps({"elapsed": elapsed, "peak": field("VmHWM")}))
