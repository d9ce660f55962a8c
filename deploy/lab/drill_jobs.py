"""What a drill asks controllers to do with the volume's data, and what that took: jobs, what they
have moved, and what the controllers' processes have read and written meanwhile.
"""
import json
import time

from process import LabError

ASK_SECONDS = 0.3
ORDER_SECONDS, TAKEN_SECONDS, JOB_SECONDS = 60, 120, 900
ANSWER_MS = 20_000  # of an order, which is not to be given twice
OVER = ("done", "failed", "cancelled")


def mib(size):
    return "?" if size is None else f"{size / (1 << 20):.0f} MiB"


class Traffic:
    """Bytes that the controllers' processes have read and written (/proc/PID/io: of the LUNs, but
    messages and logs are counted, too), also of those that were killed since they were looked at.
    """

    def __init__(self, mdcs):
        self.mdcs, self.before, self.now = mdcs, {}, {}
        self.look()

    def look(self):
        for mdc in self.mdcs:
            pid = mdc.process.pid()
            try:
                with open(f"/proc/{pid}/io") as file:
                    counts = dict(line.split(": ") for line in file.read().splitlines())
            except OSError:  # it does not run
                continue
            found = int(counts["rchar"]), int(counts["wchar"])
            # One that was started since has done all that it did since.
            self.before.setdefault(pid, found if not self.now else (0, 0))
            self.now[pid] = found

    def bytes(self):
        """(read, written)"""
        return [sum(self.now[pid][i] - self.before[pid][i] for pid in self.now) for i in (0, 1)]


class Orders:
    """What is asked of whichever controller is active."""

    def __init__(self, cluster):
        self.cluster = cluster

    def ask(self, *words):
        """What reeladm answers, as soon as a controller does."""
        until = time.monotonic() + ORDER_SECONDS
        while True:
            active = self.cluster.active()
            done = active.asked(*words, timeout_ms=ANSWER_MS) if active else None
            if done and done.returncode == 0:
                return json.loads(done.stdout)
            if time.monotonic() > until or (done and done.returncode in (1, 2)):
                said = done.stderr.strip() if done else "no controller is active"
                raise LabError(f"reeladm {' '.join(words)}: {said}")
            time.sleep(ASK_SECONDS)

    def can(self, command, word):
        """Whether these programs have it."""
        done = self.cluster.mdcs[0].asked("help", command)
        return done.returncode == 0 and word in done.stdout

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
        return [(extent["length_bytes"], tuple(sorted(piece["lun"] for piece in extent["pieces"])),
                 extent["pieces"][0]["offset_bytes"])
                for extent in found["extents"] if extent["pieces"]]
