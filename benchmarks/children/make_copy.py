"""Writes the tensors of a safetensors file with torch.save or pickle; prints the path.

Arguments: torch|pickle FILE TARGET. Needs as much memory as the file has. The tensors hold the bit
patterns as unsigned integers of the same width: what counts is where the bytes are.
"""

import json
import math
import os
import pickle
import struct
import sys

import numpy


def arrays(path):
    """Tensors by name, in the order of the file."""
    result = {}
    with open(path, "rb") as file:
        (header_length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_length))
        header.pop("__metadata__", None)
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, end = entry["data_offsets"]
            data = bytearray(file.read(end - begin))
            count = math.prod(entry["shape"])
            width = len(data) // count if count else 1
            if width in (1, 2, 4, 8) and width * count == len(data):
                result[name] = numpy.frombuffer(data, dtype=f"u{width}").reshape(entry["shape"])
            else:  # several values share a byte, or one is larger than eight
                result[name] = numpy.frombuffer(data, dtype="u1")
    return result


format, source, target = sys.argv[1:]
with open(target, "xb") as file:
    if format == "torch":
        import torch

        torch.save({name: torch.from_numpy(array) for name, array in arrays(source).items()}, file)
    else:
        pickle.dump(arrays(source), file, protocol=5)
    # Otherwise the system writes the pages back while the clocks of the trials run.
    file.flush()
    os.fsync(file.fileno())
print(json.dumps(target))
