"""Makes a repository of .bin checkpoints: python torch_repository.py FOLDER; with `check` compares what was converted."""
import json
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

folder = Path(sys.argv[1])
torch.manual_seed(5)


class Hostile:
    def __reduce__(self):
        return os.system, ("touch was-run",)


def load(path):
    tensors = {}
    for file in sorted(path.glob("*.safetensors")):
        tensors |= load_file(file)
    return tensors


if len(sys.argv) == 2:
    (folder / "unet").mkdir(parents=True)
    first, second = {"a.weight": torch.randn(60, 70)}, {"b.weight": torch.randn(50).half()}
    names = [f"pytorch_model-0000{i}-of-00002.bin" for i in (1, 2)]
    torch.save(first, folder / names[0])
    torch.save(second, folder / names[1])
    index = {"metadata": {}, "weight_map": {"a.weight": names[0], "b.weight": names[1]}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    embed = torch.randn(5, 4)
    tied = {"embed.weight": embed, "head.weight": embed, "mid.t": torch.randn(3, 7).T}
    torch.save(tied, folder / "unet" / "diffusion_pytorch_model.bin")
elif sys.argv[2] == "hostile":
    torch.save({"w": torch.zeros(2), "x": Hostile()}, folder / "model.bin")
else:
    for name, part in (("", load(folder)), ("unet", load(folder / "unet"))):
        wanted = {}
        for file in sorted((folder / name).glob("*.bin")):
            wanted |= torch.load(file, weights_only=True)
        for key, tensor in part.items():
            assert tensor.dtype == wanted[key].dtype and torch.equal(tensor, wanted[key]), key
        print(*sorted(part), "of", *sorted(wanted))
