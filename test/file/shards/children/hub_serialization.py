"""Asks huggingface_hub: hub_serialization.py split|sizes|dedupe FILE, questions and answers as JSON.

An answer that is an error is an object with its type; everything else is the plain result.
"""

import json
import sys


def answer(question, ask):
    try:
        return {"result": ask(question)}
    except Exception as error:  # whatever a question leads to is its answer
        return {"error": type(error).__name__}


def split(question):
    from huggingface_hub import split_state_dict_into_shards_factory

    tensors = {tensor["name"]: tensor.get("string", tensor) for tensor in question["tensors"]}
    found = split_state_dict_into_shards_factory(
        tensors,
        get_storage_size=lambda tensor: tensor["nbytes"],
        get_storage_id=lambda tensor: tensor.get("storage"),
        filename_pattern=question["filename_pattern"],
        max_shard_size=question["max_shard_size"],
    )
    return {
        "is_sharded": found.is_sharded,
        "filename_to_tensors": list(found.filename_to_tensors.items()),
        "tensor_to_filename": list(found.tensor_to_filename.items()),
        "metadata": found.metadata,
    }


def sizes(question):
    from huggingface_hub.serialization._base import parse_size_to_int

    return float(parse_size_to_int(question))


def dedupe(question):
    import torch
    from huggingface_hub.serialization._torch import _remove_duplicate_names

    dtypes = {"F32": torch.float32, "I32": torch.int32, "F64": torch.float64, "U8": torch.uint8}
    storages = {}
    tensors = {}
    for tensor in question["tensors"]:
        key = tensor["storage"]
        if key not in storages:
            storages[key] = torch.zeros(tensor["storage_nbytes"], dtype=torch.uint8)
        whole = torch.empty(0, dtype=dtypes[tensor["dtype"]])
        whole.set_(storages[key].untyped_storage())
        tensors[tensor["name"]] = whole.as_strided(
            tensor["shape"], tensor["stride"], tensor["storage_offset"]
        )
    return sorted(_remove_duplicate_names(tensors).items())


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        questions = json.load(file)
    print(json.dumps([answer(question, globals()[sys.argv[1]]) for question in questions]))
