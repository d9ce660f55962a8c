#include "mdc/serve/dump_keeper.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/lun_times.h"

namespace reel::mdc {
namespace {

constexpr std::uint32_t kMarkTries = 5;

std::vector<Uuid> NamesOf(const Core::ValidDumps& valid) {
  std::vector<Uuid> dumps;
  if (valid.kept) dumps.push_back(*valid.kept);
  if (valid.begun) dumps.push_back(*valid.begun);
  return dumps;
}

absl::Status CheckDumpable(const VolumeDescriptor& descriptor) {
  constexpr std::uint32_t kBoth = Pool::kMetadata | Pool::kData;
  for (const Pool& pool : descriptor.pools) {
    if ((pool.flags & kBoth) != kBoth) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "volume ", descriptor.name, " keeps metadata and files in one pool, ", pool.name,
        ": who loses its LUNs loses both, and no dump of the metadata brings them back; back up "
        "the files"));
  }
  return absl::OkStatus();
}

}  // namespace

void DumpKeeper::Begin(std::function<void(const absl::StatusOr<Uuid>&)> done) {
  Add([this, done = std::move(done)](const absl::Status& may) {
    done(may.ok() ? DoBegin() : absl::StatusOr<Uuid>(may));
  });
}

void DumpKeeper::Read(const Uuid& dump, std::uint64_t index,
                      std::function<void(absl::StatusOr<Block>)> done) {
  Add([this, dump, index, done = std::move(done)](const absl::Status& may) {
    done(may.ok() ? DoRead(dump, index) : absl::StatusOr<Block>(may));
  });
}

void DumpKeeper::Keep(const Uuid& dump, Done done) {
  Add([this, dump, done = std::move(done)](const absl::Status& may) {
    done(may.ok() ? DoKeep(dump) : may);
  });
}

void DumpKeeper::Release(Done done) {
  Add([this, done = std::move(done)](const absl::Status& may) { done(may.ok() ? DoVoid() : may); });
}

void DumpKeeper::Void() {
  Add([this](const absl::Status& may) {
    const absl::Status status = may.ok() ? DoVoid() : may;
    if (status.ok()) {
      spdlog::warn(
          "volume {}: no space is left but what the last dump of the metadata names; the "
          "dump is void, take another one",
          volume().descriptor.name);
      return;
    }
    spdlog::error(
        "volume {}: no space is left but what the last dump of the metadata names, and "
        "the dump could not be made void: {}",
        volume().descriptor.name, std::string(status.message()));
    served_.run_on_core([](Core& core) { core.OnVoidFailed(); }, [] {});
  });
}

void DumpKeeper::MarkAgain() {
  Add([this](const absl::Status& may) {
    if (!may.ok()) return;
    const auto valid = Valid();
    if (valid.ok()) (void)Mark(NamesOf(*valid));
  });
}

void DumpKeeper::Add(Job job) {
  absl::Status refused;
  {
    MutexLock lock(mutex_);
    if (stopping_) {
      refused = ControllerStops();
    } else if (jobs_.size() >= kMaxJobs) {
      refused = absl::UnavailableError("too many others ask about dumps; try again");
    } else {
      jobs_.push_back(std::move(job));
      if (!thread_.joinable()) thread_ = Thread([this] { Main(); });
      changed_.NotifyAll();
      return;
    }
  }
  job(refused);
}

void DumpKeeper::Main() {
  for (;;) {
    Job job;
    bool idle = false;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !stopping_ && !idle) {
        if (reading_ == nullptr) {
          changed_.Wait(mutex_);
        } else {
          idle = !changed_.WaitFor(mutex_, std::chrono::milliseconds(kIdleMs));
        }
      }
      if (stopping_) break;
      if (!jobs_.empty()) {
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
    }
    if (job) {
      job(absl::OkStatus());
    } else {
      reading_.reset();
    }
  }
  reading_.reset();
}

void DumpKeeper::Stop() {
  std::deque<Job> left;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    left.swap(jobs_);
    changed_.NotifyAll();
    synced_.NotifyAll();
  }
  if (thread_.joinable()) thread_.Join();
  for (const Job& job : left) job(ControllerStops());
}

void DumpKeeper::OnDurable(Sequence sequence) {
  MutexLock lock(mutex_);
  durable_ = sequence;
  synced_.NotifyAll();
}

absl::Status DumpKeeper::AwaitDurable(Sequence sequence) {
  MutexLock lock(mutex_);
  while (durable_ < sequence && !stopping_) synced_.Wait(mutex_);
  return durable_ < sequence ? ControllerStops() : absl::OkStatus();
}

std::string DumpKeeper::Alarm() const {
  MutexLock lock(mutex_);
  return alarm_;
}

absl::StatusOr<Core::ValidDumps> DumpKeeper::Valid() {
  return OnCore<Core::ValidDumps>([](Core& core) { return core.valid_dumps(); });
}

