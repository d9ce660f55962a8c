// The vocabulary of the core's tests: a volume in memory, a controller that can crash, and clients
// that speak its protocol. Nothing happens by itself: Run() delivers outputs, syncs and fetches
// until all is quiet, and time passes only in Pass().
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "mdc/core/core.h"
#include "mdc/metadb/rocks_memory.h"
#include "mdc/space/allocator.h"
#include "proto/mdc.pb.h"
#include "volume/base/uuid.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

inline constexpr std::uint64_t kBlock = 4096;  // of its volume, in bytes

class FakeClock final : public Clock {
 public:
  std::uint64_t NowMs() const override { return now_ms; }
  WallTime WallNow() const override {
    return {1'000'000 + static_cast<std::int64_t>(now_ms / 1000), 0};
  }
  std::uint64_t now_ms = 5'000;
};

class Client;

class CoreHarness {
 public:
  CoreHarness() : memory_(std::make_unique<MemoryStore>()), db_(&memory_->db()) {
    Describe();
    Format();
    Restart();
  }
  // On a store of the test's own, formatted; a controller has yet to be started by Revive.
  explicit CoreHarness(MetaDb& db) : db_(&db) {
    Describe();
    Format();
  }
  // The same of another volume, whose records are made already.
  CoreHarness(MetaDb& db, VolumeDescriptor volume) : volume_(std::move(volume)), db_(&db) {}

  ~CoreHarness() { Kill(); }

  MetaDb& db() { return *db_; }

  // The controller dies and a new one starts. What was applied is in the store (the store's own
  // crashes are its own tests'); what was in memory is gone, and all streams are.
  void Restart();
  // The same after a crash of the store, which is now `db`. False: it does not start, or did not
  // stay alive while it did.
  bool Revive(MetaDb& db);
  // The controller dies for good, before its store does.
  void Kill() {
    core_.reset();
    clients_.clear();
  }
  // Delivers, syncs and fetches until nothing more happens.
  void Run();
  void Tick() {
    core_->OnTick();
    Run();
  }
  // Time goes by in steps of ticks; clients in `alive` renew their leases.
  void Pass(std::uint64_t ms, std::vector<Client*> alive = {});

  std::uint64_t FreeBlocks() const {
    v1::ShowReply show;
    core_->Describe(show);
    return show.pools(0).free_bytes() / volume_.block_bytes;
  }
  std::uint64_t Counter(const std::string& name) const {
    v1::StatReply stat;
    core_->Describe(stat);
    for (const auto& counter : stat.counters()) {
      if (counter.name() == name) return counter.value();
    }
    return 0;
  }
  std::uint64_t Sessions() const { return Counter("session.now"); }

  // Whether the store has failed under the controller, which has ended then.
  bool dead_ = false;
  bool may_die_ = false;  // a failing store is no failure of the test

  FakeClock clock_;
  VolumeDescriptor volume_;
  CoreOptions options_;
  std::unique_ptr<Core> core_;
  bool void_dumps_ = false;    // it has asked for that
  std::uint32_t unheard_ = 0;  // it has said that it hears nobody, for this time
  bool hold_syncs_ = false;    // while true nothing becomes durable
  // What is ordered to be fenced, in order; answered at once unless held.
  std::vector<CoreOutputs::Fence> fences_;
  bool hold_fences_ = false;
  // What is ordered to be copied, in order; done at once unless held.
  std::vector<CopyOrder> copies_;
  bool hold_copies_ = false;
  std::vector<RestripeOrder> restripes_;
  bool hold_restripes_ = false;
  // The map becomes what the last of them says.
  void DoRestripe();
  std::vector<QuotaNotice> quota_notices_;  // that came
  std::uint64_t last_stream_ = 0;
  std::map<StreamId, Client*> clients_;
  std::map<const Client*, std::vector<v1::Deal>> deals_;  // that they were told

