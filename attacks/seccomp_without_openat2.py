"""Runs a command as if the kernel had no openat2, as in a container with an older seccomp profile.

    python3 seccomp_without_openat2.py ENOSYS|EPERM COMMAND [ARGUMENT…]
"""

import ctypes
import errno
import os
import struct
import sys

OPENAT2 = 437  # the same on every architecture
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
RET_ALLOW, RET_ERRNO = 0x7FFF0000, 0x00050000


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def refuse_openat2(error: int) -> None:
    """From now on, for this process and what it executes."""
    instructions = ((LOAD_NUMBER, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, OPENAT2), (RETURN, 0, 0, RET_ERRNO | error),
                    (RETURN, 0, 0, RET_ALLOW))
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(len(instructions), code)), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")


if __name__ == "__main__":
    refuse_openat2(getattr(errno, sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
