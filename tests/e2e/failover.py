"""The stories of two controllers, told on image files by test_failover.py and on a real target by
test_failover_iscsi.py: who takes over, what programs see of it, and how the old one ends."""
import json
import os
import subprocess

DRILL_SECONDS = 200


KEPT = {"errors": 0, "lost": 0, "doubled": 0, "locks": "held", "fsck": "clean"}


def drill(cluster, name, seconds=DRILL_SECONDS):
    """Runs a drill of the lab: nothing may be lost or done twice, no program may see an error, and
    fsck must be content. How long it took is told and not judged: this machine may be busy."""
    done = subprocess.run([*cluster.lab_command("drill"), name, "--json", "--behind", "2"],
                          capture_output=True, text=True, timeout=seconds,
                          stdin=subprocess.DEVNULL)
    # (What is wrong stands at its top.)
    assert done.returncode in (0, 2), f"{done.stdout[:2000]}…{done.stdout[-3000:]}{done.stderr}"
    told = json.loads(done.stdout)["runs"][0]
    verdict = told["verdict"]
    assert {key: verdict[key] for key in KEPT} == KEPT, verdict["wrong"]
    print(name, {key: verdict[key] for key in ("gap_ms", "late_frames")})
    return told


def a_killed_controller_is_replaced(cluster):
    told = drill(cluster, "kill-active")
    assert told["active"]["after"] != told["active"]["before"]


def a_paused_controller_is_replaced_and_ends_when_it_wakes(cluster):
    told = drill(cluster, "pause-active")
    old = told["active"]["before"]
    assert told["active"]["after"] != old
    assert told["ended"] == [old], "it did not go on"
    log = cluster.log(old)
    assert "the seat's term is over" in log or "the seat is lost" in log


def a_handover_disturbs_no_program(cluster):
    told = drill(cluster, "fail")
    assert told["active"]["after"] != told["active"]["before"]
    assert told["ended"] == [], "the same process began anew"


def two_controllers_die_one_after_the_other(cluster, room):
    here, there = room[:2]
    for name in ("first", "second"):
        with open(os.path.join(here, name), "w") as file:
            file.write(name)
            os.fsync(file.fileno())
        old = cluster.active()
        cluster.kill(old)
        with open(os.path.join(there, name)) as file:  # waits for the standby
            assert file.read() == name
        survivor = cluster.active()  # it had waited as a standby
        said, where = active_controller(cluster, survivor), cluster.where(survivor)
        assert survivor != old and (said["role"], said["active"]) == ("active", where), said
        cluster.start(old)


def all_controllers_die_and_one_comes_back(cluster, room):
    here, there = room[:2]
    with open(os.path.join(here, "kept"), "w") as file:
        file.write("kept")
        os.fsync(file.fileno())
    standby = next(mdc for mdc in cluster.mdcs if mdc != cluster.active())
    cluster.kill(standby)
    cluster.kill(next(mdc for mdc in cluster.mdcs if mdc != standby))
    cluster.start(standby)
    assert cluster.active() == standby
    assert active_controller(cluster, standby)["active"] == cluster.where(standby)
    with open(os.path.join(there, "kept")) as file:
        assert file.read() == "kept"
    cluster.up()


def reeladm_at(cluster, mdc):
    where = cluster.where(mdc)
    tls = [part for key, path in cluster.tls_files("admin").items()
           for part in ("--" + key.replace("_", "-"), path)]

    def ask(*words):
        return cluster.tool("reeladm", "--mdc", where, "--volume", "reel", "--json", *tls, *words)

    return ask


def active_controller(cluster, mdc):
    """What this controller says of the volume."""
    return json.loads(reeladm_at(cluster, mdc)("volumes").stdout)["volumes"][0]


def a_standby_names_the_active_controller(cluster):
    hosts = cluster.hosts()
    active = cluster.active()
    standby = next(mdc for mdc in cluster.mdcs if mdc != active)
    ask = reeladm_at(cluster, standby)
    volume = active_controller(cluster, standby)
    assert volume["role"] == "standby" and volume["active"] == hosts[active]["where"]
    who = ask("who")  # which only the active one knows
    assert who.returncode == 0 and len(json.loads(who.stdout)["sessions"]) == len(cluster.clients)
