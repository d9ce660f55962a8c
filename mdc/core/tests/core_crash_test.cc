// The controller on the whole metadata stack (core, RocksDB, metafs, a faulty LUN) that loses power
// at random requests: what was answered is there afterwards, once, and the checker finds nothing.
//
// Clients work in lanes, one slot each, and every lane has names of its own, so that what an
// operation must answer is known although many are under way. What was under way in a crash is sent
// again under its slot and sequence, and must then be answered as if nothing had happened.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mdc/check/checker.h"
#include "mdc/metadb/txn.h"
#include "mdc/ops/extents.h"
#include "mdc/testing/core_harness.h"
#include "mdc/testing/rocks_crash_store.h"
#include "volume/testing/long_run.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr int kClients = 2;
constexpr std::uint32_t kLanesEach = 4;

// What a name leads to; two names may share one.
struct File {
  std::uint64_t inode = 0;
  std::uint64_t size_bytes = 0;
  std::set<std::uint64_t> written;    // blocks
  std::set<std::uint64_t> unwritten;  // blocks that the lane was granted
  bool token = false;
};
using FileRef = std::shared_ptr<File>;

// One slot of a client, and the names that only it uses.
struct Lane {
  std::uint32_t slot = 0;
  std::string prefix;
  std::map<std::string, FileRef> names;
  int made = 0;

  // Under way: what was sent, what it must answer, and what follows from it.
  std::optional<v1::Request> request;
  std::uint64_t id = 0;
  std::string what;
  int expected = 0;
  std::function<void(const v1::Reply&)> done;
};

class PowerHistory {
 public:
  explicit PowerHistory(std::uint64_t seed) : random_(seed), store_(32 << 20) {
    harness_ = std::make_unique<CoreHarness>(*store_.db);
    harness_->may_die_ = true;
    for (int i = 0; i < kClients; ++i) {
      clients_.push_back(std::make_unique<Client>(*harness_, static_cast<std::uint8_t>(i + 1)));
      for (std::uint32_t slot = 1; slot <= kLanesEach; ++slot) {
        Lane& lane = lanes_[i].emplace_back();
        lane.slot = slot;
        lane.prefix = absl::StrCat("c", i, "s", slot, ".");
      }
    }
  }

  void Run() {
    ASSERT_TRUE(harness_->Revive(*store_.db));
    for (auto& client : clients_) client->Register();
    for (int life = 0; life < 4; ++life) {
      store_.power.FailAfter(static_cast<std::int64_t>(random_() % 120));
      for (int round = 0; round < 60 && !harness_->dead_; ++round) {
        ASSERT_NO_FATAL_FAILURE(Round());
      }
      ASSERT_NO_FATAL_FAILURE(Recover());
      ASSERT_NO_FATAL_FAILURE(Verify());
    }
  }

