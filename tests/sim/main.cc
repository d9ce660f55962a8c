// Runs histories. Each has a process of its own, forked from this one, so that it begins in the
// same state whichever it is, and takes what it leaves behind with it.
//
//   sim --seed N [--verbose]
//   sim --seeds A..B [--jobs J] [--keep-going]
//
// A failure prints the seed, the violations and the history. Exit 1: some history failed.
#include <malloc.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "mdc/moves/job_table.h"
#include "proto/admin.pb.h"
#include "proto/mdc.pb.h"
#include "proto/records.pb.h"
#include "spdlog/spdlog.h"
#include "tests/sim/heap.h"
#include "tests/sim/history.h"
#include "tests/sim/volume.h"

namespace reel::sim {
namespace {

struct Arguments {
  std::uint64_t first = 1, last = 1;
  std::uint64_t jobs = 1;
  bool verbose = false;
  bool keep_going = false;  // after a failure
  bool hashes = false;      // print each history's
};

// What a history's process says of it.
struct Report {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;
  std::uint64_t violations = 0;
  Coverage coverage;
};

// Protobuf describes messages to itself when somebody first asks: a log, and now and then the code
// itself. Whoever comes first would take memory of the history for it, or not.
void DescribeMessages(const google::protobuf::FileDescriptor& file) {
  for (int i = 0; i < file.dependency_count(); ++i) DescribeMessages(*file.dependency(i));
  auto& factory = *google::protobuf::MessageFactory::generated_factory();
  for (int i = 0; i < file.message_type_count(); ++i) {
    (void)factory.GetPrototype(file.message_type(i))->GetReflection();
  }
}

[[noreturn]] void Child(std::uint64_t seed, bool verbose, int pipe) {
  if (!BeginHistoryHeap()) _exit(2);
  const Outcome outcome = RunHistory(seed, verbose);
  Report report;
  report.seed = seed;
  report.hash = outcome.hash;
  report.violations = outcome.violations.size();
  report.coverage = outcome.coverage;
  if (verbose) {
    for (const std::string& violation : outcome.violations) {
      std::printf("seed %lu: %s\n", static_cast<unsigned long>(seed), violation.c_str());
    }
    std::fflush(stdout);
  }
  const ssize_t written = write(pipe, &report, sizeof(report));
  _exit(written == sizeof(report) ? 0 : 2);
}

class Runner {
 public:
  explicit Runner(const Arguments& arguments) : arguments_(arguments), next_(arguments.first) {}

  int Run() {
    const auto began = std::chrono::steady_clock::now();
    while (running_.size() < arguments_.jobs && Begin()) {
    }
    while (!running_.empty()) {
      End();
      Begin();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    PrintCoverage(took.count());
    for (const std::uint64_t seed : failed_) {
      std::printf("FAILED: seed %lu (tests/sim/run --seed %lu --verbose)\n",
                  static_cast<unsigned long>(seed), static_cast<unsigned long>(seed));
    }
    return failed_.empty() ? 0 : 1;
  }

 private:
  struct Running {
    std::uint64_t seed;
    int pipe;
  };

  bool Begin() {
    if (next_ > arguments_.last || (!failed_.empty() && !arguments_.keep_going)) return false;
    Start(next_++, arguments_.verbose);
    return true;
  }

  void Start(std::uint64_t seed, bool verbose) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) std::abort();
    if (child == 0) Child(seed, verbose, ends[1]);
    close(ends[1]);
    running_[child] = {seed, ends[0]};
  }

  // Waits for one of them.
  void End() {
    int status = 0;
    const pid_t child = waitpid(-1, &status, 0);
    const auto found = running_.find(child);
    if (found == running_.end()) return;
    const Running ended = found->second;
    running_.erase(found);
    Report report;
    const bool whole = read(ended.pipe, &report, sizeof(report)) == sizeof(report);
    close(ended.pipe);
    ++histories_;
    if (whole) Add(report.coverage);
    if (whole && arguments_.hashes) {
      std::printf("seed %lu: hash %016lx\n", static_cast<unsigned long>(ended.seed),
                  static_cast<unsigned long>(report.hash));
    }
    if (whole && report.violations == 0) return;
    if (!whole) {
      std::printf("seed %lu: its process died, status %d\n", static_cast<unsigned long>(ended.seed),
                  status);
    }
    failed_.push_back(ended.seed);
  }

