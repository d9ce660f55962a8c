#include "client/web/mount_metrics.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "volume/lun/lun.h"

namespace reel::client {
namespace {

using Labels = MetricWriter::Labels;

double Number(std::uint64_t value) {
  return static_cast<double>(value);
}

std::string NameOf(int error) {
  const char* const name = strerrorname_np(error);
  return name == nullptr ? "other" : name;
}

class MountWriter {
 public:
  MountWriter(const MountFacts& facts, const VolumeDescriptor& descriptor, MetricWriter& metrics)
      : facts_(facts), metrics_(metrics) {
    for (const Pool& pool : descriptor.pools) {
      for (const StripeSet& set : pool.sets) {
        for (const LunEntry& entry : set.luns) names_[entry.lun.ToBytes()] = entry.name;
      }
    }
  }

  void WriteSession() {
    Gauge("reelfs_mount_connected", "1 while it has a connection to the active controller.", {},
          facts_.connected ? 1 : 0);
    Gauge("reelfs_mount_lease_left_seconds", "For how long its lease holds, whatever happens.", {},
          Number(facts_.lease_left_ms) / 1000);
    const Session::Load& load = facts_.session;
    Gauge("reelfs_mount_slots", "Changes that may be on their way at once.", {},
          Number(load.slots));
    Gauge("reelfs_mount_slots_free", "How many more may be.", {}, Number(load.free_slots));
    Gauge("reelfs_mount_messages_waiting", "Messages that wait to be sent.", {},
          Number(load.waiting));
    Gauge("reelfs_mount_messages_unanswered", "Messages that are sent.", {},
          Number(load.unanswered));
    Gauge("reelfs_mount_changes_unconfirmed",
          "Changes that programs were told of, and that may not be durable yet.", {},
          Number(load.unconfirmed));
  }

  void WriteRequests() {
    for (const RequestTimes::Kind& kind : facts_.requests) {
      metrics_.Times("reelfs_mount_request_duration_seconds",
                     "How long requests of the kernel took in the client.",
                     With({{"operation", kind.name}}), kind.times);
      for (const auto& errors : kind.errors) {
        if (const auto worst = worst_.find(errors.error); worst != worst_.end()) {
          worst->second += errors.count;
        }
        metrics_.Counter("reelfs_mount_request_errors_total",
                         "Requests of the kernel that ended with an error.",
                         With({{"operation", kind.name}, {"error", NameOf(errors.error)}}),
                         Number(errors.count));
      }
    }
    for (const auto& [error, count] : worst_) {
      metrics_.Counter("reelfs_mount_io_errors_total",
                       "Requests of the kernel that ended with EIO or ETIMEDOUT.",
                       With({{"error", NameOf(error)}}), Number(count));
    }
    const bool uring = facts_.told.fuse() == v1::FUSE_WAY_URING;
    Gauge("reelfs_mount_uring", "1 where the kernel's requests come by io_uring.", {},
          uring ? 1 : 0);
  }

  void WriteMemory() {
    const std::pair<std::string_view, const FileData::Load::Memory&> uses[] = {
        {"write_behind", facts_.data.write_behind},
        {"read_ahead", facts_.data.read_ahead},
        {"sequence_ahead", facts_.data.sequence_ahead}};
    for (const auto& [use, memory] : uses) {
      const Labels labels{{"use", std::string(use)}};
      Gauge("reelfs_mount_memory_bytes", "Memory that bytes of files take.", labels,
            Number(memory.used_bytes));
      Gauge("reelfs_mount_memory_limit_bytes", "How much they may take.", labels,
            Number(memory.limit_bytes));
    }
    Gauge("reelfs_mount_known_files", "Files of which something is known here.", {},
          Number(facts_.data.files));
    const FileData::PrefetchCounts& prefetched = facts_.prefetched;
    const std::pair<std::string_view, std::uint64_t> counts[] = {
        {"reads", prefetched.reads},
        {"layouts", prefetched.layouts},
        {"frames", prefetched.frames},
        {"frame_reads", prefetched.frame_reads},
        {"files", prefetched.files}};
    for (const auto& [kind, count] : counts) {
      metrics_.Counter("reelfs_mount_prefetched_total",
                       "What programs found there when they came for it.",
                       With({{"kind", std::string(kind)}}), Number(count));
    }
  }

  void WriteLuns() {
    std::map<std::string, std::string> paths;  // by UUID
    for (const v1::LunReport& lun : facts_.told.luns()) {
      const std::string path = LunNameForPeople(lun.path());
      paths[lun.lun()] = path;
      Gauge("reelfs_mount_lun_lost", "1 while it does not reach a LUN.", OfLun(lun.lun(), path),
            lun.problem().empty() ? 0 : 1);
      Transfer("read", lun.lun(), path, lun.reads(), lun.read_bytes());
      Transfer("write", lun.lun(), path, lun.writes(), lun.written_bytes());
    }
    for (const LunPaths::LunTimes& lun : facts_.data.luns) {
      const std::string id = lun.lun.ToBytes();
      const auto known = paths.find(id);
      if (known == paths.end()) continue;  // it has come just now
      const std::string& path = known->second;
      Times("read", id, path, lun.reads);
      Times("write", id, path, lun.writes);
    }
  }

 private:
  Labels With(Labels more) const {
    more.insert(more.begin(), {{"volume", facts_.volume}, {"mount_point", facts_.mount_point}});
    return more;
  }
  Labels OfLun(const std::string& id, const std::string& path) const {
    const auto name = names_.find(id);
    return {{"lun", name == names_.end() ? path : name->second}, {"path", path}};
  }
  Labels OfLun(const std::string& id, const std::string& path, std::string direction) const {
    Labels labels = OfLun(id, path);
    labels.emplace_back("direction", std::move(direction));
    return labels;
  }
  void Gauge(std::string_view name, std::string_view help, Labels labels, double value) {
    metrics_.Gauge(name, help, With(std::move(labels)), value);
  }
  void Transfer(const std::string& direction, const std::string& id, const std::string& path,
                std::uint64_t requests, std::uint64_t bytes) {
    const Labels labels = With(OfLun(id, path, direction));
    metrics_.Counter("reelfs_mount_lun_requests_total", "Requests to a LUN.", labels,
                     Number(requests));
    metrics_.Counter("reelfs_mount_lun_bytes_total", "Bytes that went to a LUN, or came from it.",
                     labels, Number(bytes));
  }
  void Times(const std::string& direction, const std::string& id, const std::string& path,
             const TimeHistogram& times) {
    metrics_.Times("reelfs_mount_lun_request_duration_seconds",
                   "How long requests to a LUN took that succeeded.",
                   With(OfLun(id, path, direction)), times);
  }

  const MountFacts& facts_;
  MetricWriter& metrics_;
  std::map<std::string, std::string> names_;  // of LUNs, by UUID
  // Also where there are none: an alert does not see a counter that comes to be with its first
  // event.
  std::map<int, std::uint64_t> worst_{{EIO, 0}, {ETIMEDOUT, 0}};
};

}  // namespace

void WriteMount(const MountFacts& facts, const VolumeDescriptor& descriptor,
                MetricWriter& metrics) {
  MountWriter writer(facts, descriptor, metrics);
  writer.WriteSession();
  writer.WriteRequests();
  writer.WriteMemory();
  writer.WriteLuns();
}

}  // namespace reel::client