 private:
  // As the controller's reader threads do.
  void FetchNow(const Miss& miss) {
    for (const Miss& other : miss.also) FetchNow(other);
    std::string value;
    if (!miss.scan) {
      (void)db_->Get(miss.key, &value, Tier::kAll);
      return;
    }
    auto cursor = db_->Scan(miss.prefix, miss.key, Tier::kAll, miss.from);
    for (; cursor->Valid(); cursor->Next()) value = std::string(cursor->value());
  }
  void Describe() {
    volume_.volume.bytes[0] = 9;
    volume_.name = "reel";
    volume_.generation = 3;
    volume_.block_bytes = 4096;
    LunEntry lun;
    lun.lun.bytes[0] = 1;
    lun.name = "lun0";
    lun.data_start_bytes = kMiB;
    volume_.seat_lun = lun.lun;
    Pool pool;
    pool.name = "data";
    pool.flags = Pool::kMetadata | Pool::kData;
    pool.breadth_blocks = 16;
    pool.sets = {StripeSet{{lun}, 1 << 14}};  // 1 GiB
    volume_.pools = {pool};
  }
  void Format() {
    EXPECT_TRUE(FormatVolume(*db_, volume_, {}, clock_.WallNow()).ok());
    EXPECT_TRUE(db_->Sync().ok());
  }

  std::unique_ptr<MemoryStore> memory_;
  MetaDb* db_;
};

class Client {
 public:
  // Not yet connected.
  explicit Client(CoreHarness& harness, std::uint8_t id) : harness_(harness) {
    uuid_.bytes[0] = id;
  }

  // A new stream; what was on the old one is lost.
  void Connect() {
    if (stream_ != StreamId(0)) harness_.clients_.erase(stream_);
    stream_ = StreamId(++harness_.last_stream_);
    harness_.clients_[stream_] = this;
    ended_ = false;
  }
  void Disconnect() {
    harness_.clients_.erase(stream_);
    harness_.core_->OnStreamEnded(stream_);
    stream_ = StreamId(0);
    harness_.Run();
  }
  int Hello(std::uint64_t resume = 0) {
    v1::Request request;
    v1::Hello& hello = *request.mutable_hello();
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.set_features(features_);
    hello.set_volume("reel");
    hello.set_map_generation(map_generation_);
    hello.set_mounted_volume(mounted_volume_);
    hello.set_client(uuid_.ToBytes());
    hello.set_host(absl::StrCat("host", uuid_.bytes[0]));
    hello.set_resume_session(resume);
    hello.set_caches_attributes(caches_);
    const std::uint64_t id = Send(request);
    harness_.Run();
    if (!Answered(id)) return -1;
    if (Answer(id).error() == 0) {
      session_ = Answer(id).hello().session();
      key_ = Answer(id).hello().key();
      must_reclaim_ = Answer(id).hello().must_reclaim();
      told_ = Answer(id).hello();
    }
    return Answer(id).error();
  }
  Client& Register() {
    Connect();
    EXPECT_EQ(Hello(), 0);
    return *this;
  }
  int Resume() {
    Connect();
    return Hello(session_);
  }
  int Reclaim(v1::Reclaim reclaim = {}) {
    v1::Request request;
    reclaim.set_done(true);
    *request.mutable_reclaim() = std::move(reclaim);
    return Do(request);
  }

  // Sends without waiting; returns the request's id.
  std::uint64_t Send(v1::Request request) {
    request.set_id(++last_id_);
    if (stream_ != StreamId(0) && !harness_.dead_) harness_.core_->OnRequest(stream_, request);
    return last_id_;
  }
  // With the next sequence of a slot.
  std::uint64_t SendIn(std::uint32_t slot, v1::Request request) {
    request.set_slot(slot);
    request.set_slot_sequence(++sequences_[slot]);
    return Send(std::move(request));
  }
  // As Send (slot 1 for what changes the volume), and runs; the errno, or -1 when not answered.
  int Do(v1::Request request, bool mutation = false) {
    const bool idle = request.has_close();  // its answer waits for company
    const std::uint64_t id = mutation ? SendIn(1, std::move(request)) : Send(std::move(request));
    harness_.Run();
    if (idle && !Answered(id)) harness_.Tick();
    last_ = Answered(id) ? Answer(id) : v1::Reply();
    return Answered(id) ? last_.error() : -1;
  }

  bool Answered(std::uint64_t id) const { return replies_.contains(id); }
  const v1::Reply& Answer(std::uint64_t id) const { return replies_.at(id); }

  // ---- requests --------------------------------------------------------------------------------

