"""freeze.py PID: stops the main thread of a process and none of its others, until it ends. Exit status 2: it may not be traced."""
import ctypes
import os
import sys
import time

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207

pid = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
    if libc.ptrace(request, pid, 0, 0) != 0:
        print(os.strerror(ctypes.get_errno()))
        sys.exit(2)
print("stopped", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.waitpid(pid, os.WNOHANG)[0] == pid and not os.path.exists(f"/proc/{pid}"):
        break
    time.sleep(0.2)
