#include "proto/protocol.h"

#include "gtest/gtest.h"
#include "proto/session.pb.h"

namespace reel {
namespace {

absl::StatusOr<std::uint32_t> Meet(ProtocolRange client, ProtocolRange controller) {
  return CommonProtocol({"mount.reelfs on ws1", client}, {"reel-mdcd on mdc1", controller});
}

TEST(Protocol, TheNewestThatBothSpeakIsUsed) {
  EXPECT_EQ(*Meet({1, 1}, {1, 2}), 1U);
  EXPECT_EQ(*Meet({1, 2}, {1, 1}), 1U);
  EXPECT_EQ(*Meet({1, 3}, {2, 4}), 3U);
  EXPECT_EQ(*Meet({2, 2}, {2, 2}), 2U);
}

TEST(Protocol, NoneInCommonNamesBothRangesAndWhatToUpgrade) {
  const auto old_controller = Meet({3, 4}, {1, 2});
  EXPECT_TRUE(absl::IsUnimplemented(old_controller.status()));
  EXPECT_EQ(old_controller.status().message(),
            "no common protocol version: mount.reelfs on ws1 speaks 3 to 4, reel-mdcd on mdc1 "
            "speaks 1 to 2; upgrade reel-mdcd on mdc1");
  const auto old_client = Meet({1, 1}, {2, 3});
  EXPECT_EQ(old_client.status().message(),
            "no common protocol version: mount.reelfs on ws1 speaks 1, reel-mdcd on mdc1 speaks 2 "
            "to 3; upgrade mount.reelfs on ws1");
}

TEST(Protocol, APeerWithoutAVersionSpeaksVersionOne) {
  const ProtocolRange first{1, 1};
  EXPECT_EQ(ProtocolOf(0, 0), first);
  EXPECT_EQ(ProtocolOf(0, 7), first);
  EXPECT_EQ(ProtocolOf(3, 2), first);
  for (const char* text : {"", "-", "2", "1-", "-2", "a-b", "3-2", "1-99999999999"}) {
    EXPECT_EQ(DecodeProtocol(text), first) << text;
  }
  EXPECT_EQ(DecodeProtocol("2-5"), (ProtocolRange{2, 5}));
  EXPECT_EQ(DecodeProtocol(EncodeProtocol({1, 2})), (ProtocolRange{1, 2}));
}

TEST(Protocol, ThisReleaseSpeaksTheVersionBeforeItsOwn) {
  const ProtocolRange spoken = SpokenProtocol();
  EXPECT_LT(spoken.oldest, spoken.newest);
  EXPECT_EQ(SpokenFeatures({1, 1}), std::uint64_t{v1::FEATURE_NONE});
  EXPECT_NE(SpokenFeatures(spoken) & v1::FEATURE_FAREWELL, 0U);
}

}  // namespace
}  // namespace reel
