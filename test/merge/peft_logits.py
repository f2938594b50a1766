"""`make FOLDER` writes a GPT-2 of random weights, a PEFT adapter of it, and the logits of both. `compare FOLDER` prints
how far the logits of the model in FOLDER/merged are from them: the largest difference, and what the adapter changed."""
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

command, folder = sys.argv[1], Path(sys.argv[2])
torch.manual_seed(57)
ids = torch.randint(50257, (2, 24), generator=torch.Generator().manual_seed(7))


def logits(model):
    with torch.no_grad():
        return model.eval()(ids).logits


if command == "make":
    model = GPT2LMHeadModel(GPT2Config())
    model.save_pretrained(folder / "base")
    before = logits(model)
    targets = ["c_attn", "c_proj", "c_fc"]
    config = LoraConfig(r=16, lora_alpha=32, target_modules=targets, fan_in_fan_out=True, init_lora_weights=False)
    tuned = get_peft_model(model, config)
    tuned.save_pretrained(folder / "adapter")
    save_file({"before": before, "tuned": logits(tuned)}, folder / "logits.safetensors")
else:
    expected = load_file(folder / "logits.safetensors")
    found = logits(GPT2LMHeadModel.from_pretrained(folder / "merged"))
    differences = [(found - expected["tuned"]).abs().max(), (expected["before"] - expected["tuned"]).abs().max()]
    print(*[value.item() for value in differences])
