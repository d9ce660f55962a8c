"""A core of the stories by way of /dev/fuse, where the machine's mounts have io_uring.
(Where the kernel has no FUSE over io_uring all stories go this way.)"""
from test_data import *  # noqa: F401, F403
from test_names import *  # noqa: F401, F403

CLUSTER = {"mount_options": "uring=off"}


def test_the_log_says_which(cluster):
    assert "FUSE by /dev/fuse" in cluster.log("ws1")
