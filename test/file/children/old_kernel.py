"""Runs a program as a kernel before 5.14 would: madvise does not know MADV_POPULATE_READ.

usage: old_kernel.py PROGRAM ARGUMENTS...
"""

import ctypes
import errno
import os
import platform
import struct
import sys

MADVISE = {"x86_64": 28, "aarch64": 233}[platform.machine()]
POPULATE_READ = 22
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2


def statement(code, value, if_true=0, if_false=0):
    return struct.pack("HBBI", code, if_true, if_false, value)


# struct seccomp_data: the call's number at 0, its third argument's lower half at 32.
PROGRAM = [
    statement(LOAD, 0),
    statement(JUMP_EQUAL, MADVISE, 0, 3),
    statement(LOAD, 32),
    statement(JUMP_EQUAL, POPULATE_READ, 0, 1),
    statement(RETURN, FAIL | errno.EINVAL),
    statement(RETURN, ALLOW),
]


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(b"".join(PROGRAM))
    program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(PROGRAM), ctypes.addressof(code))
    )
    for arguments in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program), 0, 0),
    ):
        if libc.prctl(*map(ctypes.c_ulong, arguments)) != 0:
            sys.exit(f"prctl failed: {os.strerror(ctypes.get_errno())}")
    os.execv(sys.argv[1], sys.argv[1:])


main()
