"""What is said to a machine from inside: commands by ssh, over the network that is never cut.

One connection a host is kept open, since each new one costs an emulated processor a second.
"""
import os
import subprocess

from process import LabError
from spec import installed_program

COMMAND_SECONDS = 300
CONNECT_TRIES = 20
# An emulated host that is still booting, beside others, takes its time to greet.
CONNECT_SECONDS = 60
# A host that a hypervisor suspends for a while keeps its connection.
ALIVE_SECONDS, ALIVE_COUNT = 15, 20


class Guest:
    """`inside`: what a command begins with that is to run on the hub."""

    def __init__(self, name, address, directory, key, inside):
        self.name, self.address, self.inside = name, address, inside
        self.key, self.socket = key, os.path.join(directory, "ssh")

    def command(self, words, terminal=False):
        """What runs `words` there: one argument is a shell's text, as with ssh."""
        return [*self.inside, installed_program("ssh"), "-q", "-i", self.key,
                "-t" if terminal else "-T",
                "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}",
                "-o", f"ConnectionAttempts={CONNECT_TRIES}",
                "-o", f"ServerAliveInterval={ALIVE_SECONDS}",
                "-o", f"ServerAliveCountMax={ALIVE_COUNT}", "-o", "ControlMaster=auto",
                "-o", f"ControlPath={self.socket}", "-o", "ControlPersist=yes",
                f"root@{self.address}", "--", *words]

    def try_shell(self, script, seconds=COMMAND_SECONDS):
        """Runs a shell script; the finished process. A host that hangs is a status of 255."""
        command = self.command(["sh", "-s"])
        try:
            # ssh's master keeps what it inherits: its words go nowhere (-q), so that nobody waits.
            return subprocess.run(command, input=script, text=True, timeout=seconds,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 255, "", f"no answer in {seconds} s")

    def shell(self, script, seconds=COMMAND_SECONDS):
        """What it prints; LabError with its last words where it fails."""
        done = self.try_shell("set -e\n" + script, seconds)
        if done.returncode != 0:
            words = (done.stderr.strip() or done.stdout.strip() or "no words").splitlines()
            raise LabError(f"{self.name}: a command failed with {done.returncode}: "
                           + " | ".join(words[-6:]))
        return done.stdout

    def put(self, path, text):
        self.shell(f"cat >{path} <<'END-OF-FILE'\n{text}\nEND-OF-FILE\n")

    def send(self, paths, directory):
        """Files and whole directories, by tar as the printed commands of reeladm setup do it."""
        words = [word for path in paths
                 for word in ("-C", os.path.dirname(path), os.path.basename(path))]
        with subprocess.Popen(["tar", "-c", *words], stdout=subprocess.PIPE) as tar:
            done = subprocess.run(self.command([f"mkdir -p {directory} && tar -C {directory} -xp "
                                                "--no-same-owner"]),
                                  stdin=tar.stdout, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
            tar.stdout.close()
        if done.returncode != 0 or tar.returncode != 0:
            raise LabError(f"{self.name}: {paths[0]} cannot be copied there: "
                           + done.stderr.strip())

    def hang_up(self):
        """Whoever has a command there is told so now, and not in minutes."""
        if os.path.exists(self.socket):
            subprocess.run([installed_program("ssh"), "-q", "-O", "exit", "-o",
                            f"ControlPath={self.socket}", self.address],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=10)
