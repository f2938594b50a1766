"""Makes a base in shards, and adapters with the names of PEFT and kohya; merges them with torch in float64."""
import json
import sys
from pathlib import Path

import torch
from huggingface_hub import save_torch_state_dict
from safetensors.torch import save_file

kind, folder = sys.argv[1], Path(sys.argv[2])
generator = torch.Generator().manual_seed(7)


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def product(up, down, scale):
    """scale * B * A; kernels of convolutions as matrices."""
    up, down = up.double(), down.double()
    return scale * (up.flatten(1) @ down.flatten(1))


def rounded(values, dtype):
    """Rounded once; torch itself rounds float64 to float32 first. What is not exact there gets an odd last bit."""
    nearest = values.float()
    if dtype == torch.float32:
        return nearest
    is_away = nearest.double().abs() > values.abs()
    bits = nearest.view(torch.int32) - is_away.int()
    return torch.where(nearest.double() == values, bits, bits | 1).view(torch.float32).to(dtype)


def merged(weight, delta):
    return rounded(weight.double() + delta.reshape(weight.shape), weight.dtype)


def save(base, adapter, expected, shard):
    (folder / "base").mkdir(exist_ok=True)
    save_torch_state_dict(base, folder / "base", max_shard_size=shard)
    (folder / "base" / "config.json").write_text('{"model_type": "test"}')
    (folder / "adapter").mkdir(exist_ok=True)
    name = "style.safetensors" if kind == "kohya" else "adapter_model.safetensors"
    save_file(adapter, folder / "adapter" / name, {"format": "pt"})
    save_file(expected, folder / "expected.safetensors")


if kind == "peft":
    base, adapter = {}, {}
    for layer in range(6):
        for name, dtype in (("q_proj", torch.bfloat16), ("v_proj", torch.float16), ("up_proj", torch.float32)):
            base[f"model.layers.{layer}.{name}.weight"] = random(320, 256, dtype=dtype)
    base["model.norm.weight"] = random(256)
    base["score.weight"] = random(2, 256)
    expected = dict(base)
    for name in base:
        if "layers" not in name or "up_proj" in name and "layers.3" not in name:
            continue
        # layers.3.up_proj has a rank and an alpha of its own, as patterns of the configuration say.
        rank, alpha = (4, 64) if "layers.3.up_proj" in name else (8, 16)
        up, down = random(320, rank), random(rank, 256)
        module = f"base_model.model.{name.removesuffix('.weight')}"
        adapter[f"{module}.lora_A.weight"], adapter[f"{module}.lora_B.weight"] = down, up
        expected[name] = merged(base[name], product(up, down, alpha / rank**0.5))
    adapter["base_model.model.score.weight"] = random(2, 256)
    expected["score.weight"] = adapter["base_model.model.score.weight"]
    save(base, adapter, expected, "500KB")
    config = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": True, "fan_in_fan_out": False}
    config |= {"rank_pattern": {"layers.3.up_proj": 4}, "alpha_pattern": {"layers.3.up_proj": 64}}
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(config))

elif kind == "fan-in-fan-out":
    # GPT-2's Conv1D keeps its weights transposed.
    base = {"h.0.attn.c_attn.weight": random(64, 192), "h.0.attn.c_attn.bias": random(192)}
    down, up = random(4, 64), random(192, 4)
    module = "base_model.model.h.0.attn.c_attn"
    adapter = {f"{module}.lora_A.weight": down, f"{module}.lora_B.weight": up}
    weight = base["h.0.attn.c_attn.weight"]
    expected = base | {"h.0.attn.c_attn.weight": merged(weight, product(up, down, 8 / 4).T)}
    save(base, adapter, expected, "5GB")
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "fan_in_fan_out": True}
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(config))

elif kind == "kohya":
    base = {
        "down_blocks.0.attentions.0.to_q.weight": random(64, 48, dtype=torch.float16),
        "down_blocks.0.resnets.0.conv1.weight": random(32, 16, 3, 3, dtype=torch.float16),
        "mid_block.proj_in.weight": random(40, 24, 1, 1, dtype=torch.float16),
        "conv_in.bias": random(16, dtype=torch.float16),
    }
    expected, adapter = dict(base), {}
    factors = {
        "down_blocks.0.attentions.0.to_q": (random(64, 4), random(4, 48), 2.0),
        "down_blocks.0.resnets.0.conv1": (random(32, 4, 1, 1), random(4, 16, 3, 3), 4.0),
        "mid_block.proj_in": (random(40, 4, 1, 1), random(4, 24, 1, 1), None),
    }
    for module, (up, down, alpha) in factors.items():
        key = "lora_unet_" + module.replace(".", "_")
        adapter[f"{key}.lora_up.weight"], adapter[f"{key}.lora_down.weight"] = up.half(), down.half()
        if alpha is not None:
            adapter[f"{key}.alpha"] = torch.tensor(alpha).half()
        weight = base[f"{module}.weight"]
        scale = 1.0 if alpha is None else alpha / 4
        expected[f"{module}.weight"] = merged(weight, product(up.half(), down.half(), scale))
    adapter["lora_te_text_model_encoder_layers_0_mlp_fc1.lora_down.weight"] = random(4, 8)
    save(base, adapter, expected, "5GB")
