"""The drill `rearrange`: all that can be done to where data lie, one after the other, under load.

A pool grows, gets LUNs, is balanced, gives LUNs back, gets one in place of another, is striped
anew, and files and free space are put together; two controllers and a client die in the middle of
it. Files that nobody writes meanwhile (and some that lie in many pieces) are summed up before the
first step and after each.
"""
import os
import time

from drill_jobs import Orders, Traffic, mib
from luns import make_image, run_program
from process import LabError

LEAST_LUN_BYTES, LEAST_LUNS = 1536 << 20, 2
STILL_SHARE, STILL_MOST = 1 / 8, 1 << 30  # of the pool's free space
PIECES_FILES, PIECES_BYTES = 4, 4 << 20
WRITER, READER, LAST = 0, 2, 3  # clients, by their place; the last one is killed
SUMS_SECONDS = 600
STANDBY_SECONDS = 0.5
SHARE_MOVED = 0.3  # of what a job has to move, when somebody is killed
BLOCK_BYTES = 64 << 10


def check(cluster):
    """The pool that is rearranged. Says at once where a cluster has none."""
    if cluster.targets:
        raise LabError("this drill needs LUNs that are image files: it makes some and removes some")
    found = [pool for pool in cluster.spec.pools
             if pool.flags == ["data"] and not pool.affinities and pool.luns >= LEAST_LUNS
             and pool.size_bytes >= LEAST_LUN_BYTES]
    if not found:
        raise LabError(f"this drill needs a pool for data alone with {LEAST_LUNS} LUNs of "
                       f"{mib(LEAST_LUN_BYTES)} at least (lab up --luns meta=1x1G,data=4x2G): "
                       "metadata cannot be moved")
    return found[0]


