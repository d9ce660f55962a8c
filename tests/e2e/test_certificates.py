"""The life of certificates: listed; renewed under load without a restart; revoked, where the mount
of that host is shut out, and the others go on."""
import errno
import json
import os
import threading

import pytest

from cluster import until

CLUSTER = {"tls": True}


def pki(cluster, verb, *arguments):
    """The JSON of `reeladm pki`, by the authority of the cluster."""
    done = cluster.tool("reeladm", "pki", verb, os.path.join(cluster.dir, "pki"), *arguments,
                        "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def certificates(cluster, name):
    return [one for one in pki(cluster, "list")["certificates"] if one["name"] == name]


def sessions(cluster):
    """The number of each serving session, by the name of its certificate."""
    return {session["certificate"]: session["session"]
            for session in cluster.reeladm("who")["sessions"] if session["state"] == "serving"}


class Work(threading.Thread):
    """Writes, syncs, reads back and removes a file until it is told to stop."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.rounds, self.error, self.stopped = 0, None, threading.Event()
        self.start()

    def run(self):
        try:
            while not self.stopped.is_set():
                text = f"round {self.rounds}\n".encode() * 20_000
                with open(self.path, "wb") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                with open(self.path, "rb") as file:
                    assert file.read() == text
                os.unlink(self.path)
                self.rounds += 1
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def goes_on(self, rounds=3):
        """Waits for more rounds, all of which began after now."""
        wanted = self.rounds + rounds + 1
        until(lambda: self.error or self.rounds >= wanted)
        assert self.error is None, self.error

    def end(self):
        self.stopped.set()
        self.join()
        assert self.error is None, self.error


def test_a_list_has_all_with_their_dates(cluster):
    found = {(one["name"], one["role"]): one for one in pki(cluster, "list")["certificates"]}
    assert {("mdc1", "mdc"), ("ws1", "client"), ("ws2", "client"), ("admin", "admin")} < set(found)
    one = found["ws1", "client"]
    assert one["state"] == "in use" and one["revoked"] is None and 820 < one["days_left"] <= 825
    assert one["file"] == cluster.tls_files("ws1")["tls_cert"]
    authority = [one for one in found.values() if one["role"] == "authority"]
    assert len(authority) == 1 and authority[0]["days_left"] > 3600
    text = cluster.tool("reeladm", "pki", "list", os.path.join(cluster.dir, "pki")).stdout
    assert one["serial"] in text and one["until"] in text


def test_certificates_are_renewed_under_load_without_an_error(cluster, room):
    work = [Work(f"{directory}/work{number}") for number, directory in enumerate(room)]
    before = sessions(cluster)
    for _ in range(3):
        assert len(pki(cluster, "renew", "mdc1", "ws1", "ws2", "admin")["renewed"]) == 4
        cluster.reeladm("show")  # a new connection, with the new certificates of both ends
        for one in work:
            one.goes_on()
    assert sessions(cluster) == before
    # New connections, of the same sessions, by the new certificates.
    cluster.kill("mdc1", "TERM")
    cluster.start("mdc1")
    for one in work:
        one.goes_on()
        one.end()
    assert sessions(cluster) == before
    serial = [one for one in certificates(cluster, "ws1") if one["state"] == "in use"][0]["serial"]
    assert f"new connections use the certificate {serial}" in cluster.log("ws1")
    # (Those of one second are in no order.)
    states = sorted(one["state"] for one in certificates(cluster, "mdc1"))
    assert states == ["in use"] + ["replaced"] * 3


def test_files_that_are_half_copied_shut_nobody_out(cluster, room):
    files = cluster.tls_files("mdc1")
    with open(files["tls_cert"], "rb") as file:
        good = file.read()
    with open(files["tls_cert"], "wb") as file:
        file.write(good[:100])
    work = Work(f"{room[0]}/work")
    cluster.reeladm("show")
    until(lambda: "those of before stay in use: tls_cert" in cluster.log("mdc1"))
    work.goes_on()
    with open(files["tls_cert"], "wb") as file:
        file.write(good)
    cluster.reeladm("show")
    work.end()


def fails_with(call):
    """The errno of what must fail."""
    try:
        call()
    except OSError as error:
        return error.errno
    return 0


@pytest.mark.seconds(120)
def test_a_revoked_host_is_shut_out_and_the_others_go_on(cluster, room):
    shut_out_and_let_in_again(cluster, room, lambda session: None)


def shut_out_and_let_in_again(cluster, room, check_evicted):
    work = Work(f"{room[0]}/work")
    session = sessions(cluster)["ws2"]
    refused = cluster.counters()["connection.refused"]
    file = os.open(f"{room[1]}/open", os.O_RDWR | os.O_CREAT)
    os.write(file, b"synced")
    os.fsync(file)
    assert len(pki(cluster, "revoke", "ws2")["revoked"]) >= 1
    # At once: the session is ended, and none begins.
    until(lambda: "ws2" not in sessions(cluster))
    until(lambda: fails_with(lambda: os.listdir(room[1])) == errno.ENODEV)
    assert fails_with(lambda: (os.pwrite(file, b"x", 0), os.fsync(file))) in (errno.EIO,
                                                                             errno.ENODEV)
    assert fails_with(lambda: os.pread(file, 6, 0)) in (errno.EIO, errno.ENODEV)
    assert fails_with(lambda: open(f"{room[1]}/new", "w")) == errno.ENODEV
    fails_with(lambda: os.close(file))
    check_evicted(session)
    # The controller's word, and why no other session begins: each once.
    lines = [line for line in cluster.log("ws2").splitlines() if "certificate of ws2" in line]
    assert len(lines) == 2, lines
    assert sum("is revoked; it takes another one" in line for line in lines) == 1
    assert "is ended" in cluster.log("mdc1")
    assert cluster.counters()["connection.refused"] > refused
    with open(f"{room[0]}/open", "rb") as file:  # what it held is free
        assert file.read() == b"synced"
    work.goes_on()
    assert [one["state"].split()[0] for one in certificates(cluster, "ws2")][-1] == "revoked"
    # Another certificate, by the same name: the mount is there again without a hand.
    pki(cluster, "issue", "--role", "client", "--name", "ws2")
    until(lambda: fails_with(lambda: os.listdir(room[1])) == 0)
    with open(f"{room[1]}/new", "w") as file:
        file.write("let in again")
    with open(f"{room[0]}/new") as file:
        assert file.read() == "let in again"
    work.end()


@pytest.mark.seconds(120)
def test_a_host_that_is_revoked_while_it_is_away_stays_outside(cluster):
    cluster.kill("mdc1", "TERM")
    pki(cluster, "revoke", "ws2")
    cluster.start("mdc1")
    until(lambda: fails_with(lambda: os.listdir(cluster.ws2)) == errno.ENODEV)
    assert os.listdir(cluster.ws1) is not None
    assert "ws2" not in sessions(cluster)
    cluster.kill("ws2", "TERM")  # unmounts
    until(lambda: not os.path.ismount(cluster.ws2))
    pki(cluster, "issue", "--role", "client", "--name", "ws2")
    cluster.start("ws2")
    assert "ws2" in sessions(cluster)


def test_a_revoked_administrator_is_refused(cluster):
    pki(cluster, "issue", "--role", "admin", "--name", "ada")
    files = [part for key, path in cluster.tls_files("ada").items()
             for part in ("--" + key.replace("_", "-"), path)]
    copies = []
    for part in files:
        copies.append(part)
        if part.endswith(("ada.crt", "ada.key")):  # the thief's
            copies[-1] = os.path.join(cluster.scratch, os.path.basename(part))
            with open(part, "rb") as source, open(copies[-1], "wb") as copy:
                copy.write(source.read())
            os.chmod(copies[-1], 0o600)

    def ask():
        return cluster.tool("reeladm", "--mdc", cluster.where("mdc1"), *copies,
                            "volumes")

    assert ask().returncode == 0
    pki(cluster, "revoke", "ada")
    until(lambda: ask().returncode != 0)
    refused = ask()
    assert "the certificate of ada (" in refused.stderr and "is revoked" in refused.stderr
    cluster.reeladm("show")


@pytest.mark.seconds(120)
def test_a_revoked_controller_is_not_believed(cluster):
    pki(cluster, "revoke", "mdc1")  # which still runs with it
    cluster.kill("ws2", "TERM")
    refused = cluster.lab_fails("start", "ws2")
    assert "the certificate of mdc1 (" in refused and "is revoked" in refused, refused
    pki(cluster, "issue", "--role", "mdc", "--name", "mdc1", "--host", "127.0.0.1",
        "--host", "localhost")
    cluster.start("ws2")  # with its first connection the controller has the other one
    assert sorted(sessions(cluster)) == ["ws1", "ws2"]
