"""Tiny random models in quantized form, and what transformers makes of them and of plain ones.

make FOLDER           writes a folder for every kind, and prints their names
compare FOLDER DTYPE  loads each folder, dequantized by transformers, and its `-plain`; prints the differences
"""

import json
import os
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    GptOssConfig,
    LlamaConfig,
    MetalConfig,
    Mxfp4Config,
    Qwen3MoeConfig,
)
from transformers.quantizers import quantizer_finegrained_fp8, quantizer_metal
from transformers.utils.quantization_config import FineGrainedFP8Config

# accelerate places models on devices; on this processor it has nothing to do.
quantizer_finegrained_fp8.is_accelerate_available = lambda *_: True
# It would choose Apple's processor, also to dequantize.
quantizer_metal.MetalHfQuantizer.update_device_map = lambda _, device_map: device_map

COMMON = dict(
    vocab_size=96,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    max_position_embeddings=64,
)
LLAMA = LlamaConfig(**COMMON, intermediate_size=192, tie_word_embeddings=False)
MOE = Qwen3MoeConfig(
    **COMMON, intermediate_size=192, moe_intermediate_size=64, num_experts=4, num_experts_per_tok=2,
    tie_word_embeddings=False,
)
GPT_OSS = GptOssConfig(
    **COMMON, intermediate_size=64, num_local_experts=2, num_experts_per_tok=2, sliding_window=16,
    layer_types=["sliding_attention", "full_attention"],
)


def random_state(config, folder):
    """The tensors of a random model, as it is saved."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    return load_file(os.path.join(folder, "model.safetensors"))


def save(folder, state, quantization, section="quantization_config"):
    save_file({k: v.contiguous() for k, v in state.items()}, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    path = os.path.join(folder, "config.json")
    config = json.load(open(path))
    config[section] = quantization
    json.dump(config, open(path, "w"), indent=2)


def is_projection(name):
    return name.endswith("_proj.weight")


def fp8(config, folder, rows, columns, scale_dtype):
    """Blocks of FP8; exponents as U8 for MXFP8."""
    state = {}
    for name, weight in random_state(config, folder).items():
        if not is_projection(name):
            state[name] = weight
            continue
        r, c = weight.shape
        blocks = weight.reshape(r // rows, rows, c // columns, columns)
        scale = blocks.abs().amax((1, 3)) / 448
        if scale_dtype is torch.uint8:
            exponent = scale.log2().ceil()
            stored, scale = (exponent + 127).to(torch.uint8), exponent.exp2()
        else:
            stored = scale = scale.to(scale_dtype)
        codes = (blocks / scale.float()[:, None, :, None]).clamp(-448, 448)
        state[name] = codes.reshape(r, c).to(torch.float8_e4m3fn)
        state[name + "_scale_inv"] = stored
    method = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [rows, columns]}
    save(folder, state, method)


def gpt_oss(config, folder):
    state = {}
    for name, weight in random_state(config, folder).items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            state[name] = weight.to(torch.bfloat16)
            continue
        experts, inputs, outputs = weight.shape
        groups = inputs // 32
        state[name + "_blocks"] = torch.randint(0, 256, (experts, outputs, groups, 16), dtype=torch.uint8)
        state[name + "_scales"] = torch.randint(118, 126, (experts, outputs, groups), dtype=torch.uint8)
    save(folder, state, {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head", "model.embed_tokens"]})


def mlx(config, folder, bits, group):
    """MLX's own form, and beside it the form that transformers has for the same tensors."""
    ours, theirs = {}, {}
    for name, weight in random_state(config, folder).items():
        if not is_projection(name):
            ours[name] = theirs[name] = weight
            continue
        r, c = weight.shape
        module = name.removesuffix("weight")
        words = torch.randint(-(2**31), 2**31, (r, c * bits // 32), dtype=torch.int64).to(torch.int32)
        scales = torch.rand(r, c // group) * 0.1 + 0.01
        biases = -scales * 2 ** (bits - 1)
        for state, key in ((ours, "biases"), (theirs, "qbiases")):
            state[name] = words.view(torch.uint32)
            state[module + "scales"] = scales
            state[module + key] = biases
    save(folder, ours, {"bits": bits, "group_size": group, "mode": "affine"}, "quantization")
    other = folder + "-metal"
    os.makedirs(other)
    config.save_pretrained(other)
    save(other, theirs, {"quant_method": "metal", "bits": bits, "group_size": group, "modules_to_not_convert": ["lm_head"]})


KINDS = {
    "fp8-block": lambda folder: fp8(LLAMA, folder, 64, 32, torch.float32),
    "fp8-bf16-scales": lambda folder: fp8(LLAMA, folder, 32, 64, torch.bfloat16),
    "fp8-experts": lambda folder: fp8(MOE, folder, 64, 64, torch.float32),
    "mxfp8": lambda folder: fp8(LLAMA, folder, 1, 32, torch.uint8),
    "mxfp4-gpt-oss": lambda folder: gpt_oss(GPT_OSS, folder),
    "mlx-2": lambda folder: mlx(LLAMA, folder, 2, 64),
    "mlx-4": lambda folder: mlx(LLAMA, folder, 4, 32),
    "mlx-8": lambda folder: mlx(LLAMA, folder, 8, 64),
}


def make(root):
    for kind, made in KINDS.items():
        folder = os.path.join(root, kind)
        os.makedirs(folder)
        made(folder)
    print(json.dumps(list(KINDS)))


def dequantizing(kind):
    if kind.startswith("mlx"):
        return kind + "-metal", MetalConfig(dequantize=True)
    if kind.startswith("mxfp4"):
        return kind, Mxfp4Config(dequantize=True)
    return kind, FineGrainedFP8Config(dequantize=True)


def is_loaded_as(kind, dtype):
    """Whether transformers runs what it dequantized: gpt-oss becomes bfloat16, MLX the dtype of its scales."""
    if kind.startswith("mxfp4"):
        return dtype == "bfloat16"
    return dtype == "float32" or not kind.startswith("mlx")


def compare(root, dtype):
    compared, differences = [], {}
    tokens = torch.arange(24).reshape(2, 12) * 3
    options = dict(dtype=getattr(torch, dtype), attn_implementation="eager", output_loading_info=True)
    for kind in filter(lambda kind: is_loaded_as(kind, dtype), KINDS):
        compared.append(kind)
        name, quantization = dequantizing(kind)
        theirs, own = AutoModelForCausalLM.from_pretrained(
            os.path.join(root, name), quantization_config=quantization, **options
        )
        # The dtype of config.json, too, must be the right one.
        ours, info = AutoModelForCausalLM.from_pretrained(
            os.path.join(root, kind + "-plain"), **{**options, "dtype": "auto"}
        )
        found = {key: sorted(value) for key, value in info.items() if value}
        if found:
            differences[kind] = found
        expected = dict(theirs.state_dict())
        state = dict(ours.state_dict())
        unequal = [
            key
            for key in expected.keys() | state.keys()
            if key not in state or key not in expected
            or state[key].dtype != expected[key].dtype or not torch.equal(state[key], expected[key])
        ]
        with torch.no_grad():
            logits = [model.eval()(tokens).logits for model in (theirs, ours)]
        if unequal or not torch.equal(*logits) or not logits[0].isfinite().all() or logits[0].std() == 0:
            differences[kind] = [sorted(unequal), (logits[0] - logits[1]).abs().max().item()]
    print(json.dumps([compared, differences]))


{"make": make, "compare": compare}[sys.argv[1]](*sys.argv[2:])
