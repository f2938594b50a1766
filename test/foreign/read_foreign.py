"""Answers questions about PyTorch and NumPy files. A question is a line: a reader, a tab, a path. The answer is
a line of JSON, what was found or the error.

torch    name (keys joined by dots), dtype, shape and SHA-256 of every tensor that torch's restricted loader gives;
         no SHA-256 where torch itself is not sure of the bytes
numpy    the same of the arrays that numpy.load gives
safetensors  the same of a file or of the shards of a folder, also under the names of tied tensors that were dropped
globals  names that plain unpickling of the file would import and that torch's restricted loader forbids; nothing
         is imported or run
"""

import hashlib
import io
import json
import pickle
import sys
import warnings
import zipfile

import numpy
import torch

warnings.simplefilter("ignore")

DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint64: "U64", torch.uint32: "U32", torch.uint16: "U16", torch.uint8: "U8",
    torch.bool: "BOOL", torch.complex64: "C64", torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2", torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ", torch.float8_e8m0fnu: "F8_E8M0",
    torch.float4_e2m1fn_x2: "F4",
}  # fmt: skip

NUMPY_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
    "bool": "BOOL", "complex64": "C64",
}  # fmt: skip


def torch_fact(tensor):
    dtype = DTYPES.get(tensor.dtype, str(tensor.dtype))
    shape = list(tensor.shape)
    if dtype == "F4":
        shape[-1] *= 2
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        return ["other", shape, ""]
    whole = tensor.detach().resolve_conj().resolve_neg()
    # Elements of whatever dtype are moved as integers of their size.
    if dtype not in ("F64", "F32", "F16", "BF16", "C64"):
        sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        whole = whole.view(sizes[whole.element_size()])
    data = whole.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    # Which sign a NaN has after such a bit differs within torch, by the place of its element.
    is_changed = tensor.is_conj() or tensor.is_neg()
    # torch negates complex numbers as 0 - x where it takes several at once, and as -x elsewhere.
    has_zeros = tensor.is_complex() and tensor.is_neg() and (torch.view_as_real(tensor.resolve_conj().resolve_neg()) == 0).any()
    if is_changed and (has_zeros or tensor.isnan().any()):
        return [dtype, shape, None]
    return [dtype, shape, hashlib.sha256(data).hexdigest()]


def read_torch(path):
    """All tensors in the order of the keys. What holds others is walked where it is met first."""
    value = torch.load(path, weights_only=True, map_location="cpu")
    found, seen = [], set()

    def walk(value, keys):
        if isinstance(value, torch.Tensor):
            found.append([".".join(keys), *torch_fact(value)])
        elif isinstance(value, (dict, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                walk(item, (*keys, str(key)))

    walk(value, ())
    return found


def read_numpy(path):
    loaded = numpy.load(path, allow_pickle=False)
    arrays = loaded.items() if hasattr(loaded, "items") else [("", loaded)]
    found = []
    for name, array in arrays:
        little = array.astype(array.dtype.newbyteorder("<"))
        data = numpy.ascontiguousarray(little).tobytes()
        dtype = NUMPY_DTYPES.get(little.dtype.name, "other")
        found.append([name, dtype, list(array.shape), hashlib.sha256(data).hexdigest()])
    return found


def read_safetensors(path):
    from pathlib import Path

    from safetensors import safe_open

    folder = Path(path)
    files = [folder] if folder.is_file() else sorted(folder.glob("*.safetensors"))
    index = folder / "model.safetensors.index.json"
    weight_map = json.loads(index.read_text()) if index.exists() else None
    recorded = dict(weight_map["metadata"]) if weight_map else {}
    tensors = {}
    for file in files:
        with safe_open(file, "pt") as opened:
            for name in opened.keys():
                tensors[name] = opened.get_tensor(name)
                assert weight_map is None or weight_map["weight_map"][name] == file.name
            recorded |= opened.metadata() or {}
    assert weight_map is None or set(weight_map["weight_map"]) == set(tensors)
    dropped = {name: tensors[kept] for name, kept in recorded.items() if kept in tensors}
    return [[name, *torch_fact(tensor)] for name, tensor in {**tensors, **dropped}.items()]


class Inert:
    """Stands for everything that a pickle imports: it can be called and filled, and does nothing."""

    def __new__(cls, *args, **kwargs):
        return object.__new__(cls)

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        return Inert()

    def __setstate__(self, state):
        pass

    def __setitem__(self, key, value):
        pass

    def append(self, item):
        pass

    def extend(self, items):
        pass

    def add(self, item):
        pass


class Tracer(pickle._Unpickler):
    """Python's own unpickler, with nothing to import."""

    def __init__(self, file, names):
        super().__init__(file, encoding="latin1")
        self.names = names

    def find_class(self, module, name):
        self.names.add((module, name))
        return Inert

    def persistent_load(self, pid):
        return Inert()


OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg", "torch.tensor": "torch._tensor"}
ALLOWED = set(torch._weights_only_unpickler._get_allowed_globals())


def trace(data, names, count):
    """Unpickles what stands one after the other; where a pickle breaks, what it named before counts."""
    file = io.BytesIO(data)
    try:
        for _ in range(count):
            Tracer(file, names).load()
    except Exception:
        pass


def read_globals(path):
    names = set()
    with open(path, "rb") as file:
        data = file.read()
    if data[:4] == b"PK\x03\x04":
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for info in archive.infolist():
                    if not info.filename.endswith(".pkl"):
                        continue
                    info.flag_bits &= ~1
                    try:
                        trace(archive.read(info), names, 1)
                    except Exception:
                        continue
        except Exception:
            pass
    else:
        trace(data, names, 5)
    forbidden = {
        f"{module}.{name}"
        for module, name in names
        if f"{OLD_MODULES.get(module, module)}.{name}" not in ALLOWED
    }
    return sorted(forbidden)


READERS = {
    "torch": read_torch,
    "numpy": read_numpy,
    "safetensors": read_safetensors,
    "globals": read_globals,
}


def serve(readers):
    for line in sys.stdin:
        kind, path = line.rstrip("\n").split("\t")
        try:
            answer = {"found": readers[kind](path)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(READERS)
