"""What headers.mjs does, by the reference. Arguments: METHOD FILE LATER"""

import json
import sys
import time

# Imported before the clock starts.
import ml_dtypes  # noqa: F401
import numpy  # noqa: F401
from safetensors import safe_open

method, path, later = sys.argv[1:]
held = []


def time_call():
    start = time.perf_counter()
    file = safe_open(path, framework="np")
    held.append(file.keys() if method == "keys" else file)
    return (time.perf_counter() - start) * 1e3


print(json.dumps({"first": time_call(), "later": [time_call() for _ in range(int(later))]}))
