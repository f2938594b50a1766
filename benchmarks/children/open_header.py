"""Opens a file with many tensors by the reference. Arguments: open|keys FILE"""

import sys
import time

import ml_dtypes  # noqa: F401, imported before the clock starts
import numpy  # noqa: F401
from safetensors import safe_open

method, path = sys.argv[1:]
start = time.perf_counter()
file = safe_open(path, framework="np")
names = file.keys() if method == "keys" else None
elapsed = (time.perf_counter() - start) * 1e3
print(elapsed)
