"""Writes honest PyTorch, NumPy, pickle, safetensors and others: what a scan must have no objection to.

usage: python honest_corpus.py FOLDER [RECORD]

A file is called KIND--NAME. With a second argument, writes all of them into that file too: the recorded corpus.
"""

import argparse
import array
import base64
import collections
import datetime
import decimal
import fractions
import gzip
import json
import os
import pathlib
import pickle
import random
import re
import struct
import sys
import types
import typing
import uuid
import warnings

import numpy
import safetensors.numpy
import torch

warnings.simplefilter("ignore")
folder = sys.argv[1]
torch.manual_seed(0)
random.seed(0)


def path(kind, name):
    return os.path.join(folder, f"{kind}--{name}")


def trained(optimizer, **options):
    net = torch.nn.Sequential(torch.nn.Embedding(6, 4), torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    made = optimizer(net.parameters(), **options)
    scheduler = torch.optim.lr_scheduler.StepLR(made, 2)
    net(torch.arange(6)).sum().backward()
    made.step()
    scheduler.step()
    return net, made, scheduler


net, adam, scheduler = trained(torch.optim.AdamW, lr=1e-3)
sgd = trained(torch.optim.SGD, lr=0.1, momentum=0.9)[1]
adagrad = trained(torch.optim.Adagrad)[1]
grid = torch.arange(24.0).reshape(2, 3, 4)
tied = collections.OrderedDict(a=grid, b=grid, c=grid[0])
lightning = {
    "epoch": 3, "global_step": 120, "pytorch-lightning_version": "2.5.0", "state_dict": net.state_dict(),
    "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 4, "completed": 3}}}},
    "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_score": torch.tensor(0.5), "best_k_models": {}}},
    "optimizer_states": [adam.state_dict()], "lr_schedulers": [scheduler.state_dict()],
    "hparams_name": "kwargs", "hyper_parameters": {"lr": 1e-3, "betas": (0.9, 0.999), "name": None},
}  # fmt: skip
CHECKPOINTS = {
    "state-dict": net.state_dict(),
    "parameters": dict(net.named_parameters()),
    "adamw": adam.state_dict(),
    "sgd": sgd.state_dict(),
    "adagrad": adagrad.state_dict(),
    "scheduler": scheduler.state_dict(),
    "lightning": lightning,
    "trained": {"model": net.state_dict(), "optimizer": adam.state_dict(), "epoch": 1, "rng": torch.get_rng_state()},
    "tied": tied,
    "views": {"t": grid.transpose(0, 2), "s": grid[:, ::2, 1:], "e": grid[0, 0].expand(5, 4)},
    "dtypes": {str(d): torch.zeros(3).to(d) for d in (torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.int64, torch.complex64)},
    "scalars": {"one": torch.tensor(1.5), "none": torch.zeros(0, 3), "long": torch.tensor(7)},
    "list": [grid, {"x": grid[0]}, (grid[1],), 2**70, -5, 1e300, None, True, "é", {1, 2}],
    "tensor": grid,
    "quantized": {"x": torch.quantize_per_tensor(grid, 0.5, 0, torch.qint8)},
    "sparse": {"x": grid[0].to_sparse()},
    "bytes": {"x": torch.frombuffer(bytearray(pickle.dumps({"a": 1}) * 9), dtype=torch.uint8)},
    "long-text": {"notes": "text " * 20_000, "x": grid},
}  # fmt: skip
for name, value in CHECKPOINTS.items():
    for protocol in (2, 3, 4, 5):
        for kind, is_zip in (("torch", True), ("legacy", False)):
            if not is_zip and name in ("quantized", "sparse") and protocol > 2:
                continue
            file = path(kind, f"{name}-{protocol}.pt")
            torch.save(value, file, pickle_protocol=protocol, _use_new_zipfile_serialization=is_zip)
