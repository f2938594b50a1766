"""Asks for every tensor of a file by the reference with torch, twice. Argument: FILE"""

import json
import statistics
import sys
import time

import torch  # noqa: F401, imported before the clock starts
from safetensors import safe_open

file = safe_open(sys.argv[1], framework="pt")
names = file.keys()
held = {}


BATCH = 100


def run():
    times = []
    for begin in range(0, len(names) - BATCH + 1, BATCH):
        batch = names[begin : begin + BATCH]
        start = time.perf_counter_ns()
        for name in batch:
            held[name] = file.get_tensor(name)
        times.append((time.perf_counter_ns() - start) / 1e3 / BATCH)
    return statistics.median(times)


first = run()
run()
print(json.dumps({"first": first, "repeated": run()}))
