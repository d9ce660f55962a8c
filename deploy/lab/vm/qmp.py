"""What a machine's emulator is asked and told: QEMU's monitor protocol, a connection a command."""
import json
import socket

from process import LabError

SECONDS = 60


class Monitor:
    """The monitor behind the socket `path`, of the machine `name`."""

    def __init__(self, name, path, seconds=SECONDS):
        self.name, self.path, self.seconds = name, path, seconds

    def execute(self, command, **arguments):
        """Its answer; LabError where there is none, or an error."""
        try:
            with socket.socket(socket.AF_UNIX) as wire:
                wire.settimeout(self.seconds)
                wire.connect(self.path)
                with wire.makefile("rw") as lines:
                    self._answer(lines, "QMP")  # its greeting
                    self._ask(lines, "qmp_capabilities", {})
                    return self._ask(lines, command, arguments)
        except (OSError, ValueError) as error:
            raise LabError(f"{self.name}: its monitor does not answer {command} ({error})")

    def _ask(self, lines, command, arguments):
        lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        lines.flush()
        return self._answer(lines, "return")

    def _answer(self, lines, key):
        for line in lines:  # events come in between
            answer = json.loads(line)
            if "error" in answer:
                raise LabError(f"{self.name}: {answer['error']['desc']}")
            if key in answer:
                return answer[key]
        raise OSError("it has closed the connection")
