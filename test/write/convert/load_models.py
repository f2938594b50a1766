"""Loads models that were converted, as users do, and compares them with what transformers itself saves.

usage: python load_models.py FOLDER MODEL_CONSTRUCTORS

FOLDER/NAME.bin is a state dict, FOLDER/converted/NAME the folder it was converted to, FOLDER/converted/NAME-sharded
the one of its shards. Prints one line of JSON per model and class: what was compared, and names that were missing.
"""

import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

folder = Path(sys.argv[1])
sys.path.insert(0, sys.argv[2])

from model_constructors import PRETRAINED, SIZES

transformers.logging.set_verbosity_error()


def load(cls, path):
    model, report = cls.from_pretrained(path, output_loading_info=True, dtype="auto")
    return model.state_dict(), sorted(report["missing_keys"])


for name, dtype, make in PRETRAINED:
    model = make(SIZES["tiny"]).to(dtype)
    state = torch.load(folder / f"{name}.bin", weights_only=True)
    model.load_state_dict(state)
    reference = folder / "reference" / name
    model.save_pretrained(reference)
    classes = [type(model), transformers.AutoModel]
    if name.startswith("t5"):
        classes.append(transformers.T5EncoderModel)
    for cls in classes:
        expected, missing = load(cls, reference)
        for kind in [name, f"{name}-sharded"]:
            path = folder / "converted" / kind
            model.config.save_pretrained(path)
            found, also_missing = load(cls, path)
            # What no file has is random.
            different = [
                key for key in expected
                if key not in missing and not torch.equal(expected[key], found[key])
            ]  # fmt: skip
            line = {"model": kind, "class": cls.__name__, "different": different, "compared": len(expected)}
            print(json.dumps({**line, "missing": sorted(set(also_missing) - set(missing))}))
