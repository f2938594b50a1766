"""What children/read-partition.ts does, by the reference with numpy. Arguments: INDEX LIBRARY RANK RANKS"""

import ctypes
import json
import os
import re
import sys
import time

import ml_dtypes  # noqa: F401, lets numpy know bfloat16
from safetensors import safe_open

path, library, *numbers = sys.argv[1:]
rank, ranks = map(int, numbers)
touch_words = ctypes.CDLL(library).touch_words
touch_words.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
touch_words.restype = ctypes.c_uint64
folder = os.path.dirname(path)


def fetched_bytes():
    with open("/proc/self/io") as lines:
        return int(re.search(r"^read_bytes: (\d+)", lines.read(), re.M)[1])


before = fetched_bytes()
start = time.perf_counter()
with open(path) as file:
    weight_map = json.load(file)["weight_map"]
shards = {}
size = 0
total = 0
for name in sorted(weight_map):
    shard = weight_map[name]
    if shard not in shards:
        shards[shard] = safe_open(os.path.join(folder, shard), framework="np")
    tensor = shards[shard].get_slice(name)
    rows = tensor.get_shape()[0] // ranks
    part = tensor[rank * rows : (rank + 1) * rows]
    total += touch_words(part.ctypes.data, part.nbytes)
    size += part.nbytes
elapsed = (time.perf_counter() - start) * 1e3
fetched = fetched_bytes() - before
print(json.dumps({"elapsed": elapsed, "bytes": size, "sum": str(total % 2**64), "fetched": fetched}))
