// fsck.reelfs on a volume whose damaged metadata store has no room to be rebuilt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "mdc/metadb/schema.h"
#include "mdc/store/store.h"
#include "spdlog/spdlog.h"
#include "tools/tests/program_fixture.h"
#include "volume/format/lun_scan.h"

namespace reel::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class FullRepairTest : public ProgramsTest {
 protected:
  static constexpr std::uint64_t kRecords = 600;  // of 20,000 bytes, half of the store

  FullRepairTest() : image_(MakeImage("a.img")) {
    spdlog::set_level(spdlog::level::off);
    EXPECT_EQ(Mkfs("reel1 " + image_).exit_code, 0);
  }

  // As the controller does, what it serves; for a look or for a change.
  void InTheStore(const std::function<void(mdc::MetaDb&)>& work) {
    auto volume = OpenVolumeByName("reel1", {image_}, LunAccess::kReadWrite);
    ASSERT_TRUE(volume.ok()) << volume.status();
    auto store = mdc::Store::Open(*volume, {.cache_bytes = kMiB});
    ASSERT_TRUE(store.ok()) << store.status();
    work((*store)->db());
  }
  static std::string Key(std::uint64_t i) {
    return mdc::schema::XattrKey(InodeNumber(1'000 + i), "user.noise");
  }
  static std::string Value(std::uint64_t i) {
    std::mt19937_64 random(i);
    std::string value(20'000, '\0');
    std::generate(value.begin(), value.end(), std::ref(random));
    return value;
  }
  // Wherever the bytes of the value lie, one is another now.
  void Damage(const std::string& value) {
    std::ifstream file(image_, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    std::size_t found = 0;
    const std::string part = value.substr(100, 64);
    for (auto at = content.find(part); at != content.npos; at = content.find(part, at + 1)) {
      Overwrite(image_, at, std::string(1, static_cast<char>(part[0] ^ 1)));
      ++found;
    }
    ASSERT_GT(found, 0);
  }
  std::uint64_t Served() {
    std::uint64_t served = 0;
    InTheStore([&](mdc::MetaDb& db) {
      std::string value;
      for (std::uint64_t i = 0; i < kRecords; ++i) {
        const auto found = db.Get(Key(i), &value, mdc::Tier::kAll);
        served += found.ok() && *found == mdc::Found::kYes && value == Value(i) ? 1 : 0;
      }
    });
    return served;
  }

  const std::string image_;
};

TEST_F(FullRepairTest, ARepairWithoutRoomChangesNothing) {
  InTheStore([](mdc::MetaDb& db) {
    for (std::uint64_t i = 0; i < kRecords; ++i) {
      mdc::WriteBatch batch;
      batch.Put(Key(i), Value(i));
      ASSERT_TRUE(db.Apply(batch).ok());
      ASSERT_TRUE(db.Sync().ok());
    }
  });
  Damage(Value(7));
  const std::uint64_t served = Served();
  EXPECT_LT(served, kRecords);
  EXPECT_GT(served, kRecords / 2);
  const Outcome refused = Fsck("-y reel1");
  EXPECT_EQ(refused.exit_code, 4) << refused.output;
  EXPECT_THAT(refused.output,
              AllOf(HasSubstr("the metadata store is too full to be rebuilt"),
                    HasSubstr("serve the volume, remove files, and run the repair again"),
                    Not(HasSubstr("repairs made"))));
  EXPECT_EQ(Served(), served);

  InTheStore([](mdc::MetaDb& db) {
    for (std::uint64_t i = kRecords / 4; i < kRecords; ++i) {
      mdc::WriteBatch batch;
      batch.Delete(Key(i));
      ASSERT_TRUE(db.Apply(batch).ok());
    }
    ASSERT_TRUE(db.Sync().ok());
  });
  const Outcome repaired = Fsck("-y reel1");
  EXPECT_EQ(repaired.exit_code, 1) << repaired.output;
  EXPECT_THAT(repaired.output, HasSubstr("records that could be read"));
  EXPECT_EQ(Fsck("reel1").exit_code, 0);
}

}  // namespace
}  // namespace reel::tools
