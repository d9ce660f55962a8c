"""Scrub: the metadata are checked while programs change them."""
import contextlib
import os
import threading

from cluster import until

CLUSTER = {"mdcs": 2, "seat_ms": 1500, "luns": "meta=1x1G,data=2x1G"}


def scrub(cluster, *words):
    return cluster.reeladm("scrub", *words)


def refused(cluster, *words):
    done = cluster.ask(",".join(cluster.where(mdc) for mdc in cluster.mdcs), *words)
    assert done.returncode == 1, (done.stdout, done.stderr)
    return done.stderr


def finish(cluster):
    until(lambda: scrub(cluster)["state"] not in ("running", "paused"))
    return scrub(cluster)


class Changer(threading.Thread):
    """Makes, writes, renames and removes files; stops at the first error."""

    def __init__(self, directory):
        super().__init__()
        self.directory, self.over, self.rounds, self.problem = directory, False, 0, None

    def run(self):
        try:
            while not self.over:
                self.round()
                self.rounds += 1
        except OSError as error:
            self.problem = error

    def round(self):
        here = os.path.join(self.directory, f"d{self.rounds % 7}")
        os.makedirs(here, exist_ok=True)
        for number in range(20):
            with open(f"{here}/f{number}", "ab") as file:
                file.write(b"x" * 5000 * (1 + number % 3))
            os.setxattr(f"{here}/f{number}", "user.a", str(number).encode())
        for number in range(0, 20, 2):
            os.rename(f"{here}/f{number}", f"{here}/g{number}")
            os.unlink(f"{here}/g{number}")
        if self.rounds % 3 == 2:
            for number in range(1, 20, 2):
                os.truncate(f"{here}/f{number}", 100)
                os.unlink(f"{here}/f{number}")


@contextlib.contextmanager
def changing(*directories):
    changers = [Changer(directory) for directory in directories]
    for changer in changers:
        changer.start()
    yield changers
    for changer in changers:
        changer.over = True
        changer.join()
        assert changer.problem is None and changer.rounds > 0


def test_nothing_is_wrong_with_a_busy_volume(cluster, room):
    os.makedirs(f"{room[0]}/one")
    os.makedirs(f"{room[1]}/two")
    with changing(f"{room[0]}/one", f"{room[1]}/two") as changers:
        for _ in range(4):
            before = changers[0].rounds
            assert scrub(cluster, "start")["state"] in ("running", "done")
            done = finish(cluster)
            assert done["state"] == "done", done
            assert done["found"]["problem_count"] == 0, done["found"]["problems"]
            until(lambda since=before: changers[0].rounds > since)
    assert done["found"]["files"] > 0 and sum(done["found"]["files_by_pieces"]) > 0
    assert not [alarm for alarm in cluster.alarms() if "scrub" in alarm]
    kinds = {job["job"]: job["kind"] for job in cluster.reeladm("jobs")["jobs"]}
    assert kinds[done["job"]] == "scrub"


def test_it_is_paused_resumed_and_cancelled(cluster, room):
    for number in range(200):
        with open(f"{room[0]}/file{number}", "w") as file:
            file.write("x")
    os.sync()
    assert scrub(cluster, "start", "rate", "20")["state"] == "running"
    assert "is a scrub of this volume already" in refused(cluster, "scrub", "start")
    assert scrub(cluster, "pause")["state"] == "paused"
    assert scrub(cluster, "resume")["state"] == "running"
    # One beside it that moves data does not wait for it.
    number = cluster.reeladm("defrag")["jobs"][0]["job"]
    until(lambda: {job["job"]: job["state"] for job in cluster.reeladm("jobs")["jobs"]}[number]
          == "done")
    assert scrub(cluster)["state"] == "running"
    assert scrub(cluster, "cancel")["state"] == "cancelled"
    assert "is not being scrubbed" in refused(cluster, "scrub", "cancel")


def test_the_next_controller_begins_it_anew(cluster, room):
    for number in range(200):
        with open(f"{room[0]}/file{number}", "w") as file:
            file.write("x")
    os.sync()
    started = scrub(cluster, "start", "rate", "20")
    assert started["state"] == "running"
    active = cluster.active()
    cluster.kill(active)
    until(lambda: any(host.get("role") == "active" for name, host in cluster.hosts().items()
                      if name != active))
    again = scrub(cluster)
    assert (again["job"], again["state"]) == (started["job"], "running")
    scrub(cluster, "cancel")
    scrub(cluster, "start")
    assert finish(cluster)["found"]["problem_count"] == 0
    cluster.start(active)
