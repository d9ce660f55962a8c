#include "mdc/tables/exports.h"

#include <gtest/gtest.h>

namespace reel::mdc {
namespace {

TEST(Exports, TheFirstMatchingExportCounts) {
  std::vector<Export> exports(2);
  exports[0].clients = {"ws7", "edit-*"};
  exports[0].access = Export::Access::kReadOnly;
  exports[1].clients = {"*"};
  exports[1].squash = Export::Squash::kRoot;
  EXPECT_EQ(ExportText(ExportFor(exports, "edit-3")), "ro");
  EXPECT_EQ(ExportText(ExportFor(exports, "ws7")), "ro");
  EXPECT_EQ(ExportText(ExportFor(exports, "ws71")), "rw,squash=root");
  exports.pop_back();
  EXPECT_EQ(ExportText(ExportFor(exports, "ws8")), "rw");
}

TEST(Exports, Squash) {
  const auto credentials = [](std::uint32_t uid) {
    v1::Credentials made;
    made.set_uid(uid);
    made.set_gid(5);
    made.add_groups(0);
    return made;
  };
  Export exported;
  v1::Credentials root = credentials(0), user = credentials(7);
  Squash(exported, root);
  EXPECT_EQ(root.uid(), 0u);
  exported.squash = Export::Squash::kRoot;
  user.add_groups(9);
  Squash(exported, user);
  EXPECT_EQ(user.uid(), 7u);
  EXPECT_EQ(user.gid(), 5u);
  ASSERT_EQ(user.groups_size(), 1);  // root's group is not among them any more
  EXPECT_EQ(user.groups(0), 9u);
  user.set_gid(0);
  Squash(exported, user);
  EXPECT_EQ(user.gid(), 65534u);
  Squash(exported, root);
  EXPECT_EQ(root.uid(), 65534u);
  EXPECT_EQ(root.gid(), 65534u);
  EXPECT_EQ(root.groups_size(), 0);
  exported.squash = Export::Squash::kAll;
  Squash(exported, user);
  EXPECT_EQ(user.uid(), 65534u);
}

}  // namespace
}  // namespace reel::mdc
