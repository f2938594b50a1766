"""Writes the tensors of a safetensors file in the formats of the other readers.

Arguments: FILE FOLDER FORMAT... Prints a line of JSON with, for each format, the reason why it was
not written or the files that were. Needs as much memory as the file has. What has no dtype for the
tensors' values holds their bit patterns as unsigned integers of the same width.
"""

import json
import os
import pickle
import struct
import sys

# Names that differ from the format's; the others are spelled out by rule.
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


def as_array(shape, data):
    import numpy

    count = 1
    for dimension in shape:
        count *= dimension
    width = len(data) // count if count else 0
    if width in (1, 2, 4, 8) and width * count == len(data):
        return numpy.frombuffer(data, dtype=f"u{width}").reshape(shape)
    return numpy.frombuffer(data, dtype="u1")


def arrays(source):
    return {name: as_array(shape, data) for name, _, shape, data in read_tensors(source)}


def pickled(protocol):
    def write(source, path):
        try:
            values = arrays(source)
        except ImportError:
            values = {name: bytes(data) for name, _, _, data in read_tensors(source)}
        with open(path, "xb") as file:
            pickle.dump(values, file, protocol=protocol)

    return write


def saved_by_torch(**options):
    def write(source, path):
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
        torch.save(tensors, path, **options)

    return write


def write_npz(source, path):
    import numpy

    with open(path, "xb") as file:
        numpy.savez(file, **arrays(source))


def write_npy(source, folder):
    import numpy

    os.mkdir(folder)
    for index, (_, _, shape, data) in enumerate(read_tensors(source)):
        # Without names of the tensors, which may be no names of files.
        numpy.save(os.path.join(folder, f"{index:06}.npy"), as_array(shape, data))


def write_hdf5(source, path):
    import h5py

    with h5py.File(path, "x", track_order=True) as file:
        for name, array in arrays(source).items():
            file.create_dataset(name, data=array)


WRITERS = {
    "torch": saved_by_torch(),
    "torchLegacy": saved_by_torch(_use_new_zipfile_serialization=False),
    "pickle4": pickled(4),
    "pickle5": pickled(5),
    "npz": write_npz,
    "npy": write_npy,
    "hdf5": write_hdf5,
}


def files_below(path):
    if not os.path.isdir(path):
        return [path]
    return sorted(os.path.join(path, name) for name in os.listdir(path))


def attempt(name):
    path = os.path.join(folder, name)
    try:
        WRITERS[name](source, path)
        files = files_below(path)
        for file in files:
            # Otherwise the system writes the pages back while the clocks of the trials run.
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        return {"path": path, "files": files}
    except (ImportError, TypeError, ValueError, MemoryError, OSError) as error:
        return f"{type(error).__name__}: {error}"


source, folder, *formats = sys.argv[1:]
print(json.dumps({name: attempt(name) for name in formats}))
