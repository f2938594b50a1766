"""Times the rule of each scheme in torch, on one thread: as `dequantize.mjs` describes."""

import json
import os
import sys
import time

import torch
from safetensors.torch import load_file

torch.set_num_threads(1)
folder = sys.argv[2]


def fp8(t):
    weight, scale = t["m.weight"].float(), t["m.weight_scale_inv"]
    return weight * scale.repeat_interleave(128, 0).repeat_interleave(128, 1)


def nf4(t):
    packed = t["m.weight"].flatten()
    codes = torch.stack([packed >> 4, packed & 15], -1).flatten().int()
    values = t["m.weight.quant_map"][codes].view(-1, 64)
    return values * t["m.weight.absmax"][:, None]


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def mxfp4(t):
    packed = t["m.weight_packed"]
    codes = torch.stack([packed & 15, packed >> 4], -1).flatten(-2).int()
    exponents = t["m.weight_scale"].int() - 127
    return torch.ldexp(E2M1[codes].view(*exponents.shape, 32), exponents[..., None])


SHIFTS = torch.arange(0, 32, 4, dtype=torch.int32)


def gptq(t):
    weight, zeros, scales = t["m.qweight"], t["m.qzeros"], t["m.scales"].float()
    weight = ((weight[:, None, :] >> SHIFTS[:, None]) & 15).flatten(0, 1)
    zeros = (((zeros[:, :, None] >> SHIFTS) & 15) + 1).flatten(1)
    groups = t["m.g_idx"].long()
    return (scales[groups] * (weight - zeros[groups])).T.contiguous()


H4 = torch.tensor([[1.0, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]])
H256 = torch.kron(torch.kron(H4, H4), torch.kron(H4, H4))


def int8(t):
    return t["m.weight"].float() * t["m.weight_scale"]


def convrot(t):
    weight, scale = t["m.weight"].float(), t["m.weight_scale"]
    return (weight.view(-1, 256) @ H256).view(weight.shape) * scale / 16


def from_tiles(scale):
    rows, columns = scale.shape
    tiles = scale.view(rows // 128, columns // 4, 32, 4, 4)
    return tiles.permute(0, 3, 2, 1, 4).reshape(rows, columns)


def nvfp4(t):
    packed = t["m.weight"]
    codes = torch.stack([packed >> 4, packed & 15], -1).flatten(-2).int()
    scale = from_tiles(t["m.weight_scale"].view(torch.uint8)).view(torch.float8_e4m3fn)
    scale = scale.float() * t["m.weight_scale_2"]
    return E2M1[codes].view(*scale.shape, 16) * scale[..., None]


def mxfp8(t):
    exponents = from_tiles(t["m.weight_scale"]).int() - 127
    return torch.ldexp(t["m.weight"].float().view(*exponents.shape, 32), exponents[..., None])


result, checksum, length = {}, 0, 0
for scheme in os.listdir(folder):
    tensors = load_file(os.path.join(folder, scheme, "model.safetensors"))
    rule = globals()[scheme]
    times = []
    for _ in range(7):
        start = time.perf_counter()
        values = rule(tensors)
        times.append(1e3 * (time.perf_counter() - start))
    result[scheme] = sorted(times)[3] / (values.nbytes / 1e9)
    length += values.nbytes
    checksum += int(values.contiguous().view(-1).view(torch.int32).long().sum())
print(json.dumps({**result, "bytes": length, "checksum": checksum % 2**32}), flush=True)
sys.stdin.read()
