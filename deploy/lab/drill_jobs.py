"""What a drill asks controllers to do with the volume's data, and how far they are with it."""
import json
import time

from process import LabError

ASK_SECONDS = 0.2
ORDER_SECONDS, TAKEN_SECONDS, JOB_SECONDS = 60, 120, 900
ANSWER_MS = 20_000  # of an order, which is not to be given twice
UNREACHED = 3  # reeladm's exit status: no controller answers
OVER = ("done", "failed", "cancelled")


def mib(size):
    return "?" if size is None else f"{size / (1 << 20):.0f} MiB"


class Grown:
    """Counts that begin anew with each life of somebody, and by how much they have grown."""

    def __init__(self, counts):
        self.before, self.now = counts, dict(counts)

    def look(self, counts):
        self.now.update(counts)

    def by(self):
        return sum(count - self.before.get(life, 0) for life, count in self.now.items())


class Orders:
    """What is asked of whichever controller is active."""

    def __init__(self, cluster):
        self.cluster = cluster

    def ask(self, *words):
        """What reeladm answers, as soon as a controller does."""
        until = time.monotonic() + ORDER_SECONDS
        while True:
            done = self.cluster.reeladm(self.cluster.mdcs, ANSWER_MS, *words)
            if done.returncode == 0:
                return json.loads(done.stdout)
            if done.returncode != UNREACHED or time.monotonic() > until:
                raise LabError(f"reeladm {' '.join(words)}: {done.stderr.strip()}")
            time.sleep(ASK_SECONDS)

    def pool(self, name):
        return next(pool for pool in self.ask("show")["pools"] if pool["name"] == name)

    def await_taken(self):
        """All clients know the map, and what was added is used."""
        until = time.monotonic() + TAKEN_SECONDS
        while notes := [note for note in self.ask("show")["notes"]
                        if "is used when all clients" in note]:
            if time.monotonic() > until:
                raise LabError(notes[0])
            time.sleep(ASK_SECONDS)

    def job(self, number):
        return next(job for job in self.ask("jobs")["jobs"] if job["job"] == number)

    def await_job(self, number, look):
        """The job as it ended; meanwhile look(job) now and then."""
        until = time.monotonic() + JOB_SECONDS
        while (job := self.job(number))["state"] not in OVER:
            look(job)
            if time.monotonic() > until:
                raise LabError(f"job {number} ({job['kind']} of {job['of']}) has not ended: {job}")
            time.sleep(ASK_SECONDS)
        return job

    def places(self, path):
        """Where a file's bytes lie: (length, names of LUNs, place on the first of them). `path`:
        from the volume's root."""
        found = self.ask("extents", path)
        return [(extent["length_bytes"], tuple(piece["lun"] for piece in extent["pieces"]),
                 extent["pieces"][0]["offset_bytes"])
                for extent in found["extents"] if extent["pieces"]]

    def broken_moves(self):
        """What came to nothing since somebody wrote there, of the life of the controller that is
        active: {life: count}."""
        said = self.ask("stat", "job.broken_moves")
        return {said["epoch"]: int(said["counters"][0]["value"])}


class Least:
    """How many bytes of a room's files have to be moved at least, as they lie now.

    `grown_from`: where LUNs that have grown ended before, by name; `grown_bytes`: what the pool got
    by that; `added`: LUNs that came, with `added_bytes`.
    """

    def __init__(self, room, orders, pool_name):
        self.room, self.orders, self.pool_name = room, orders, pool_name
        self.grown_from, self.added = {}, ()
        self.grown_bytes = self.added_bytes = 0

    def _places(self):
        """Of files that hold any data to speak of."""
        files = self.room.still + [load.path.split(f"/{self.room.name}/")[1]
                                   for load in self.room.loads + self.room.lost
                                   if load.what in ("stream", "append", "database")]
        return [place for file in sorted(set(files))
                for place in self.orders.places(f"/{self.room.name}/{file}")]

    def all(self):
        return sum(length for length, _, _ in self._places())

    def on(self, lun):
        """What lies on the stripe sets that it is in."""
        return sum(length for length, luns, _ in self._places() if lun in luns)

    def to_balance(self):
        """What the stripe sets have above their share: of those that were there, what they have
        grown by, and what was added."""
        total = self.orders.pool(self.pool_name)["total_bytes"]
        before = total - self.grown_bytes - self.added_bytes
        sizes = {"before": before, "grown": self.grown_bytes, "added": self.added_bytes}
        return uneven_bytes(sizes, self._by_age())

    def _by_age(self):
        used = {"before": 0, "grown": 0, "added": 0}
        for length, luns, place in self._places():
            used["added" if set(luns) & set(self.added) else
                 "grown" if place >= self.grown_from[luns[0]] else "before"] += length
        return used


def uneven_bytes(sizes, used):
    """What lies above the mean, where each part has that size and so much is used of it."""
    mean = sum(used.values()) / sum(sizes.values())
    return round(sum(max(used[part] - mean * sizes[part], 0) for part in sizes))
