#include "tests/sim/meta_store.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "mdc/metadb/meta_db.h"
#include "mdc/metadb/schema.h"
#include "proto/records.pb.h"
#include "rocksdb/env.h"
#include "tests/sim/scheduler.h"
#include "volume/base/check.h"
#include "volume/base/coding.h"

namespace reel::sim {

StoreEvents& StoreEvents::Get() {
  static StoreEvents events;
  return events;
}

}  // namespace reel::sim

namespace reel::mdc {

namespace {

using sim::StoreEvents;
using Records = std::map<std::string, std::string, std::less<>>;

constexpr char kCurrent[] = "/CURRENT";
constexpr char kNextCurrent[] = "/CURRENT.new";
constexpr std::size_t kReadBytes = 64 << 10;
// A log that has grown so far beyond twice what it began with is written anew: large attributes
// that change all the time would fill the store.
constexpr std::size_t kGrowthBytes = 2 << 20;
constexpr std::uint64_t kMissesInReads = 64;

absl::Status StatusOf(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (status.IsCorruption()) return absl::DataLossError(status.ToString());
  return absl::UnavailableError(status.ToString());
}

void PutNumber(std::string& to, std::uint64_t number) {
  char bytes[8];
  StoreU64(bytes, number);
  to.append(bytes, sizeof(bytes));
}

void PutText(std::string& to, std::string_view text) {
  PutNumber(to, text.size());
  to.append(text);
}

// One batch in the log: its length in bytes, sequence, changes.
std::string Encode(std::uint64_t sequence, const WriteBatch& batch) {
  std::string body;
  PutNumber(body, sequence);
  for (const WriteBatch::Change& change : batch.changes()) {
    PutText(body, change.key);
    PutNumber(body, change.remove ? 1 : 0);
    PutText(body, change.value);
  }
  std::string framed;
  PutText(framed, body);
  return framed;
}

// Reads what Encode wrote. The log has no byte that was not written, and no half batch.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  std::uint64_t Number() {
    REEL_CHECK(rest_.size() >= 8, "a log of batches is whole");
    const std::uint64_t number = LoadU64(rest_.data());
    rest_.remove_prefix(8);
    return number;
  }
  std::string_view Text() {
    const std::uint64_t length = Number();
    REEL_CHECK(rest_.size() >= length, "a log of batches is whole");
    const std::string_view text = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return text;
  }

 private:
  std::string_view rest_;
};

std::string LogName(std::uint64_t number) {
  return absl::StrCat("/", number, ".log");
}

absl::StatusOr<std::string> ReadWhole(rocksdb::Env& env, const std::string& name) {
  std::unique_ptr<rocksdb::SequentialFile> file;
  rocksdb::Status status = env.NewSequentialFile(name, &file, rocksdb::EnvOptions());
  std::string whole;
  const auto buffer = std::make_unique<char[]>(kReadBytes);
  while (status.ok()) {
    rocksdb::Slice part;
    status = file->Read(kReadBytes, &part, buffer.get());
    if (part.empty()) break;
    whole.append(part.data(), part.size());
  }
  if (!status.ok()) return StatusOf(status);
  return whole;
}

absl::Status WriteWhole(rocksdb::Env& env, const std::string& name, const std::string& text) {
  std::unique_ptr<rocksdb::WritableFile> file;
  rocksdb::Status status = env.NewWritableFile(name, &file, rocksdb::EnvOptions());
  if (status.ok()) status = file->Append(text);
  if (status.ok()) status = file->Sync();
  if (status.ok()) status = file->Close();
  return StatusOf(status);
}

