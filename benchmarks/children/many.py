"""What many.mjs does, by the reference. Arguments: METHOD FILE TARGET"""

import json
import sys
import time

import ml_dtypes  # noqa: F401, lets numpy know bfloat16
import numpy
from memory import field
from safetensors import safe_open
from safetensors.numpy import load_file, save, save_file

method, path, *target = sys.argv[1:]

METHODS = {
    "serialize": lambda: save(held),
    "save": lambda: save_file(held, target[0]),
    "keys": lambda: safe_open(path, framework="np").keys(),
}

held = {name: numpy.array(array) for name, array in load_file(path).items()} if method != "keys" else None
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forgets the highest value so far
before = field("VmHWM")
start = time.perf_counter()
METHODS[method]()
elapsed = (time.perf_counter() - start) * 1e3
print(json.dumps({"elapsed": elapsed, "extraMemory": field("VmHWM") - before}))
