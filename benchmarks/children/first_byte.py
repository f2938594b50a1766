"""Prints the first byte of the first tensor. Arguments: METHOD FILE; the parent's clock runs."""

import sys

method, path = sys.argv[1:]
if method == "safe_open-torch":
    import torch
    from safetensors import safe_open

    file = safe_open(path, framework="pt")
    print(file.get_tensor(file.offset_keys()[0]).view(torch.uint8).flatten()[0].item())
elif method == "safe_open-numpy":
    import ml_dtypes  # noqa: F401, lets numpy know bfloat16
    from safetensors import safe_open

    file = safe_open(path, framework="np")
    print(file.get_tensor(file.offset_keys()[0]).view("u1").flat[0])
elif method == "torch-mapped":
    import torch

    first, *_ = torch.load(path, mmap=True).values()
    print(first.view(torch.uint8).flatten()[0].item())
else:
    import pickle

    with open(path, "rb") as file:
        first, *_ = pickle.load(file).values()
    print(first.view("u1").flat[0])