// Follows the records of sessions from batch to batch, until they are durable.
class SessionRecords {
 public:
  void Apply(std::uint64_t sequence, const WriteBatch::Change& change) {
    const auto key = schema::Parse(change.key);
    if (!key.ok() || key->family != schema::Family::kSession) return;
    std::optional<StoreEvents::SessionFacts> facts;
    v1::SessionRecord record;
    if (!change.remove && record.ParseFromString(change.value)) {
      facts.emplace();
      facts->evicted = record.evicted();
      REEL_CHECK(absl::SimpleAtoi(record.host(), &facts->host), "hosts are named by numbers");
    }
    waiting_.push_back({sequence, key->first, facts});
  }
  void Durable(std::uint64_t sequence) {
    while (!waiting_.empty() && waiting_.front().sequence <= sequence) {
      const Change& change = waiting_.front();
      if (change.facts) {
        sessions_[change.session] = *change.facts;
      } else {
        sessions_.erase(change.session);
      }
      waiting_.pop_front();
    }
  }
  const StoreEvents::Sessions& sessions() const { return sessions_; }

 private:
  struct Change {
    std::uint64_t sequence;
    std::uint64_t session;
    std::optional<StoreEvents::SessionFacts> facts;  // none: it is gone
  };
  std::deque<Change> waiting_;
  StoreEvents::Sessions sessions_;
};

}  // namespace

struct MetaDb::Engine {
  rocksdb::Env& env;
  const bool read_only;
  Records records{};
  std::uint64_t number = 0;                      // of the log
  std::shared_ptr<rocksdb::WritableFile> log{};  // an append to the one before may be under way
  std::size_t log_bytes = 0;
  std::size_t most_log_bytes = 0;
  std::optional<std::string> behind{};  // what came since the next log was begun
  std::uint64_t last = 0;
  std::uint64_t logged = 0;  // of those; an append may wait for a sync that has begun
  bool misses = false;       // from the first sync after the start on
  bool syncs = false;
  absl::Status broken{};
  int instance = ++StoreEvents::Get().instances;
  SessionRecords sessions{};

  absl::Status Recover();
  // Goes on in a new log; once that has been synced, CURRENT may name it.
  absl::Status BeginLog();
  absl::Status MoveCurrent();
  absl::Status RemoveLog(std::uint64_t old);
  absl::Status RemoveOldLogs();
  void Change(const WriteBatch::Change& change);
  void TellSessions();
  bool MissesNow() const { return misses && sim::Scheduler::Get().random().OneIn(kMissesInReads); }
};

void MetaDb::Engine::Change(const WriteBatch::Change& change) {
  if (change.remove) {
    records.erase(change.key);
  } else {
    records[change.key] = change.value;
  }
  sessions.Apply(last, change);
}

// Another store may have been opened meanwhile: what this one says then is old.
void MetaDb::Engine::TellSessions() {
  StoreEvents& events = StoreEvents::Get();
  if (!read_only && instance == events.instances && events.on_sessions) {
    events.on_sessions(sessions.sessions());
  }
}

absl::Status MetaDb::Engine::Recover() {
  if (env.FileExists(kCurrent).ok()) {
    const auto current = ReadWhole(env, kCurrent);
    if (!current.ok()) return current.status();
    if (!absl::SimpleAtoi(*current, &number)) return absl::DataLossError("CURRENT is no number");
    const auto bytes = ReadWhole(env, LogName(number));
    if (!bytes.ok()) return bytes.status();
    for (Decoder log(*bytes); !log.empty();) {
      Decoder batch(log.Text());
      last = batch.Number();
      while (!batch.empty()) {
        WriteBatch::Change change;
        change.key = batch.Text();
        change.remove = batch.Number() != 0;
        change.value = batch.Text();
        Change(change);
      }
    }
  }
  logged = last;
  sessions.Durable(last);
  TellSessions();
  StoreEvents& events = StoreEvents::Get();
  if (!read_only) events.lost_batches += events.last_applied - std::min(events.last_applied, last);
  if (read_only) return absl::OkStatus();
  absl::Status status = BeginLog();
  if (status.ok()) status = StatusOf(log->Sync());
  if (status.ok()) status = MoveCurrent();
  return status.ok() ? RemoveOldLogs() : status;
}

