#include "client/inode/opens.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

TEST(Opens, TheLastCloseOfAWriterEndsWriting) {
  Opens opens;
  EXPECT_FALSE(opens.Close().last) << "nothing is open";
  opens.Open(1, /*to_write=*/false);
  EXPECT_FALSE(opens.may_be_mapped_to_write());
  opens.Open(2, /*to_write=*/true);
  opens.Open(3, /*to_write=*/false);
  EXPECT_FALSE(opens.Close().last);
  EXPECT_FALSE(opens.Close().last);
  EXPECT_TRUE(opens.may_be_mapped_to_write()) << "nobody knows which one was closed";
  const Opens::Closed closed = opens.Close();
  EXPECT_TRUE(closed.last && closed.was_to_write);
  EXPECT_FALSE(opens.any() || opens.may_be_mapped_to_write());
  opens.OpenDirectory();
  EXPECT_FALSE(opens.Close().was_to_write);
}

TEST(Opens, OneIsRegisteredHoweverManyAreOpen) {
  Opens opens;
  EXPECT_EQ(opens.BeginRegistering(), 0u) << "nothing is open";
  opens.Open(1, false);
  const std::uint64_t number = opens.BeginRegistering();
  EXPECT_NE(number, 0u);
  EXPECT_TRUE(opens.registered() && !opens.known());
  opens.Open(2, false);
  EXPECT_EQ(opens.BeginRegistering(), 0u);
  opens.EndRegistering(number, /*taken=*/true);
  EXPECT_TRUE(opens.known());
  opens.Close();
  opens.Close();
  EXPECT_TRUE(opens.Unregister()) << "the last close leaves that to be told";
  EXPECT_FALSE(opens.Unregister());
}

TEST(Opens, ALateRefusalIsOfItsOwnRegistrationOnly) {
  Opens opens;
  opens.Open(1, false);
  const std::uint64_t refused = opens.BeginRegistering();
  opens.Close();
  EXPECT_TRUE(opens.Unregister());
  opens.Open(2, false);
  const std::uint64_t taken = opens.BeginRegistering();
  opens.EndRegistering(refused, /*taken=*/false);
  EXPECT_TRUE(opens.registered());
  opens.EndRegistering(taken, /*taken=*/true);
  opens.EndRegistering(taken, /*taken=*/false);
  EXPECT_TRUE(opens.known());
}

TEST(Opens, OpensAreReclaimedAtANewController) {
  Opens opens;
  EXPECT_FALSE(opens.Reclaim());
  opens.NoteRegistered();
  EXPECT_FALSE(opens.Reclaim());
  EXPECT_FALSE(opens.registered());
  opens.Open(1, false);
  EXPECT_TRUE(opens.Reclaim());
  EXPECT_TRUE(opens.registered());
}

TEST(Opens, TheNewestHandleStaysKnown) {
  Opens opens;
  opens.Open(7, true);
  opens.Open(3, true);
  opens.Close();
  opens.Close();
  EXPECT_EQ(opens.newest_handle(), 7u);
  opens.NoteHandle(9);
  EXPECT_EQ(opens.newest_handle(), 9u);
}

TEST(Opens, ACreatedFileIsLostWithItsEarlyReply) {
  Opens opens;
  opens.Create(1, /*told=*/5);
  EXPECT_TRUE(opens.registered() && opens.may_be_mapped_to_write());
  EXPECT_TRUE(opens.IsMadeBy(5));
  EXPECT_FALSE(opens.IsMadeBy(6));
  opens.Void();
  EXPECT_TRUE(opens.any());
  EXPECT_FALSE(opens.registered() || opens.IsMadeBy(1));
}

}  // namespace
}  // namespace reel::client
