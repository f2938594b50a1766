"""Saves checkpoints that the reference's convert.py refuses or gets wrong.

usage: python save_cases.py FOLDER
"""

import sys
from pathlib import Path

import torch

folder = Path(sys.argv[1])
weights = {"w": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3, dtype=torch.bfloat16)}

nan = torch.tensor([0x7FC00000, 0x7F800001, -0x3FFFFF, 0x7F800000], dtype=torch.int32)
torch.save({**weights, "nan": nan.view(torch.float32)}, folder / "nan.pt")
torch.save({**weights, "epoch": 3, "best": None, "lr": 0.1}, folder / "values-beside.pt")
torch.save({"model": weights, "optimizer": {"lr": 0.1}}, folder / "under-model.pt")
torch.save([weights["w"], weights["b"]], folder / "list.pt")
torch.save({0: weights["w"], 1: weights["b"]}, folder / "integer-keys.pt")
torch.save({"state_dict": weights["w"], "b": weights["b"]}, folder / "named-state-dict.pt")
torch.save({**weights, "wide": torch.ones(1, 3).expand(500, 3)}, folder / "expanded.pt")

qkv = torch.arange(24.0)
torch.save({"qkv": qkv, "q": qkv[:8], "k": qkv[8:16], "v": qkv[16:]}, folder / "parts.pt")
torch.save({"front": qkv[:16], "back": qkv[8:]}, folder / "overlapping.pt")
torch.save({"one": qkv[4:8], "two": qkv[4:8]}, folder / "part-with-two-names.pt")
torch.save({"square": qkv[:16].view(4, 4), "turned": qkv[:16].view(4, 4).T}, folder / "turned.pt")