absl::Status MetaDb::Engine::BeginLog() {
  WriteBatch all;
  for (const auto& [key, value] : records) all.Put(key, value);
  std::string bytes = Encode(last, all);
  behind.emplace();
  std::unique_ptr<rocksdb::WritableFile> next;
  rocksdb::Status status = env.NewWritableFile(LogName(number + 1), &next, rocksdb::EnvOptions());
  std::size_t next_bytes = 0;
  while (status.ok() && !bytes.empty()) {
    next_bytes += bytes.size();
    status = next->Append(bytes);
    bytes = std::exchange(*behind, {});
  }
  behind.reset();
  if (!status.ok()) return StatusOf(status);
  ++number;
  log = std::move(next);
  log_bytes = next_bytes;
  most_log_bytes = 2 * next_bytes + kGrowthBytes;
  return absl::OkStatus();
}

absl::Status MetaDb::Engine::MoveCurrent() {
  if (absl::Status s = WriteWhole(env, kNextCurrent, absl::StrCat(number)); !s.ok()) return s;
  rocksdb::Status status = env.RenameFile(kNextCurrent, kCurrent);
  std::unique_ptr<rocksdb::Directory> directory;
  if (status.ok()) status = env.NewDirectory("/", &directory);
  if (status.ok()) status = directory->Fsync();
  return StatusOf(status);
}

absl::Status MetaDb::Engine::RemoveLog(std::uint64_t old) {
  return StatusOf(env.DeleteFile(LogName(old)));
}

// Also those of controllers that were killed between two of these steps.
absl::Status MetaDb::Engine::RemoveOldLogs() {
  std::vector<std::string> names;
  absl::Status status = StatusOf(env.GetChildren("/", &names));
  for (const std::string& name : names) {
    const std::string path = absl::StrCat("/", name);
    const bool old = name.ends_with(".log") && path != LogName(number);
    if (old && status.ok()) status = StatusOf(env.DeleteFile(path));
  }
  return status;
}

namespace {

class MapCursor final : public Cursor {
 public:
  MapCursor(const Records& records, std::string_view prefix, std::string_view start, ScanFrom from,
            bool missing)
      : records_(records), prefix_(prefix), missing_(missing), at_(records.end()) {
    if (missing) return;
    at_ = records_.lower_bound(std::max(prefix, start));
    if (from != ScanFrom::kAtOrBefore || (Valid() && at_->first == start)) return;
    if (at_ != records_.begin() && std::prev(at_)->first.starts_with(prefix_)) --at_;
  }
  bool Valid() const override { return at_ != records_.end() && at_->first.starts_with(prefix_); }
  void Next() override { ++at_; }
  std::string_view key() const override { return at_->first; }
  std::string_view value() const override { return at_->second; }
  absl::Status status() const override { return absl::OkStatus(); }
  bool not_in_memory() const override { return missing_; }

 private:
  const Records& records_;
  const std::string prefix_;
  const bool missing_;
  Records::const_iterator at_;
};

class RangeCursor final : public Cursor {
 public:
  RangeCursor(Records::const_iterator at, Records::const_iterator end) : at_(at), end_(end) {}
  bool Valid() const override { return at_ != end_; }
  void Next() override { ++at_; }
  std::string_view key() const override { return at_->first; }
  std::string_view value() const override { return at_->second; }
  absl::Status status() const override { return absl::OkStatus(); }
  bool not_in_memory() const override { return false; }

 private:
  Records::const_iterator at_;
  const Records::const_iterator end_;
};

// A copy: the stores of histories are small.
class MapSnapshot final : public Snapshot {
 public:
  explicit MapSnapshot(const Records& records) : records_(records) {}
  absl::StatusOr<Found> Get(std::string_view key, std::string* value) const override {
    const auto found = records_.find(key);
    if (found == records_.end()) return Found::kNo;
    *value = found->second;
    return Found::kYes;
  }
  std::unique_ptr<Cursor> ScanRange(std::string_view from, std::string_view to) const override {
    return std::make_unique<RangeCursor>(Begin(from), End(to));
  }
  std::uint64_t ApproximateBytes(std::string_view from, std::string_view to) const override {
    std::uint64_t bytes = 0;
    for (auto at = Begin(from), end = End(to); at != end; ++at) {
      bytes += at->first.size() + at->second.size();
    }
    return bytes;
  }

 private:
  Records::const_iterator Begin(std::string_view from) const { return records_.lower_bound(from); }
  Records::const_iterator End(std::string_view to) const {
    return to.empty() ? records_.end() : records_.lower_bound(to);
  }
  const Records records_;
};

}  // namespace

