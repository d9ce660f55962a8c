"""guard.py LAB BASE HOST…: watches over one cluster in BASE/cluster on behalf of a test process.

Each line on its input is a number of seconds within which the next must come, or "off"; when the
time is over, all daemons are killed, which frees whoever hangs in a mount. At the end of the input
(the test process is done, or dead) the cluster is taken down and BASE removed.
"""
import os
import select
import shutil
import signal
import subprocess
import sys


def main():
    lab, base, *hosts = sys.argv[1:]
    cluster = os.path.join(base, "cluster")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests; we tidy up after them
    seconds, pending = None, b""
    while True:
        if not select.select([0], [], [], seconds)[0]:
            print(f"guard: a test hung for {seconds} s; killing its daemons", file=sys.stderr)
            for host in hosts:
                subprocess.run([lab, "logs", "--dir", cluster, host, "--lines", "20"])
                subprocess.run([lab, "kill", "--dir", cluster, host])
            seconds = None
            continue
        received = os.read(0, 4096)
        if not received:
            break
        pending += received
        *lines, pending = pending.split(b"\n")
        if lines:
            seconds = None if lines[-1] == b"off" else float(lines[-1])
    status = subprocess.run([lab, "down", "--dir", cluster]).returncode
    if status == 0:
        shutil.rmtree(base, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
