"""The same by hand on LUNs behind a real target: orders and repairs take the reservations, too."""
import test_administration

CLUSTER = {"mdcs": 2, "seat_ms": 1500, "lun_backend": "iscsi", "luns": "meta=1x1G,data=2x512M"}


def test_activate_moves_the_volume_to_the_one_that_is_named(cluster, room):
    test_administration.test_activate_moves_the_volume_to_the_one_that_is_named(cluster, room)


def test_a_stopped_volume_waits_for_start(cluster, room):
    test_administration.test_a_stopped_volume_waits_for_start(cluster, room)


def test_in_maintenance_nobody_takes_over_by_itself(cluster, room):
    test_administration.test_in_maintenance_nobody_takes_over_by_itself(cluster, room)


def test_a_stopped_volume_may_be_repaired_beside_its_standbys(cluster):
    test_administration.test_a_stopped_volume_may_be_repaired_beside_its_standbys(cluster)
