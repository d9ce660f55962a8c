#include "mdc/rpc/unsent_frames.h"

#include <gtest/gtest.h>

#include <string>

namespace reel::mdc {
namespace {

using Added = UnsentFrames::Added;
using Step = UnsentFrames::Step;

v1::ServerFrame Frame(std::uint64_t id, std::size_t bytes = 0) {
  v1::ServerFrame frame;
  frame.add_replies()->set_id(id);
  frame.mutable_replies(0)->set_message(std::string(bytes, 'x'));
  return frame;
}

TEST(UnsentFrames, OneWriteIsUnderWayAtATimeAndInOrder) {
  UnsentFrames unsent;
  v1::ServerFrame frame;
  EXPECT_EQ(unsent.Next(&frame), Step::kNothing);
  EXPECT_EQ(unsent.Add(Frame(1)), Added::kWaits);
  EXPECT_EQ(unsent.Add(Frame(2)), Added::kWaits);
  EXPECT_EQ(unsent.Next(&frame), Step::kWrite);
  EXPECT_EQ(frame.replies(0).id(), 1U);
  EXPECT_EQ(unsent.Next(&frame), Step::kNothing);
  unsent.Written(true);
  EXPECT_EQ(unsent.Next(&frame), Step::kWrite);
  EXPECT_EQ(frame.replies(0).id(), 2U);
  EXPECT_EQ(unsent.bytes(), 0U);
}

TEST(UnsentFrames, TheStreamIsFinishedOnceAndBehindTheLastWrite) {
  UnsentFrames unsent;
  v1::ServerFrame frame;
  unsent.AddLast(Frame(1));
  EXPECT_EQ(unsent.Add(Frame(2)), Added::kDropped);
  EXPECT_EQ(unsent.Next(&frame), Step::kWrite);
  EXPECT_FALSE(unsent.finished());
  unsent.Written(true);
  EXPECT_EQ(unsent.Next(&frame), Step::kFinish);
  EXPECT_TRUE(unsent.finished());
  unsent.End();
  EXPECT_EQ(unsent.Next(&frame), Step::kNothing);
}

TEST(UnsentFrames, AFailedWriteDropsTheRest) {
  UnsentFrames unsent;
  v1::ServerFrame frame;
  unsent.Add(Frame(1));
  unsent.Add(Frame(2));
  EXPECT_EQ(unsent.Next(&frame), Step::kWrite);
  unsent.Written(false);
  EXPECT_EQ(unsent.Next(&frame), Step::kNothing);
}

TEST(UnsentFrames, APeerThatDoesNotReadIsCutOffOnce) {
  UnsentFrames unsent;
  EXPECT_EQ(unsent.Add(Frame(1, UnsentFrames::kMaxBytes / 2)), Added::kWaits);
  EXPECT_EQ(unsent.Add(Frame(2, UnsentFrames::kMaxBytes / 2)), Added::kTooMuch);
  EXPECT_EQ(unsent.Add(Frame(3)), Added::kDropped);
}

}  // namespace
}  // namespace reel::mdc
