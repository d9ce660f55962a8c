#include "client/session/live_link.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

TEST(LiveLink, RequestsGoOnALiveLinkAndOneThreadSends) {
  LiveLink link;
  EXPECT_FALSE(link.MaySend());
  link.Greeted("a", 7);
  EXPECT_FALSE(link.MaySend());  // what was held is claimed first
  link.Live();
  EXPECT_TRUE(link.MaySend());
  (void)link.BeginSend();
  EXPECT_FALSE(link.MaySend());
  link.Lost(5);
  EXPECT_TRUE(link.sending());
  link.EndSend();
  EXPECT_FALSE(link.MaySend());
  EXPECT_EQ(link.address(), "a");
  EXPECT_EQ(link.epoch(), 7U);
}

TEST(LiveLink, ALinkTimesOutOnlyWhenLostForLong) {
  LiveLink link;
  link.Live();
  EXPECT_FALSE(link.TimedOut(1000, 10));
  link.Lost(1000);
  EXPECT_FALSE(link.TimedOut(1009, 10));
  EXPECT_TRUE(link.TimedOut(1010, 10));
  EXPECT_FALSE(link.TimedOut(1010, 0));
}

TEST(Contact, IsNotAwayBeforeTheLinkFirstWasLive) {
  Contact contact(30);
  EXPECT_FALSE(contact.away());
  EXPECT_EQ(contact.soft_timeout_ms(), 30U);
}

}  // namespace
}  // namespace reel::client
