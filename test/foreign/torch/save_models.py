"""Saves the models of scripts/fixtures as people have saved them before safetensors.

usage: python save_models.py FOLDER MODEL_CONSTRUCTORS

Writes for every model its state dict, in the archive and in the legacy stream; all in shards with an index; a
checkpoint as PyTorch Lightning writes it; and checkpoints of training with several optimizers. MODEL_CONSTRUCTORS
is the folder of model_constructors.py.
"""

import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import json

import torch

folder = Path(sys.argv[1])
sys.path.insert(0, sys.argv[2])

from huggingface_hub import split_torch_state_dict_into_shards
from model_constructors import PRETRAINED, SIZES, STATE_DICTS


def save_sharded(state, target):
    """As `save_pretrained(safe_serialization=False)` did, which transformers 5 no longer has."""
    target.mkdir()
    pattern = "pytorch_model{suffix}.bin"
    plan = split_torch_state_dict_into_shards(state, filename_pattern=pattern, max_shard_size="12KB")
    for file, names in plan.filename_to_tensors.items():
        torch.save({name: state[name] for name in names}, target / file)
    index = {"metadata": plan.metadata, "weight_map": plan.tensor_to_filename}
    if not plan.is_sharded:
        index["weight_map"] = {name: "pytorch_model.bin" for name in state}
    with open(target / "pytorch_model.bin.index.json", "w") as file:
        json.dump(index, file, indent=2, sort_keys=True)


torch.manual_seed(0)
for name, dtype, make in PRETRAINED:
    model = make(SIZES["tiny"]).to(dtype)
    state = model.state_dict()
    torch.save(state, folder / f"{name}.bin")
    torch.save(state, folder / f"{name}-legacy.bin", _use_new_zipfile_serialization=False)
    torch.save(dict(model.named_parameters(remove_duplicate=False)), folder / f"{name}-parameters.pt")
    save_sharded(state, folder / name)
for name, make in STATE_DICTS:
    torch.save(make(SIZES["tiny"])[0], folder / f"{name}.pt")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(64, 5)
        )

    def forward(self, images):
        return self.body(images)


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, amsgrad=True),
    "adagrad": torch.optim.Adagrad,
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, centered=True, momentum=0.1),
    "asgd": torch.optim.ASGD,
    "rprop": torch.optim.Rprop,
    "nadam": torch.optim.NAdam,
}

images = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
for name, make in OPTIMIZERS.items():
    net = Net().to(memory_format=torch.channels_last)
    net(images)
    averaged = torch.optim.swa_utils.AveragedModel(net)
    optimizer = make(net.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=9) if name == "sgd" else (
        torch.optim.lr_scheduler.StepLR(optimizer, 2)
    )

    def closure():
        optimizer.zero_grad()
        loss = net(images).square().sum()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
        scheduler.step()
        averaged.update_parameters(net)
    schedule = {key: value for key, value in scheduler.state_dict().items() if key != "anneal_func"}
    torch.save(
        {
            "epoch": 2,
            "model_state_dict": net.state_dict(),
            "optimizer_state_dict": optimizer.state_dict(),
            "scheduler": {k: v for k, v in schedule.items() if not callable(v)},
            "averaged": averaged.state_dict(),
            "random": torch.get_rng_state(),
            "loss": closure(),
        },
        folder / f"training-{name}.pth",
    )
    torch.save(
        {
            "epoch": 1,
            "global_step": 2,
            "pytorch-lightning_version": "2.5.0",
            "state_dict": {f"model.{key}": value for key, value in net.state_dict().items()},
            "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 2}}}},
            "callbacks": {
                "ModelCheckpoint{'monitor': 'loss'}": {"best_model_score": torch.tensor(0.5), "dirpath": "/x"}
            },
            "optimizer_states": [optimizer.state_dict()],
            "lr_schedulers": [{"last_epoch": 2, "_last_lr": [0.1]}],
            "hparams_name": "hparams",
            "hyper_parameters": {"lr": 0.1, "betas": (0.9, 0.999), "name": None},
        },
        folder / f"lightning-{name}.ckpt",
    )