  void Add(const Coverage& c) {
    for (int i = 0; i < kFaults; ++i) {
      seen_[NameOf(static_cast<Fault>(i))] += c.faults[static_cast<std::size_t>(i)] > 0 ? 1 : 0;
    }
    for (int i = 0; i < kMoments; ++i) {
      seen_[absl::StrCat("struck as ", NameOf(static_cast<Moment>(i)))] +=
          c.moments[static_cast<std::size_t>(i)] > 0 ? 1 : 0;
    }
    const auto add = [&](const std::string& name, std::uint64_t value) {
      seen_[name] += value > 0 ? 1 : 0;
      sums_[name] += value;
    };
    add("operations", c.operations);
    add("operations without answer", c.unanswered);
    add("cells checked", c.cells_checked);
    add("locks granted", c.locks);
    add("page cache hits", c.page_hits);
    add("attributes not asked for", c.attr_hits);
    add("names not asked for", c.name_hits);
    add("listings not asked for", c.listing_hits);
    add("pages invalidated", c.pages_invalidated);
    add("reads from read-ahead", c.prefetched_reads);
    add("layouts asked for ahead", c.prefetched_layouts);
    add("frames fetched ahead", c.frames_ahead);
    add("files fetched ahead", c.files_ahead);
    add("reads from frames ahead", c.frame_reads);
    add("attributes checked", c.attributes_read);
    add("evictions", c.evictions);
    add("recalls", c.recalls);
    add("stored replies sent again", c.repetitions);
    add("delegated changes", c.delegated);
    add("changes replayed", c.replayed);
    add("operations blocked", c.blocked);
    add("reads of absent keys", c.misses);
    add("orphans removed", c.reaped);
    for (std::size_t i = 0; i < c.moved.size(); ++i) {
      const auto kind = static_cast<v1::JobKind>(i);
      if (c.moved[i] > 0)
        add(absl::StrCat("blocks moved: ", std::string(mdc::JobTable::KindWord(kind))), c.moved[i]);
    }
    add("moves broken", c.broken_moves);
    add("scrubs", c.scrubs);
    add("changes of the map", c.map_changes);
    add("keys preempted", c.fences);
    add("writes refused by LUNs", c.refused_writes);
    add("mdc: terms", c.terms);
    add("mdc: takeovers", c.takeovers);
    add("mdc: … within the old one's term", c.early);
    add("mdc: claims without a term", c.lost_claims);
    add("mdc: writes refused", c.refused_controller_writes);
    add("mdc: outcomes unknown", c.unknowns);
    add("mdc: ended, store failed", c.store_failures);
    add("mdc: ended, seat lost", c.seats_lost);
    add("mdc: ended by watchdog", c.expiries);
    add("mdc: ended before it served", c.failed_starts);
    add("unsynced batches lost", c.lost_batches);
    add("unflushed blocks lost", c.lost_blocks);
    add("orders undecided", c.undecided);
    add("writes refused for want of space", c.without_space);
    add("simulated ms", c.simulated_ms);
    add("thread switches", c.switches);
  }

  void PrintCoverage(double seconds) const {
    std::printf("%lu histories in %.1f s: %.0f a second\n", static_cast<unsigned long>(histories_),
                seconds, static_cast<double>(histories_) / seconds);
    for (const auto& [name, count] : seen_) {
      const auto sum = sums_.find(name);
      std::printf("  %-36s in %lu histories%s\n", name.c_str(), static_cast<unsigned long>(count),
                  sum == sums_.end() ? "" : absl::StrCat(", ", sum->second, " in all").c_str());
    }
  }

  const Arguments arguments_;
  std::uint64_t next_;
  std::map<pid_t, Running> running_;
  std::vector<std::uint64_t> failed_;
  std::uint64_t histories_ = 0;
  std::map<std::string, std::uint64_t> seen_, sums_;
};

bool Parse(int count, char** values, Arguments& arguments) {
  for (int i = 1; i < count; ++i) {
    const absl::string_view argument = values[i];
    const absl::string_view value = i + 1 < count ? values[i + 1] : "";
    if (argument == "--verbose") {
      arguments.verbose = true;
    } else if (argument == "--keep-going") {
      arguments.keep_going = true;
    } else if (argument == "--hashes") {
      arguments.hashes = true;
    } else if (argument == "--seed" && absl::SimpleAtoi(value, &arguments.first)) {
      arguments.last = arguments.first;
      ++i;
    } else if (argument == "--jobs" && absl::SimpleAtoi(value, &arguments.jobs)) {
      ++i;
    } else if (argument == "--seeds") {
      const std::vector<absl::string_view> ends = absl::StrSplit(value, "..");
      if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &arguments.first) ||
          !absl::SimpleAtoi(ends[1], &arguments.last)) {
        return false;
      }
      ++i;
    } else {
      return false;
    }
  }
  return arguments.jobs > 0;
}

}  // namespace
}  // namespace reel::sim

int main(int count, char** values) {
  // Large buffers come and go all the time: their pages are kept.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  // Hash tables are ordered by addresses too: they are to be the same in every run.
  const int before = personality(0xffffffff);
  if (before >= 0 && (before & ADDR_NO_RANDOMIZE) == 0 &&
      personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE) >= 0) {
    execv("/proc/self/exe", values);
  }
  spdlog::set_level(spdlog::level::off);
  reel::sim::DescribeMessages(*reel::v1::Request::descriptor()->file());
  reel::sim::DescribeMessages(*reel::v1::ShowReply::descriptor()->file());
  reel::sim::DescribeMessages(*reel::v1::InodeRecord::descriptor()->file());
  if (const absl::Status s = reel::sim::FormatOnce(); !s.ok()) {
    std::fprintf(stderr, "sim: no volume could be made: %s\n", s.ToString().c_str());
    return 2;
  }
  reel::sim::Arguments arguments;
  if (!reel::sim::Parse(count, values, arguments)) {
    std::fprintf(stderr,
                 "usage: sim --seed N [--verbose] | --seeds A..B [--jobs J] [--keep-going] "
                 "[--hashes]\n");
    return 2;
  }
  return reel::sim::Runner(arguments).Run();
}
