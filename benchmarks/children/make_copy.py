"""Writes the tensors of a safetensors file in another format; prints the path.

Arguments: FORMAT FILE TARGET. Needs as much memory as the file has, and some formats several times that.
Pickle gets the bit patterns as unsigned integers of the same width: what counts there is where the bytes
are. The other formats get BF16 as what the library that writes them has for it.
"""

import json
import math
import os
import struct
import sys

import numpy


def read(path):
    """Bit patterns and dtypes by name, in the order of the file."""
    arrays = {}
    dtypes = {}
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
                arrays[name] = numpy.frombuffer(data, dtype=f"u{width}").reshape(entry["shape"])
            else:  # several values share a byte, or one is larger than eight
                arrays[name] = numpy.frombuffer(data, dtype="u1")
            dtypes[name] = entry["dtype"]
    return arrays, dtypes


def numpy_arrays(arrays, dtypes):
    """As numpy has them; BF16 and F8 come from ml_dtypes."""
    import ml_dtypes as ml

    known = {"BF16": ml.bfloat16, "F32": numpy.float32, "F8_E4M3": ml.float8_e4m3fn}
    return {name: array.view(known.get(dtypes[name], array.dtype)) for name, array in arrays.items()}


def torch_zip(file, arrays, dtypes):
    import torch

    known = {"BF16": torch.bfloat16, "F32": torch.float32, "F8_E4M3": torch.float8_e4m3fn}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    views = {name: tensor.view(known.get(dtypes[name], tensor.dtype)) for name, tensor in tensors.items()}
    torch.save(views, file)


def bit_patterns(file, arrays, dtypes):
    import pickle

    pickle.dump(arrays, file, protocol=5)


def numpy_pickle(file, arrays, dtypes):
    """What Paddle writes into pdparams: a dictionary of arrays, BF16 as uint16."""
    import pickle

    floats = {"F32": numpy.float32}
    typed = {name: array.view(floats.get(dtypes[name], array.dtype)) for name, array in arrays.items()}
    pickle.dump(typed, file, protocol=4)


def npz(file, arrays, dtypes):
    """F8 as uint8: a reader can be told what opaque items of one length are, not of two."""
    typed = numpy_arrays(arrays, dtypes)
    eight = {name: arrays[name] for name, dtype in dtypes.items() if dtype == "F8_E4M3"}
    numpy.savez(file, **(typed | eight))


def hdf5(file, arrays, dtypes):
    import h5py

    with h5py.File(file, "w", track_order=True) as target:
        for name, array in numpy_arrays(arrays, dtypes).items():
            target.create_dataset(name, data=array)


def msgpack(file, arrays, dtypes):
    """As Flax does: extension 1 holds shape, dtype and bytes."""
    import msgpack

    packer = msgpack.Packer(autoreset=False)
    packer.pack_map_header(len(arrays))
    for name, array in numpy_arrays(arrays, dtypes).items():
        packer.pack(name)
        packer.pack_ext_type(1, msgpack.packb((array.shape, array.dtype.name, array.tobytes())))
        file.write(packer.getbuffer())
        packer.reset()


def arrow(file, arrays, dtypes):
    """A record batch for each tensor; the schema lists the names, so that one batch can be found."""
    import pyarrow

    fields = [("dtype", pyarrow.string()), ("data", pyarrow.large_binary())]
    names = json.dumps(list(arrays))
    schema = pyarrow.schema(fields, metadata={"names": names})
    with pyarrow.ipc.new_file(file, schema) as writer:
        for name, array in arrays.items():
            offsets = pyarrow.py_buffer(struct.pack("<2q", 0, array.nbytes))
            data = pyarrow.Array.from_buffers(
                pyarrow.large_binary(), 1, [None, offsets, pyarrow.py_buffer(array)]
            )
            writer.write_batch(pyarrow.record_batch([pyarrow.array([dtypes[name]]), data], schema))


def onnx(file, arrays, dtypes):
    from onnx import ModelProto, TensorProto

    proto = TensorProto
    known = {"BF16": proto.BFLOAT16, "F32": proto.FLOAT, "F8_E4M3": proto.FLOAT8E4M3FN}
    model = ModelProto()
    for name, array in arrays.items():
        tensor = model.graph.initializer.add()
        tensor.name = name
        tensor.data_type = known[dtypes[name]]
        tensor.dims.extend(array.shape)
        tensor.raw_data = array.tobytes()
    file.write(model.SerializeToString())


WRITERS = {
    "torch": torch_zip,
    "pickle": bit_patterns,
    "numpy-pickle": numpy_pickle,
    "npz": npz,
    "hdf5": hdf5,
    "msgpack": msgpack,
    "arrow": arrow,
    "onnx": onnx,
}

format, source, target = sys.argv[1:]
with open(target, "x+b") as file:
    WRITERS[format](file, *read(source))
    # Otherwise the system writes the pages back while the clocks of the trials run.
    file.flush()
    os.fsync(file.fileno())
print(json.dumps(target))