torch.save(lightning | {"hyper_parameters": argparse.Namespace(lr=1)}, path("needs-code", "namespace.ckpt"))
torch.save({"best": numpy.float64(0.5), "x": numpy.arange(3)}, path("needs-code", "numpy-values.pt"))
torch.save(net, path("needs-code", "module.pt"))
torch.save(net, path("needs-code", "module-legacy.pt"), _use_new_zipfile_serialization=False)
torch.serialization.set_crc32_options(False)
torch.save(net.state_dict(), path("torch", "without-checksums.pt"))
torch.serialization.set_crc32_options(True)

VALUES = {
    "numbers": {"a": 1, "b": -2, "c": 2**80, "d": 1.5, "e": float("inf"), "f": -1e-7, "g": True, "h": False, "i": None},
    "texts": ["a", "é", "\n", "\\", "'", "\udc80", "x" * 300, "日本", "long " * 20_000],
    "bytes": [b"", b"a", bytes(range(256)), b"x" * 70_000, bytearray(b"y" * 10)],
    "nested": {"a": [{"b": (1, (2, [3, {4: {5}}]))}], "c": frozenset([1]), "d": [[]] * 5},
    "many": [i for i in range(3000)] + [{"k": str(i)} for i in range(300)],
    "shared": (lambda x: [x, x, {"x": x}])([1, "s"]),
    "cyclic": (lambda x: x.append(x) or x)([]),
}  # fmt: skip
for name, value in VALUES.items():
    for protocol in range(6):
        with open(path("pickle", f"{name}-{protocol}.pkl"), "wb") as file:
            pickle.dump(value, file, protocol)
    if name == "texts":
        continue
    for protocol in (0, 4):
        with open(path("pickle", f"{name}-{protocol}-python.pkl"), "wb") as file:
            pickle._dump(value, file, protocol)
with open(path("pickle", "three.pkl"), "wb") as file:
    for value in (1, "two", [3]):
        pickle.dump(value, file)
for name, value in {"ordered": collections.OrderedDict(a=1), "counter": collections.Counter("aab")}.items():
    with open(path("pickle", f"{name}.pkl"), "wb") as file:
        pickle.dump(value, file, 2)
for name, value in {
    "array": numpy.arange(5), "random-state": numpy.random.RandomState(0), "generator": numpy.random.default_rng(0),
    "masked": numpy.ma.masked_array([1, 2], [True, False]), "scalars": [numpy.float32(1), numpy.datetime64("2020")],
    "singletons": [Ellipsis, NotImplemented], "dates": [datetime.datetime(2020, 1, 2), datetime.timedelta(3)],
    "standard": [fractions.Fraction(1, 3), decimal.Decimal("1.5"), uuid.UUID(int=7), re.compile("a+"), pathlib.Path("a"),
                 types.SimpleNamespace(a=1), collections.defaultdict(list, a=[1]), collections.deque([1]), KeyError("a"),
                 array.array("f", [1.0]), random.Random(0), typing.Any, range(3), slice(1, 2)],
    "state-dict": net.state_dict(), "storage": {"x": grid[0].untyped_storage()}, "parameters": list(net.parameters()),
}.items():  # fmt: skip
    for protocol in (0, 2, 4):
        with open(path("needs-code", f"{name}-{protocol}.pkl"), "wb") as file:
            pickle.dump(value, file, protocol)
transformer = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(4, 2, 8), 1)
quantized = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(3, 2)))
for name, value in {
    "transformer": transformer, "quantized-module": quantized, "optimizer": adam, "scheduler": scheduler,
    "version": {"w": grid, "torch": torch.__version__, "generator": torch.Generator()},
}.items():  # fmt: skip
    torch.save(value, path("needs-code", f"{name}.pt"))

ITEMS = ["?", "i1", "<i2", ">i4", "i8", "u1", "u2", "<u4", "u8", "f2", "f4", ">f8", "c8", "c16", "g", "G",
         "S5", "U7", "M8[ns]", "m8[25s]", "M8", "V6", "U0", "S0"]  # fmt: skip
