"""Reads with one of the Python readers; prints the line of children/measure-reader.ts.

Arguments: METHOD FILE LIBRARY all|INDEX hold|-, with the shared library that holds touch_words, the
position of the one tensor to read, and whether to stay until standard input ends.
"""

import ctypes
import json
import os
import pickle
import sys
import time


def import_all(*names):
    for name in names:
        globals()[name] = __import__(name)


def import_if_there(name):
    try:
        import_all(name)
    except ImportError:
        pass


def range_of(tensor):
    """Address and length in bytes of a tensor's memory: bytes, numpy array or torch tensor."""
    if isinstance(tensor, bytes):
        return ctypes.cast(ctypes.c_char_p(tensor), ctypes.c_void_p).value, len(tensor)
    if hasattr(tensor, "data_ptr"):
        return tensor.data_ptr(), tensor.numel() * tensor.element_size()
    return tensor.ctypes.data, tensor.nbytes


# Every opener returns functions, one for each tensor in the order of the file.


def takers(values):
    return [lambda value=value: value for value in values]


def torch_load(path, **options):
    return takers(torch.load(path, **options).values())


def pickle_load(path):
    with open(path, "rb") as file:
        return takers(pickle.load(file).values())


def numpy_archive(path):
    file = numpy.load(path)
    return [lambda name=name: file[name] for name in file.files]


def numpy_files(path, mode=None):
    names = sorted(os.listdir(path))
    return [lambda name=name: numpy.load(os.path.join(path, name), mmap_mode=mode) for name in names]


def hdf5(path):
    file = h5py.File(path, "r")
    return [lambda name=name: file[name][()] for name in file]


def reference(path, framework, backend):
    from safetensors import safe_open

    file = safe_open(path, framework=framework, backend=backend)
    return [lambda name=name: file.get_tensor(name) for name in file.offset_keys()]


# Everything is imported before the clock starts, also what the readers would import by themselves.
METHODS = {
    "torch.load": (["torch"], lambda: torch_load(path)),
    "torch.load-mmap": (["torch"], lambda: torch_load(path, mmap=True)),
    "pickle": ([], lambda: pickle_load(path)),
    "npz": (["numpy"], lambda: numpy_archive(path)),
    "npy": (["numpy"], lambda: numpy_files(path)),
    "npy-mmap": (["numpy"], lambda: numpy_files(path, "r")),
    "hdf5": (["numpy", "h5py"], lambda: hdf5(path)),
    "numpy-mmap": (["ml_dtypes", "safetensors"], lambda: reference(path, "np", "mmap")),
    "numpy-pread": (["ml_dtypes", "safetensors"], lambda: reference(path, "np", "pread")),
    "torch-mmap": (["torch", "safetensors"], lambda: reference(path, "pt", "mmap")),
    "torch-pread": (["torch", "safetensors"], lambda: reference(path, "pt", "pread")),
}


def read_memory():
    fields = {}
    try:
        for name in ("status", "smaps_rollup"):
            with open(f"/proc/self/{name}") as lines:
                fields |= dict(line.split(":", 1) for line in lines if ":" in line)
    except OSError:
        return None
    size = lambda field: int(fields[field].split()[0]) * 1024
    return {
        "anonymous": size("RssAnon"),
        "fileBacked": size("RssFile"),
        "proportional": size("Pss"),
    }


method, path, library, what, hold = sys.argv[1:]
packages, open_file = METHODS[method]
import_all(*packages)
if method == "pickle":
    import_if_there("numpy")
touch_words = ctypes.CDLL(library).touch_words
touch_words.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
touch_words.restype = ctypes.c_uint64

held = []
first_tensor = None
first_byte = None
before = read_memory()
start = time.perf_counter()
wanted = open_file()
opened = time.perf_counter() - start
if what != "all":
    wanted = [wanted[int(what)]]
for take in wanted:
    held.append(take())
    if len(held) == 1:
        address, length = range_of(held[0])
        if length:
            first_byte = ctypes.c_ubyte.from_address(address).value
        first_tensor = time.perf_counter() - start
handed_out = time.perf_counter() - start
total = 0
length_sum = 0
for tensor in held:
    address, length = range_of(tensor)
    if length:
        total += touch_words(address, length)
    length_sum += length
every_byte = time.perf_counter() - start
after = read_memory()
line = {
    "open": opened * 1e3,
    "firstTensor": first_tensor and first_tensor * 1e3,
    "handedOut": handed_out * 1e3,
    "everyByte": every_byte * 1e3,
    "bytes": length_sum,
    "firstByte": first_byte,
    "checksum": f"{total % 2**64:016x}",
}
if before is not None:
    line |= {"before": before, "after": after}
print(json.dumps(line), flush=True)
if hold == "hold":
    sys.stdin.read()
