"""What children/save.ts does, by the reference. Arguments: METHOD SOURCE TARGET HOLDER

The methods memory and memory-durable have the numpy arrays in memory before the clock starts, numpy
and torch load the file within it.
"""

import json
import os
import re
import signal
import sys
import time

method, source, target, holder = sys.argv[1:]
if method == "torch":
    from safetensors.torch import load_file, save_file
else:
    import ml_dtypes  # noqa: F401, lets numpy know bfloat16
    from safetensors.numpy import load_file, save_file

METADATA = {"format": "pt"}


def peak():
    with open("/proc/self/status") as lines:
        return int(re.search(r"^VmHWM:\s+(\d+) kB$", lines.read(), re.M)[1]) * 1024


def reset_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return peak()


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def end_holder(pid):
    os.kill(pid, signal.SIGTERM)
    while os.path.exists(f"/proc/{pid}"):
        time.sleep(0.001)


held = load_file(source) if method.startswith("memory") else None
if holder != "-":
    end_holder(int(holder))
before = reset_peak()
start = time.perf_counter()
save_file(load_file(source) if held is None else held, target, METADATA)
if method.endswith("durable"):
    sync(target)
    sync(os.path.dirname(target))
elapsed = (time.perf_counter() - start) * 1e3
print(json.dumps({"elapsed": elapsed, "extraMemory": peak() - before}))
