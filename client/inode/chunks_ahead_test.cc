#include "client/inode/chunks_ahead.h"

#include <gtest/gtest.h>

#include <memory>

namespace reel::client {
namespace {

ReadChunkRef Chunk(std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  auto chunk = std::make_shared<ReadChunk>();
  chunk->offset_bytes = offset_bytes;
  chunk->length_bytes = length_bytes;
  return chunk;
}

// Of 100 bytes each, from `at_bytes` on, until there are enough.
std::size_t Fill(ChunksAhead& ahead, std::uint64_t at_bytes) {
  std::size_t added = 0;
  for (; !ahead.full(); ++added) ahead.Add(Chunk(ahead.NextAt(at_bytes), 100));
  return added;
}

TEST(ChunksAhead, CoverWhatLiesInThemWhole) {
  ChunksAhead ahead;
  ahead.Add(Chunk(100, 100));
  ahead.Add(Chunk(200, 50));
  EXPECT_EQ(ahead.NextAt(0), 250u);
  EXPECT_EQ(ahead.Covering(100, 200).size(), 1u);
  EXPECT_EQ(ahead.Covering(150, 250).size(), 2u);
  EXPECT_EQ(ahead.Covering(220, 230).front()->offset_bytes, 200u);
  EXPECT_TRUE(ahead.Covering(50, 150).empty());
  EXPECT_TRUE(ahead.Covering(150, 251).empty());
}

TEST(ChunksAhead, AreOfUseUntilTheFileChanges) {
  ChunksAhead ahead;
  ahead.NoteChange();
  const ReadChunkRef chunk = Chunk(0, 100);
  ahead.Add(chunk);
  EXPECT_FALSE(ahead.IsOfUse(*chunk)) << "it is on its way";
  chunk->state = ReadChunk::State::kRead;
  EXPECT_TRUE(ahead.IsOfUse(*chunk));
  ahead.NoteChange();
  EXPECT_FALSE(ahead.IsOfUse(*chunk));
}

TEST(ChunksAhead, GrowInNumberAsTheyAreOfUse) {
  ChunksAhead ahead;
  ahead.Pass(0);
  EXPECT_EQ(Fill(ahead, 0), 2u);
  ahead.Pass(99);
  EXPECT_TRUE(ahead.full()) << "the stream is in the first one";
  ahead.Pass(100);
  EXPECT_EQ(Fill(ahead, 100), 3u);
  std::uint64_t at_bytes = 100;
  for (int i = 0; i < 10; ++i) {
    ahead.Pass(at_bytes += 100);
    Fill(ahead, at_bytes);
  }
  EXPECT_EQ(ahead.NextAt(0), at_bytes + ChunksAhead::kMaxChunks * 100);
  ahead.Clear();
  EXPECT_EQ(ahead.NextAt(7), 7u);
}

}  // namespace
}  // namespace reel::client
