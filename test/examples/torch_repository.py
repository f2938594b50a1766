"""
Creates a repository of .bin checkpoints: python torch_repository.py FOLDER. Further arguments add files to it; `check`
compares what was converted.
"""
import gzip
import io
import json
import os
import pickle
import random
import sys
import zipfile
from pathlib import Path

import numpy as np
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
elif sys.argv[2] == "random":
    # python torch_repository.py FOLDER random SEED NUMBER: a hostile pickle of random form, name and place.
    choose = random.Random(f"{sys.argv[3]}/{sys.argv[4]}").choice
    protocol = choose(range(6))
    pickled = pickle.dumps({"w": 1, "x": Hostile()}, protocol)
    form = choose(["pickle", "torch", "old torch", "array", "arrays", "archive", "gzip"])
    out = io.BytesIO()
    if form == "pickle":
        out.write(pickled)
    elif form in ("torch", "old torch"):
        # torch writes no other pickles into archives.
        new = form == "torch"
        content = {"w": torch.zeros(2), "x": Hostile()}
        torch.save(content, out, _use_new_zipfile_serialization=new, pickle_protocol=max(2, protocol))
    elif form == "array":
        np.save(out, np.array([Hostile()], dtype=object), allow_pickle=True)
    elif form == "arrays":
        np.savez(out, good=np.zeros(3), bad=np.array([Hostile()], dtype=object))
    elif form == "archive":
        with zipfile.ZipFile(out, "w", choose([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
            archive.writestr("readme.txt", "weights")
            archive.writestr(choose(["data/a.pkl", "weights", "a/b/c.bin", "model.pt"]), pickled)
    else:
        out.write(gzip.compress(pickled))
    endings = [".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".npy", ".npz", ".dat", ".model", ""]
    place = folder / choose([".", "unet", ".cache", "deep/er"])
    place.mkdir(parents=True, exist_ok=True)
    path = place / ("evil" + choose(endings))
    path.write_bytes(out.getvalue())
    print(form, path.relative_to(folder))
elif sys.argv[2] == "harmless":
    rng = np.random.default_rng(5)
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + rng.bytes(500))
    (folder / "spiece.model").write_bytes(b"\x0a\x0e" + rng.bytes(500))
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "the", "cos", "system"]))
    (folder / "run.py").write_text("import os\nos.system('true')\n")
    np.save(folder / "mean.npy", np.zeros(3))
    np.savez(folder / "stats.npz", mean=np.zeros(3), std=np.ones(3))
    torch.save({"step": 3, "w": torch.zeros(2)}, folder / "optimizer.pt")
else:
    for name, part in (("", load(folder)), ("unet", load(folder / "unet"))):
        wanted = {}
        for file in sorted((folder / name).glob("*.bin")):
            wanted |= torch.load(file, weights_only=True)
        for key, tensor in part.items():
            assert tensor.dtype == wanted[key].dtype and torch.equal(tensor, wanted[key]), key
        print(*sorted(part), "of", *sorted(wanted))
