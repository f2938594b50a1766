"""Quantizes with torch, one scale per tensor: `make FOLDER` writes a model, `check FOLDER` what others wrote of it."""
import json
import sys
from pathlib import Path

import torch
from huggingface_hub import save_torch_state_dict
from safetensors.torch import load_file

command, folder = sys.argv[1], Path(sys.argv[2])
generator = torch.Generator().manual_seed(11)


def load(name):
    tensors = {}
    for path in sorted((folder / name).glob("*.safetensors")):
        tensors |= load_file(path)
    return tensors


def bytes_of(tensor):
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes()


def quantize(weight):
    scale = weight.float().abs().max() / torch.finfo(torch.float8_e4m3fn).max
    return (weight.float() / scale).to(torch.float8_e4m3fn), scale


if command == "make":
    tensors = {
        "model.embed_tokens.weight": torch.randn(50, 640, generator=generator).bfloat16(),
        "model.norm.weight": torch.randn(640, generator=generator).bfloat16(),
        "lm_head.weight": torch.randn(50, 640, generator=generator).bfloat16(),
    }
    for i, dtype in enumerate((torch.bfloat16, torch.float16, torch.float32)):
        # More rows than the example reads at a time; subnormal codes and the largest one occur.
        weight = torch.randn(2000, 640, generator=generator) * torch.logspace(-6, 1, 640)
        tensors[f"model.layers.{i}.mlp.up_proj.weight"] = weight.to(dtype)
    tensors["model.layers.3.mlp.up_proj.weight"] = torch.zeros(3, 5)
    (folder / "model").mkdir()
    save_torch_state_dict(tensors, folder / "model", max_shard_size="4MB")
    config = {"model_type": "llama", "torch_dtype": "bfloat16"}
    (folder / "model" / "config.json").write_text(json.dumps(config))

elif command == "check":
    original, quantized, plain = load("model"), load("fp8"), load("plain")
    expected, values = {}, {}
    for name, weight in original.items():
        target = name.replace("model.", "", 1) if name.startswith("model.") else name
        expected[target] = values[target] = weight
        if "up_proj" not in name:
            continue
        # Nothing to scale: 0 / 0 would be NaN.
        zeros = weight.to(torch.float8_e4m3fn), torch.tensor(1.0)
        codes, scale = quantize(weight) if weight.any() else zeros
        expected[target], expected[f"{target}_scale"] = codes, scale
        values[target] = (codes.float() * scale).bfloat16()
    for found, wanted in ((quantized, expected), (plain, values)):
        assert found.keys() == wanted.keys(), (found.keys(), wanted.keys())
        for name, tensor in wanted.items():
            other = found[name]
            assert (other.dtype, other.shape) == (tensor.dtype, tensor.shape), name
            assert bytes_of(other) == bytes_of(tensor), name
    print(len(expected), len(values))