for number, kind in enumerate(ITEMS):
    numpy.save(path("npy", f"item-{number}.npy"), numpy.zeros((2, 3), kind))
record = numpy.dtype([("a", "f4"), ("b", "i8", (2, 3)), ("c", [("d", "S3"), ("e", "?")]), (("title", "f"), "u2")])
aligned = numpy.dtype([("a", "i1"), ("b", "f8")], align=True)
for name, array in {
    "record": numpy.zeros(4, record), "aligned": numpy.zeros(2, aligned), "fortran": numpy.asfortranarray(numpy.ones((3, 4))),
    "scalar": numpy.array(1.5), "empty": numpy.zeros((0, 5)), "unicode-field": numpy.zeros(2, [("größe", "f4"), ("日", "i2")]),
    "many-fields": numpy.zeros(1, [(f"field_number_{i}", "f4") for i in range(400)]),
}.items():  # fmt: skip
    numpy.save(path("npy", f"{name}.npy"), array)
with open(path("npy", "two-arrays.npy"), "wb") as file:
    numpy.save(file, numpy.arange(3))
    numpy.save(file, numpy.arange(4.0))
numpy.lib.format.write_array(open(path("npy", "version-2.npy"), "wb"), numpy.arange(3), version=(2, 0))
numpy.save(path("needs-code", "objects.npy"), numpy.array([1, "a", None], object), allow_pickle=True)
arrays = {"a": numpy.arange(6.0), "b/c": numpy.ones((2, 2), "i4"), "d": numpy.zeros(2, record), "e": numpy.array("text")}
for name, save in {"savez": numpy.savez, "compressed": numpy.savez_compressed}.items():
    save(path("npz", f"{name}.npz"), **arrays)
    save(path("npz", f"{name}-positional.npz"), numpy.arange(3), numpy.random.default_rng(0).random(300))
    save(path("npz", f"{name}-empty.npz"))
    save(path("npz", f"{name}-zeros.npz"), x=numpy.zeros(100_000))
numpy.savez(path("needs-code", "objects.npz"), x=numpy.array([{}], object))

for number in range(12):
    # Headers whose length begins as opcodes do.
    tensors = {f"conv{number}.weight": numpy.ones((number, 2), "f4"), "c.bias": numpy.zeros(3, "f2")}
    notes = {"format": "pt", "notes": "x." * (40 * number)}
    safetensors.numpy.save_file(tensors, path("safetensors", f"{number}.safetensors"), notes)
for length in range(0x28, 0x98, 4):
    header = b'{"c.x":{"dtype":"U8","shape":[40],"data_offsets":[0,40]}}'.ljust(256 + length)
    data = b"os\nsystem\n" * 4
    with open(path("safetensors", f"unpadded-{length}.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)

for version in (2, 3):
    for order in "<>":
        with open(path("gguf", f"{version}-{'little' if order == '<' else 'big'}.gguf"), "wb") as file:
            key = b"general.architecture"
            head = struct.pack(order + "IQQ", version, 0, 1) + struct.pack(order + "Q", len(key)) + key
            file.write(b"GGUF" + head + struct.pack(order + "IQ", 8, 5) + b"llama")
for name, text in {
    "config.json": json.dumps({"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16"}, indent=2),
    "index.json": json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}}),
    "readme.md": "# Model\n\ncompare with `os.system`\n", "vocab.txt": "N.\nc\nthe\nimport\nios\n", "merges.txt": "#version: 0.2\ni n\n",
    "page.html": "<!DOCTYPE html><html></html>", "pointer": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
}.items():  # fmt: skip
    with open(path("text", name), "w") as file:
        file.write(text)
if len(sys.argv) > 2:
    names = sorted(os.listdir(folder))
    files = {name: base64.b64encode(open(os.path.join(folder, name), "rb").read()).decode() for name in names}
    with open(sys.argv[2], "wb") as file:
        file.write(gzip.compress(json.dumps(files).encode(), mtime=0))
