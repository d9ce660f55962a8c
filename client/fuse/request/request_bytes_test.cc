#include "client/fuse/request/request_bytes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace reel::client {
namespace {

TEST(RequestBytes, AreWhatTheKernelsLimitAllows) {
  const auto page = static_cast<std::uint32_t>(getpagesize());
  EXPECT_EQ(FuseRequestBytes(std::to_string((2 << 20) / page)), 2u << 20);
  EXPECT_EQ(FuseRequestBytes(std::to_string(kMostFuseRequestBytes / page)), kMostFuseRequestBytes);
  EXPECT_EQ(FuseRequestBytes("65535"), kMostFuseRequestBytes);
  EXPECT_EQ(FuseRequestBytes("4294967295"), kMostFuseRequestBytes);
}

TEST(RequestBytes, AreTheUsualOnesWhereItSaysNothingElse) {
  for (const char* text : {"", "0", "1", "256", "-1", "many", "99999999999"}) {
    EXPECT_EQ(FuseRequestBytes(text), kUsualFuseRequestBytes) << text;
  }
}

}  // namespace
}  // namespace reel::client
