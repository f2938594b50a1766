"""Opens a file with many tensors by the reference. Arguments: open|keys FILE LATER"""

import json
import sys
import time

import ml_dtypes  # noqa: F401, imported before the clock starts
import numpy  # noqa: F401
from safetensors import safe_open

method, path, later = sys.argv[1:]
held = []


def time_call():
    start = time.perf_counter()
    held.append(safe_open(path, framework="np"))
    if method == "keys":
        held.append(held[-1].keys())
    return (time.perf_counter() - start) * 1e3


first = time_call()
others = [time_call() for _ in range(int(later))]
print(json.dumps({"first": first, "later": others}))
