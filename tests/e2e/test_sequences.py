"""Sequences of frames that one host plays while another writes further ones, and rewrites those
that were read or come next: each frame holds what its writer had written by then."""
import mmap
import os
import struct
import subprocess
import threading

import pytest

CLUSTER = {"luns": "meta=1x512M,data=2x1G"}
RECORD = 4096
FRAME = 600 * RECORD  # larger than what goes through the page cache
# Of a read or write: the kernel makes one request of it, so records are never torn.
PART = 128 * RECORD
STAMP = struct.Struct("<QQ")  # a frame's number, and how often it was written before


def name_of(directory, number):
    return os.path.join(directory, f"shot.{number:06d}.dpx")


class Frames:
    """What a writer has begun and done to each frame. Threads of one process share it, so the
    reader knows what it has to see."""

    def __init__(self, directory):
        self.directory = directory
        self.begun, self.done = {}, {}
        self.wrong = []

    def write(self, number, sync=False):
        version = self.begun.get(number, -1) + 1
        self.begun[number] = version
        record = STAMP.pack(number, version).ljust(RECORD, b"%d" % (version % 10))
        fd = os.open(name_of(self.directory, number), os.O_WRONLY | os.O_CREAT, 0o644)
        data = memoryview(record * (FRAME // RECORD))
        for at in range(0, FRAME, PART):
            os.pwrite(fd, data[at:at + PART], at)
        if sync:
            os.fsync(fd)
        os.close(fd)
        self.done[number] = version

    def read(self, directory, number, flags=0):
        """Opens, reads whole and closes a frame, and checks every record of it."""
        least = self.done[number]
        fd = os.open(name_of(directory, number), os.O_RDONLY | flags)
        if flags & os.O_DIRECT:
            data = read_direct(fd)
        else:
            data = b"".join(iter(lambda: os.read(fd, PART), b""))
        os.close(fd)
        most = self.begun[number]
        if len(data) != FRAME:
            self.wrong.append(f"frame {number} has {len(data)} bytes")
        for at in range(0, len(data), RECORD):
            owner, version = STAMP.unpack_from(data, at)
            fill = data[at + STAMP.size:at + RECORD]
            if owner != number or not least <= version <= most or \
                    fill != b"%d" % (version % 10) * len(fill):
                self.wrong.append(f"frame {number} at {at}: of {owner}, version {version}, "
                                  f"not {least} to {most}")
                return


def read_direct(fd):
    buffer = mmap.mmap(-1, 1 << 20)
    parts = []
    while length := os.preadv(fd, [buffer], sum(map(len, parts))):
        parts.append(buffer[:length])
    return b"".join(parts)


def drop_caches(cluster):
    """Mounts the second client anew: it knows nothing then."""
    subprocess.run(["umount", cluster.ws2], check=True, timeout=60)
    cluster.start("ws2")


def opens(cluster):
    return cluster.counters().get("open", 0)


@pytest.mark.seconds(240)
def test_frames_that_come_next_ask_the_controller_nothing(cluster, room):
    frames = Frames(room[0])
    for number in range(48):
        frames.write(number, sync=True)
    drop_caches(cluster)
    before = opens(cluster)
    for number in range(24):
        frames.read(room[1], number)
    for number in range(47, 23, -1):
        frames.read(room[1], number, os.O_DIRECT)
    assert frames.wrong == []
    # Two before the stream is known, in each direction, and some that it came too early for.
    assert opens(cluster) - before < 24


@pytest.mark.seconds(240)
def test_a_player_beside_a_writer_sees_what_was_written(cluster, room):
    frames = Frames(room[0])
    for number in range(40):
        frames.write(number)
    stop = threading.Event()
    failures = []

    def rewrite():
        """Frames that the player comes to next, that it has read, and new ones at the end."""
        try:
            turn = 0
            while not stop.is_set():
                at = turn * 7 % 40
                frames.write(at)
                frames.write((at + 1) % 40)
                if len(frames.done) < 60 and turn % 4 == 0:
                    frames.write(len(frames.done))
                turn += 1
        except Exception as error:  # for the test's own thread to tell
            failures.append(error)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for turn in range(6):
            order = range(40) if turn % 2 == 0 else range(39, -1, -1)
            for number in order:
                frames.read(room[1], number, os.O_DIRECT if turn % 3 == 2 else 0)
    finally:
        stop.set()
        writer.join()
    assert failures == []
    assert frames.wrong == []


@pytest.mark.seconds(240)
def test_a_growing_sequence_is_played_behind_its_writer(cluster, room):
    frames = Frames(room[0])
    frames.write(0)
    writer = threading.Thread(target=lambda: [frames.write(number) for number in range(1, 60)])
    writer.start()
    try:
        for number in range(60):
            while number not in frames.done:
                # As a player polls for the next frame; also one that is being written.
                os.path.exists(name_of(room[1], number))
                stop_early = not writer.is_alive() and number not in frames.done
                assert not stop_early
            frames.read(room[1], number)
    finally:
        writer.join()
    assert frames.wrong == []
