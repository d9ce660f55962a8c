"""Fixtures: one cluster for the tests of a file, checked by fsck and taken down at its end."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cluster import Cluster, LAB  # noqa: E402

sys.path.insert(0, os.path.dirname(LAB))

import network  # noqa: E402


@pytest.fixture(scope="module")
def cluster(request):
    wishes = getattr(request.module, "CLUSTER", {})
    if wishes.get("backend") == "netns" and (problem := network.why_not()):
        pytest.skip(f"--backend netns: {problem}")
    made = Cluster(**wishes)
    try:
        yield made
        made.guard_test()
        made.fsck()
    finally:
        made.down()


def pytest_configure(config):
    config.addinivalue_line("markers", "seconds(n): how long a test may take (default 240)")


@pytest.fixture(autouse=True)
def bounded(cluster, request):
    """No test hangs for ever in a mount."""
    seconds = request.node.get_closest_marker("seconds")
    cluster.guard_test(*(seconds.args if seconds else ()))
    yield
    cluster.disarm()


@pytest.fixture
def room(cluster, request):
    """An empty directory of the volume for one test, as each client sees it: on ws1, ws2, …"""
    os.mkdir(os.path.join(cluster.ws1, request.node.name))
    return tuple(os.path.join(mount, request.node.name) for mount in cluster.mounts)
