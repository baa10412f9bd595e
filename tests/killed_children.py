"""Work in child processes that die of SIGKILL, for the drivers that disturb it."""

import os
import signal
import sys


def child(work, before=None):
    """Start work in a child; its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            if before:
                before()
            work()
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(3)
    return pid


def killed_at_rename(number):
    """Make the process kill itself at the n-th rename: just before (even) or just after it (odd)."""
    real, seen = os.replace, [0]

    def replace(a, b):
        seen[0] += 1
        if seen[0] == number // 2 + 1 and number % 2 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        real(a, b)
        if seen[0] == number // 2 + 1:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace
