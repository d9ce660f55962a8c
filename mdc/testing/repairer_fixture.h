// The vocabulary of the repairer's tests: damage is planted, repaired at once, and looked at.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "mdc/repair/repairer.h"
#include "mdc/testing/damage_fixture.h"

namespace reel::mdc {

// /dir/sub, /dir/file (8 extents of one block) and /link, as DamageFixture makes them.
class RepairerTest : public DamageFixture {
 protected:
  // Repairs until the store is sound, which must be at once.
  void Repair() {
    actions_.clear();
    ASSERT_GT(RepairOnce(&actions_), 0u) << "nothing was done";
    ASSERT_THAT(Check(), ::testing::IsEmpty()) << ::testing::PrintToString(lines_);
    std::vector<std::string> again;
    EXPECT_EQ(RepairOnce(&again), 0u) << ::testing::PrintToString(again);
    Restart();
  }
  std::uint64_t RepairOnce(std::vector<std::string>* actions) {
    RepairSink sink;
    sink.on_action = [&](const Problem& action) {
      actions->push_back(action.code + ": " + action.where + ": " + action.what);
    };
    const auto done =
        RepairVolume({store_.db(), volume_, regions_, Epoch(7), WallTime{2'000'000, 0}}, sink);
    EXPECT_TRUE(done.ok()) << done.status();
    return done.value_or(0);
  }
  v1::InodeRecord Inode(std::uint64_t inode) {
    v1::InodeRecord found;
    EditInode(inode, [&](v1::InodeRecord& record) { found = record; });
    return found;
  }
  // The inode of lost+found/NAME; 0 when there is none.
  std::uint64_t Rescued(const std::string& name) {
    if (Lookup(1, "lost+found") != 0) return 0;
    const std::uint64_t refuge = reply_.entry().attr().inode();
    return Lookup(refuge, name) == 0 ? reply_.entry().attr().inode() : 0;
  }
  std::uint64_t Named(std::uint64_t directory, const std::string& name) {
    return Lookup(directory, name) == 0 ? reply_.entry().attr().inode() : 0;
  }
  v1::Place PlaceOf(std::uint64_t block) {
    v1::Place place;
    EditExtent(block, [&](v1::ExtentRecord& record) { place = record.places(0); });
    return place;
  }

  std::vector<std::string> actions_;
};

}  // namespace reel::mdc
