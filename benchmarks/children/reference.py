"""What calls.mjs, headers.mjs and work.mjs do, by the reference. Arguments: METHOD FILE ARGUMENT"""

import json
import os
import sys
import time

method, path, argument = sys.argv[1:]
# Imported before the clock starts.
if method == "calls":
    import torch  # noqa: F401
else:
    import ml_dtypes  # noqa: F401
    import numpy  # noqa: F401
from safetensors import safe_open

held = []


def clock():
    return time.perf_counter() * 1e3


def open_file(path, framework="np"):
    held.append(safe_open(path, framework=framework))
    return held[-1]


def calls():
    file = open_file(path, "pt")
    names = file.offset_keys()
    first = None
    start = clock()
    for name in names:
        held.append(file.get_tensor(name))
        first = first or clock() - start
    line = {"first": first, "all": clock() - start}
    for _ in range(2):  # the first passes do not count
        start = clock()
        for _ in range(int(argument)):
            for name in names:
                file.get_tensor(name)
        line["again"] = (clock() - start) / (int(argument) * len(names))
    return line


def header():
    def time_call():
        start = clock()
        file = open_file(path)
        if method == "keys":
            held.append(file.keys())
        return clock() - start

    return {"first": time_call(), "later": [time_call() for _ in range(int(argument))]}


def checkpoint():
    start = clock()
    with open(path) as file:
        weight_map = json.load(file)["weight_map"]
    wanted = dict.fromkeys(weight_map.values()) if method == "verify" else [weight_map[argument]]
    files = [open_file(os.path.join(os.path.dirname(path), shard)) for shard in wanted]
    if method == "verify":
        tensors = sum(len(file.keys()) for file in files)
    else:
        tensors = len(weight_map)
        files[0].get_tensor(argument)
    return {"elapsed": clock() - start, "tensors": tensors}


METHODS = {"calls": calls, "open": header, "keys": header, "verify": checkpoint, "tensor": checkpoint}
print(json.dumps(METHODS[method]()))
