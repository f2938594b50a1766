"""What Python makes of inputs of the fuzzer: the readers of test/foreign/read_foreign.py, and these.

header   names, dtypes, shapes, data and metadata of a safetensors file, as the reference reads it
zip      SHA-256 of every entry of an archive, as zipfile reads it and as torch does; or why they refuse it
"""

import hashlib
import os
import sys
import zipfile

import safetensors
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "foreign"))
import read_foreign  # noqa: E402


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


if __name__ == "__main__":
    read_foreign.serve({**read_foreign.READERS, "header": read_header, "zip": read_zip})
