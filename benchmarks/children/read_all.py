"""Reads every byte with one of the Python readers; prints the line of children/measure-reader.ts.

Arguments: METHOD FILE LIBRARY, with the shared library that holds touch_words.
"""

import ctypes
import json
import pickle
import sys
import time


def range_of(tensor):
    """Address and length in bytes of a tensor's memory: bytes, numpy array or torch tensor."""
    if isinstance(tensor, bytes):
        return ctypes.cast(ctypes.c_char_p(tensor), ctypes.c_void_p).value, len(tensor)
    if hasattr(tensor, "data_ptr"):
        return tensor.data_ptr(), tensor.numel() * tensor.element_size()
    return tensor.ctypes.data, tensor.nbytes


def torch_load(path, **options):
    return torch.load(path, **options).values()


def pickle_load(path):
    with open(path, "rb") as file:
        return pickle.load(file).values()


def safe_open_tensors(path, framework):
    file = safe_open(path, framework=framework)
    return (file.get_tensor(name) for name in file.offset_keys())


def read_memory():
    try:
        with open("/proc/self/status") as status:
            fields = dict(line.split(":", 1) for line in status)
    except OSError:
        return None
    size = lambda field: int(fields[field].split()[0]) * 1024
    return {"anonymous": size("RssAnon"), "fileBacked": size("RssFile")}


method, path, library = sys.argv[1:]
# Everything is imported before the clock starts, also what the readers would import by themselves.
if method.startswith("torch"):
    import torch
elif method.startswith("safe_open"):
    if method == "safe_open-torch":
        import torch
    else:
        import ml_dtypes  # noqa: F401, lets numpy know bfloat16
    from safetensors import safe_open
else:
    try:
        import numpy  # noqa: F401, pickle would import it
    except ImportError:
        pass
OPEN = {
    "torch.load": lambda: torch_load(path),
    "torch.load-mmap": lambda: torch_load(path, mmap=True),
    "pickle": lambda: pickle_load(path),
    "safe_open-torch": lambda: safe_open_tensors(path, "pt"),
    "safe_open-numpy": lambda: safe_open_tensors(path, "np"),
}[method]
touch_words = ctypes.CDLL(library).touch_words
touch_words.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
touch_words.restype = ctypes.c_uint64

held = []
total = 0
length_sum = 0
first_tensor = None
first_byte = None
before = read_memory()
start = time.perf_counter()
tensors = OPEN()
opened = time.perf_counter() - start
for tensor in tensors:
    address, length = range_of(tensor)
    if not held:
        if length:
            first_byte = ctypes.c_ubyte.from_address(address).value
        first_tensor = time.perf_counter() - start
    if length:
        total += touch_words(address, length)
    length_sum += length
    held.append(tensor)
every_byte = time.perf_counter() - start
after = read_memory()
line = {
    "open": opened * 1e3,
    "firstTensor": first_tensor and first_tensor * 1e3,
    "everyByte": every_byte * 1e3,
    "bytes": length_sum,
    "firstByte": first_byte,
    "checksum": f"{total % 2**64:016x}",
}
if before is not None:
    line |= {"before": before, "after": after}
print(json.dumps(line))
