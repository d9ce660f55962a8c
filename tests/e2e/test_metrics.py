"""What Prometheus gets from the controllers: who sees it, and that the numbers are those of the
cluster."""
import contextlib
import os
import re
import ssl
import subprocess
import urllib.error
import urllib.request

from cluster import until

CLUSTER = {"tls": True, "web": True, "mdcs": 2, "clients": 2}
LINE = re.compile(r'^(reelfs_[a-z_]+)({.*})? (\S+)$')


def webs(cluster, kind="mdc"):
    return {name: host["web"] for name, host in cluster.hosts().items() if host["kind"] == kind}


def reeladm_pki(cluster, verb, *arguments):
    done = cluster.tool("reeladm", "pki", verb, os.path.join(cluster.dir, "pki"), *arguments)
    assert done.returncode == 0, done.stderr


def certificate(cluster, name):
    pki = os.path.join(cluster.dir, "pki")
    return os.path.join(pki, f"{name}.crt"), os.path.join(pki, f"{name}.key")


def context_of(cluster, name=None):
    context = ssl.create_default_context(cafile=os.path.join(cluster.dir, "pki", "ca.crt"))
    if name:
        context.load_cert_chain(*certificate(cluster, name))
    return context


def page(address, context, path="/metrics"):
    with urllib.request.urlopen(f"https://{address}{path}", context=context, timeout=30) as answer:
        return answer.read().decode()


def refused(address, context, path="/metrics"):
    try:
        page(address, context, path)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    return None


def numbers(text):
    """By name and labels, as they stand there."""
    return {(match[1], match[2] or ""): float(match[3])
            for match in map(LINE.match, text.splitlines()) if match}


def scrape(cluster, host):
    return numbers(page(cluster.hosts()[host]["web"], context_of(cluster, "admin")))


def active_and_standby(cluster):
    roles = {name: host["role"] for name, host in cluster.hosts().items() if "role" in host}
    return sorted(roles, key=lambda name: roles[name] != "active")


def value(found, name, labels='{volume="reel"}'):
    return found[(name, labels)]


def test_only_who_may_see_them_does(cluster):
    address = next(iter(webs(cluster).values()))
    pki = os.path.join(cluster.dir, "pki")
    reeladm_pki(cluster, "issue", "--name", "prometheus", "--role", "monitor")
    for name in ("prometheus", "admin"):
        assert "reelfs_build_info" in page(address, context_of(cluster, name))
    code, why = refused(address, context_of(cluster))
    assert code == 403 and "none was shown" in why
    code, why = refused(address, context_of(cluster, "ws1"))
    assert code == 403 and "monitor or admin" in why
    assert refused(address, context_of(cluster, "admin"), "/etc/passwd")[0] == 404
    # One that may read metrics administers nothing.
    crt, key = certificate(cluster, "prometheus")
    done = cluster.tool("reeladm", "--mdc", cluster.hosts()["mdc1"]["where"], "--volume", "reel",
                        "--tls-ca", os.path.join(pki, "ca.crt"), "--tls-cert", crt, "--tls-key",
                        key, "show")
    assert done.returncode != 0 and "monitor" in done.stderr


def test_a_revoked_certificate_sees_nothing(cluster):
    address = next(iter(webs(cluster).values()))
    reeladm_pki(cluster, "issue", "--name", "former", "--role", "monitor")
    former = context_of(cluster, "former")
    assert "reelfs_build_info" in page(address, former)
    reeladm_pki(cluster, "revoke", "former")
    until(lambda: refused(address, former))
    assert refused(address, former)[0] == 403


