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


def run():
    times = []
    for name in names:
        start = time.perf_counter_ns()
        held[name] = file.get_tensor(name)
        times.append((time.perf_counter_ns() - start) / 1e3)
    return statistics.median(times)


first = run()
run()
print(json.dumps({"first": first, "repeated": run()}))