class Rearrange:
    """One run of it, in a room (drill_room.py). `steps`: what each took; `wrong`: lines for people.
    """
    databases = (0, LAST)

    def __init__(self, _name, room, tell):
        self.room, self.cluster, self.tell = room, room.cluster, tell
        self.spec = check(self.cluster)
        self.orders = Orders(self.cluster)
        self.pool_name, self.lun_bytes = self.spec.name, self.spec.size_bytes
        self.steps, self.wrong, self.sums = [], [], {}
        self.added, self.grown_from = (), None  # LUNs; where those that have grown ended before

    # ---- before and after

    def prepare(self):
        """Files that stay as they are; and their sums."""
        free = self.orders.pool(self.pool_name)["free_bytes"]
        self.room.look(WRITER, "still", "still/plain",
                       more=(int(min(free * STILL_SHARE, STILL_MOST)),), seconds=SUMS_SECONDS)
        self._write_pieces("first")
        self.sums = self._sum(READER)

    def _write_pieces(self, name):
        """How many bytes lie in pieces then."""
        self.room.look(WRITER, "pieces", f"still/{name}", more=(PIECES_FILES, PIECES_BYTES),
                       seconds=SUMS_SECONDS)
        return PIECES_FILES * PIECES_BYTES

    def _sum(self, host):
        return self.room.look(host, "sums", "still", seconds=SUMS_SECONDS)

    def look_again(self):
        """When all hosts run: from one that has been started anew."""
        self._compare("at the end", LAST)

    def _compare(self, after, host=READER):
        """Are they as they were?"""
        found = self._sum(host)
        self.wrong += [f"{after}: {name} is not as it was written" for name in sorted(self.sums)
                       if found.get(name) != self.sums[name]]

    # ---- steps

    def strike(self, active):
        self.tell(f"pool {self.pool_name} is rearranged, {active.name} is active")
        self._grow()
        self._add()
        self._job("rebalance", ["rebalance", self.pool_name], self._uneven(), self._kill_active)
        first, second = self.added
        self._job("lun remove", ["lun", "remove", second], self._on(second), self._kill_client)
        os.unlink(self.cluster.luns.image(second))
        self._job("drain", ["drain", "lun", first], self._on(first))
        self.orders.ask("lun", "up", first)
        self._replace()
        breadth = self.orders.pool(self.pool_name)["breadth_bytes"]
        wider = f"{2 * breadth >> 10}K"
        self._job(f"restripe breadth {wider}",
                  ["restripe", self.pool_name, "breadth", wider], self._used(), self._kill_active)
        if self.orders.can("restripe", "block"):
            self._job("restripe block", ["restripe", self.pool_name, "block",
                                         f"{BLOCK_BYTES >> 10}K"], None)
        in_pieces = self._write_pieces("second")
        self.sums = {**self._sum(WRITER), **self.sums}
        self._job("defrag", ["defrag"], in_pieces)
        if self.orders.can("compact", "compact"):
            self._job("compact", ["compact", self.pool_name], None)

    def _grow(self):
        """By a quarter."""
        pool = self.orders.pool(self.pool_name)
        self.grown_from = min(lun["size_bytes"] for lun in pool["luns"])
        for lun in pool["luns"]:
            os.truncate(lun["path"], lun["size_bytes"] + self.lun_bytes // 4)
        self._change("lun grow", ["lun", "grow", self.pool_name])

    def _add(self):
        """Two, which together are as large as one was."""
        self.added = tuple(self._new_lun(self.lun_bytes // 2) for _ in range(2))
        self._change("lun add", ["lun", "add", self.pool_name, *map(self.cluster.luns.image,
                                                                    self.added)])

    def _replace(self):
        old = self.orders.pool(self.pool_name)["luns"][0]
        new = self._new_lun(old["size_bytes"])
        self._job("lun replace", ["lun", "replace", old["name"], self.cluster.luns.image(new)],
                  self._on(old["name"]))
        os.unlink(old["path"])

    def _new_lun(self, size):
        luns = self.cluster.luns
        number = 1
        while os.path.exists(luns.image(name := f"{self.pool_name}{number}")) or \
                number <= self.spec.luns:
            number += 1
        make_image(luns.image(name), size, self.cluster.spec.allocated)
        run_program([self.cluster.spec.program("reel-label"), "write", name, luns.image(name)])
        return name

    def _change(self, name, words):
        """Of the map: no byte has to move."""
        began = time.monotonic()
        added = self.orders.ask(*words)["added_bytes"]
        self.orders.await_taken()
        seconds = time.monotonic() - began
        self.steps.append({"step": name, "seconds": round(seconds, 2), "added_bytes": added})
        self.tell(f"{name}: {seconds:.1f} s until all use it, {mib(added)} more")

    def _job(self, name, words, least, kill=None):
        """`least`: bytes that have to be moved; None: that is not known."""
        traffic, left = Traffic(self.cluster.mdcs), [kill] if kill else []
        began = time.monotonic()
        number = self.orders.ask(*words)["jobs"][0]["job"]
        self.tell(f"{name}: job {number} begins")

        def look(job):
            traffic.look()
            if left and job["moved_bytes"] >= SHARE_MOVED * (least or 0):
                left.pop()()
        job = self.orders.await_job(number, look)
        seconds = time.monotonic() - began
        traffic.look()
        if left:
            self.tell(f"{name} was over before somebody was killed in it")
            left.pop()()
        if job["state"] != "done":
            self.wrong.append(f"{name}: the job is {job['state']}: {job['problem']}")
        read, written = traffic.bytes()
        self.steps.append({"step": name, "seconds": round(seconds, 2), "state": job["state"],
                           "moved_bytes": job["moved_bytes"], "kept_bytes": job["kept_bytes"],
                           "least_bytes": least, "read_bytes": read, "written_bytes": written})
        self.tell(f"{name}: {job['state']} after {seconds:.1f} s, {mib(job['moved_bytes'])} moved "
                  f"of {mib(least)} at least; controllers have read {mib(read)} and written "
                  f"{mib(written)}")
        self._compare(name)

    # ---- what has to move at least

    def _files(self):
        names = [f"still/{name}" for name in self.sums]
        names += [os.path.basename(load.path) for load in self.room.loads + self.room.lost
                  if load.what in ("stream", "append", "database")]
        return sorted({f"/{self.room.name}/{name}" for name in names})

    def _places(self):
        return [place for path in self._files() for place in self.orders.places(path)]

    def _used(self):
        return sum(length for length, _, _ in self._places())

    def _on(self, lun):
        """Bytes on the stripe sets that it is in."""
        return sum(length for length, luns, _ in self._places() if lun in luns)

    def _uneven(self):
        """What the stripe sets have above their share: of those that were there, what they have
        grown by, and what was added."""
        sizes = {step["step"]: step["added_bytes"] for step in self.steps}
        total = self.orders.pool(self.pool_name)["total_bytes"]
        sizes["before"] = total - sum(sizes.values())
        used = dict.fromkeys(sizes, 0)
        for length, luns, place in self._places():
            which = ("lun add" if set(luns) & set(self.added) else
                     "lun grow" if place >= self.grown_from else "before")
            used[which] += length
        mean = sum(used.values()) / total
        return round(sum(max(used[which] - mean * sizes[which], 0) for which in sizes))

    # ---- who dies

    def _kill_active(self):
        old = self.cluster.await_active()
        self.tell(f"{old.name}, which is active, is killed")
        old.kill("KILL")
        new = self.cluster.await_active(lambda mdc: mdc is not old, pause=STANDBY_SECONDS)
        self.tell(f"{new.name} says that it is active; {old.name} is started again")
        old.start()
        self.cluster.await_role(old, "standby", pause=STANDBY_SECONDS)

    def _kill_client(self):
        client = self.room.client(LAST)
        self.tell(f"{client.name} is killed")
        client.kill("KILL")
        self.room.lose({client.name: None})