  static v1::Request CreateOf(const std::string& name, bool open = false) {
    v1::Request request;
    request.mutable_create()->set_parent(1);
    request.mutable_create()->set_name(name);
    request.mutable_create()->set_mode(S_IFREG | 0644);
    request.mutable_create()->set_open(open);
    return request;
  }
  static v1::Request UnlinkOf(const std::string& name) {
    v1::Request request;
    request.mutable_unlink()->set_parent(1);
    request.mutable_unlink()->set_name(name);
    return request;
  }
  static v1::Request GetAttrOf(std::uint64_t inode) {
    v1::Request request;
    request.mutable_get_attr()->set_inode(inode);
    return request;
  }
  static v1::Request LookupOf(const std::string& name) {
    v1::Request request;
    request.mutable_lookup()->set_parent(1);
    request.mutable_lookup()->set_name(name);
    return request;
  }
  static v1::Request LookAheadOf(const std::string& name) {
    v1::Request request = LookupOf(name);
    request.mutable_lookup()->set_ahead(true);
    request.mutable_lookup()->set_layout_bytes(1'000'000);
    return request;
  }
  // Of the root, as whoever goes through it asks.
  static v1::Request ListAheadOf(std::uint32_t layouts = 16) {
    v1::Request request;
    request.mutable_read_dir()->set_inode(1);
    request.mutable_read_dir()->set_limit_bytes(65'536);
    request.mutable_read_dir()->set_attributes(true);
    request.mutable_read_dir()->set_layouts(layouts);
    return request;
  }
  static v1::Request AttrReturnOf(std::vector<std::uint64_t> inodes) {
    v1::Request request;
    request.mutable_attr_return()->mutable_inodes()->Add(inodes.begin(), inodes.end());
    return request;
  }
  static v1::Request LayoutOf(std::uint64_t inode, v1::TokenMode mode, bool allocate = false,
                              std::uint64_t offset = 0, std::uint64_t length = 4096) {
    v1::Request request;
    v1::LayoutGet& get = *request.mutable_layout_get();
    get.set_inode(inode);
    get.set_mode(mode);
    get.set_allocate(allocate);
    get.set_offset_bytes(offset);
    get.set_length_bytes(length);
    return request;
  }
  static v1::Request ReturnOf(std::uint64_t inode, v1::TokenMode mode = v1::TOKEN_NONE) {
    v1::Request request;
    request.mutable_layout_return()->set_inode(inode);
    request.mutable_layout_return()->set_mode(mode);
    return request;
  }
  static v1::Request OpenOf(std::uint64_t inode) {
    v1::Request request;
    request.mutable_open()->set_inode(inode);
    return request;
  }
  static v1::Request CloseOf(std::uint64_t inode) {
    v1::Request request;
    request.mutable_close()->set_inode(inode);
    return request;
  }

  std::uint64_t Create(const std::string& name, bool open = false) {
    EXPECT_EQ(Do(CreateOf(name, open), true), 0);
    return last_.entry().attr().inode();
  }

  CoreHarness& harness_;
  Uuid uuid_;
  StreamId stream_;
  std::uint64_t session_ = 0;
  std::uint64_t key_ = 0;
  bool must_reclaim_ = false;
  v1::HelloReply told_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint32_t, std::uint64_t> sequences_;
  std::map<std::uint64_t, v1::Reply> replies_;
  v1::Reply last_;
  std::vector<v1::RecallToken> recalls_;
  std::vector<std::string> log_;        // everything that came, in order
  std::uint32_t renews_within_ms_ = 0;  // as it says; 0: it knows no other controller
  std::uint64_t features_ = 0;          // Feature bits, as it says
  std::uint64_t map_generation_ = 0;    // of the descriptor that it has, as it says
  std::string mounted_volume_;          // UUID of the volume that it has mounted, as it says
  bool caches_ = false;                 // asks for attribute tokens
  std::vector<std::uint64_t> attr_recalls_;
  std::vector<std::uint64_t> broken_;          // inodes whose locks were taken away
  std::vector<std::uint64_t> recalled_locks_;  // lock tokens, by number
  std::vector<v1::Farewell> farewells_;
  std::vector<v1::NewMap> new_maps_;
  bool evicted_ = false;
  bool ended_ = false;  // by the controller
};

inline void CoreHarness::Restart() {
  Kill();
  hold_syncs_ = false;
  auto core = Core::Start(*db_, volume_, clock_, options_);
  ASSERT_TRUE(core.ok()) << core.status();
  core_ = *std::move(core);
}

inline bool CoreHarness::Revive(MetaDb& db) {
  Kill();
  db_ = &db;
  dead_ = false;
  auto core = Core::Start(*db_, volume_, clock_, options_);
  if (!core.ok()) return false;
  core_ = *std::move(core);
  Run();
  return !dead_;
}

inline void CoreHarness::Run() {
  for (int quiet = 0; quiet < 2 && !dead_;) {
    CoreOutputs outputs = core_->TakeOutputs();
    unheard_ = std::max(unheard_, outputs.times_unheard);
    void_dumps_ = void_dumps_ || outputs.void_dumps;
    if (outputs.wants_sync && !hold_syncs_) quiet = -1;
    ++quiet;
    for (QuotaNotice& notice : outputs.quota_notices) quota_notices_.push_back(std::move(notice));
    for (CoreOutputs::Send& send : outputs.sends) {
      quiet = 0;
      const auto found = clients_.find(send.stream);
      if (found == clients_.end()) continue;
      Client& client = *found->second;
      if (auto* reply = std::get_if<v1::Reply>(&send.message)) {
        client.log_.push_back(absl::StrCat("reply ", reply->id()));
        client.replies_[reply->id()] = *reply;
      } else if (const auto& callback = std::get<v1::Callback>(send.message);
                 callback.has_recall_token()) {
        client.log_.push_back(absl::StrCat("recall ", callback.recall_token().inode()));
        client.recalls_.push_back(callback.recall_token());
      } else if (callback.has_recall_attr()) {
        client.log_.push_back(absl::StrCat("attr recall ", callback.recall_attr().inode()));
        client.attr_recalls_.push_back(callback.recall_attr().inode());
      } else if (callback.has_locks_broken()) {
        client.broken_.push_back(callback.locks_broken().inode());
      } else if (callback.has_recall_locks()) {
        client.recalled_locks_.push_back(callback.recall_locks().token());
      } else if (callback.has_farewell()) {
        client.farewells_.push_back(callback.farewell());
      } else if (callback.has_new_map()) {
        client.new_maps_.push_back(callback.new_map());
      } else if (callback.has_deal()) {
        deals_[&client].push_back(callback.deal());
      } else {
        client.evicted_ = true;
      }
    }
    for (const StreamId stream : outputs.ends) {
      quiet = 0;
      const auto found = clients_.find(stream);
      if (found != clients_.end()) {
        found->second->ended_ = true;
        clients_.erase(found);
      }
      core_->OnStreamEnded(stream);
    }
    for (const CoreOutputs::Fetch& fetch : outputs.fetches) {
      quiet = 0;
      FetchNow(fetch.miss);
      core_->OnFetched(fetch.ticket);
    }
    for (const CoreOutputs::Fence& fence : outputs.fences) {
      quiet = 0;
      fences_.push_back(fence);
      if (!hold_fences_) core_->OnFenced(fence.id, {.done = true});
    }
    for (CopyOrder& order : outputs.copies) {
      quiet = 0;
      copies_.push_back(order);
      if (!hold_copies_) core_->OnCopied(order.id, absl::OkStatus(), false);
    }
    if (outputs.restripe) {
      quiet = 0;
      restripes_.push_back(*outputs.restripe);
      if (!hold_restripes_) DoRestripe();
    }
    if (!hold_syncs_) {
      const auto durable = db_->Sync();
      dead_ = may_die_ && (!durable.ok() || !core_->health().ok());
      if (dead_) return;
      ASSERT_TRUE(durable.ok()) << durable.status();
      core_->OnDurable(*durable);
    }
  }
}

inline void CoreHarness::DoRestripe() {
  const auto next = Restriped(volume_, restripes_.back());
  ASSERT_TRUE(next.ok()) << next.status();
  volume_ = *next;
  ASSERT_TRUE(core_->TakeMap(volume_, 0).ok());
  core_->OnRestriped(restripes_.back().job, absl::OkStatus());
}

inline void CoreHarness::Pass(std::uint64_t ms, std::vector<Client*> alive) {
  for (std::uint64_t step = 0; step < ms; step += 100) {
    clock_.now_ms += 100;
    for (Client* client : alive) {
      v1::Request renew;
      renew.mutable_renew()->set_next_ms(client->renews_within_ms_);
      client->Send(renew);
    }
    Tick();
  }
}

}  // namespace reel::mdc
