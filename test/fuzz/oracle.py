"""What Python makes of inputs of the fuzzer: the readers of test/foreign/read_foreign.py, and these.

header   names, dtypes, shapes, data and metadata of a safetensors file, as the reference reads it
zip      SHA-256 of every entry of an archive, as zipfile reads it and as torch does; or why they refuse it
slice    shape and hash of what numpy selects of numbers from 0 on: {shape, index | text | rows}
imports  names that loaders of pickles would import, by loader; see recording_loaders.py
gguf     names, shapes and hashes of the values of a GGUF file, as gguf-py reads it; without that package an error
casts    numbers as words of float32: as they are read, and after they were rounded to each narrow dtype by torch
"""

import hashlib
import json
import sys
import zipfile

import ml_dtypes
import numpy
import safetensors
import torch

from recording_loaders import limit_memory, read_imports

import read_foreign


def read_header(path):
    with open(path, "rb") as file:
        data = file.read()
    tensors = [
        [name, view["dtype"], view["shape"], hashlib.sha256(bytes(view["data"])).hexdigest()]
        for name, view in safetensors.deserialize(data)
    ]
    with safetensors.safe_open(path, "np") as opened:
        return {"tensors": tensors, "metadata": opened.metadata()}


def read_zip(path):
    def hashes(names, read):
        return {name: hashlib.sha256(read(name)).hexdigest() for name in names}

    def by_zipfile():
        with zipfile.ZipFile(path) as archive:
            return hashes(archive.namelist(), archive.read)

    def by_torch():
        reader = torch._C.PyTorchFileReader(path)
        prefix = path_prefix(path)
        return {
            prefix + name: digest
            for name, digest in hashes(reader.get_all_records(), reader.get_record).items()
        }

    found = {}
    for name, read in (("zipfile", by_zipfile), ("torch", by_torch)):
        try:
            found[name] = read()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error)[:200]}"
    return found


def path_prefix(path):
    """The folder of an archive's first entry, which torch leaves out of the names."""
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()[0].split("/", 1)[0] + "/"


def index_item(item):
    if item is None:
        return slice(None)
    if item == "...":
        return Ellipsis
    return slice(*item) if isinstance(item, list) else item


def read_slice(path):
    with open(path) as file:
        question = json.load(file)
    shape = question["shape"]
    table = numpy.arange(int(numpy.prod(shape, dtype=int)), dtype="<u2").reshape(shape)
    if "text" in question:
        # Numbers, colons and commas: the caller has seen to that. Nothing at all is everything.
        text = question["text"].strip()
        taken = table[eval(f"numpy.s_[{text}]")] if text else table
    elif "index" in question:
        taken = table[tuple(index_item(item) for item in question["index"])]
    else:
        taken = numpy.take(table, numpy.array(question["rows"], dtype=numpy.int64), axis=0)
    taken = numpy.asarray(taken)
    return {"shape": list(taken.shape), "sha256": hashlib.sha256(taken.tobytes()).hexdigest()}


NARROW = {
    "F16": torch.float16, "BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}  # fmt: skip

SOURCES = [
    "<f8", "<f4", numpy.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e8m0fnu, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz,
    "<i8", "<u8", "<i4", "<u4", "<i2", "<u2", "<i1", "<u1",
]  # fmt: skip


def float_words(values):
    words = values.view(numpy.uint32)
    return ",".join("nan" if nan else f"{word:x}" for word, nan in zip(words, numpy.isnan(values)))


def read_casts(path):
    with open(path, "rb") as file:
        data = file.read()
    dtype = numpy.dtype(SOURCES[data[0] % len(SOURCES)])
    count = (len(data) - 1) // dtype.itemsize
    floats = numpy.frombuffer(data, dtype, count, 1).astype(numpy.float32)
    found = {"toFloat32": float_words(floats)}
    for name, narrow in NARROW.items():
        rounded = torch.from_numpy(floats).to(narrow).to(torch.float32)
        found[name] = float_words(rounded.numpy())
    return found


def read_gguf(path):
    import gguf

    found = []
    for tensor in gguf.GGUFReader(path).tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        try:
            with numpy.errstate(all="ignore"):
                values = gguf.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            found.append([tensor.name, shape, None])
            continue
        values = numpy.ascontiguousarray(values)
        if values.dtype == numpy.float32:
            values = numpy.where(numpy.isnan(values), numpy.float32("nan"), values)
        found.append([tensor.name, shape, hashlib.sha256(values.tobytes()).hexdigest()])
    return found


def tell_whose_error(kind, error, _):
    """What an input makes Python itself say, such as at the end of a bytearray, is no find."""
    print(f"Python, of an input (no find): {kind.__name__}: {error}", file=sys.stderr)


if __name__ == "__main__":
    sys.excepthook = tell_whose_error
    limit_memory()
    read_foreign.serve(
        {
            **read_foreign.READERS,
            "header": read_header,
            "zip": read_zip,
            "slice": read_slice,
            "casts": read_casts,
            "imports": read_imports,
            "gguf": read_gguf,
        }
    )
