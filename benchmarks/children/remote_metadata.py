"""The metadata of a repository by Python's library. Arguments: - URL, and others that it ignores"""

import json
import os
import sys
import tempfile
import time
from urllib.parse import urlsplit

url = urlsplit(sys.argv[2])
folder = tempfile.TemporaryDirectory()
os.environ["HF_ENDPOINT"] = f"{url.scheme}://{url.netloc}"
os.environ["HF_HOME"] = folder.name
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

from huggingface_hub import get_safetensors_metadata  # noqa: E402, reads its environment at import

start = time.perf_counter()
metadata = get_safetensors_metadata(url.path[1:])
elapsed = (time.perf_counter() - start) * 1e3
seen = sum(len(file.tensors) for file in metadata.files_metadata.values())
print(json.dumps({"elapsed": elapsed, "seen": seen}))
