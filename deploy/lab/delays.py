#!/usr/bin/env python3
"""Stands before an iSCSI target and lets LUNs answer slowly: LUN n is reached at port FIRST + n of
ADDRESS, and the target is at PORTAL (ADDRESS:PORT).

  delays.py ADDRESS PORTAL FIRST LUNS FILE

FILE is a JSON object: LUN number → milliseconds by which each of its answers comes later; it is
read at the start and at each SIGHUP. Requests pass as they come, so a slow LUN has as much on its
way as its users let it have. What nobody slows goes from socket to socket by splice(2).
"""
import collections
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys
import threading
import time

CHUNK = 1 << 20
HELD_BYTES = 32 << 20  # of one connection; beyond it the target waits, too
delay_seconds = {}


def load(path):
    """A missing file: no delays."""
    try:
        with open(path) as file:
            wanted = {int(lun): ms / 1000 for lun, ms in json.load(file).items()}
    except FileNotFoundError:
        wanted = {}
    delay_seconds.clear()
    delay_seconds.update(wanted)


def pass_on(source, sink, delay):
    """Bytes from one socket to the other, each `delay()` seconds after it came; till one ends."""
    out_end, in_end = os.pipe()
    with contextlib.suppress(OSError):  # who is not root may have only small ones
        fcntl.fcntl(in_end, fcntl.F_SETPIPE_SZ, CHUNK)
    held, held_bytes = collections.deque(), 0  # (bytes, due)
    try:
        while True:
            wait = max(held[0][1] - time.monotonic(), 0) if held else None
            full = held_bytes >= HELD_BYTES
            if select.select([] if full else [source], [], [], wait)[0]:
                if held or delay() > 0:
                    data = source.recv(CHUNK)
                    held.append((data, time.monotonic() + delay()))
                    held_bytes += len(data)
                    size = len(data)
                else:
                    size = left = os.splice(source.fileno(), in_end, CHUNK)
                    while left > 0:
                        left -= os.splice(out_end, sink.fileno(), left)
                if size == 0:
                    return
            while held and held[0][1] <= time.monotonic():
                data = held.popleft()[0]
                held_bytes -= len(data)
                sink.sendall(data)
    except (OSError, ValueError):  # ValueError: the other direction has closed the sockets
        return
    finally:
        os.close(out_end)
        os.close(in_end)
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def connect(initiator, target, lun):
    try:
        behind = socket.create_connection(target, timeout=5)
    except OSError:
        initiator.close()
        return
    for end in (initiator, behind):
        end.settimeout(None)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answers = threading.Thread(target=pass_on, daemon=True,
                               args=(behind, initiator, lambda: delay_seconds.get(lun, 0)))
    answers.start()
    pass_on(initiator, behind, lambda: 0)
    answers.join()
    initiator.close()
    behind.close()


def serve(listener, target, lun):
    while True:
        initiator, _ = listener.accept()
        threading.Thread(target=connect, args=(initiator, target, lun), daemon=True).start()


def main():
    address, portal, first, luns, path = sys.argv[1:]
    target, port = portal.rsplit(":", 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGTERM})
    load(path)
    for lun in range(1, int(luns) + 1):
        listener = socket.create_server((address, int(first) + lun))
        threading.Thread(target=serve, args=(listener, (target, int(port)), lun),
                         daemon=True).start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
    while signal.sigwait({signal.SIGHUP, signal.SIGTERM}) == signal.SIGHUP:
        load(path)


if __name__ == "__main__":
    main()
