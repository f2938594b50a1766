"""What save.mjs does, by the reference. Arguments: METHOD SOURCE TARGET

The methods memory and memory-durable have the numpy arrays in memory before the clock starts, torch
loads the file within it. Prints 0 when it is ready, and starts its clock when standard input ends.
"""

import json
import os
import sys
import time

from memory import field

method, source, target = sys.argv[1:]
if method == "torch":
    from safetensors.torch import load_file, save_file
else:
    import ml_dtypes  # noqa: F401, lets numpy know bfloat16
    from safetensors.numpy import load_file, save_file


held = load_file(source) if method != "torch" else None
print(0, flush=True)
sys.stdin.read()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forgets the highest value so far
before = field("VmHWM")
start = time.perf_counter()
save_file(load_file(source) if held is None else held, target, {"format": "pt"})
for path in [target, os.path.dirname(target)] if method == "memory-durable" else []:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
elapsed = (time.perf_counter() - start) * 1e3
print(json.dumps({"elapsed": elapsed, "extraMemory": field("VmHWM") - before}))
