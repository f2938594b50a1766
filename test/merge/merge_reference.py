"""Random merges of models and adapters in float64, by NumPy's products. Arguments: FOLDER COUNT

Writes KIND.safetensors for every kind, with tensors `NUMBER/ROLE/NAME` of COUNT cases, of which those with the role
`expected` are the results in float64, and KIND.json, a list of what else each case has.
"""

import json
import os
import struct
import sys

import numpy as np

folder, count = sys.argv[1], int(sys.argv[2])
NARROW = ["F32", "F16", "BF16"]
EPSILON = 2.0**-23


def stored(values, dtype):
    """Values rounded to a dtype: as bytes, and as the float64 that they then are."""
    values = np.asarray(values, np.float64)
    if dtype == "F64":
        return values.tobytes(), values
    if dtype == "F16":
        rounded = values.astype(np.float16)
        return rounded.tobytes(), rounded.astype(np.float64)
    single = values.astype(np.float32)
    if dtype == "F32":
        return single.tobytes(), single.astype(np.float64)
    # Cut off, which is as good as rounded for random values.
    halves = (single.view(np.uint32) >> 16).astype(np.uint16)
    return halves.tobytes(), (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


class Tensors:
    """The tensors of all cases of a kind."""

    def __init__(self):
        self.header, self.parts, self.at, self.number = {}, [], 0, 0

    def add(self, role, name, values, dtype="F32"):
        """Adds a tensor, and returns its values as they are stored."""
        data, rounded = stored(values, dtype)
        end = self.at + len(data)
        self.header[f"{self.number}/{role}/{name}"] = {
            "dtype": dtype,
            "shape": list(np.shape(values)),
            "data_offsets": [self.at, end],
        }
        self.parts.append(data)
        self.at = end
        return rounded

    def expect(self, name, values):
        self.add("expected", name, values, "F64")

    def write(self, path):
        header = json.dumps(self.header).encode()
        header += b" " * (-len(header) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + b"".join(self.parts))


# Models


def threefry(keys, low, high):
    """Threefry-2x32 of 20 rounds, of many counters at once."""
    rotations = [[13, 15, 26, 6], [17, 29, 16, 24]]
    keys = [np.uint32(keys[0]), np.uint32(keys[1])]
    keys.append(keys[0] ^ keys[1] ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        a, b = np.uint32(low) + keys[0], np.uint32(high) + keys[1]
        for group in range(5):
            for bits in rotations[group % 2]:
                a = a + b
                b = ((b << np.uint32(bits)) | (b >> np.uint32(32 - bits))) ^ a
            a = a + keys[(group + 1) % 3]
            b = b + keys[(group + 2) % 3] + np.uint32(group + 1)
    return a, b


def drawn(seed, name, model, density, length):
    """What is kept: seed and model make a key, with the bytes of the name, a one and zeros to a multiple of eight."""
    key = threefry([seed & 0xFFFFFFFF, seed >> 32], np.array([model]), np.array([0]))
    text = name.encode() + b"\1"
    text += b"\0" * (-len(text) % 8)
    for low, high in struct.iter_unpack("<II", text):
        key = threefry([key[0][0], key[1][0]], np.array([low]), np.array([high]))
    blocks = np.arange((length + 1) // 2)
    numbers = threefry([key[0][0], key[1][0]], blocks, np.zeros_like(blocks))
    return np.stack(numbers, 1).reshape(-1)[:length] < round(density * 2**32)


def sparsified(delta, density, rescale, keep):
    if density >= 1:
        return delta
    magnitudes = np.abs(delta.astype(np.float32).astype(np.float64))
    kept = keep(magnitudes)
    all_, left = magnitudes.sum(), magnitudes[kept].sum()
    factor = all_ / left if rescale and all_ >= 1e-7 and left >= 1e-7 else 1
    return np.where(kept, delta * factor, 0)


def largest(density):
    def keep(magnitudes):
        order = np.argsort(-magnitudes, kind="stable")
        kept = np.zeros(len(magnitudes), bool)
        kept[order[: max(1, int(density * len(magnitudes)))]] = True
        return kept

    return keep


def divisor(total):
    return np.where(np.abs(total) < 1e-8, 1, total)


def voted(deltas, weights, normalize):
    scaled = weights[:, None] * deltas
    sign = np.where(scaled.sum(0) >= 0, 1, -1)
    agree = np.sign(scaled) == sign
    total = np.where(agree, scaled, 0).sum(0)
    return total / divisor((agree * weights[:, None]).sum(0)) if normalize else total


def task_vectors(x, case, keep, is_voted):
    settings, weights = case["settings"], np.array([m["weight"] for m in case["models"]])
    deltas = np.stack(
        [
            sparsified(one - x[0], m["density"], settings["rescale"], keep(i, m["density"]))
            for i, (one, m) in enumerate(zip(x[1:], case["models"]))
        ]
    )
    if is_voted:
        total = voted(deltas, weights, settings["normalize"])
    else:
        total = weights @ deltas / (divisor(weights.sum()) if settings["normalize"] else 1)
    return x[0] + settings["lambda"] * total


def slerp(a, b, t):
    unit = [v / n if (n := np.linalg.norm(v)) > 1e-8 else v for v in (a, b)]
    cosine = np.vdot(*unit)
    if abs(cosine) > 0.9995:
        return (1 - t) * a + t * b
    angle = np.arccos(cosine)
    return (np.sin((1 - t) * angle) * a + np.sin(t * angle) * b) / np.sin(angle)


def model_stock(x):
    deltas = [one - x[0] for one in x[1:]]
    n = len(deltas)
    norms = [np.linalg.norm(d) for d in deltas]
    cosines = [
        np.clip(np.vdot(deltas[i], deltas[j]) / max(norms[i] * norms[j], 1e-6), -1, 1)
        for i in range(n)
        for j in range(i + 1, n)
    ]
    cosine = np.mean(cosines)
    t = n * cosine / (1 + (n - 1) * cosine)
    return t * np.mean(x[1:], 0) + (1 - t) * x[0]


def task_settings(r):
    return {
        "lambda": r.integers(-20, 21) / 10,
        "normalize": bool(r.integers(2)),
        "rescale": bool(r.integers(2)),
        "seed": int(r.integers(2**40)),
    }


def drawn_by(case, length):
    return lambda i, density: lambda _: drawn(case["settings"]["seed"], "x", i + 1, density, length)


# Of each method: whether it has a base, how many models, settings, and the formula over flat tensors.
METHODS = {
    "linear": (False, (1, 5), lambda r: {"normalize": bool(r.integers(2))}, lambda x, c: np.tensordot(
        w := np.array([m["weight"] for m in c["models"]]), np.stack(x), 1
    ) / (w.sum() if c["settings"]["normalize"] else 1)),
    "slerp": (True, (1, 1), lambda r: {"t": r.integers(101) / 100}, lambda x, c: slerp(*x, c["settings"]["t"])),
    "task_arithmetic": (True, (1, 4), lambda r: {**task_settings(r), "rescale": False},
                        lambda x, c: task_vectors(x, c, lambda *_: None, False)),
    "ties": (True, (1, 4), task_settings, lambda x, c: task_vectors(x, c, lambda _, d: largest(d), True)),
    "dare_ties": (True, (1, 4), task_settings, lambda x, c: task_vectors(x, c, drawn_by(c, len(x[0])), True)),
    "dare_linear": (True, (1, 4), task_settings, lambda x, c: task_vectors(x, c, drawn_by(c, len(x[0])), False)),
    "passthrough": (False, (1, 1), lambda r: {"scale": r.integers(-20, 21) / 10},
                    lambda x, c: c["settings"]["scale"] * x[0]),
    "model_stock": (True, (2, 4), lambda r: {}, lambda x, c: model_stock(x)),
    "weighted_sum": (False, (2, 2), lambda r: {"alpha": r.integers(-50, 150) / 100},
                     lambda x, c: (1 - c["settings"]["alpha"]) * x[0] + c["settings"]["alpha"] * x[1]),
    "add_difference": (False, (3, 3), lambda r: {"alpha": r.integers(-50, 150) / 100},
                       lambda x, c: x[0] + c["settings"]["alpha"] * (x[1] - x[2])),
}


def model_case(name, r, tensors):
    has_base, (least, most), settings, formula = METHODS[name]
    n = int(r.integers(least, most + 1)) + has_base
    shape = [int(size) for size in r.integers(4, 40, r.integers(1, 4))]
    # Few different values: many equal changes.
    steps = int(r.choice([3, 1000]))
    first = r.integers(-steps, steps + 1, shape) / steps
    x = []
    for i in range(n):
        values = first if i == 0 else first + r.integers(-steps, steps + 1, shape) / steps / 8
        role = "base" if has_base and i == 0 else str(i - has_base)
        x.append(tensors.add(role, "x", values, str(r.choice(NARROW))).reshape(-1))
    models = [{"weight": w / 10, "density": d / 10} for w, d in r.integers(1, 15, (n - has_base, 2)).tolist()]
    if name == "task_arithmetic":
        models = [{**model, "density": 1} for model in models]
    case = {"settings": {k: v if isinstance(v, (bool, int)) else float(v) for k, v in settings(r).items()}}
    case["models"] = models
    tensors.expect("x", formula(x, case).reshape(shape))
    return case


# Adapters: each adds its tensors, and returns what else it has.

PEFT = "base_model.model."


def sizes(r, *ends):
    return [int(r.integers(1, end + 1)) for end in ends]


def random(r, *shape):
    return r.integers(-1000, 1001, shape) / 1000


def adapted(tensors, parts, prefix=PEFT):
    return [tensors.add("adapter", prefix + name, values) for name, values in parts.items()]


def lora(r, t):
    out, inner, rank, alpha = sizes(r, 40, 40, 9, 9)
    is_stable, is_transposed = r.integers(2, size=2).astype(bool).tolist()
    w = t.add("base", "x.weight", random(r, *([inner, out] if is_transposed else [out, inner])))
    a, b = adapted(t, {"x.lora_A.weight": random(r, rank, inner), "x.lora_B.weight": random(r, out, rank)})
    change = 0.5 * alpha / (rank**0.5 if is_stable else rank) * (b @ a)
    t.expect("x.weight", w + (change.T if is_transposed else change))
    config = {"r": rank, "lora_alpha": alpha, "use_rslora": is_stable, "fan_in_fan_out": is_transposed}
    return {"config": {"peft_type": "LORA", **config}, "scale": 0.5}


def embedding(r, t):
    tokens, width, rank = sizes(r, 40, 40, 5)
    w = t.add("base", "x.weight", random(r, tokens, width))
    parts = {"x.lora_embedding_A": random(r, rank, tokens), "x.lora_embedding_B": random(r, width, rank)}
    a, b = adapted(t, parts)
    t.expect("x.weight", w + 4 / rank * (b @ a).T)
    return {"config": {"peft_type": "LORA", "r": rank, "lora_alpha": 4}, "scale": 1}


def lora_bias(r, t):
    out, inner, rank = sizes(r, 20, 20, 5)
    w, bias = t.add("base", "x.weight", random(r, out, inner)), t.add("base", "x.bias", random(r, out))
    parts = {"A.weight": random(r, rank, inner), "B.weight": random(r, out, rank), "B.bias": random(r, out)}
    a, b, added = adapted(t, parts, PEFT + "x.lora_")
    t.expect("x.weight", w + 4 / rank * (b @ a))
    t.expect("x.bias", bias + 4 / rank * added)
    return {"config": {"peft_type": "LORA", "r": rank, "lora_alpha": 4, "lora_bias": True}, "scale": 1}


def kohya(r, t):
    out, inner, rank, kernel = sizes(r, 12, 12, 5, 3)
    w = t.add("base", "x.y.weight", random(r, out, inner, kernel, kernel))
    down, up = random(r, rank, inner, kernel, kernel), random(r, out, rank, 1, 1)
    down, up, alpha = adapted(t, {"down.weight": down, "up.weight": up}, "lora_unet_x_y.lora_") + adapted(
        t, {"alpha": np.array(3.0)}, "lora_unet_x_y."
    )
    t.expect("x.y.weight", w + 0.7 * alpha / rank * np.einsum("or,rikl->oikl", up[:, :, 0, 0], down))
    return {"scale": 0.7}


def locon(r, t):
    out, inner, rank, kernel = sizes(r, 12, 12, 5, 3)
    w = t.add("base", "x.weight", random(r, out, inner, kernel))
    parts = {"up.weight": random(r, out, rank, 1), "down.weight": random(r, rank, inner, 1)}
    up, down, mid = adapted(t, {**parts, "mid.weight": random(r, rank, rank, kernel)}, "lora_unet_x.lora_")
    t.expect("x.weight", w + np.einsum("pi,ijk,jq->pqk", up[:, :, 0], mid, down[:, :, 0]))
    return {"scale": 1}


def dora(r, t):
    out, inner, rank = sizes(r, 20, 20, 5)
    kind = int(r.integers(3))
    w = t.add("base", "x.weight", random(r, *([out, inner] if kind == 0 else [inner, out])))
    names = ("embedding_A", "embedding_B") if kind == 2 else ("A.weight", "B.weight")
    parts = {names[0]: random(r, rank, inner), names[1]: random(r, out, rank), "magnitude_vector": random(r, out)}
    a, b, m = adapted(t, parts, PEFT + "x.lora_")
    v = (w if kind == 0 else w.T) + 4 / rank * (b @ a)
    norms = np.linalg.norm(v, axis=1)
    result = (m / norms)[:, None] * v
    t.expect("x.weight", result if kind == 0 else result.T)
    config = {"r": rank, "lora_alpha": 4, "use_dora": True, "fan_in_fan_out": kind == 1}
    return {"config": {"peft_type": "LORA", **config}, "scale": 1}


def dora_of_lycoris(r, t):
    out, inner, rank, kernel = [size + 1 for size in sizes(r, 12, 12, 4, 2)]
    w = t.add("base", "x.weight", random(r, out, inner, kernel))
    of_rows, strength = bool(r.integers(2)), float(r.choice([1, 0.6]))
    m = random(r, out, 1, 1) if of_rows else random(r, 1, inner, 1)
    parts = {"lora_down.weight": random(r, rank, inner, kernel), "lora_up.weight": random(r, out, rank, 1)}
    down, up, m = adapted(t, {**parts, "dora_scale": m}, "lora_unet_x.")
    v = w + np.tensordot(up[:, :, 0], down, 1)
    norms = np.sqrt((v**2).sum((1, 2) if of_rows else (0, 2), keepdims=True)) + EPSILON
    t.expect("x.weight", v * (strength * (m / norms - 1) + 1))
    return {"scale": strength}


def loha(r, t):
    out, inner, rank = sizes(r, 30, 30, 5)
    w = t.add("base", "x.weight", random(r, out, inner))
    parts = {f"hada_w{i}_{ab}": random(r, *([out, rank] if ab == "a" else [rank, inner])) for i in "12" for ab in "ab"}
    is_peft = bool(r.integers(2))
    a1, b1, a2, b2 = adapted(t, parts, PEFT + "x." if is_peft else "lycoris_x.")
    if not is_peft:
        t.add("adapter", "lycoris_x.alpha", np.array(3.0))
    t.expect("x.weight", w + 0.5 * 3 / rank * (a1 @ b1) * (a2 @ b2))
    return {**({"config": {"peft_type": "LOHA", "r": rank, "alpha": 3}} if is_peft else {}), "scale": 0.5}


def loha_with_cores(r, t):
    out, inner, rank, kernel = sizes(r, 8, 8, 4, 3)
    w = t.add("base", "x.weight", random(r, out, inner, kernel))
    products = []
    for i in "12":
        parts = {f"w{i}_a": random(r, rank, out), f"w{i}_b": random(r, rank, inner), f"t{i}": random(r, rank, rank, kernel)}
        a, b, core = adapted(t, parts, "lycoris_x.hada_")
        products.append(np.einsum("ijk,jq,ip->pqk", core, b, a))
    (alpha,) = adapted(t, {"alpha": np.array(3.0)}, "lycoris_x.")
    t.expect("x.weight", w + alpha / rank * products[0] * products[1])
    return {"scale": 1}


def lokr(r, t):
    a, b, c, d, kernel, rank = sizes(r, 4, 4, 5, 5, 3, 3)
    w = t.add("base", "x.weight", random(r, a * c, b * d, kernel))
    is_peft, form = bool(r.integers(2)), int(r.integers(3))
    if form == 2:
        is_peft = False
    parts = {"lokr_w1": random(r, a, b)}
    if form == 0:
        parts |= {"lokr_w2": random(r, c, d, kernel)}
    elif form == 1:
        parts |= {"lokr_w2_a": random(r, c, rank), "lokr_w2_b": random(r, rank, d * kernel)}
    else:
        parts |= {"lokr_w2_a": random(r, rank, c), "lokr_w2_b": random(r, rank, d), "lokr_t2": random(r, rank, rank, kernel)}
    left, *factors = adapted(t, parts, PEFT + "x." if is_peft else "lora_unet_x.")
    if form == 0:
        (right,) = factors
    elif form == 1:
        right = (factors[0] @ factors[1]).reshape(c, d, kernel)
    else:
        right = np.einsum("ijk,jq,ip->pqk", factors[2], factors[1], factors[0])
    if not is_peft:
        t.add("adapter", "lora_unet_x.alpha", np.array([5.0]))
    # LyCORIS does not scale two whole matrices.
    scale = 1 if form == 0 and not is_peft else 5 / rank
    # PEFT gives the first matrix a dimension in front where the second one is that of Conv1d.
    product = np.kron(left[None] if form == 0 and is_peft else left[:, :, None], right)
    t.expect("x.weight", w + scale * product.reshape(w.shape))
    return {**({"config": {"peft_type": "LOKR", "r": rank, "alpha": 5}} if is_peft else {}), "scale": 1}


def diff(r, t):
    out, inner, kernel = sizes(r, 20, 20, 3)
    strength = float(r.choice([1, 0.3]))
    for weight, key, shape in [
        ("x.weight", "lycoris_x.diff", [out, inner, kernel]),
        ("x.bias", "lycoris_x.diff_b", [out]),
        ("n.weight", "lycoris_n.w_norm", [out]),
        ("n.bias", "lycoris_n.b_norm", [out]),
    ]:
        (added,) = adapted(t, {key: random(r, *shape)}, "")
        t.expect(weight, t.add("base", weight, random(r, *shape)) + strength * added)
    return {"scale": strength}


def ia3(r, t):
    out, inner = [size + 1 for size in sizes(r, 20, 20)]
    of_input, strength = bool(r.integers(2)), float(r.choice([1, 0.5]))
    w, bias = t.add("base", "x.weight", random(r, out, inner)), t.add("base", "x.bias", random(r, out))
    (l,) = adapted(t, {"x.ia3_l": random(r, *([1, inner] if of_input else [out, 1]))})
    factor = 1 + strength * (l - 1)
    t.expect("x.weight", w * factor)
    t.expect("x.bias", bias if of_input else bias * factor[:, 0])
    config = {"peft_type": "IA3", "feedforward_modules": ["x"] if of_input else []}
    return {"config": config, "scale": strength}


def ia3_of_lycoris(r, t):
    out, inner = sizes(r, 20, 20)
    of_input = bool(r.integers(2))
    w = t.add("base", "x.weight", random(r, out, inner))
    parts = {"weight": random(r, inner if of_input else out), "on_input": np.array(float(of_input))}
    l, _ = adapted(t, parts, "lora_unet_x.")
    t.expect("x.weight", w * (1 + 0.3 * (l if of_input else l[:, None])))
    return {"scale": 0.3}


def experts(r, t):
    experts, out, rank = sizes(r, 4, 8, 3)
    inner = out + int(r.integers(1, 9))
    is_transposed = bool(r.integers(2))
    w = t.add("base", "m.experts.gate_up_proj", random(r, experts, *([inner, out] if is_transposed else [out, inner])))
    parts = {"A.weight": random(r, rank * experts, inner), "B.weight": random(r, out, rank * experts)}
    a, b = adapted(t, parts, PEFT + "m.experts.lora_")
    change = np.einsum("ore,eri->eoi", b.reshape(out, rank, experts), a.reshape(experts, rank, inner)) * (4 / rank)
    change = change.astype(np.float32).astype(np.float64)
    t.expect("m.experts.gate_up_proj", w + (change.transpose(0, 2, 1) if is_transposed else change))
    config = {"r": rank, "lora_alpha": 4, "target_parameters": ["experts.gate_up_proj"]}
    return {"config": {"peft_type": "LORA", **config}, "scale": 1}


ADAPTERS = [lora, embedding, lora_bias, kohya, locon, dora, dora_of_lycoris, loha, loha_with_cores, lokr, diff, ia3,
            ia3_of_lycoris, experts]

kinds = {name: lambda r, t, name=name: model_case(name, r, t) for name in METHODS}
kinds |= {make.__name__: make for make in ADAPTERS}
for seed, (kind, make) in enumerate(kinds.items()):
    r, tensors, cases = np.random.default_rng([57, seed]), Tensors(), []
    for tensors.number in range(count):
        cases.append(make(r, tensors))
    tensors.write(os.path.join(folder, f"{kind}.safetensors"))
    with open(os.path.join(folder, f"{kind}.json"), "w") as file:
        json.dump(cases, file)
print(json.dumps({"methods": list(METHODS), "adapters": [make.__name__ for make in ADAPTERS]}))
