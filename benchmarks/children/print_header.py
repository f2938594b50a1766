"""Prints the header of a safetensors file as the field's snippets do. Arguments: METHOD FILE."""

import sys

with open(sys.argv[2], "rb") as file:
    length = int.from_bytes(file.read(8), "little")
    print(file.read(length).decode())
