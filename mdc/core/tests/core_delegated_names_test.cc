// Delegated changes of names of which the session has not made the files: which are sole, and what
// the controller makes of renames, directories and symbolic links.
#include <sys/stat.h>

#include "gmock/gmock.h"
#include "mdc/core/tests/delegated_root.h"

namespace reel::mdc {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

class DelegatedNamesTest : public DelegatedRoot {};

TEST_F(DelegatedNamesTest, OnlyWhatNobodyElseKnowsIsSole) {
  const std::uint64_t alone = a_.Create("alone"), shared = a_.Create("shared");
  const std::uint64_t unknown = a_.Create("unknown");
  EXPECT_EQ(b_.Do(Client::LookupOf("shared")), 0);
  EXPECT_EQ(b_.Do(Client::AttrReturnOf({kRoot})), 0);
  HoldRoot(a_);
  EXPECT_EQ(a_.Do(Client::LookupOf("alone")), 0);
  EXPECT_EQ(a_.Do(Client::LookupOf("shared")), 0);
  EXPECT_EQ(a_.Do(Client::AttrReturnOf({unknown})), 0);
  v1::Request unlink = Client::UnlinkOf("zeroth");
  for (const std::uint64_t inode : {alone, shared, unknown}) unlink.add_siblings(inode);
  EXPECT_EQ(a_.Do(unlink, true), 0);
  EXPECT_THAT(a_.last_.sole(), ElementsAre(alone));
  // Whoever wants to know it waits until its directory is shared, and then it is not.
  EXPECT_FALSE(Answered(b_, Client::GetAttrOf(alone)));
  v1::Request share = Client::AttrReturnOf({kRoot});
  share.mutable_attr_return()->set_to_shared(true);
  EXPECT_EQ(a_.Do(share), 0);
  unlink = Client::UnlinkOf("first");
  unlink.add_siblings(alone);
  EXPECT_EQ(a_.Do(unlink, true), 0);
  EXPECT_THAT(a_.last_.sole(), IsEmpty());
}

// Who knows the file that is renamed or removed knows the next ones, too.
TEST_F(DelegatedNamesTest, WhatAnotherSessionKnowsOfSiblingsIsTakenWithTheFilesOwn) {
  const std::uint64_t first = b_.Create("one"), second = b_.Create("two");
  const std::uint64_t third = b_.Create("three"), fourth = b_.Create("four");
  EXPECT_EQ(b_.Do(Client::AttrReturnOf({kRoot})), 0);
  HoldRoot(a_);
  for (const char* name : {"one", "two", "three"}) EXPECT_EQ(a_.Do(Client::LookupOf(name)), 0);
  b_.attr_recalls_.clear();
  v1::Request rename;
  rename.mutable_rename()->set_parent(kRoot);
  rename.mutable_rename()->set_name("one");
  rename.mutable_rename()->set_new_parent(kRoot);
  rename.mutable_rename()->set_new_name("first one");
  rename.add_siblings(second);
  rename.add_siblings(fourth);
  const std::uint64_t renamed = a_.SendIn(2, rename);
  harness_.Run();
  EXPECT_THAT(b_.attr_recalls_, ElementsAre(second, first)) << "a_ does not know the fourth";
  EXPECT_FALSE(a_.Answered(renamed));
  EXPECT_EQ(b_.Do(Client::AttrReturnOf({second, first})), 0);
  harness_.Run();
  EXPECT_EQ(a_.Answer(renamed).error(), 0);
  EXPECT_THAT(a_.Answer(renamed).sole(), ElementsAre(second));

  // A file that goes at once waits for nobody; the next request finds the others sole.
  b_.attr_recalls_.clear();
  v1::Request unlink = Client::UnlinkOf("two");
  unlink.add_siblings(third);
  EXPECT_EQ(a_.Do(unlink, true), 0);
  EXPECT_THAT(b_.attr_recalls_, IsEmpty()) << "it does not know that one any more";
  unlink = Client::UnlinkOf("three");
  unlink.add_siblings(first);
  EXPECT_EQ(a_.Do(unlink, true), 0);
  EXPECT_THAT(b_.attr_recalls_, ElementsAre(third));
  EXPECT_THAT(a_.last_.sole(), ElementsAre(first));
}

TEST_F(DelegatedNamesTest, ADelegatedRenameHasTheClientsOutcome) {
  HoldRoot(a_);
  const std::uint64_t first = a_.last_.entry().attr().inode();
  const std::uint64_t second = a_.Create("second");
  const auto rename = [](const std::string& from, const std::string& to, std::uint64_t parent) {
    v1::Request request;
    v1::Rename& of = *request.mutable_rename();
    of.set_parent(kRoot);
    of.set_name(from);
    of.set_new_parent(parent);
    of.set_new_name(to);
    return Delegated(request);
  };
  EXPECT_EQ(a_.Do(rename("first", "third", kRoot), true), 0);
  EXPECT_EQ(a_.Do(Client::LookupOf("third")), 0);
  EXPECT_EQ(a_.last_.entry().attr().inode(), first);
  EXPECT_EQ(a_.last_.entry().attr().ctime().seconds(), 777);
  v1::Request replace = rename("third", "second", kRoot);
  replace.mutable_rename()->set_lets_go(true);
  EXPECT_EQ(a_.Do(replace, true), 0);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(second)), ESTALE);
  // Of another directory nothing is known here, and an exchange nobody delegates.
  EXPECT_EQ(a_.Do(rename("second", "x", first), true), EPROTO);
  v1::Request exchange = rename("second", "zeroth", kRoot);
  exchange.mutable_rename()->set_flags(2 /* RENAME_EXCHANGE */);
  EXPECT_EQ(a_.Do(exchange, true), EPROTO);
  EXPECT_EQ(b_.Do(rename("second", "y", kRoot), true), EPROTO);
}

TEST_F(DelegatedNamesTest, ADelegatedDirectoryOrLinkLeavesItsBlocks) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  v1::Request make = Client::CreateOf("sub");
  make.mutable_create()->set_mode(S_IFDIR | 0755);
  EXPECT_EQ(a_.Do(Delegated(make, reserved[0]), true), 0);
  EXPECT_EQ(a_.last_.entry().attr().inode(), reserved[0].inode());
  EXPECT_EQ(a_.last_.entry().attr().mtime().seconds(), 777);
  EXPECT_THAT(Exclusive(a_), Contains(reserved[0].inode()));
  v1::Request link = Client::CreateOf("link");
  link.mutable_create()->set_mode(S_IFLNK | 0777);
  link.mutable_create()->set_symlink("target");
  EXPECT_EQ(a_.Do(Delegated(link, reserved[1]), true), 0);
  EXPECT_EQ(a_.last_.entry().attr().inode(), reserved[1].inode());
  v1::Request device = Client::CreateOf("device");
  device.mutable_create()->set_mode(S_IFCHR | 0600);
  EXPECT_EQ(a_.Do(Delegated(device, reserved[2]), true), EPROTO);
  // All that is free can be had but those of what was refused.
  EXPECT_EQ(TakeAllBut(a_, reserved[2].extents(0).length_blocks()), 0);
}

}  // namespace
}  // namespace reel::mdc
