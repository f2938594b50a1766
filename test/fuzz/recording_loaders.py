"""Loaders of Python that run nothing: what a pickle imports is noted, and stands for itself.

What torch's restricted loader allows is imported indeed, so that these loaders come as far as they do with honest
files; everything else is `Inert`, which can be called and filled and does nothing.
"""

import io
import os
import pickle
import resource
import sys
import types
import zipfile

import numpy.lib._format_impl
import numpy.lib._npyio_impl
import numpy
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "foreign"))
from read_foreign import ALLOWED, OLD_MODULES, Inert  # noqa: E402

# A memo number of 2**32 makes a list of that length: more memory than this machine has.
MORE_BYTES = 2 << 30

noted = set()


def is_allowed(module, name):
    return f"{OLD_MODULES.get(module, module)}.{name}" in ALLOWED


def find(importer, module, name):
    if not module:
        # It is asked for, but Python imports nothing.
        raise ValueError("Empty module name")
    noted.add((module, name))
    return importer(module, name) if is_allowed(module, name) else Inert


class FastUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        return find(super().find_class, module, name)

    def persistent_load(self, pid):
        return Inert()


class PlainUnpickler(pickle._Unpickler):
    def find_class(self, module, name):
        return find(super().find_class, module, name)

    def persistent_load(self, pid):
        return Inert()


def module_of(unpickler):
    """What stands for the module `pickle`."""
    module = types.ModuleType("pickle")
    module.__dict__.update(pickle.__dict__)
    module.Unpickler = unpickler
    module.load = lambda file, **options: unpickler(file, **options).load()
    module.loads = lambda data, **options: unpickler(io.BytesIO(data), **options).load()
    return module


FAST = module_of(FastUnpickler)
PLAIN = module_of(PlainUnpickler)


def load_torch(path):
    torch.load(path, pickle_module=FAST, weights_only=False, map_location="cpu")


def load_numpy(path):
    loaded = numpy.load(path, allow_pickle=True)
    for name in getattr(loaded, "files", ()):
        loaded[name]


def load_all(path):
    """As programs do that read several pickles of one file."""
    with open(path, "rb") as file:
        for _ in range(5):
            FAST.load(file)


def load_plain(path):
    with open(path, "rb") as file:
        PLAIN.load(file, encoding="latin1")


def load_entries(path):
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.lower().endswith((".pkl", ".pickle")):
                try:
                    FAST.loads(archive.read(info))
                except Exception:
                    continue


LOADERS = {
    "pickle.load": load_all,
    "pickle._load": load_plain,
    "torch.load": load_torch,
    "numpy.load": load_numpy,
    "entries": load_entries,
}


def read_imports(path):
    """Names that each loader would import and that torch's restricted loader forbids."""
    found = {}
    for name, load in LOADERS.items():
        noted.clear()
        # The patches are for this call alone: the reader `numpy` of this process reads with the real module.
        kept = numpy.lib._format_impl.pickle, numpy.lib._npyio_impl.pickle
        numpy.lib._format_impl.pickle = numpy.lib._npyio_impl.pickle = FAST
        try:
            load(path)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
        finally:
            numpy.lib._format_impl.pickle, numpy.lib._npyio_impl.pickle = kept
        found[name] = sorted(f"{module}.{one}" for module, one in noted if not is_allowed(module, one))
    return found


def limit_memory():
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
