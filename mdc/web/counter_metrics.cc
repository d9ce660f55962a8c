#include "mdc/web/counter_metrics.h"

#include <algorithm>
#include <array>

namespace reel::mdc {
namespace {

constexpr double kUs = 1e-6;

struct Known {
  std::string_view counter;  // of "reeladm stat"; ends with '.': what follows is a label's value
  std::string_view metric;
  std::string_view help;
  bool is_gauge = false;
  std::string_view label{};
  double unit = 1;
};

constexpr std::array kKnown{
    Known{"op.", "reelfs_operations_total", "Operations that have taken effect, or failed.", false,
          "operation"},
    Known{"operation.blocked", "reelfs_operations_blocked_total",
          "Operations that had to wait for another one, or for a recall."},
    Known{"operation.errors", "reelfs_operations_failed_total", "Operations that were refused."},
    Known{"operation.inline_reads", "reelfs_store_inline_reads_total",
          "Keys that were read from the store by the core itself."},
    Known{"operation.delegated", "reelfs_operations_delegated_total",
          "Changes of names that clients have made before the controller knew."},
    Known{"operation.replayed", "reelfs_operations_replayed_total",
          "Changes that were made again after a failover."},
    Known{"operation.misses", "reelfs_operations_missed_total",
          "Operations that waited for keys which were not in memory."},
    Known{"operation.repetitions", "reelfs_operations_repeated_total",
          "Requests that had taken effect already, and were answered once more."},
    Known{"commit.batches", "reelfs_commit_batches_total", "Batches of changes."},
    Known{"commit.syncs", "reelfs_commit_syncs_total",
          "Syncs of the metadata store; each makes many batches durable."},
    Known{"job.broken_moves", "reelfs_moves_broken_off_total",
          "Moves of data that gave way to a writer."},
    Known{"job.moved_blocks.", "reelfs_moved_blocks_total", "Blocks of data that jobs have moved.",
          false, "kind"},
    Known{"orphans.now", "reelfs_removing_files", "Files that are being removed.", true},
    Known{"orphans.reaped", "reelfs_removed_files_total", "Files that were removed to the end."},
    Known{"session.evictions", "reelfs_sessions_evicted_total", "Sessions that were ended."},
    Known{"session.released", "reelfs_sessions_released_total",
          "Sessions of which nothing is left."},
    Known{"session.now", "reelfs_sessions", "Sessions that there are.", true},
    Known{"session.refused", "reelfs_sessions_refused_total", "Sessions that were not admitted."},
    Known{"token.recalls", "reelfs_token_recalls_total", "Tokens that were recalled."},
    Known{"wire.bytes_in", "reelfs_wire_received_bytes_total", "Bytes of clients' messages."},
    Known{"wire.bytes_out", "reelfs_wire_sent_bytes_total", "Bytes of messages to clients."},
    Known{"wire.messages_in", "reelfs_wire_received_messages_total", "Messages of clients."},
    Known{"wire.messages_out", "reelfs_wire_sent_messages_total", "Messages to clients."},
    Known{"store.cache_hits", "reelfs_store_cache_hits_total",
          "Blocks of the metadata store that were in memory."},
    Known{"store.cache_misses", "reelfs_store_cache_misses_total",
          "Blocks of the metadata store that were read from a LUN."},
    Known{"store.compacted_read_bytes", "reelfs_store_compacted_read_bytes_total",
          "Bytes that compactions have read."},
    Known{"store.compacted_written_bytes", "reelfs_store_compacted_written_bytes_total",
          "Bytes that compactions have written."},
    Known{"store.flushed_bytes", "reelfs_store_flushed_bytes_total",
          "Bytes of tables that were written from memory."},
    Known{"store.log_synced", "reelfs_store_log_syncs_total", "Syncs of the store's log."},
    Known{"store.stall_us", "reelfs_store_stalled_seconds_total",
          "How long changes have waited for compactions.", false, "", kUs},
    Known{"store.memtable_bytes", "reelfs_store_memory_bytes", "Changes that lie in memory.", true},
    Known{"store.table_bytes", "reelfs_store_table_bytes", "Size of the store's tables.", true},
    Known{"store.removed_keys_passed", "reelfs_store_removed_keys_passed_total",
          "Removed keys that scans have stepped over."},
    Known{"store.keys_estimated", "reelfs_store_keys", "Keys in the store, about.", true},
};

const Known* Find(std::string_view name) {
  const auto found = std::ranges::find_if(kKnown, [&](const Known& known) {
    return known.label.empty() ? known.counter == name : name.starts_with(known.counter);
  });
  return found == kKnown.end() ? nullptr : &*found;
}

}  // namespace

void WriteCounters(const std::string& volume, const v1::StatReply& stat, MetricWriter& metrics) {
  for (const v1::StatReply::Counter& counter : stat.counters()) {
    const Known* const known = Find(counter.name());
    if (known == nullptr) continue;
    MetricWriter::Labels labels{{"volume", volume}};
    if (!known->label.empty())
      labels.emplace_back(known->label, counter.name().substr(known->counter.size()));
    const double value = static_cast<double>(counter.value()) * known->unit;
    known->is_gauge ? metrics.Gauge(known->metric, known->help, labels, value)
                    : metrics.Counter(known->metric, known->help, labels, value);
  }
}

}  // namespace reel::mdc
