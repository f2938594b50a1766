"""Writes the tensors of a safetensors file as a pickle, and for torch.load.

Arguments: FILE PICKLE TORCH; "-" in place of a path leaves that copy out. Prints a line of JSON
with, for each copy, null or the reason why it was not made. Needs as much memory as the file has.
"""

import json
import os
import pickle
import struct
import sys

# Names that differ from the format's; the others are spelled out in TORCH_NAMES by rule.
TORCH_NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "BF16": "bfloat16",
    "C64": "complex64",
}
TORCH_NAMES |= {f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)}
TORCH_NAMES |= {f"U{bits}": f"uint{bits}" for bits in (16, 32, 64)}
TORCH_NAMES |= {f"F{bits}": f"float{bits}" for bits in (16, 32, 64)}


def read_tensors(path):
    """Yields (name, dtype, shape, bytes) in the order of the file."""
    with open(path, "rb") as file:
        (header_length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_length))
        header.pop("__metadata__", None)
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, end = entry["data_offsets"]
            yield name, entry["dtype"], entry["shape"], bytearray(file.read(end - begin))


def flush(file):
    # Otherwise the system writes the pages back while the clocks of the trials run.
    file.flush()
    os.fsync(file.fileno())


def write_pickle(source, target):
    """numpy arrays of bit patterns when numpy is there, else plain bytes."""
    try:
        import numpy
    except ImportError:
        numpy = None

    def as_array(shape, data):
        count = 1
        for dimension in shape:
            count *= dimension
        width = len(data) // count if count else 0
        if width in (1, 2, 4, 8) and width * count == len(data):
            return numpy.frombuffer(data, dtype=f"u{width}").reshape(shape)
        return numpy.frombuffer(data, dtype="u1")

    arrays = {
        name: bytes(data) if numpy is None else as_array(shape, data)
        for name, _, shape, data in read_tensors(source)
    }
    with open(target, "xb") as file:
        pickle.dump(arrays, file, protocol=pickle.HIGHEST_PROTOCOL)
        flush(file)


def write_torch(source, target):
    import torch

    tensors = {}
    for name, dtype, shape, data in read_tensors(source):
        torch_dtype = getattr(torch, TORCH_NAMES.get(dtype, ""), None)
        if torch_dtype is None:
            raise TypeError(f"torch has no dtype for {dtype}")
        if len(data) == 0:
            tensors[name] = torch.empty(shape, dtype=torch_dtype)
        else:
            tensors[name] = torch.frombuffer(data, dtype=torch_dtype).reshape(shape)
    with open(target, "xb") as file:
        torch.save(tensors, file)
        flush(file)


def attempt(write, source, target):
    if target == "-":
        return None
    try:
        write(source, target)
        return None
    except (ImportError, TypeError, MemoryError, OSError) as error:
        return f"{type(error).__name__}: {error}"


source, pickle_path, torch_path = sys.argv[1:]
print(
    json.dumps(
        {
            "pickle": attempt(write_pickle, source, pickle_path),
            "torch": attempt(write_torch, source, torch_path),
        }
    )
)
