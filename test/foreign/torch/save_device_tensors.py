"""Saves random tensors as torch saves those of TPUs and other devices: as NumPy arrays in the pickle.

usage: python save_device_tensors.py FOLDER SEED COUNT

Prints what torch reads from each file: dtype, shape and SHA-256 of every tensor.
"""

import hashlib
import json
import random
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch

folder, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
random.seed(seed)
torch.manual_seed(seed)

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
]

EDGES = [float("nan"), float("inf"), float("-inf"), -0.0, 3.4e38, 1e-45, 1 + 2**-8, 1 + 3 * 2**-8]


class OnDevice:
    """Pickled as `torch.Tensor.__reduce_ex__` pickles a tensor of such a device."""

    def __init__(self, array, dtype):
        self.array = array
        self.dtype = dtype

    def __reduce__(self):
        has_gradients = self.dtype.is_floating_point and random.random() < 0.5
        arguments = (self.array, self.dtype, "cpu", has_gradients)
        return torch._utils._rebuild_device_tensor_from_numpy, arguments


def random_tensor(dtype):
    shape = [random.randrange(5) for _ in range(random.randrange(4))]
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if dtype.is_floating_point or dtype.is_complex:
        return (torch.randn(shape) * 10 ** random.uniform(-3, 3)).to(dtype)
    return torch.randint(0, 100, shape).to(dtype)


def on_device(dtype):
    tensor = random_tensor(dtype)
    if dtype == torch.bfloat16:
        tensor = tensor.to(torch.float32)
        if random.random() < 0.5:
            # No bfloat16 gives these: the cast rounds.
            tensor = tensor.reshape(-1)
            for i in range(tensor.numel()):
                tensor[i] = random.choice(EDGES + [random.uniform(-9, 9)])
    array = tensor.numpy()
    layout = random.random()
    if layout < 0.3:
        array = np.asfortranarray(array)
    elif layout < 0.5 and array.ndim > 0:
        array = np.repeat(array, 2, axis=0)[::2]
    return OnDevice(array, dtype)


def described(tensor):
    data = tensor.detach().contiguous()
    raw = data.reshape(-1).view(torch.uint8).numpy().tobytes() if data.numel() else b""
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "sha256": hashlib.sha256(raw).hexdigest(),
    }


expected = {}
for number in range(count):
    state = OrderedDict((f"t{i}", on_device(random.choice(DTYPES))) for i in range(random.randrange(1, 5)))
    state["plain"] = torch.arange(3, dtype=torch.float32)
    path = folder / f"{number}.pt"
    torch.save(
        state,
        path,
        pickle_protocol=random.choice([2, 3, 4, 5]),
        _use_new_zipfile_serialization=random.random() < 0.7,
    )
    loaded = torch.load(path, weights_only=False)
    expected[path.name] = {name: described(tensor) for name, tensor in loaded.items()}
print(json.dumps(expected))
