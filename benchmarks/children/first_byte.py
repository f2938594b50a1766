"""Prints the first byte of the first tensor. Arguments: METHOD FILE; the parent's clock runs."""

import sys

method, path = sys.argv[1:]
if method == "torch-mapped":
    import torch

    first, *_ = torch.load(path, mmap=True).values()
elif method == "pickle":
    import pickle

    with open(path, "rb") as file:
        first, *_ = pickle.load(file).values()
else:
    if method == "safe_open-torch":
        import torch
    else:
        import ml_dtypes  # noqa: F401, lets numpy know bfloat16
    from safetensors import safe_open

    file = safe_open(path, framework="pt" if method == "safe_open-torch" else "np")
    first = file.get_tensor(file.offset_keys()[0])
print(first.view(torch.uint8).flatten()[0].item() if "torch" in method else first.view("u1").flat[0])
