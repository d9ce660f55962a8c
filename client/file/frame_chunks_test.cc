#include "client/file/frame_chunks.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

ReadChunkRef Chunk(std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  auto chunk = std::make_shared<ReadChunk>();
  chunk->offset_bytes = offset_bytes;
  chunk->length_bytes = length_bytes;
  return chunk;
}

// Three chunks of ten bytes, and one of five.
FrameChunks Frame() {
  FrameChunks frame;
  frame.Want(35);
  for (const std::uint64_t at : {0, 10, 20}) frame.Add(Chunk(at, 10));
  frame.Add(Chunk(30, 5));
  return frame;
}

TEST(FrameChunks, ARangeIsThereWhereChunksCoverAllOfIt) {
  const FrameChunks frame = Frame();
  EXPECT_TRUE(frame.done());
  EXPECT_EQ(frame.Covering(0, 10).size(), 1u);
  EXPECT_EQ(frame.Covering(9, 21).size(), 3u);
  EXPECT_EQ(frame.Covering(30, 35).size(), 1u);
  EXPECT_TRUE(frame.Covering(30, 36).empty());
  EXPECT_TRUE(frame.Covering(40, 50).empty());
}

TEST(FrameChunks, AChunkGoesWhenAllOfItWasTakenInWhateverOrder) {
  FrameChunks frame = Frame();
  frame.Take(15, 35);
  EXPECT_TRUE(frame.Covering(20, 21).empty());
  EXPECT_TRUE(frame.Covering(30, 31).empty());
  EXPECT_EQ(frame.Covering(5, 20).size(), 2u) << "half of the second one is still to be taken";
  frame.Take(0, 10);
  EXPECT_TRUE(frame.Covering(0, 1).empty());
  EXPECT_TRUE(frame.Leads(0));
  frame.Take(10, 15);
  EXPECT_FALSE(frame.Leads(0)) << "all of it was taken";
}

TEST(FrameChunks, WhatAProgramReadsForItselfIsNotBegun) {
  FrameChunks frame;
  frame.Want(100);
  frame.Add(Chunk(0, 10));
  frame.Pass(35, 10);
  EXPECT_EQ(frame.next_bytes(), 30u);
  frame.Add(Chunk(30, 10));
  EXPECT_TRUE(frame.Covering(0, 20).empty()) << "there is a gap";
  EXPECT_EQ(frame.Covering(30, 40).size(), 1u);
  frame.Pass(5, 10);
  EXPECT_EQ(frame.next_bytes(), 40u) << "it never goes back";
}

TEST(FrameChunks, ClearedItWantsNothing) {
  FrameChunks frame = Frame();
  frame.Clear();
  EXPECT_TRUE(frame.done());
  EXPECT_FALSE(frame.Leads(0));
  EXPECT_TRUE(frame.Covering(0, 10).empty());
}

}  // namespace
}  // namespace reel::client
