"""Writes checkpoints in many ways, and prints what torch's restricted loader reads from each.

usage: python save_checkpoints.py FOLDER

Prints JSON: for every file the tensors by name (keys joined by dots) with dtype, shape and SHA-256 of their
bytes, or null where there is a tensor that safetensors does not have.
"""

import hashlib
import json
import os
import sys

import torch

DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.uint16: "U16", torch.bool: "BOOL", torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
}  # fmt: skip


def model():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Embedding(10, 4), torch.nn.Linear(4, 10, bias=False), torch.nn.BatchNorm1d(10)
    )
    net[1].weight = net[0].weight
    return net


def trained():
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.arange(6)).sum().backward()
    optimizer.step()
    return {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1}


grid = torch.arange(24.0).reshape(2, 3, 4)
complex_grid = torch.view_as_complex(torch.arange(24.0).reshape(3, 4, 2))
checkpoints = {
    "state_dict": model().state_dict(),
    "trained": trained(),
    "parameters": {"p": torch.nn.Parameter(grid), "b": torch.nn.Buffer(grid)},
    "strided": {
        "t": grid.transpose(0, 2), "s": grid[:, ::2, 1:], "e": grid[0, 0].expand(5, 4),
        "m": grid[1], "f": grid.flip(0), "d": grid.diagonal(dim1=1, dim2=2), "c": grid[..., 0],
    },
    "bits": {
        "c": complex_grid.conj(), "t": complex_grid.conj().t(),
        "n": torch._neg_view(grid)[:, 1:], "h": torch._neg_view(grid.half()),
        "k": torch._neg_view(torch.arange(9)),
    },
    "imaginary": {"i": complex_grid.conj().imag},
    "dtypes": {f"x{i}": (grid % 2).to(dtype) for i, dtype in enumerate(DTYPES)},
    "scalars": {"one": torch.tensor(1.5), "none": torch.zeros(0, 3), "long": torch.tensor(7)},
    "list": [grid, {"x": grid[0]}, (grid[1],)],
    "sparse": {"x": grid[0].to_sparse()},
    "csr": {"x": grid[0].to_sparse_csr()},
    "quantized": {"x": torch.quantize_per_tensor(grid, 0.5, 0, torch.qint8)},
    "meta": {"x": torch.zeros(3, device="meta")},
    "complex128": {"x": complex_grid.to(torch.complex128)},
}  # fmt: skip
REFUSED = {"sparse", "csr", "quantized", "meta", "complex128"}


def flatten(value, path=()):
    if isinstance(value, torch.Tensor):
        whole = value.detach().resolve_conj().resolve_neg().contiguous()
        data = bytes(whole.reshape(-1).view(torch.uint8).tolist()) if whole.numel() else b""
        yield ".".join(path), {
            "dtype": DTYPES[value.dtype],
            "shape": list(value.shape),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
    elif isinstance(value, (dict, list, tuple)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from flatten(item, (*path, str(key)))


expected = {}
for name, value in checkpoints.items():
    for suffix, options in [("", {}), ("-legacy", {"_use_new_zipfile_serialization": False})]:
        file = f"{name}{suffix}.pt"
        path = os.path.join(sys.argv[1], file)
        torch.save(value, path, **options)
        expected[file] = None if name in REFUSED else dict(flatten(value))
print(json.dumps(expected))