absl::StatusOr<Uuid> DumpKeeper::DoBegin() {
  const VolumeDescriptor& descriptor = volume().descriptor;
  if (absl::Status s = CheckDumpable(descriptor); !s.ok()) return s;
  auto framed = EncodeDescriptor(descriptor);
  if (!framed.ok()) return framed.status();
  reading_.reset();
  const auto valid = Valid();
  if (!valid.ok()) return valid.status();
  if (valid->begun) {
    std::vector<Uuid> kept;
    if (valid->kept) kept.push_back(*valid->kept);
    if (absl::Status s = Mark(kept); !s.ok()) return s;
    if (absl::Status s = End(valid->kept); !s.ok()) return s;
  }
  DumpHead head{.dump = Uuid::Random(),
                .volume = descriptor.volume,
                .epoch = served_.epoch,
                .lease_ms = served_.lease_ms,
                .descriptor = *std::move(framed)};
  // One turn of the core: nothing is changed between the two.
  const auto applied = OnCore<Sequence>([&](Core& core) -> absl::StatusOr<Sequence> {
    const auto begun = core.BeginDump(head.dump);
    if (!begun.ok()) return begun.status();
    head.sequence = begun->sequence;
    head.taken = begun->taken;
    reading_.reset(new Reading{.writer = DumpWriter(served_.db, head)});
    return begun->applied;
  });
  if (!applied.ok()) return applied.status();
  if (absl::Status s = AwaitDurable(*applied); !s.ok()) return s;
  return head.dump;
}

absl::StatusOr<DumpKeeper::Block> DumpKeeper::DoRead(const Uuid& dump, std::uint64_t index) {
  if (reading_ == nullptr || reading_->writer.dump() != dump) {
    return absl::NotFoundError(
        "this dump is not being taken any more (another one was begun, it was left alone for too "
        "long, or another controller serves the volume); take it again");
  }
  Reading& reading = *reading_;
  if (index + 1 == reading.next_index) return reading.last;
  if (index != reading.next_index || reading.writer.done()) {
    return absl::InvalidArgumentError(absl::StrCat("block ", index, " of the dump is not next"));
  }
  if (served_.fs.FreeBytes() < served_.fs.ReservedBytes()) {
    reading_.reset();
    return absl::ResourceExhaustedError(
        "the metadata store has no room to keep what the dump has yet to read; take it when less "
        "is being changed");
  }
  auto bytes = reading.writer.Next();
  if (!bytes.ok()) return bytes.status();
  if (reading.writer.done()) {
    if (absl::Status s = MarkEnd(dump); !s.ok()) {
      reading_.reset();
      return s;
    }
  }
  reading.last = {*std::move(bytes), reading.writer.done()};
  ++reading.next_index;
  return reading.last;
}

absl::Status DumpKeeper::MarkEnd(const Uuid& dump) {
  const auto valid = Valid();
  if (!valid.ok()) return valid.status();
  if (valid->begun != dump) {
    return absl::NotFoundError(
        "the dump was made void meanwhile, as its blocks were needed; take it again");
  }
  return Mark(NamesOf(*valid));
}

absl::Status DumpKeeper::DoKeep(const Uuid& dump) {
  const auto valid = Valid();
  if (!valid.ok()) return valid.status();
  if (valid->kept == dump && !valid->begun) return absl::OkStatus();
  if (valid->begun != dump) {
    return absl::NotFoundError(
        "the dump is not valid any more: its blocks were needed, or another one was begun; take it "
        "again");
  }
  if (reading_ != nullptr && reading_->writer.dump() == dump) {
    if (!reading_->writer.done()) {
      return absl::FailedPreconditionError("the dump has not been read to its end");
    }
    reading_.reset();
  }
  if (absl::Status s = Mark({dump}); !s.ok()) return s;
  return End(dump);
}

absl::Status DumpKeeper::DoVoid() {
  reading_.reset();
  if (absl::Status s = Mark({}); !s.ok()) return s;
  return End(std::nullopt);
}

absl::Status DumpKeeper::End(const std::optional<Uuid>& kept) {
  const auto ended = OnCore<Sequence>([kept](Core& core) { return core.EndDumps(kept); });
  if (!ended.ok()) return ended.status();
  return AwaitDurable(*ended);
}

absl::Status DumpKeeper::Mark(const std::vector<Uuid>& dumps) {
  const OpenVolume& map = volume();
  const DumpMark mark{map.descriptor.volume, served_.epoch, ++mark_generation_, dumps};
  absl::Status status;
  std::size_t next = 0;
  for (const Pool& pool : map.descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (std::size_t i = 0; i < set.luns.size(); ++i, ++next) {
        if ((pool.flags & Pool::kData) == 0 || !status.ok()) continue;
        status = MarkLun(*map.luns[next], mark);
      }
    }
  }
  MutexLock lock(mutex_);
  alarm_ = status.ok()
               ? std::string()
               : absl::StrCat("the last dump of the metadata may not be valid: ", status.message(),
                              "; take another one");
  return status;
}

absl::Status DumpKeeper::MarkLun(Lun& lun, const DumpMark& mark) {
  for (std::uint32_t tries = 0;; ++tries) {
    absl::Status status = WriteDumpMark(lun, mark, served_.may_write);
    const LunFault fault = FaultOf(status);
    const bool passes = fault == LunFault::kBusy || fault == LunFault::kAborted;
    if (!passes || tries >= kMarkTries) return status;
    SleepFor(std::chrono::milliseconds(LunBusyPauseMs(tries)));
  }
}

}  // namespace reel::mdc
