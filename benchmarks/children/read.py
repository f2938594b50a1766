"""The readers in Python; prints the line of read.mjs.

Arguments: METHOD FILE LOOPS, the folder of the compiled loop. Keeps all tensors until standard input ends. Without
LOOPS it prints the first byte of the first tensor, and the parent's clock runs.
"""

import pickle
import sys

method, path, *loops = sys.argv[1:]

# Everything is imported before the clock starts, also what the readers would import by themselves; where it is the
# parent's clock, nothing else is.
if "torch" in method:
    import torch
else:
    import numpy
if "safe_open" in method:
    from safetensors import safe_open
if method == "safe_open-numpy":
    import ml_dtypes  # noqa: F401, lets numpy know bfloat16
if loops:
    import ctypes
    import gc
    import json
    import mmap
    import os
    import time

    from memory import read_memory


# Every opener gives the tensors in the order of the file; those of generators are yielded one by one.


def unpickled():
    with open(path, "rb") as file:
        return pickle.load(file).values()


def mapped():
    with open(path, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    start = 8 + int.from_bytes(memory[:8], "little")
    header = json.loads(memory[8:start])
    header.pop("__metadata__", None)
    places = sorted(value["data_offsets"] for value in header.values())
    return (numpy.frombuffer(memory, "u1", end - begin, start + begin) for begin, end in places)


def reference(framework):
    file = safe_open(path, framework=framework)
    return (file.get_tensor(name) for name in file.offset_keys())


def shards():
    """Those that an index names, one after the other."""
    with open(path) as file:
        names = sorted(set(json.load(file)["weight_map"].values()))
    for name in names:
        file = safe_open(os.path.join(os.path.dirname(path), name), framework="pt")
        for key in file.offset_keys():
            yield file.get_tensor(key)


METHODS = {
    "torch": lambda: torch.load(path).values(),
    "torch-mapped": lambda: torch.load(path, mmap=True).values(),
    "pickle": unpickled,
    "mmap-numpy": mapped,
    "safe_open-numpy": lambda: reference("np"),
    "safe_open-torch": lambda: reference("pt"),
    "safe_open-torch-shards": shards,
}


def range_of(tensor):
    """Address and length in bytes of the memory of a numpy array or torch tensor."""
    if "torch" in method:
        return tensor.data_ptr(), tensor.numel() * tensor.element_size()
    return tensor.ctypes.data, tensor.nbytes


if not loops:
    first = next(iter(METHODS[method]()))
    print(first.view(torch.uint8).flatten()[0].item() if "torch" in method else first.view("u1").flat[0])
    sys.exit()

touch_words = ctypes.CDLL(f"{loops[0]}/libtouch.so").touch_words
touch_words.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
touch_words.restype = ctypes.c_uint64

# Tensors of shards are read as they come, as those of a stream are.
is_stream = method.endswith("-shards")
held = []
line = {}
total = size = 0
gc.collect()
line["before"] = read_memory()
start = time.perf_counter()


def note(name):
    line[name] = (time.perf_counter() - start) * 1e3


def touch(tensor):
    global total, size
    address, length = range_of(tensor)
    total += touch_words(address, length) if length else 0
    size += length


tensors = METHODS[method]()
note("open")
for tensor in tensors:
    held.append(tensor)
    if len(held) == 1:
        address, length = range_of(tensor)
        line["firstByte"] = ctypes.c_ubyte.from_address(address).value if length else None
        note("firstTensor")
    if is_stream:
        touch(tensor)
note("exposed")
if not is_stream:
    for tensor in held:
        touch(tensor)
note("everyByte")
line["after"] = read_memory()
print(json.dumps(line | {"bytes": size, "checksum": f"{total % 2**64:016x}"}), flush=True)
sys.stdin.read()
