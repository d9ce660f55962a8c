// Epochs that follow each other over one LUN while writes of the one before are still under way,
// and land at any time: what was synced is there, whatever comes late. By seeds; a failure names
// its own.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "mdc/metafs/file_io.h"
#include "mdc/metafs/metafs.h"
#include "mdc/metafs/testing/lun_space.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/long_run.h"

namespace reel::metafs {
namespace {

// A host's way to the LUN. From its pause on nothing that it writes arrives, until it lands late,
// and no flush of it ever ends.
class Host final : public Space {
 public:
  explicit Host(Lun& lun) : space_(lun) {}

  void Pause() { paused_ = true; }
  // The next late write lands; false: there is none.
  bool Land() {
    if (late_.empty()) return false;
    const auto [at, bytes] = std::move(late_.front());
    late_.pop_front();
    (void)space_.Write(at, {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
    return true;
  }

  std::uint32_t block_bytes() const override { return space_.block_bytes(); }
  std::uint64_t size_bytes() const override { return space_.size_bytes(); }
  absl::Status SetRegions(const std::vector<Region>& regions) override {
    return space_.SetRegions(regions);
  }
  absl::Status Read(std::uint64_t at, std::span<std::byte> to) override {
    return space_.Read(at, to);
  }
  absl::Status Write(std::uint64_t at, std::span<const std::byte> from) override {
    if (!paused_) return space_.Write(at, from);
    late_.emplace_back(at, std::string(reinterpret_cast<const char*>(from.data()), from.size()));
    return absl::OkStatus();
  }
  absl::Status Flush() override {
    return paused_ ? absl::UnavailableError("it stands still") : space_.Flush();
  }

 private:
  LunSpace space_;
  bool paused_ = false;
  std::deque<std::pair<std::uint64_t, std::string>> late_;
};

// What one epoch does: logs that grow by synced pieces, and files that go.
class Writer {
 public:
  Writer(Host& host, std::uint64_t epoch, std::mt19937_64& random)
      : epoch_(epoch), random_(random) {
    auto fs = MetaFs::Mount(host, {.epoch = Epoch(epoch)});
    status_ = fs.status();
    if (fs.ok()) fs_ = *std::move(fs);
  }
  const absl::Status& status() const { return status_; }
  MetaFs& fs() { return *fs_; }

  // `kept` is what is synced in each file, as long as this host's syncs count.
  void Step(std::map<std::string, std::string>& kept) {
    if (status_.ok() && (appender_ == nullptr || Below(24) == 0)) Begin(kept);
    if (status_.ok()) Append(kept);
    if (status_.ok() && kept.size() > kFiles) Remove(kept);
  }

 private:
  static constexpr std::size_t kFiles = 4;

  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  void Begin(std::map<std::string, std::string>& kept) {
    name_ = "/" + std::to_string(epoch_) + "-" + std::to_string(++files_) + ".log";
    auto file = fs_->Create(name_);
    status_ = file.status();
    if (!file.ok()) return;
    appender_ = std::make_unique<LogAppender>(*fs_, *file);
    status_ = appender_->Append("begin");
    if (status_.ok()) status_ = appender_->Sync();
    if (status_.ok()) kept[name_] = "begin";
  }
  void Append(std::map<std::string, std::string>& kept) {
    const std::string piece(1 + Below(30'000), static_cast<char>('a' + Below(26)));
    status_ = appender_->Append(piece);
    if (status_.ok()) status_ = appender_->Sync();
    if (status_.ok()) kept[name_] += piece;
  }
  void Remove(std::map<std::string, std::string>& kept) {
    const auto victim = kept.begin();
    if (victim->first == name_) return;
    status_ = fs_->Remove(victim->first);
    if (status_.ok()) status_ = fs_->Commit();
    kept.erase(victim);
  }

  const std::uint64_t epoch_;
  std::mt19937_64& random_;
  absl::Status status_;
  std::unique_ptr<MetaFs> fs_;
  std::string name_;
  std::unique_ptr<LogAppender> appender_;
  int files_ = 0;
};

absl::StatusOr<std::string> Content(MetaFs& fs, const std::string& name) {
  auto file = fs.Find(name);
  if (!file.ok()) return file.status();
  auto reader = OpenLogReader(fs, *file);
  if (!reader.ok()) return reader.status();
  std::string all;
  if (absl::Status s = (*reader)->Read(64 << 20, all); !s.ok()) return s;
  return all;
}

// "" or what is wrong. Two hosts at a time: one that writes, and the one before it, which stands
// still from a moment of its own on and does not know.
std::string RunSeed(std::uint64_t seed) {
  constexpr std::uint64_t kEpochs = 8;
  std::mt19937_64 random(seed);
  FaultyLun lun({.size_bytes = 10 << 20, .logical_block_bytes = 512});
  LunSpace whole(lun);
  if (absl::Status s = MetaFs::Format(whole, {.regions = {whole.Whole()}, .epoch = Epoch(1)});
      !s.ok()) {
    return s.ToString();
  }
  std::map<std::string, std::string> kept;
  std::unique_ptr<Host> before;
  std::unique_ptr<Writer> old;
  for (std::uint64_t epoch = 2; epoch < 2 + kEpochs; ++epoch) {
    auto host = std::make_unique<Host>(lun);
    auto writer = std::make_unique<Writer>(*host, epoch, random);
    if (!writer->status().ok()) return "mount: " + writer->status().ToString();
    for (const auto& [name, content] : kept) {
      const auto found = Content(writer->fs(), name);
      if (!found.ok()) return name + ": " + found.status().ToString();
      // What was under way may be there, too.
      if (!found->starts_with(content)) return name + " is not what was synced";
    }
    for (std::uint64_t left = random() % 60; left > 0 && writer->status().ok(); --left) {
      writer->Step(kept);
      while (before != nullptr && random() % 3 == 0 && before->Land()) {
      }
    }
    if (!writer->status().ok()) return writer->status().ToString();
    while (before != nullptr && before->Land()) {
    }
    // What it has under way then, nobody was told of.
    host->Pause();
    std::map<std::string, std::string> unheard = kept;
    while (writer->status().ok()) writer->Step(unheard);
    before = std::move(host);
    old = std::move(writer);
  }
  return "";
}

TEST(LateWritesTest, LateWritesOfADeadEpochDamageNothing) {
  const std::uint64_t seeds = IsLongRun() ? 10'000 : 300;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::string wrong = RunSeed(seed);
    ASSERT_EQ(wrong, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace reel::metafs
