"""What headers.mjs does, by the reference. Arguments: METHOD FILE LATER"""

import json
import os
import sys
import time

# Imported before the clock starts.
import ml_dtypes  # noqa: F401
import numpy  # noqa: F401
from safetensors import safe_open

method, path, later = sys.argv[1:]
held = []


def open_shards():
    with open(path) as index:
        names = sorted(set(json.load(index)["weight_map"].values()))
    files = [safe_open(os.path.join(os.path.dirname(path), name), framework="np") for name in names]
    # In the order of the file, as `offsetKeys` has them.
    return files, [file.offset_keys() for file in files]


METHODS = {
    "open": lambda: safe_open(path, framework="np"),
    "keys": lambda: safe_open(path, framework="np").keys(),
    "checkpoint-keys": open_shards,
}


def time_call():
    start = time.perf_counter()
    held.append(METHODS[method]())
    return (time.perf_counter() - start) * 1e3


print(json.dumps({"first": time_call(), "later": [time_call() for _ in range(int(later))]}))
