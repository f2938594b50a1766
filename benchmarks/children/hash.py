"""The SHA-256 of a file by hashlib. Arguments: METHOD FILE."""

import hashlib
import sys

with open(sys.argv[2], "rb") as file:
    print(hashlib.file_digest(file, "sha256").hexdigest())
