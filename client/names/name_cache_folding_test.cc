#include "client/names/name_cache.h"
#include "client/testing/name_cache_fixture.h"

namespace reel::client {
namespace {

using NameCacheFoldingTest = NameCacheFixture;

TEST_F(NameCacheFoldingTest, SpellingsAreOneNameInADirectoryThatFoldsThem) {
  LookedUp("Old", 0);
  Described(v1::INODE_FLAG_CASEFOLD);
  EXPECT_EQ(Find("Old"), "?") << "it was known as it is spelled";
  LookedUp("Take.mov", 10);
  LookedUp("none", 0);
  EXPECT_EQ(Find("TAKE.MOV"), "10");
  EXPECT_EQ(Find("NONE"), "-");
  EXPECT_FALSE(cache_.ShowName(kDir, "Take.mov", 10)) << "the kernel knows spellings only";
  v1::Request unlink;
  unlink.mutable_unlink()->set_parent(kDir);
  unlink.mutable_unlink()->set_name("TAKE.mov");
  const auto change = cache_.BeginChange(unlink, to_forget_);
  EXPECT_EQ(Find("take.mov"), "?");
  EXPECT_FALSE(cache_.GetAttr(10)) << "its links are about to change";
  v1::Reply done;
  v1::Attr& changed = *done.add_changed() = AttrOf(kDir, S_IFDIR | 0755);
  changed.set_flags(v1::INODE_FLAG_CASEFOLD);
  changed.set_change(1);
  cache_.OnReply(unlink, done);
  cache_.EndChange(change);
  EXPECT_EQ(Find("take.mov"), "-");
  Described(0, 2);
  EXPECT_EQ(Find("NONE"), "?");
}

TEST_F(NameCacheFoldingTest, ALongerSpellingTakesAwayNoMoreThanThereIs) {
  std::string composed, decomposed;
  for (int i = 0; i < 31; ++i) {
    composed += "\u00e9";
    decomposed += "E\u0301";
  }
  ASSERT_NE(NameCache::WeightOf(composed), NameCache::WeightOf(decomposed));
  Described(v1::INODE_FLAG_CASEFOLD);
  const std::size_t before = cache_.weight();
  LookedUp(composed, 0);
  EXPECT_GT(cache_.weight(), before);
  v1::Request lookup;
  lookup.mutable_lookup()->set_parent(kDir);
  lookup.mutable_lookup()->set_name(decomposed);
  v1::Reply failed;
  failed.set_error(EIO);
  cache_.OnReply(lookup, failed);
  EXPECT_EQ(Find(composed), "?");
  EXPECT_EQ(cache_.weight(), before);
}

}  // namespace
}  // namespace reel::client
