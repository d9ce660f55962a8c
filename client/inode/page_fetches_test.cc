#include "client/inode/page_fetches.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

TokenRanges Held(v1::TokenMode mode) {
  TokenRanges held;
  held.Raise(kWholeFile, mode);
  return held;
}

TEST(PageFetches, APageFetchWithoutATokenWaitsForItsOwnReply) {
  PageFetches fetches;
  EXPECT_FALSE(fetches.WaitForToken({}));
  const PageFetches::Fetch fetch{.mode = v1::TOKEN_SHARED, .asks_token = true};
  fetches.Begin(fetch);
  EXPECT_TRUE(fetches.WaitForToken({}));
  EXPECT_TRUE(fetches.WaitForToken(Held(v1::TOKEN_EXCLUSIVE))) << "brought by another request";
  fetches.End(fetch);
  EXPECT_FALSE(fetches.WaitForToken({}));
}

TEST(PageFetches, AFetchOfExtentsWaitsOnceTheTokenIsLower) {
  PageFetches fetches;
  fetches.Begin({.mode = v1::TOKEN_SHARED});
  fetches.Begin({.mode = v1::TOKEN_EXCLUSIVE});
  EXPECT_FALSE(fetches.WaitForToken(Held(v1::TOKEN_EXCLUSIVE)));
  EXPECT_TRUE(fetches.WaitForToken(Held(v1::TOKEN_SHARED)));
  fetches.End({.mode = v1::TOKEN_EXCLUSIVE});
  EXPECT_FALSE(fetches.WaitForToken(Held(v1::TOKEN_SHARED)));
  EXPECT_TRUE(fetches.WaitForToken({}));
}

}  // namespace
}  // namespace reel::client
