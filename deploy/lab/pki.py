"""The certificates of a cluster with TLS, made by `reeladm pki`: one for each host, by its name,
and one for the administrator."""
import os
import shutil

from luns import run_program


class Pki:
    def __init__(self, directory, spec):
        self.dir, self.spec = os.path.join(directory, "pki"), spec

    def make(self, mdcs, clients):
        """From nothing: what an interrupted attempt left is taken away."""
        self.remove()
        self._reeladm("init", self.dir)
        for mdc in mdcs:
            self._issue("mdc", mdc.name, "--host", mdc.address.rsplit(":", 1)[0],
                        "--host", "localhost")
        # Who serves pages is known by a host.
        hosts = ("--host", "127.0.0.1", "--host", "localhost") if self.spec.web else ()
        for client in clients:
            self._issue("client", client.name, *hosts)
        self._issue("admin", "admin")

    def files(self, name):
        """What a program is told, by key; empty without TLS."""
        if not self.spec.tls:
            return {}
        paths = {"tls_ca": "ca.crt", "tls_cert": name + ".crt", "tls_key": name + ".key"}
        return {key: os.path.join(self.dir, file) for key, file in paths.items()}

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def _issue(self, role, name, *more):
        self._reeladm("issue", self.dir, "--role", role, "--name", name, *more)

    def _reeladm(self, *arguments):
        run_program([self.spec.program("reeladm"), "pki", *arguments])