 private:
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }

  // Some lanes send something; all that is answered then is looked at.
  void Round() {
    // Sometimes several groups gather before a sync, and its crash takes all of them.
    harness_->hold_syncs_ = Below(3) == 0;
    for (int i = 0; i < kClients; ++i) {
      for (Lane& lane : lanes_[i]) {
        if (lane.request || Below(3) == 0) continue;
        Choose(lane);
        lane.id = clients_[i]->SendIn(lane.slot, *lane.request);
        if (Below(2) == 0) harness_->Run();
      }
    }
    harness_->Run();
    harness_->hold_syncs_ = false;
    harness_->Run();
    for (int i = 0; i < kClients; ++i) {
      for (Lane& lane : lanes_[i]) ASSERT_NO_FATAL_FAILURE(Look(*clients_[i], lane));
      // Of files that were removed: their blocks come free.
      for (const v1::RecallToken& recall : std::exchange(clients_[i]->recalls_, {})) {
        clients_[i]->SendIn(kLanesEach + 1, Client::ReturnOf(recall.inode(), recall.mode()));
        harness_->Run();
      }
    }
  }

  void Look(Client& client, Lane& lane) {
    if (!lane.request || !client.Answered(lane.id)) {
      ASSERT_TRUE(!lane.request || harness_->dead_) << lane.what << " is not answered";
      return;
    }
    const v1::Reply& reply = client.Answer(lane.id);
    // Reads fail too when the power does; the operation is sent again like one without an answer.
    if (store_.power.off() && reply.error() != lane.expected) return;
    ASSERT_EQ(reply.error(), lane.expected) << lane.what << ": " << reply.message();
    if (reply.error() == 0) lane.done(reply);
    lane.request.reset();
  }

  // ---- what a lane does ------------------------------------------------------------------------

  void Send(Lane& lane, std::string what, v1::Request request, int expected,
            std::function<void(const v1::Reply&)> done) {
    lane.what = absl::StrCat(lane.prefix, " ", what);
    lane.request = std::move(request);
    lane.expected = expected;
    lane.done = std::move(done);
  }

  std::string AnyName(const Lane& lane) {
    return std::next(lane.names.begin(), static_cast<std::ptrdiff_t>(Below(lane.names.size())))
        ->first;
  }

  void Choose(Lane& lane) {
    const std::uint64_t drawn = Below(10);
    if (lane.names.empty() || (drawn < 3 && lane.names.size() < 6)) return Create(lane);
    if (drawn < 4) return Unlink(lane);
    if (drawn < 5) return Rename(lane);
    if (drawn < 6) return Link(lane);
    const FileRef file = lane.names.at(AnyName(lane));
    if (drawn < 7) return Truncate(lane, file);
    if (!file->token || file->unwritten.empty()) return Grow(lane, file);
    Commit(lane, file);
  }

  void Create(Lane& lane) {
    // Now and then a name that is there.
    const bool taken = !lane.names.empty() && Below(5) == 0;
    const std::string name = taken ? AnyName(lane) : absl::StrCat(lane.prefix, ++lane.made);
    Send(lane, absl::StrCat("create ", name), Client::CreateOf(name), taken ? EEXIST : 0,
         [&lane, name](const v1::Reply& reply) {
           auto file = std::make_shared<File>();
           file->inode = reply.entry().attr().inode();
           lane.names[name] = file;
         });
  }

  void Unlink(Lane& lane) {
    const bool missing = Below(5) == 0;
    const std::string name = missing ? absl::StrCat(lane.prefix, "none") : AnyName(lane);
    Send(lane, absl::StrCat("unlink ", name), Client::UnlinkOf(name), missing ? ENOENT : 0,
         [&lane, name](const v1::Reply&) { lane.names.erase(name); });
  }

  void Rename(Lane& lane) {
    const std::string from = AnyName(lane);
    const std::string to = Below(2) == 0 ? AnyName(lane) : absl::StrCat(lane.prefix, ++lane.made);
    v1::Request request;
    v1::Rename& rename = *request.mutable_rename();
    rename.set_parent(1);
    rename.set_name(from);
    rename.set_new_parent(1);
    rename.set_new_name(to);
    Send(lane, absl::StrCat("rename ", from, " to ", to), request, 0,
         [&lane, from, to](const v1::Reply&) {
           const FileRef file = lane.names.at(from);
           if (lane.names.contains(to) && lane.names.at(to) == file) return;
           lane.names.erase(from);
           lane.names[to] = file;
         });
  }

  void Link(Lane& lane) {
    const FileRef file = lane.names.at(AnyName(lane));
    const std::string to = absl::StrCat(lane.prefix, ++lane.made);
    v1::Request request;
    v1::Link& link = *request.mutable_link();
    link.set_inode(file->inode);
    link.set_parent(1);
    link.set_name(to);
    Send(lane, absl::StrCat("link ", to), request, 0,
         [&lane, to, file](const v1::Reply&) { lane.names[to] = file; });
  }

  void Truncate(Lane& lane, const FileRef& file) {
    const std::uint64_t size_bytes = Below(40 * kBlock);
    v1::Request request;
    v1::SetAttr& set = *request.mutable_set_attr();
    set.set_inode(file->inode);
    set.set_fields(v1::SetAttr::SIZE);
    set.set_size_bytes(size_bytes);
    Send(lane, absl::StrCat("truncate inode ", file->inode, " to ", size_bytes), request, 0,
         [file, size_bytes](const v1::Reply&) {
           const std::uint64_t end = (size_bytes + kBlock - 1) / kBlock;
           if (size_bytes <= file->size_bytes) {
             file->written.erase(file->written.lower_bound(end), file->written.end());
             file->unwritten.erase(file->unwritten.lower_bound(end), file->unwritten.end());
           }
           file->size_bytes = size_bytes;
         });
  }

  void Grow(Lane& lane, const FileRef& file) {
    const std::uint64_t first = Below(30), count = 1 + Below(8);
    Send(lane, absl::StrCat("grow inode ", file->inode),
         Client::LayoutOf(file->inode, v1::TOKEN_EXCLUSIVE, /*allocate=*/true, first * kBlock,
                          count * kBlock),
         0, [file, first, count](const v1::Reply& reply) {
           file->token = reply.has_layout();  // the repetition of an answer brings no grant
           for (std::uint64_t block = first; block < first + count; ++block) {
             if (!file->written.contains(block)) file->unwritten.insert(block);
           }
         });
  }

  void Commit(Lane& lane, const FileRef& file) {
    const std::set<std::uint64_t> blocks = file->unwritten;
    const std::uint64_t size_bytes =
        std::max(file->size_bytes, *blocks.rbegin() * kBlock + 1 + Below(kBlock));
    v1::Request request;
    v1::LayoutCommit& commit = *request.mutable_layout_commit();
    commit.set_inode(file->inode);
    commit.set_size_bytes(size_bytes);
    for (const std::uint64_t block : blocks) {
      v1::BlockRange& range = *commit.add_written();
      range.set_file_block(block);
      range.set_length_blocks(1);
    }
    Send(lane, absl::StrCat("commit inode ", file->inode), request, 0,
         [file, blocks, size_bytes](const v1::Reply&) {
           file->written.insert(blocks.begin(), blocks.end());
           file->unwritten.clear();
           file->size_bytes = size_bytes;
         });
  }

  // ---- the crash -------------------------------------------------------------------------------

  void Recover() {
    harness_->Kill();
    store_.PowerFails(random_());
    // Some controllers die again while they start.
    for (bool alive = false; !alive;) {
      store_.power.FailAfter(Below(3) == 0 ? static_cast<std::int64_t>(Below(60)) : 1 << 30);
      alive = store_.Open().ok() && harness_->Revive(*store_.db) && store_.power.StayOn();
      if (alive) break;
      harness_->Kill();
      store_.PowerFails(random_());
    }
    for (int i = 0; i < kClients; ++i) ASSERT_EQ(clients_[i]->Resume(), 0);
    for (int i = 0; i < kClients; ++i) {
      v1::Reclaim reclaim;
      std::set<std::uint64_t> seen;
      for (const Lane& lane : lanes_[i]) {
        for (const auto& [name, file] : lane.names) {
          if (!file->token || !seen.insert(file->inode).second) continue;
          v1::HeldToken& token = *reclaim.add_tokens();
          token.set_inode(file->inode);
          token.set_mode(v1::TOKEN_EXCLUSIVE);
        }
      }
      ASSERT_EQ(clients_[i]->Reclaim(reclaim), 0);
    }
    // What was under way goes again, in any order.
    for (int i = 0; i < kClients; ++i) {
      for (Lane& lane : lanes_[i]) {
        if (lane.request) lane.id = clients_[i]->Send(Numbered(*clients_[i], lane));
      }
    }
    harness_->Run();
    for (int i = 0; i < kClients; ++i) {
      for (Lane& lane : lanes_[i]) ASSERT_NO_FATAL_FAILURE(Look(*clients_[i], lane));
    }
  }

  static v1::Request Numbered(const Client& client, const Lane& lane) {
    v1::Request request = *lane.request;
    request.set_slot(lane.slot);
    request.set_slot_sequence(client.sequences_.at(lane.slot));
    return request;
  }

  // ---- what must be there ----------------------------------------------------------------------

  void Verify() {
    std::map<std::string, FileRef> expected;
    for (const auto& lanes : lanes_) {
      for (const Lane& lane : lanes) expected.insert(lane.names.begin(), lane.names.end());
    }
    std::map<std::string, std::uint64_t> found;
    ASSERT_NO_FATAL_FAILURE(List(found));
    for (const auto& [name, file] : expected) {
      ASSERT_TRUE(found.contains(name)) << name << " is lost";
      ASSERT_EQ(found.at(name), file->inode) << name;
      ASSERT_NO_FATAL_FAILURE(VerifyFile(name, *file));
    }
    ASSERT_EQ(found.size(), expected.size()) << "a name came back";
    std::vector<std::string> problems;
    CheckSink sink;
    sink.on_problem = [&](const Problem& problem) {
      problems.push_back(absl::StrCat(problem.code, ": ", problem.where, ": ", problem.what));
    };
    CheckVolume({harness_->db(), harness_->volume_, {}}, sink);
    ASSERT_TRUE(problems.empty()) << absl::StrJoin(problems, "\n");
    ASSERT_TRUE(metafs::MetaFs::Check(store_.space).empty());
  }

  void List(std::map<std::string, std::uint64_t>& found) {
    std::uint64_t cookie = 0;
    for (bool end = false; !end;) {
      v1::Request request;
      request.mutable_read_dir()->set_inode(1);
      request.mutable_read_dir()->set_cookie(cookie);
      request.mutable_read_dir()->set_limit_bytes(1000);
      ASSERT_EQ(clients_[0]->Do(request), 0);
      for (const auto& entry : clients_[0]->last_.read_dir().entries()) {
        cookie = entry.cookie();
        if (entry.name() == "." || entry.name() == "..") continue;
        ASSERT_TRUE(found.emplace(entry.name(), entry.inode()).second) << entry.name();
      }
      end = clients_[0]->last_.read_dir().end();
    }
  }

  void VerifyFile(const std::string& name, const File& file) {
    for (const Extent& extent : Stored(file)) {
      for (std::uint64_t i = 0; i < extent.length_blocks; ++i) {
        const std::uint64_t block = extent.file_block.value() + i;
        const bool written = extent.state == ExtentState::kWritten;
        ASSERT_EQ(written, file.written.contains(block)) << name << ", block " << block;
      }
    }
    for (const std::uint64_t block : file.written) {
      ASSERT_TRUE(stored_.contains(block)) << name << ": block " << block << " is lost";
    }
    for (const std::uint64_t block : file.unwritten) {
      ASSERT_TRUE(stored_.contains(block)) << name << ": the granted block " << block << " is lost";
    }
    ASSERT_EQ(size_, file.size_bytes) << name;
  }

  // The extents that the store has of the file; its size in size_, its blocks in stored_.
  std::vector<Extent> Stored(const File& file) {
    std::vector<Extent> extents;
    stored_.clear();
    Txn txn(harness_->db(), in_flight_, Tier::kAll);
    const auto record = txn.Inode(InodeNumber(file.inode));
    EXPECT_TRUE(record.ok()) << record.status();
    if (!record.ok()) return extents;
    size_ = (*record)->size_bytes();
    auto read = ReadExtents(txn, InodeNumber(file.inode), FileBlock(0), 1 << 20, 10'000);
    EXPECT_TRUE(read.ok()) << read.status();
    if (read.ok()) extents = *std::move(read);
    for (const Extent& extent : extents) {
      for (std::uint64_t i = 0; i < extent.length_blocks; ++i) {
        stored_.insert(extent.file_block.value() + i);
      }
    }
    return extents;
  }

  std::mt19937_64 random_;
  CrashStore store_;
  std::unique_ptr<CoreHarness> harness_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Lane> lanes_[kClients];
  InFlight in_flight_;
  std::set<std::uint64_t> stored_;
  std::uint64_t size_ = 0;
};

// REEL_SEED runs one seed; REEL_SEEDS that many.
TEST(CoreCrashTest, AnsweredChangesSurvivePowerLossAndHappenOnce) {
  const auto number = [](const char* name, std::uint64_t usual) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
  };
  const std::uint64_t first = number("REEL_SEED", 1);
  const std::uint64_t usual = IsLongRun() ? 1000 : 100;
  const std::uint64_t seeds = std::getenv("REEL_SEED") != nullptr ? 1 : number("REEL_SEEDS", usual);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    PowerHistory history(seed);
    ASSERT_NO_FATAL_FAILURE(history.Run());
  }
}

}  // namespace
}  // namespace reel::mdc