MetaDb::MetaDb(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
MetaDb::~MetaDb() = default;

absl::StatusOr<std::unique_ptr<MetaDb>> MetaDb::Open(rocksdb::Env* env, const Options& options) {
  auto engine = std::unique_ptr<Engine>(new Engine{*env, options.read_only});
  if (absl::Status s = engine->Recover(); !s.ok()) return s;
  return std::unique_ptr<MetaDb>(new MetaDb(std::move(engine)));
}

absl::Status MetaDb::RemoveLeftovers(rocksdb::Env*, const Options&) {
  return absl::OkStatus();
}

absl::StatusOr<Found> MetaDb::Get(std::string_view key, std::string* value, Tier tier) const {
  if (tier == Tier::kMemory && engine_->MissesNow()) return Found::kNotInMemory;
  const auto found = engine_->records.find(key);
  if (found == engine_->records.end()) return Found::kNo;
  *value = found->second;
  return Found::kYes;
}

std::unique_ptr<Cursor> MetaDb::Scan(std::string_view prefix, std::string_view start, Tier tier,
                                     ScanFrom from) const {
  const bool missing = tier == Tier::kMemory && engine_->MissesNow();
  return std::make_unique<MapCursor>(engine_->records, prefix, start, from, missing);
}

std::unique_ptr<Snapshot> MetaDb::TakeSnapshot() const {
  return std::make_unique<MapSnapshot>(engine_->records);
}

absl::StatusOr<Sequence> MetaDb::Apply(const WriteBatch& batch) {
  if (!engine_->broken.ok()) return engine_->broken;
  ++engine_->last;
  for (const WriteBatch::Change& change : batch.changes()) engine_->Change(change);
  for (const WriteBatch::Range& range : batch.cleared()) {
    const auto next = engine_->records.lower_bound(range.from);
    REEL_CHECK(next == engine_->records.end() || next->first >= range.to,
               "what a batch says it clears is empty");
  }
  StoreEvents::Get().last_applied = engine_->last;
  const std::string bytes = Encode(engine_->last, batch);
  if (engine_->behind) engine_->behind->append(bytes);
  engine_->log_bytes += bytes.size();
  const std::shared_ptr<rocksdb::WritableFile> log = engine_->log;
  engine_->broken.Update(StatusOf(log->Append(bytes)));
  if (!engine_->broken.ok()) return engine_->broken;
  engine_->logged = engine_->last;
  return last_applied();
}

absl::StatusOr<Sequence> MetaDb::Sync() {
  Engine& engine = *engine_;
  if (!engine.broken.ok()) return engine.broken;
  const int host = sim::Scheduler::Get().current_host();
  ++StoreEvents::Get().syncing[host];
  const bool renews = engine.log_bytes > engine.most_log_bytes;
  absl::Status synced = renews ? engine.BeginLog() : absl::OkStatus();
  const std::uint64_t through = engine.logged;
  if (synced.ok()) synced = StatusOf(engine.log->Sync());
  if (renews && synced.ok()) synced = engine.MoveCurrent();
  if (renews && synced.ok()) synced = engine.RemoveLog(engine.number - 1);
  --StoreEvents::Get().syncing[host];
  engine.broken.Update(synced);
  if (!synced.ok()) return synced;
  engine.misses = std::exchange(engine.syncs, true);
  engine.sessions.Durable(through);
  engine.TellSessions();
  return Sequence(through);
}

absl::Status MetaDb::Compact(std::atomic<bool>&) {
  return absl::OkStatus();
}
std::uint64_t MetaDb::CompactionBytes() const {
  return 0;
}
std::uint64_t MetaDb::removals() const {
  return 0;
}
Sequence MetaDb::last_applied() const {
  return Sequence(engine_->last);
}
absl::Status MetaDb::VerifyChecksums(std::size_t) const {
  return absl::OkStatus();
}
std::vector<std::pair<std::string, std::uint64_t>> MetaDb::Counters() const {
  return {};
}

}  // namespace reel::mdc
