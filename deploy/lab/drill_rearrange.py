"""The drill `rearrange`: all that can be done to where data lie, one after the other, under load.

A pool grows, gets LUNs, is balanced, gives LUNs back, gets one in place of another, is striped
anew, and files and free space are put together; two controllers and a client die in the middle of
it. Files that nobody writes meanwhile (and some that lie in many pieces) are summed up before the
first step and after each.

A step is told with its time, with the bytes that its job has moved, and with those that had to be
moved at least. Ideally each of these is read once and written once. A controller reads what it has
written, too: three times its moved bytes go to and from the LUNs, and what it copied in vain, since
somebody wrote there (broken moves, of 16 MiB at most each).
"""
import os
import time

from drill_jobs import Grown, Least, Orders, mib
from luns import make_image, run_program
from process import LabError

LEAST_LUN_BYTES, LEAST_LUNS = 1536 << 20, 2
STILL_SHARE, STILL_MOST = 1 / 8, 1 << 30  # of the pool's free space
PIECES_FILES, PIECES_BYTES = 4, 4 << 20
WRITER, READER, LAST = 0, 2, 3  # clients, by their place; the last one is killed
SUMS_SECONDS = 600
STANDBY_SECONDS = 0.5
SHARE_MOVED = 0.3  # of what a job has to move, when somebody is killed
BLOCK = "64K"
MOST_BREADTH = 1 << 20
JOBS = ("rebalance", "drain", "rebalance again", "lun remove", "lun replace", "restripe breadth",
        "restripe block", "defrag", "compact")


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

    def __init__(self, _name, number, room, tell):
        self.room, self.cluster, self.tell = room, room.cluster, tell
        self.spec = check(self.cluster)
        self.orders = Orders(self.cluster)
        self.pool_name, self.lun_bytes = self.spec.name, self.spec.size_bytes
        self.least = Least(room, self.orders, self.pool_name)
        self.steps, self.wrong, self.sums = [], [], {}
        self.added = ()  # LUNs
        self.kills = self._kills(number)

    def _kills(self, number):
        """Who dies in which step: with each run in others."""
        kinds = {0: self._kill_active, 3: self._kill_client, 5: self._kill_active}
        return {JOBS[(place + number) % len(JOBS)]: kill for place, kill in kinds.items()}

    # ---- before and after

    def prepare(self):
        """Files that stay as they are; and their sums."""
        free = self.orders.pool(self.pool_name)["free_bytes"]
        self.room.look(WRITER, "still", "still/plain",
                       more=(int(min(free * STILL_SHARE, STILL_MOST)),), seconds=SUMS_SECONDS)
        self._write_pieces("first")
        self._note(self._sum(READER))

    def _note(self, sums):
        self.sums = {**sums, **self.sums}
        self.room.still = [f"still/{name}" for name in self.sums]

    def _write_pieces(self, name):
        self.room.look(WRITER, "pieces", f"still/{name}", more=(PIECES_FILES, PIECES_BYTES),
                       seconds=SUMS_SECONDS)

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
        pool, (first, second) = self.pool_name, self.added
        self._job("rebalance", ["rebalance", pool], self.least.to_balance())
        self._job("drain", ["drain", "lun", first], self.least.on(first))
        self.orders.ask("lun", "up", first)
        self._job("rebalance again", ["rebalance", pool], self.least.to_balance())
        self._job("lun remove", ["lun", "remove", second], self.least.on(second))
        os.unlink(self.cluster.luns.image(second))
        self._replace()
        self._job("restripe breadth", ["restripe", pool, "breadth", self._other_breadth()],
                  self.least.all())
        self._job("restripe block", ["restripe", pool, "block", BLOCK], None)
        self._write_pieces("second")
        self._note(self._sum(WRITER))
        self._job("defrag", ["defrag"], PIECES_FILES * PIECES_BYTES)
        self._job("compact", ["compact", pool], None)

    def _other_breadth(self):
        breadth = self.orders.pool(self.pool_name)["breadth_bytes"]
        return str(2 * breadth if breadth < MOST_BREADTH else breadth // 4)

    def _grow(self):
        """By a quarter."""
        pool = self.orders.pool(self.pool_name)
        self.least.grown_from = {lun["name"]: lun["size_bytes"] for lun in pool["luns"]}
        paths = {lun["path"]: lun["size_bytes"] for lun in pool["luns"]}  # a LUN may be in two sets
        for path, size in paths.items():
            os.truncate(path, size + self.lun_bytes // 4)
        self.least.grown_bytes = self._change("lun grow", ["lun", "grow", self.pool_name])

    def _add(self):
        """Two, which together are as large as one was."""
        self.added = tuple(self._new_lun(self.lun_bytes // 2) for _ in range(2))
        self.least.added = self.added
        self.least.added_bytes = self._change(
            "lun add", ["lun", "add", self.pool_name, *map(self.cluster.luns.image, self.added)])

    def _replace(self):
        old = self.orders.pool(self.pool_name)["luns"][0]
        new = self._new_lun(old["size_bytes"])
        self._job("lun replace", ["lun", "replace", old["name"], self.cluster.luns.image(new)],
                  self.least.on(old["name"]))
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
        """Of the map: no byte has to move. How many bytes more there are."""
        began = time.monotonic()
        added = self.orders.ask(*words)["added_bytes"]
        self.orders.await_taken()
        seconds = time.monotonic() - began
        self.steps.append({"step": name, "seconds": round(seconds, 2), "added_bytes": added})
        self.tell(f"{name}: {seconds:.1f} s until all use it, {mib(added)} more")
        return added

    def _job(self, name, words, least):
        """`least`: bytes that have to be moved; None: that is not known."""
        kill = self.kills.get(name)
        broken, left = Grown(self.orders.broken_moves()), [kill] if kill else []
        began = time.monotonic()
        number = self.orders.ask(*words)["jobs"][0]["job"]
        self.tell(f"{name}: job {number} begins")

        def look(job):
            if left and job["moved_bytes"] >= SHARE_MOVED * (least or 0):
                left.pop()()
            broken.look(self.orders.broken_moves())
        job = self.orders.await_job(number, look)
        seconds = time.monotonic() - began
        broken.look(self.orders.broken_moves())
        if left:
            self.tell(f"{name} was over before somebody was killed in it")
            left.pop()()
        if job["state"] != "done":
            self.wrong.append(f"{name}: the job is {job['state']}: {job['problem']}")
        self.steps.append({"step": name, "seconds": round(seconds, 2), "state": job["state"],
                           "moved_bytes": job["moved_bytes"], "kept_bytes": job["kept_bytes"],
                           "to_move_bytes": least, "broken_moves": broken.by()})
        self.tell(f"{name}: {job['state']} after {seconds:.1f} s, {mib(job['moved_bytes'])} moved, "
                  f"{mib(least)} had to be")
        self._compare(name)

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
