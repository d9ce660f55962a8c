#!/usr/bin/env python3
"""Completion in bash and zsh offers every option and command that --help names, and what else
programs take.

Usage: completion_test.py BUILD, the directory of a build with all programs.
"""
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

from man_test import SCRIPTS, SUBCOMMANDS, help_of, options_of

BUILD = sys.argv[1]
MADE = os.path.join(BUILD, "deploy/packaging/completion")
BASH = """
. /usr/share/bash-completion/bash_completion
. "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9 COMP_KEY=9
read -ra COMP_WORDS <<<"$COMP_LINE"
[[ $COMP_LINE != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
function=$(complete -p "${COMP_WORDS[0]}" | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function" "${COMP_WORDS[0]}" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}" 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


def bash_offers(line):
    program = line.split()[0]
    done = subprocess.run(["bash", "-c", BASH, "-", f"{MADE}/bash/{program}", line],
                          capture_output=True, text=True, check=False, timeout=30)
    assert not done.stderr, (line, done.stderr)
    return set(done.stdout.split())


# Completion of zsh runs at a terminal only. What it adds to its matches is printed, with marks that
# the echo of what is typed has not.
ZSHRC = """
PS1= PS2=; LISTMAX=10000; bindkey -e; fpath=($MADE/zsh $fpath)
autoload -U compinit; compinit -D -u
bindkey '^I' list-choices
compadd() {
  local -a hits
  if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then
    builtin compadd -A hits "$@"
    (( $#hits == 0 )) || print -rn -- "<hit>"${^hits}"</hit>"
  fi
  builtin compadd "$@"
}
finish() { print -n '<e''nd>'; comppostfuncs=(finish); }
comppostfuncs=(finish)
"""


class Zsh:
    def __init__(self, home):
        with open(os.path.join(home, ".zshrc"), "w", encoding="utf-8") as file:
            file.write(ZSHRC + "print '<re''ady>'\n")
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", LC_ALL="C.UTF-8", ZDOTDIR=home, MADE=MADE)
            os.execvp("zsh", ["zsh", "-d", "-i"])
        self.read_until("<ready>")

    def read_until(self, wanted, limit_s=30):
        text, end = "", time.monotonic() + limit_s
        while wanted not in text:
            if time.monotonic() > end:
                raise AssertionError(f"zsh did not show {wanted!r} but {text!r}")
            if select.select([self.fd], [], [], 0.1)[0]:
                text += os.read(self.fd, 65536).decode(errors="replace")
        return text

    def offers(self, line):
        """What of `line`'s last word there may be, by compadd's words."""
        os.write(self.fd, f"\x15{line}\t".encode())
        shown = self.read_until("<end>")
        return set(re.findall(r"<hit>(.*?)</hit>", shown))

    def close(self):
        os.write(self.fd, b"\x15exit\n")
        os.waitpid(self.pid, 0)


# What is offered for the last word of a line, at the least.
OFFERED = {
    "reel-label ": {"write", "list", "clear", "reservations", "unreserve", "udev"},
    "reeladm ": {"volumes", "show", "evict", "pki", "maintenance"},
    "reeladm pki ": {"init", "issue", "list", "renew", "revoke"},
    "reeladm pki issue --role ": {"mdc", "client", "admin", "monitor"},
    "reeladm maintenance ": {"on", "off"},
    "mkfs.reelfs --strategy ": {"round", "fill", "balance"},
    "mount.reelfs reel /mnt -o ro,cache=": {"auto", "direct", "page"},
    "reelfs-lab ": {"up", "down", "drill"},
    "reelfs-lab drill kill-a": {"kill-active"},
    "reelfs-lab drill re": {"rearrange"},
    "reelfs-lab partition ws1 ": {"lan", "san", "path1"},
    "reelfs-lab power ws1 ": {"off", "on", "suspend"},
    "umount.reelfs -": {"-f", "-l"},
}


def options_are_offered(offers, program, command):
    """Each option that the program's help names is among those that are offered."""
    path = SCRIPTS.get(program, os.path.join(BUILD, "bin", program))
    shown = help_of(path, *command)
    named = options_of(re.sub(r"(?m)^usage:.*|mount -[ot]", "", shown))
    missing = named - offers(" ".join([program, *command, "-"]))
    assert not missing, f"{program} {' '.join(command)}: completion lacks {missing}"


def main():
    programs = sorted(os.listdir(f"{MADE}/bash"))
    assert len(programs) >= 9, f"completion is there for {programs} only"
    with tempfile.TemporaryDirectory() as home:
        zsh = Zsh(home)
        for offers in (bash_offers, zsh.offers):
            for program in set(programs) - {"umount.reelfs"}:
                commands = [command.split() for command in SUBCOMMANDS.get(program, ())]
                if program not in SCRIPTS:  # whose own help shows its commands' options, too
                    commands.append([])
                for command in commands:
                    options_are_offered(offers, program, command)
            for line, wanted in OFFERED.items():
                missing = wanted - offers(line)
                assert not missing, f"{offers}: {line!r} lacks {missing}"
        assert bash_offers("mount.reelfs reel /mnt -o ro,ca") == \
            {"ro,cache=auto", "ro,cache=direct", "ro,cache=page"}
        assert "cache" in zsh.offers("mount.reelfs reel /mnt -o ro,ca")
        zsh.close()
    print(f"bash and zsh complete {len(programs)} programs")


main()
