"""A file that is overwritten all the time, and what lies on the LUNs of it."""
import glob
import itertools
import mmap
import os
import signal
import subprocess
import sys
import threading
import time

SIZE = 4 << 20

# Opens the file, and waits for a line; then several writes at a time, until each got an error.
WRITER = r"""
import mmap, os, sys, threading
path, byte, size, part = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), 64 << 10
fd = os.open(path, os.O_RDWR | os.O_DIRECT)
memory = mmap.mmap(-1, part)
memory[:] = byte * part
errors = []
def work(first):
    try:
        while True:
            for at in range(first * part, size, 8 * part):
                os.pwritev(fd, [memory], at)
    except OSError as error:
        errors.append(error)
print("open", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(str(errors))
"""


def open_writer(path, byte):
    """A process that will overwrite the file's SIZE bytes; the caller kills it."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, path, byte, str(SIZE)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL)
    assert process.stdout.readline() == "open\n"
    return process


def begin(process):
    process.stdin.write("go\n")
    process.stdin.flush()


# Another process that has a file of a mount open would have it in each child that it starts, whose
# exec closes it: that waits for the mount, which may be stopped.
HOLDER = r"""
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
print("open", flush=True)
for line in sys.stdin:
    word, byte, length = line.split()
    try:
        if word == "write":
            os.pwrite(fd, byte.encode() * int(length), 0)
        else:
            os.fsync(fd)
        print(0, flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


class Holder:
    """A file that a program has open; what it does with it returns 0 or an errno."""

    def __init__(self, path):
        self.process = subprocess.Popen([sys.executable, "-c", HOLDER, path], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == "open\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def write(self, byte, length):
        return self._do("write", byte, length)

    def fsync(self):
        return self._do("fsync", "-", 0)

    def _do(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


def stop(pid):
    """SIGSTOP at once; returns when the last thread stands still (on a busy host some run on until
    the one that takes the signal gets a core)."""
    os.kill(pid, signal.SIGSTOP)
    limit = time.monotonic() + 30
    while not all(_stands_still(task) for task in glob.glob(f"/proc/{pid}/task/*")):
        assert time.monotonic() < limit, f"process {pid} does not stop"
        time.sleep(0.001)  # tidy: sleep (polling)


def _stands_still(task):
    try:
        with open(f"{task}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "T"
    except FileNotFoundError:  # it has ended
        return True


def write_file(path, byte):
    with open(path, "wb", buffering=0) as file:
        file.write(byte * SIZE)
        os.fsync(file.fileno())


def read_file(path):
    """Past the page cache: what lies on the LUNs."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, SIZE)
    try:
        length = os.readv(fd, [buffer])
        return buffer[:length]
    finally:
        os.close(fd)


class FileWriters:
    """Threads that write small files over and over, each synced, until they are stopped."""

    def __init__(self, *folders):
        self.errors, self.written, self.done = [], {}, 0  # written: path → its byte
        self._count, self._stop = itertools.count(1), threading.Event()
        self._threads = [threading.Thread(target=self._write_on, args=(folder,))
                         for folder in folders]
        for thread in self._threads:
            thread.start()

    def _write_on(self, folder):
        try:
            for number in itertools.count():
                if self._stop.is_set():
                    return
                path, byte = f"{folder}/{number % 40}", bytes([number % 251])
                fd = os.open(path, os.O_RDWR | os.O_CREAT)
                os.pwrite(fd, byte * 300_000, 0)
                os.fsync(fd)
                os.close(fd)
                self.written[path] = byte
                self.done = next(self._count)
        except OSError as error:
            self.errors.append(error)

    def went_on(self, so_far):
        return self.errors or self.done > so_far + 100

    def check(self, here, there):
        """Stops them; what they wrote in the folder `here` is to be read in `there`."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert self.errors == []
        for path, byte in self.written.items():
            with open(path.replace(here, there), "rb") as file:
                assert file.read() == byte * 300_000, path
