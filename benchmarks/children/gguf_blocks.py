"""Times blocks as float32 by gguf-py: as `gguf.mjs decode` describes."""

import json
import os
import sys
import time

import gguf
import numpy

folder = sys.argv[2]
result, checksum, length = {}, 0, 0
for name in sorted(os.listdir(folder)):
    (tensor,) = gguf.GGUFReader(os.path.join(folder, name)).tensors
    times = []
    for _ in range(9):
        start = time.perf_counter()
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        times.append(1e3 * (time.perf_counter() - start))
    result[name.removesuffix(".gguf")] = sorted(times)[4] / (values.nbytes / 1e9)
    length += values.nbytes
    checksum += int(numpy.ascontiguousarray(values).view(numpy.uint32).sum(dtype=numpy.uint64))
print(json.dumps({**result, "bytes": length, "checksum": checksum % 2**32}), flush=True)
sys.stdin.read()
