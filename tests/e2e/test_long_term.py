"""Controllers with a long term, as slow SANs have: a new one waits for it only where the old one
may still be at work."""
import os

CLUSTER = {"mdcs": 2, "seat_ms": 30_000, "backend": "netns", "lun_backend": "iscsi",
           "luns": "meta=1x1G,data=1x1G"}


def test_a_controller_that_no_client_reaches_hands_over(cluster, room):
    """gRPC may end the streams of its clients before the controller's limit of silence."""
    old = cluster.active()
    cluster.lab("partition", old, "lan")
    with open(os.path.join(room[0], "file"), "w") as file:
        file.write("in another epoch")
    assert cluster.active() != old
    assert "none of its clients is heard" in cluster.log(old)
    cluster.lab("partition", old, "lan", "--heal")
    with open(os.path.join(room[1], "file")) as file:
        assert file.read() == "in another epoch"
