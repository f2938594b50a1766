"""Writes the tensors of a safetensors file in another format; prints the path.

Arguments: FORMAT FILE TARGET. Needs as much memory as the file has, and some formats several times that.
Pickle gets the bit patterns as unsigned integers of the same width: what counts there is where the bytes
are. The other formats get BF16 as what the library that writes them has for it.
"""

import json
import os
import pickle
import struct
import sys

import ml_dtypes  # noqa: F401, lets numpy know bfloat16 and float8
import numpy
import torch
from safetensors import safe_open

format, source, target = sys.argv[1:]


def read_tensors():
    """By name, in the order of the file. The reference gives views of one storage: torch would save it whole."""
    with safe_open(source, framework="pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.offset_keys()}


def bit_patterns(array):
    return array.view(f"u{array.itemsize}")


def read(is_opaque=lambda array: False):
    """As numpy arrays; BF16 and F8 are of ml_dtypes, since the reference gives no F8 to numpy. Some as integers."""
    arrays = {}
    for name, tensor in read_tensors().items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        array = tensor.view(torch.uint8).numpy().view(dtype)
        arrays[name] = bit_patterns(array) if is_opaque(array) else array
    return arrays


def torch_zip(file):
    torch.save(read_tensors(), file)


def pickle_integers(file):
    pickle.dump(read(lambda array: True), file, protocol=5)


def numpy_pickle(file):
    """What Paddle writes into pdparams: a dictionary of arrays, BF16 as uint16."""
    pickle.dump(read(lambda array: array.dtype != "f4"), file, protocol=4)


def npz(file):
    """F8 as uint8: a reader can be told what opaque items of one length are, not of two."""
    numpy.savez(file, **read(lambda array: array.itemsize == 1))


def hdf5(file):
    import h5py

    with h5py.File(file, "w", track_order=True) as target:
        for name, array in read().items():
            target.create_dataset(name, data=array)


def msgpack(file):
    """As Flax does: extension 1 holds shape, dtype and bytes."""
    import msgpack

    arrays = read()
    packer = msgpack.Packer(autoreset=False)
    packer.pack_map_header(len(arrays))
    for name, array in arrays.items():
        packer.pack(name)
        packer.pack_ext_type(1, msgpack.packb((array.shape, array.dtype.name, array.tobytes())))
        file.write(packer.getbuffer())
        packer.reset()


def arrow(file):
    """A record batch for each tensor; the schema lists the names, so that one batch can be found."""
    import pyarrow

    dtypes = {"bfloat16": "BF16", "float32": "F32", "float8_e4m3fn": "F8_E4M3"}
    arrays = read()
    fields = [("dtype", pyarrow.string()), ("data", pyarrow.large_binary())]
    schema = pyarrow.schema(fields, metadata={"names": json.dumps(list(arrays))})
    with pyarrow.ipc.new_file(file, schema) as writer:
        for array in arrays.values():
            offsets = struct.pack("<2q", 0, array.nbytes)
            buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(bit_patterns(array))]
            data = pyarrow.Array.from_buffers(pyarrow.large_binary(), 1, buffers)
            dtype = pyarrow.array([dtypes[array.dtype.name]])
            writer.write_batch(pyarrow.record_batch([dtype, data], schema))


def onnx(file):
    from onnx import ModelProto, helper

    model = ModelProto()
    for name, array in read().items():
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        model.graph.initializer.append(helper.make_tensor(name, dtype, array.shape, array.tobytes(), raw=True))
    file.write(model.SerializeToString())


WRITERS = {"torch": torch_zip, "pickle": pickle_integers, "numpy-pickle": numpy_pickle}
WRITERS |= {"npz": npz, "hdf5": hdf5, "msgpack": msgpack, "arrow": arrow, "onnx": onnx}

with open(target, "x+b") as file:
    WRITERS[format](file)
    # Otherwise the system writes the pages back while the clocks of the trials run.
    file.flush()
    os.fsync(file.fileno())
print(json.dumps(target))
