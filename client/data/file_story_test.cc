// Long random histories of one file, by one client and by several, checked against a model of what
// the file must look like.
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <algorithm>
#include <random>
#include <thread>

#include "client/testing/data_cluster.h"

namespace reel::client {
namespace {

// What a file must look like.
class Model {
 public:
  void Write(std::uint64_t offset, const std::string& bytes) {
    if (offset + bytes.size() > bytes_.size()) bytes_.resize(offset + bytes.size());
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  void Resize(std::uint64_t size) { bytes_.resize(size); }
  void Zero(std::uint64_t from, std::uint64_t to) {
    to = std::min<std::uint64_t>(to, bytes_.size());
    for (; from < to; ++from) bytes_[from] = '\0';
  }
  std::string Read(std::uint64_t offset, std::size_t length) const {
    return offset >= bytes_.size() ? "" : bytes_.substr(offset, length);
  }
  std::uint64_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

// One long random history of one file, checked against the model at each step.
class Story {
 public:
  Story(std::uint64_t seed, std::uint64_t inode, std::uint64_t range, std::uint64_t align)
      : random_(seed), inode_(inode), range_(range), align_(align) {}

  void Step(TestClient& client) {
    switch (random_() % 12) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const std::uint64_t at = Place();
        const std::string bytes = Bytes(1 + random_() % (range_ / 4));
        client.Write(inode_, at, bytes);
        model_.Write(at, bytes);
        break;
      }
      case 4: {
        const std::string bytes = Bytes(1 + random_() % 3000);
        if (model_.size() > 2 * range_) break;
        EXPECT_EQ(client.Write(inode_, 0, bytes, {.append = true}), model_.size());
        model_.Write(model_.size(), bytes);
        break;
      }
      case 5: {
        const std::uint64_t size = Place();
        EXPECT_TRUE(client.Truncate(inode_, size).ok());
        model_.Resize(size);
        break;
      }
      case 6: {
        const std::uint64_t from = Place(), to = from + 1 + random_() % (range_ / 4);
        const std::uint32_t mode = random_() % 2 ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
                                                 : FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
        EXPECT_TRUE(client.data().Allocate(inode_, mode, from, to - from, {}).ok());
        model_.Zero(from, to);
        break;
      }
      case 7: {
        const std::uint64_t from = Place(), to = from + 1 + random_() % (range_ / 4);
        const bool keep = random_() % 2;
        EXPECT_TRUE(client.data()
                        .Allocate(inode_, keep ? FALLOC_FL_KEEP_SIZE : 0, from, to - from, {})
                        .ok());
        if (!keep && to > model_.size()) model_.Resize(to);
        break;
      }
      case 8:
        EXPECT_TRUE(client.Fsync(inode_).ok());
        break;
      default:
        CheckPart(client);
    }
  }
  void CheckPart(TestClient& client) {
    const std::uint64_t at = Place();
    const std::size_t length = 1 + random_() % range_;
    ASSERT_EQ(client.Read(inode_, at, length), model_.Read(at, length)) << "at " << at;
  }
  void CheckAll(TestClient& client) {
    ASSERT_EQ(client.Read(inode_, 0, 4 * range_), model_.Read(0, 4 * range_));
  }
  std::uint64_t Toss(std::uint64_t n) { return random_() % n; }
  const Model& model() const { return model_; }

 private:
  std::uint64_t Place() {
    const std::uint64_t at = random_() % range_;
    return random_() % 3 == 0 ? RoundDown(at, align_) : at;
  }
  std::string Bytes(std::size_t length) {
    if (random_() % 3 == 0) length = RoundUp(length, align_);
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = static_cast<char>('a' + random_() % 26);
    return bytes;
  }

  std::mt19937_64 random_;
  std::uint64_t inode_, range_, align_;
  Model model_;
};

struct Geometry {
  std::uint32_t block_bytes, logical_block_bytes;
};

class StoryTest : public testing::TestWithParam<Geometry> {
 protected:
  ClusterShape Shape() const {
    return {.block_bytes = GetParam().block_bytes,
            .logical_block_bytes = GetParam().logical_block_bytes,
            .rows = (12u << 20) / GetParam().block_bytes / 9};
  }
};

TEST_P(StoryTest, OneClientReadsWhatItWrote) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    DataCluster cluster(Shape());
    const std::uint64_t inode = cluster.mdc().CreateFile();
    Story story(seed, inode, 300'000, GetParam().logical_block_bytes);
    {
      const auto client = cluster.Mount();
      for (int i = 0; i < 150 && !HasFatalFailure(); ++i) story.Step(*client);
    }
    const auto later = cluster.Mount();
    story.CheckAll(*later);
    EXPECT_EQ(cluster.mdc().AttrOf(inode).size_bytes(), story.model().size());
  }
}

TEST_P(StoryTest, TwoClientsInTurnSeeOneFile) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    DataCluster cluster(Shape());
    const std::uint64_t inode = cluster.mdc().CreateFile();
    Story story(seed, inode, 200'000, GetParam().logical_block_bytes);
    const auto one = cluster.Mount();
    const auto two = cluster.Mount();
    for (int i = 0; i < 150 && !HasFatalFailure(); ++i) {
      story.Step(story.Toss(3) == 0 ? *two : *one);
    }
    story.CheckAll(*one);
    story.CheckAll(*two);
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, StoryTest,
                         testing::Values(Geometry{4096, 512}, Geometry{4096, 4096},
                                         Geometry{16384, 4096}, Geometry{65536, 512}));

// Every size up to three blocks may lie with the controller.
TEST(FileStoryTest, ASmallFileComesAndGoes) {
  ClusterShape shape;
  shape.mdc.small_file_bytes = 3 * 4096;
  DataCluster cluster(shape);
  auto a = cluster.Mount();
  auto b = cluster.Mount();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::uint64_t inode = cluster.mdc().CreateFile();
    Story story(seed, inode, /*range=*/16'000, /*align=*/512);
    for (int i = 0; i < 60; ++i) story.Step(i % 7 < 4 ? *a : *b);
    story.CheckAll(*a);
    story.CheckAll(*b);
  }
}

TEST(FileStoryTest, AFileSurvivesLostStreamsAndNewEpochs) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  ASSERT_TRUE(client->data().Open(inode, true, {}).ok());
  Story story(5, inode, 100'000, 512);
  for (int i = 0; i < 200 && !testing::Test::HasFatalFailure(); ++i) {
    // The replies to what happens now are lost with the stream, so all of it is resent.
    if (i % 10 == 3) {
      cluster.mdc().LoseReplies(true);
      std::thread step([&] { story.Step(*client); });
      std::this_thread::yield();
      i % 20 == 3 ? cluster.mdc().Restart() : cluster.mdc().DropStreams();
      step.join();
    } else {
      story.Step(*client);
    }
  }
  story.CheckAll(*client);
  EXPECT_TRUE(client->Fsync(inode).ok());
  EXPECT_EQ(cluster.mdc().OpensOf(inode), 1u);
  client->data().Close(inode);
}

}  // namespace
}  // namespace reel::client
