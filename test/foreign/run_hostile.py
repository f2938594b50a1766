"""Runs hostile files, each with a reader of its kind, in a separate folder.

usage: python run_hostile.py FOLDER < JSON

The JSON is a list of [reader, name of a file in the folder]. Prints as JSON the names of the files that did not run
their payload, which makes a folder whose name begins with `safetensors-ran-` in the current one.
"""

import bz2
import gzip
import importlib
import io
import json
import lzma
import os
import pickle
import sys
import tempfile
import warnings
import zipfile
import zlib

import numpy
import torch

warnings.simplefilter("ignore")


def load_all(path):
    with open(path, "rb") as file:
        while True:
            pickle.load(file)


def load_numpy(path):
    loaded = numpy.load(path, allow_pickle=True)
    if hasattr(loaded, "files"):
        for name in loaded.files:
            loaded[name]


def entries(path):
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in archive.namelist()]


def load_entries(path):
    for data in entries(path):
        try:
            pickle.loads(data)
        except Exception:
            pass


def load_nested(path):
    for data in entries(path):
        try:
            torch.load(io.BytesIO(data), weights_only=False)
        except Exception:
            pass


def load_package(path):
    torch.package.PackageImporter(path).load_pickle("model", "model.pkl")


def import_entry(path):
    """As servers do with an archive of a model: they unpack it and import its handler."""
    with zipfile.ZipFile(path) as archive:
        archive.extractall("unpacked")
    sys.path.insert(0, os.path.abspath("unpacked"))
    try:
        __import__("handler")
    finally:
        sys.path.pop(0)
        sys.modules.pop("handler", None)
        importlib.invalidate_caches()


READERS = {
    "pickle": lambda path: pickle.load(open(path, "rb")),
    "python": lambda path: pickle._load(open(path, "rb")),
    "pickles": load_all,
    "torch": lambda path: torch.load(path, weights_only=False),
    "numpy": load_numpy,
    "entries": load_entries,
    "nested": load_nested,
    "package": load_package,
    "import": import_entry,
    "gzip": lambda path: pickle.load(gzip.open(path)),
    "bz2": lambda path: pickle.load(bz2.open(path)),
    "xz": lambda path: pickle.load(lzma.open(path)),
    "zlib": lambda path: pickle.loads(zlib.decompress(open(path, "rb").read())),
}

folder = sys.argv[1]
idle = []
for reader, name in json.load(sys.stdin):
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            READERS[reader](os.path.join(folder, name))
        except BaseException:
            pass
        if not any(found.startswith("safetensors-ran-") for found in os.listdir(place)):
            idle.append(name)
        os.chdir("/")
print(json.dumps(idle))
