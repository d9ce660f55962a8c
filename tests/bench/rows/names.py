"""Names: one kind of call over and over, by one thread and by eight."""
import json
import multiprocessing
import os
import subprocess
import time

THREADS = 8
FILES = 3_000  # of a process


def by_reel_bench(program, sides, runs):
    """Rows of reel-bench meta, the sides in turn: {row: {side: [least, median, most]}}."""
    done = subprocess.run(
        [program, "meta", "--json", "--quiet", "--runs", str(runs), "--threads", str(THREADS),
         "--files", "3000", *(f"{name}={place}" for name, place in sides.items())],
        stdout=subprocess.PIPE, text=True, check=True)
    rows = {}
    for row in json.loads(done.stdout)["rows"]:
        rows[f"{row['work']}, /s"] = {
            name: [side["rate"][key] for key in ("least", "median", "most")]
            for name, side in row["sides"].items()}
    return rows


def make(directory):
    os.mkdir(directory)
    for number in range(FILES):
        path = os.path.join(directory, f"f{number}")
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def rename(directory):
    for number in range(FILES):
        os.rename(os.path.join(directory, f"f{number}"), os.path.join(directory, f"g{number}"))


def unlink(directory):
    for number in range(FILES):
        os.unlink(os.path.join(directory, f"g{number}"))


def rate(action, directories):
    workers = [multiprocessing.Process(target=action, args=(directory,))
               for directory in directories]
    began = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0, action.__name__
    return len(directories) * FILES / (time.monotonic() - began)


def of_others(place, place_of_other):
    """Renames and removals of files that another host has made (of XFS: this one)."""
    rows = {}
    for count in (1, THREADS):
        names = [f"by{count}_{number}" for number in range(count)]
        for name in names:
            make(os.path.join(place_of_other, name))
        here = [os.path.join(place, name) for name in names]
        for directory in here:
            assert len(os.listdir(directory)) == FILES
        # What another host wanted to see is delegated again after two seconds.
        time.sleep(3)  # tidy: sleep: no event says so
        for action in (rename, unlink):
            rows[f"{action.__name__} of another's, {count}, /s"] = rate(action, here)
        for directory in here:
            os.rmdir(directory)
    return rows
