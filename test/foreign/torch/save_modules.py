"""Saves random whole modules (`torch.save(module)`), and prints dtype, shape and SHA-256 of what `state_dict()` has.

usage: python save_modules.py FOLDER SEED COUNT
"""

import hashlib
import json
import random
import sys
from pathlib import Path

import torch
from torch import nn

folder, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
random.seed(seed)
torch.manual_seed(seed)

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
NAMES = ["a", "b", "weight", "model", "state", "layers", "optim", "module", "0x", "Ü"]


def values():
    shape = [random.randrange(1, 4) for _ in range(random.randrange(3))]
    return torch.randn(shape).to(random.choice(DTYPES))


class Block(nn.Module):
    """Registers random parameters, buffers and modules."""

    def __init__(self, depth, shared):
        super().__init__()
        names = random.sample(NAMES, random.randrange(1, 6))
        for name in names:
            self.register(name, depth, shared)
        self.note = {"not": "registered", "tensor": torch.ones(2)}

    def register(self, name, depth, shared):
        kind = random.randrange(10)
        if kind == 0:
            self.register_parameter(name, None)
        elif kind == 1:
            self.register_buffer(name, None if random.random() < 0.3 else values())
        elif kind == 2:
            self.register_buffer(name, values(), persistent=False)
        elif kind == 3:
            self.register_parameter(name, random.choice(shared))
        elif kind == 4 and depth > 0:
            self.add_module(name, random_module(depth - 1, shared))
        elif kind == 5 and depth > 0:
            self.add_module(name, None)
        elif kind < 8 and depth > 0:
            self.add_module(name, random_module(depth - 1, shared))
        else:
            self.register_parameter(name, nn.Parameter(values(), requires_grad=random.random() < 0.5))


def random_module(depth, shared):
    def inner():
        return random_module(max(depth - 1, 0), shared)

    return random.choice(
        [
            lambda: Block(depth, shared),
            lambda: nn.Linear(2, 3, bias=random.random() < 0.5),
            lambda: nn.BatchNorm1d(2, affine=random.random() < 0.5, track_running_stats=random.random() < 0.7),
            lambda: nn.Embedding(3, 2),
            lambda: nn.LSTM(2, 2),
            lambda: nn.ParameterDict({name: nn.Parameter(values()) for name in random.sample(NAMES, 2)}),
            lambda: nn.ParameterList([nn.Parameter(values()) for _ in range(random.randrange(3))]),
            lambda: nn.ModuleList([inner() for _ in range(random.randrange(3))]),
            lambda: nn.ModuleDict({name: inner() for name in random.sample([n for n in NAMES if n != "weight"], 2)}),
            lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU(), inner()),
            lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
        ]
    )()


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
    shared = [nn.Parameter(values()) for _ in range(2)]
    module = Block(3, shared)
    # A module without tensors is not a state dict.
    if not module.state_dict():
        module.register_buffer("only", values())
    wrapped = random.choice([lambda: module, lambda: {"epoch": 1, "model": module}])()
    path = folder / f"{number}.pt"
    try:
        torch.save(wrapped, path, _use_new_zipfile_serialization=random.random() < 0.7)
    except (RuntimeError, AttributeError, TypeError):
        # Parametrized modules cannot be pickled.
        path.unlink(missing_ok=True)
        continue
    expected[path.name] = {name: described(value) for name, value in module.state_dict().items()}
print(json.dumps(expected))
