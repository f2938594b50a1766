"""Times float32 to BF16 and F16 in torch, on one thread: as `casts.mjs` describes."""

import json
import sys
import time

import torch
from safetensors import safe_open

torch.set_num_threads(1)
_, path, rounds = sys.argv[1:]
with safe_open(path, "torch") as file:
    floats = file.get_tensor("BF16").float()

times = {}
for name, dtype in {"BF16": torch.bfloat16, "F16": torch.float16}.items():
    into = torch.ones(len(floats), dtype=dtype)
    durations = times[f"from F32 to {name}"] = []
    for turn in range(int(rounds)):
        start = time.perf_counter()
        into.copy_(floats)
        if turn > 0:
            durations.append((time.perf_counter() - start) * 1000)
print(json.dumps(times))
