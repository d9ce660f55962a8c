"""One daemon as a process of this machine.

A process is known by its pid *and* its start time, kept in a file, so that a recycled pid is never
taken for it. Readiness is what the daemon says on its NOTIFY_SOCKET, and the end is seen on a
pidfd: nothing here polls or sleeps, and every wait is bounded.
"""
import os
import select
import signal
import socket
import subprocess
import tempfile
import time

READY_SECONDS = 60
STOP_SECONDS = 30


class LabError(Exception):
    """What a person is told, on one line (the last lines of a log may follow)."""


def last_lines(path, count=8):
    try:
        with open(path, errors="replace") as log:
            return "".join("\n  | " + line.rstrip() for line in log.readlines()[-count:])
    except OSError:
        return ""


def _start_time(pid):
    """Clock ticks since boot at which `pid` started; None when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class Process:
    """The one daemon whose identity lies in `pid_path` and whose output goes to `log_path`."""

    def __init__(self, name, pid_path, log_path):
        self.name, self.pid_path, self.log_path = name, pid_path, log_path

    def pid(self):
        """The pid while it runs, else None."""
        try:
            with open(self.pid_path) as record:
                pid, started = map(int, record.read().split())
        except (OSError, ValueError):
            return None
        return pid if _start_time(pid) == started else None

    def stands_still(self):
        """Whether it was sent SIGSTOP."""
        try:
            with open(f"/proc/{self.pid()}/stat") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] == "T"
        except OSError:
            return False

    def start(self, command, environment=None):
        """Starts it and returns when it has said READY=1."""
        # A name of a file, and a short one: abstract names are a network namespace's own.
        with tempfile.TemporaryDirectory(prefix="reelfs-lab-") as place, \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify_path = os.path.join(place, "notify")
            notify.bind(notify_path)
            child = self.spawn(command, {**(environment or {}), "NOTIFY_SOCKET": notify_path})
            try:
                self._await_ready(child, notify)
            except BaseException:
                child.kill()
                child.wait()
                os.unlink(self.pid_path)
                raise

    def spawn(self, command, environment=None):
        """Starts it and returns at once."""
        with open(self.log_path, "ab") as log:
            log.write(f"--- lab: {' '.join(command)}\n".encode())
            log.flush()
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                start_new_session=True, env={**os.environ, **(environment or {})})
        started = _start_time(child.pid)
        with open(self.pid_path, "w") as record:
            record.write(f"{child.pid} {started or 0}\n")
        return child

    def _await_ready(self, child, notify):
        deadline = time.monotonic() + READY_SECONDS
        pidfd = os.pidfd_open(child.pid)
        try:
            poll = select.poll()
            poll.register(notify, select.POLLIN)
            poll.register(pidfd, select.POLLIN)
            while True:
                left = deadline - time.monotonic()
                events = dict(poll.poll(left * 1000)) if left > 0 else {}
                if notify.fileno() in events:
                    if "READY=1" in notify.recv(8192).decode(errors="replace").split("\n"):
                        return
                elif pidfd in events:
                    status = child.wait()
                    how = f"status {status}" if status >= 0 else f"signal {-status}"
                    raise LabError(f"{self.name}: ended with {how} before it was ready; its log "
                                   f"({self.log_path}) ends:{last_lines(self.log_path)}")
                elif left <= 0:
                    raise LabError(f"{self.name}: not ready after {READY_SECONDS} s; its log "
                                   f"({self.log_path}) ends:{last_lines(self.log_path)}")
        finally:
            os.close(pidfd)

    def signal(self, number):
        """Sends a signal; False when it does not run."""
        pidfd = self._open()
        if pidfd is None:
            return False
        try:
            signal.pidfd_send_signal(pidfd, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(pidfd)
        return True

    def wait_gone(self, seconds=STOP_SECONDS):
        """True when it has ended within the time."""
        pidfd = self._open()
        if pidfd is None:
            return True
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            return bool(poll.poll(seconds * 1000))
        finally:
            os.close(pidfd)
            self._reap()

    def kill(self):
        """SIGKILL, and wait."""
        if self.signal(signal.SIGKILL) and not self.wait_gone():
            raise LabError(f"{self.name}: pid {self.pid()} does not end after SIGKILL "
                           "(stuck in the kernel: see /proc/PID/stack)")

    def _open(self):
        """A pidfd of it, or None. The identity is checked again once the pidfd holds the pid."""
        pid = self.pid()
        if pid is None:
            return None
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        if self.pid() == pid:
            return pidfd
        os.close(pidfd)
        return None

    def _reap(self):
        try:  # when this very lab started it, it is our child
            with open(self.pid_path) as record:
                os.waitpid(int(record.read().split()[0]), os.WNOHANG)
        except (OSError, ValueError):
            pass
