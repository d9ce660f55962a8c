#include "client/inode/read_ahead_chunks.h"

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
std::size_t Fill(ReadAheadChunks& delayed, std::uint64_t at_bytes) {
  std::size_t added = 0;
  for (; !delayed.full(); ++added) delayed.Add(Chunk(delayed.NextAt(at_bytes), 100));
  return added;
}

TEST(ReadAheadChunks, AChunkCoversOnlyWholeReads) {
  ReadAheadChunks delayed;
  delayed.Add(Chunk(100, 100));
  delayed.Add(Chunk(200, 50));
  EXPECT_EQ(delayed.NextAt(0), 250u);
  EXPECT_EQ(delayed.Covering(100, 200).size(), 1u);
  EXPECT_EQ(delayed.Covering(150, 250).size(), 2u);
  EXPECT_EQ(delayed.Covering(220, 230).front()->offset_bytes, 200u);
  EXPECT_TRUE(delayed.Covering(50, 150).empty());
  EXPECT_TRUE(delayed.Covering(150, 251).empty());
}

TEST(ReadAheadChunks, AChunkIsValidUntilTheFileChanges) {
  ReadAheadChunks delayed;
  delayed.NoteChange();
  const ReadChunkRef chunk = Chunk(0, 100);
  delayed.Add(chunk);
  EXPECT_FALSE(delayed.IsOfUse(*chunk)) << "it is on its way";
  chunk->state = ReadChunk::State::kRead;
  EXPECT_TRUE(delayed.IsOfUse(*chunk));
  delayed.NoteChange();
  EXPECT_FALSE(delayed.IsOfUse(*chunk));
}

TEST(ReadAheadChunks, MoreChunksAreReadAsTheyAreUsed) {
  ReadAheadChunks delayed;
  delayed.Pass(0);
  EXPECT_EQ(Fill(delayed, 0), 2u);
  delayed.Pass(99);
  EXPECT_TRUE(delayed.full()) << "the stream is in the first one";
  delayed.Pass(100);
  EXPECT_EQ(Fill(delayed, 100), 3u);
  std::uint64_t at_bytes = 100;
  for (int i = 0; i < 10; ++i) {
    delayed.Pass(at_bytes += 100);
    Fill(delayed, at_bytes);
  }
  EXPECT_EQ(delayed.NextAt(0), at_bytes + ReadAheadChunks::kMaxChunks * 100);
  delayed.Clear();
  EXPECT_EQ(delayed.NextAt(7), 7u);
}

TEST(ReadAheadChunks, LargeReadsFindAllThatTheyNeed) {
  ReadAheadChunks delayed;
  delayed.Pass(400, 4);
  EXPECT_EQ(Fill(delayed, 400), 8u);
  EXPECT_EQ(delayed.Covering(400, 800).size(), 4u);
  delayed.Clear();  // they were not
  delayed.Pass(800, 100);
  EXPECT_EQ(Fill(delayed, 800), ReadAheadChunks::kMaxChunks);
}

}  // namespace
}  // namespace reel::client
