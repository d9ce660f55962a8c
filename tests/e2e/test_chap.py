"""A target that asks for a secret, which stands in the LUNs' URLs: all find the LUNs, and none
tells it."""
import os

from cluster import until

CLUSTER = {"lun_backend": "iscsi", "chap": True, "portals": 2, "mdcs": 2, "seat_ms": 5000,
           "luns": "meta=1x1G,data=2x512M"}
SECRET = "a-secret-of-the-lab"


def test_a_standby_takes_over_and_the_secret_is_told_nowhere(cluster):
    with open(f"{cluster.ws1}/file", "wb") as file:
        file.write(b"reel" * 100_000)
    old = cluster.active()
    cluster.kill(old)
    until(lambda: cluster.hosts()[next(mdc for mdc in cluster.mdcs if mdc != old)]["role"] ==
          "active")
    with open(f"{cluster.ws2}/file", "rb") as file:
        assert file.read() == b"reel" * 100_000
    cluster.start(old)
    assert all("iscsi://studio%***@" in lun["path"] for pool in cluster.reeladm("show")["pools"]
               for lun in pool["luns"])
    told = [line for host in (*cluster.mdcs, *cluster.clients)
            for line in cluster.log(host).split("\n") if not line.startswith("--- lab: ")]
    told += [str(cluster.reeladm(verb)) for verb in ("show", "disks", "reservations")]
    assert not any(SECRET in text for text in told)


def test_an_evicted_host_gets_new_keys(cluster):
    """The fence goes by paths of the controller's own."""
    session = cluster.session_of("ws1")
    cluster.reeladm("evict", str(session))
    until(lambda: cluster.session_of("ws1") not in (None, session))
    with open(f"{cluster.ws1}/after", "wb") as file:
        file.write(b"reel")
        os.fsync(file.fileno())


def test_a_portal_that_no_path_goes_by_is_missed(cluster):
    """Its look goes by the secret, too."""
    where = cluster.hosts()["portal2"]["where"]
    cluster.kill("portal2")
    until(lambda: any(f"portal {where}: does not answer" in alarm
                      for alarm in cluster.alarms()))
    cluster.start("portal2")
    until(lambda: not any(where in alarm for alarm in cluster.alarms()))