def test_promtool_accepts_them(cluster):
    for address in [*webs(cluster).values(), *webs(cluster, "client").values()]:
        done = subprocess.run(["promtool", "check", "metrics"], capture_output=True, text=True,
                              input=page(address, context_of(cluster, "admin")), timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_numbers_are_the_clusters(cluster, room):
    active, standby = active_and_standby(cluster)
    before = scrape(cluster, active)
    for number in range(50):
        with open(os.path.join(room[0], f"file{number}"), "wb") as file:
            file.write(b"x" * 100_000)
            os.fsync(file.fileno())
    after = scrape(cluster, active)
    creates = '{volume="reel",operation="create"}'
    name = "reelfs_operations_total"
    assert after[(name, creates)] - before.get((name, creates), 0) == 50
    times = "reelfs_request_duration_seconds_count"
    assert after[(times, creates)] == after[(name, creates)]
    assert value(after, "reelfs_sessions") == 2
    assert value(after, "reelfs_controller_active") == 1
    assert value(after, "reelfs_controller_answered") == 1
    assert after[("reelfs_alarms", '{volume="reel",kind="slow_beat"}')] == 0
    pool = cluster.reeladm("show")["pools"][0]
    assert after[("reelfs_pool_size_bytes", f'{{volume="reel",pool="{pool["name"]}"}}')] > 0
    waiting = scrape(cluster, standby)
    assert value(waiting, "reelfs_controller_active") == 0
    assert value(waiting, "reelfs_controller_epoch") == value(after, "reelfs_controller_epoch")
    assert not [key for key in waiting if key[0] == "reelfs_sessions"]


def test_a_mount_tells_of_itself(cluster, room):
    address = webs(cluster, "client")["ws1"]
    reeladm_pki(cluster, "issue", "--name", "watcher", "--role", "monitor")
    assert refused(address, context_of(cluster))[0] == 403
    assert refused(address, context_of(cluster, "ws2"))[0] == 403
    assert "reelfs_mount_connected" in page(address, context_of(cluster, "watcher"))

    mount = f'volume="reel",mount_point="{cluster.hosts()["ws1"]["where"]}"'
    before = scrape(cluster, "ws1")
    with open(os.path.join(room[0], "clip"), "wb") as file:
        file.write(b"x" * 3_000_000)
        os.fsync(file.fileno())
        with contextlib.suppress(OSError):
            os.getxattr(file.fileno(), "user.nothing")
    after = scrape(cluster, "ws1")

    def more(name, labels=""):
        key = name, f"{{{mount}{labels}}}"
        return after[key] - before.get(key, 0)

    assert more("reelfs_mount_connected") == 0 and after[
        ("reelfs_mount_connected", f"{{{mount}}}")] == 1
    assert 0 < after[("reelfs_mount_lease_left_seconds", f"{{{mount}}}")] <= 10
    times = "reelfs_mount_request_duration_seconds"
    assert more(f"{times}_count", ',operation="create"') == 1
    assert more(f"{times}_count", ',operation="fsync"') == 1
    assert more("reelfs_mount_request_errors_total",
                ',operation="getxattr",error="ENODATA"') == 1
    written = sum(value - before.get(key, 0) for key, value in after.items()
                  if key[0] == "reelfs_mount_lun_bytes_total" and 'direction="write"' in key[1])
    assert written >= 3_000_000
    timed = sum(value - before.get(key, 0) for key, value in after.items()
                if key[0] == "reelfs_mount_lun_request_duration_seconds_count"
                and 'direction="write"' in key[1])
    assert timed >= 1
    limit = ("reelfs_mount_memory_limit_bytes", f'{{{mount},use="write_behind"}}')
    assert after[limit] == 64 << 20


def test_after_a_failover_the_other_one_tells(cluster):
    active, standby = active_and_standby(cluster)
    epoch = value(scrape(cluster, active), "reelfs_controller_epoch")
    cluster.lab("fail")
    until(lambda: value(scrape(cluster, standby), "reelfs_controller_active") == 1)
    told = scrape(cluster, standby)
    assert value(told, "reelfs_controller_epoch") > epoch
    beats = "reelfs_seat_beat_duration_seconds_count"
    until(lambda: scrape(cluster, standby)[(beats, '{volume="reel"}')] > 0)
    until(lambda: ("reelfs_takeover_phase_seconds", '{volume="reel",phase="reclaims"}')
          in scrape(cluster, standby))
    phases = {key[1] for key in scrape(cluster, standby)
              if key[0] == "reelfs_takeover_phase_seconds"}
    assert phases == {f'{{volume="reel",phase="{phase}"}}' for phase in (
        "luns", "seat", "fences", "quarantine", "recovery", "load", "keys", "reclaims")}
