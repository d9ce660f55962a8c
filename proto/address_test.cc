#include "proto/address.h"

#include <gtest/gtest.h>

namespace reel {
namespace {

TEST(Address, GetsAPortWhereItHasNone) {
  EXPECT_EQ(*MdcAddress("a"), "a:7440");
  EXPECT_EQ(*MdcAddress("10.0.0.1:9"), "10.0.0.1:9");
  EXPECT_EQ(*MdcAddress("fe80::1"), "[fe80::1]:7440");
  EXPECT_EQ(*MdcAddress("[fe80::1]"), "[fe80::1]:7440");
  EXPECT_EQ(*MdcAddress("[fe80::1]:5"), "[fe80::1]:5");
  for (const char* wrong : {"", ":1", "a:0", "a:70000", "a:x", "a b", "[fe80::1", "[::1]5"}) {
    EXPECT_FALSE(MdcAddress(wrong).ok()) << wrong;
  }
}

TEST(Address, KnowsThisHost) {
  for (const char* here : {"127.0.0.1:1", "127.3.2.1:0", "localhost:1", "[::1]:2"}) {
    EXPECT_TRUE(IsLoopbackAddress(here)) << here;
  }
  for (const char* elsewhere : {"0.0.0.0:1", "host:1", "127.0.0.1.evil:1", "127.1:1", "[::]:1"}) {
    EXPECT_FALSE(IsLoopbackAddress(elsewhere)) << elsewhere;
  }
}

TEST(Address, IsTakenApart) {
  const auto plain = SplitAddress("mdc1:7440");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->host, "mdc1");
  EXPECT_EQ(plain->port, 7440);
  const auto six = SplitAddress("[::1]:0");
  ASSERT_TRUE(six.ok()) << six.status();
  EXPECT_EQ(six->host, "::1");
  EXPECT_EQ(six->port, 0);
  for (const char* bad : {"", "mdc1", ":7440", "mdc1:", "mdc1:x", "mdc1:65536"}) {
    EXPECT_EQ(SplitAddress(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ListenAddress, OnlyLoopbackWithoutTls) {
  for (const char* good : {"127.0.0.1:7440", "127.3.2.1:0", "localhost:1", "[::1]:65535"}) {
    EXPECT_TRUE(ValidateListenAddress("listen", good, false).ok()) << good;
  }
  for (const char* bad : {"0.0.0.0:1", "10.0.0.1:7440", "host:1", "127.0.0.1", ":1", "[::]:1",
                          "127.0.0.1:99999", "127.0.0.1.evil:1", "127.1:1", ""}) {
    EXPECT_FALSE(ValidateListenAddress("listen", bad, false).ok()) << bad;
  }
  const absl::Status refused = ValidateListenAddress("listen", "10.0.0.1:1", false);
  EXPECT_NE(std::string(refused.message()).find("TLS"), std::string::npos) << refused;
  EXPECT_TRUE(ValidateListenAddress("listen", "0.0.0.0:7440", true).ok());
}

}  // namespace
}  // namespace reel
