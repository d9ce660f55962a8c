#include "mdc/sessions/stream_table.h"

#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

TEST(StreamTable, AStreamKeepsTheCertificateThatItCameWith) {
  constexpr StreamId kStream(3);
  StreamTable streams;
  EXPECT_EQ(streams.CertificateOf(kStream), "");
  EXPECT_TRUE(streams.Add(kStream, "render1"));
  EXPECT_FALSE(streams.Add(kStream, "grade2"));
  EXPECT_EQ(streams.CertificateOf(kStream), "render1");
}

TEST(StreamTable, ARefusedStreamStaysRefusedUntilItEnds) {
  constexpr StreamId kStream(3);
  StreamTable streams;
  streams.Refuse(kStream);
  EXPECT_FALSE(streams.IsRefused(kStream));
  streams.Add(kStream, {});
  EXPECT_FALSE(streams.IsRefused(kStream));
  streams.Refuse(kStream);
  streams.Add(kStream, {});
  EXPECT_TRUE(streams.IsRefused(kStream));
  streams.Remove(kStream);
  EXPECT_FALSE(streams.IsRefused(kStream));
}

}  // namespace
}  // namespace reel::mdc
