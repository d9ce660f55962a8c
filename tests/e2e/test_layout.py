"""Data go straight to the LUNs: a file's bytes lie where the stripe map's arithmetic says, and the
MDC hears next to nothing while they do."""
import os
import struct

from cluster import run

BLOCK = 16384
BREADTH_BLOCKS = 256 * 1024 // BLOCK
FILE_BLOCKS = 8192  # 128 MiB
MARK = b"ReelMark"


def block_content(number):
    return struct.pack("<8sQ", MARK, number) + bytes([number % 251]) * (BLOCK - 16)


# Where a pool's blocks begin on an image: behind the reserved MiB, at a multiple of the breadth.
DATA_START = 1 << 20


def data_luns(cluster):
    """The data pool's LUN images, in the pool's order."""
    pool = next(pool for pool in cluster.reeladm("show")["pools"] if "data" in pool["flags"])
    assert pool["breadth_bytes"] == BREADTH_BLOCKS * BLOCK
    return [lun["path"] for lun in pool["luns"]]


def find_marks(paths):
    """{pool block: file block}, by reading the images at every block, by the stripe map's rule:
    with n LUNs and breadth w, block b lies in unit u = b / w, on LUN u mod n, in row u / n."""
    found = {}
    for index, path in enumerate(paths):
        with open(path, "rb", buffering=0) as image:
            end = image.seek(0, os.SEEK_END)
            offset = DATA_START
            while offset < end:
                try:  # skip what was never written
                    offset = max(offset, image.seek(offset, os.SEEK_DATA))
                except OSError:
                    break
                offset -= (offset - DATA_START) % BLOCK
                head = os.pread(image.fileno(), 16, offset)
                if head.startswith(MARK):
                    row, within = divmod((offset - DATA_START) // BLOCK, BREADTH_BLOCKS)
                    unit = row * len(paths) + index
                    found[unit * BREADTH_BLOCKS + within] = struct.unpack("<8xQ", head)[0]
                offset += BLOCK
    return found


def test_bytes_lie_where_the_stripe_map_says(cluster):
    with open(os.path.join(cluster.ws1, "marked"), "wb", buffering=0) as file:
        for number in range(0, FILE_BLOCKS, 64):
            file.write(b"".join(map(block_content, range(number, number + 64))))
        os.fsync(file.fileno())
    paths = data_luns(cluster)
    pool_block_of = {file_block: pool_block
                     for pool_block, file_block in find_marks(paths).items()}
    assert len(pool_block_of) == FILE_BLOCKS, "blocks lie off the grid, or are missing or doubled"

    # The file is a few runs of the pool's addresses; each run goes over the LUNs in turn.
    runs = [block for block in range(FILE_BLOCKS)
            if block == 0 or pool_block_of[block] != pool_block_of[block - 1] + 1]
    assert len(runs) <= 16, f"{len(runs)} runs: {runs[:20]}"

    # Read the file by arithmetic alone, from the images, in the file's order.
    images = [os.open(path, os.O_RDONLY) for path in paths]
    for block in range(FILE_BLOCKS):
        unit, within = divmod(pool_block_of[block], BREADTH_BLOCKS)
        row, lun = divmod(unit, len(paths))
        offset = DATA_START + (row * BREADTH_BLOCKS + within) * BLOCK
        assert os.pread(images[lun], BLOCK, offset) == block_content(block), f"block {block}"
    for image in images:
        os.close(image)
    share = [sum(block // BREADTH_BLOCKS % len(paths) == lun for block in pool_block_of.values())
             for lun in range(len(paths))]
    assert max(share) - min(share) <= 2 * BREADTH_BLOCKS * len(runs), f"uneven: {share}"


def wire_bytes(cluster):
    counters = cluster.counters()
    return counters["wire.bytes_in"] + counters["wire.bytes_out"]


def test_the_mdc_hears_little_of_a_large_copy(cluster):
    source = os.path.join(cluster.scratch, "movie")
    with open("/dev/urandom", "rb") as random, open(source, "wb") as file:
        seed = random.read(1 << 20)
        for number in range(1024):
            file.write(struct.pack("<Q", number) + seed[8:])
    before = wire_bytes(cluster)
    target = os.path.join(cluster.ws1, "movie")
    run("cp", source, target)
    run("sync", target)
    copied = wire_bytes(cluster)
    run("cmp", source, os.path.join(cluster.ws2, "movie"))
    read = wire_bytes(cluster)
    assert copied - before < 1 << 20, f"{copied - before} bytes for a copy of 1 GiB"
    assert read - copied < 1 << 20, f"{read - copied} bytes for reading 1 GiB"
    os.unlink(source)


def test_each_large_file_of_a_directory_lies_in_one_piece(cluster):
    """Also where others' first blocks could have been reserved behind its own."""
    os.mkdir(f"{cluster.ws1}/frames")
    names = [f"{cluster.ws1}/frames/{number:04}" for number in range(12)]
    for name in names:
        with open(name, "wb", buffering=0) as file:
            for _ in range(12):
                file.write(bytes([7]) * (1 << 20))
    for name in names[1:]:  # (who makes the first one says nothing of what they will be)
        extents = cluster.reeladm("extents", name)["extents"]
        ends = [each["pool_block"] + each["length_bytes"] // BLOCK for each in extents]
        begins = [each["pool_block"] for each in extents]
        assert begins[1:] == ends[:-1], (name, extents)
