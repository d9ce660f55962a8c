"""What test_quota_limits.py runs on a mount: VERB DIRECTORY NAME USER GROUP ARGUMENT...

Each begins when it reads a line, ends with one line of JSON, and holds its files open until its
standard input ends. Times are of CLOCK_MONOTONIC, which all processes of this machine share.
"""
import errno
import json
import os
import random
import select
import sys
import time

BLOCK = 16 << 10
SMALL = 4 << 10  # bytes of a file that has no block: mkfs.reelfs's small_file_bytes


def blocks_of(size):
    """What a file of so many bytes has."""
    return -(-size // BLOCK) if size > SMALL else 0


def tell(**what):
    print(json.dumps(what), flush=True)


def until_refused(step, **what):
    """Does it until it gets EDQUOT; `grown` says how much it has had of each step, by when that
    began: what it has at the controller may be more than what it knows of."""
    grown, total = [], 0
    sys.stdin.readline()
    try:
        while True:
            began, before = time.monotonic(), total
            total = step(before)
            if total != before:
                grown.append((began, total))
    except OSError as error:
        tell(error=errno.errorcode[error.errno], at=time.monotonic(), grown=grown, total=total,
             **what)
    sys.stdin.readline()


def write(directory, name, piece, fsync_every, append):
    """Writes `piece` bytes at a time; grows by blocks."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if int(append) else 0)
    data, turns, written = b"x" * int(piece), 0, 0
    file = os.open(f"{directory}/{name}", flags, 0o644)

    def step(_):
        nonlocal turns, written
        written += os.write(file, data)
        turns += 1
        if int(fsync_every) and turns % int(fsync_every) == 0:
            os.fsync(file)
        return blocks_of(written)

    until_refused(step, asked=-(-len(data) // BLOCK))
    os.close(file)


def stay_open(directory, name, size):
    """Writes a file in one go, and keeps it open."""
    sys.stdin.readline()
    with open(f"{directory}/{name}", "wb", buffering=0) as file:
        for _ in range(int(size) >> 16):
            file.write(bytes(1 << 16))
        os.fsync(file.fileno())
        tell(size=os.fstat(file.fileno()).st_size)
        sys.stdin.readline()


def create(directory, name):
    """Makes empty files; grows by one each."""
    def step(made):
        os.close(os.open(f"{directory}/{name}.{made}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        return made + 1

    until_refused(step, asked=1)


def fill(directory, name, count):
    """So many files in directories of a thousand; one of 16 has a block, one of 256 has nine."""
    sys.stdin.readline()
    for number in range(int(count)):
        inside = f"{directory}/{name}.{number // 1000}"
        if number % 1000 == 0:
            os.mkdir(inside)
        file = os.open(f"{inside}/{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        if number % 16 == 0:
            os.write(file, b"x" * (140_000 if number % 256 == 0 else 1))
        os.close(file)
    tell(made=int(count))


def churn(directory, name, seed):
    """Makes, grows, cuts and removes files, old and new, until its standard input ends."""
    chance, times, alive = random.Random(int(seed)), [], sorted(os.listdir(directory))
    sys.stdin.readline()
    while not select.select([sys.stdin], [], [], 0)[0]:
        path = f"{directory}/{chance.choice(alive)}"
        what = chance.randrange(4)
        if what == 0:
            path = f"{directory}/{name}.{len(times)}"
            alive.append(os.path.basename(path))
            with open(path, "wb") as file:
                file.write(b"x" * chance.randrange(100_000))
        elif what == 1 and len(alive) > 1:
            alive.remove(os.path.basename(path))
            os.unlink(path)
        elif what == 2:
            with open(path, "ab") as file:
                file.write(b"x" * chance.randrange(300_000))
        else:
            os.truncate(path, chance.randrange(200_000))
        times.append(time.monotonic())
    tell(times=times)


def main(verb, directory, name, user, group, *arguments):
    os.setgroups([])
    os.setgid(int(group))
    os.setuid(int(user))
    tell(ready=True)
    verbs = {"write": write, "stay-open": stay_open, "create": create, "fill": fill, "churn": churn}
    verbs[verb](directory, name, *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
