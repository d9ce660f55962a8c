"""Which files that are opened to read go through the kernel's pages, and that these are never older
than what the other host has written."""
import ctypes
import mmap
import os

from cluster import until

MIB = 1 << 20
LIBC = ctypes.CDLL(None, use_errno=True)


def pages(fd, size):
    """How many pages of the file the kernel has."""
    with mmap.mmap(fd, size, flags=mmap.MAP_PRIVATE) as area:
        start = ctypes.c_char.from_buffer(area)
        present = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
        failed = LIBC.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size),
                              present)
        del start
        assert failed == 0, os.strerror(ctypes.get_errno())
        return sum(byte & 1 for byte in present)


def stream(path):
    """Opens a file and reads it whole, by large requests; the descriptor."""
    fd = os.open(path, os.O_RDONLY)
    while os.read(fd, MIB):
        pass
    return fd


def goes_through_pages(path):
    fd = stream(path)
    kept = pages(fd, os.fstat(fd).st_size)
    os.close(fd)
    return kept > 0


def test_a_stream_of_a_file_at_rest_leaves_its_pages(room):
    one, two = room
    path = os.path.join(one, "clip")
    with open(path, "wb") as file:
        file.write(b"a" * 4 * MIB)
        os.fsync(file.fileno())
    assert not goes_through_pages(path), "it may be growing"
    until(lambda: goes_through_pages(path))
    fd = stream(path)
    assert pages(fd, 4 * MIB) == 4 * MIB // mmap.PAGESIZE
    other = os.open(os.path.join(two, "clip"), os.O_RDWR)
    for number in range(20):
        os.pwrite(other, b"%09d" % number, number * 100_000)
        assert os.pread(fd, 9, number * 100_000) == b"%09d" % number
    os.ftruncate(other, MIB)
    assert os.fstat(fd).st_size == MIB and os.pread(fd, 10, MIB - 5) == b"aaaaa"
    mine = os.open(path, os.O_RDWR)  # past the pages, which fd reads
    os.pwrite(mine, b"mine", 5_000)
    assert os.pread(fd, 4, 5_000) == b"mine"
    assert os.pread(other, 4, 5_000) == b"mine"
    for each in (fd, other, mine):
        os.close(each)


def test_frames_that_are_played_go_past_the_pages(room):
    one, _ = room
    frames = [os.path.join(one, f"shot.{number:04d}.dpx") for number in range(12)]
    for frame in frames:
        with open(frame, "wb") as file:
            file.write(b"a" * 2 * MIB)
    still = os.path.join(one, "still")
    with open(still, "wb") as file:
        file.write(b"a" * 2 * MIB)
    until(lambda: goes_through_pages(still))
    played = [goes_through_pages(frame) for frame in frames]
    assert not any(played[3:])
