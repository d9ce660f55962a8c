#include "tests/sim/history.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/protocol.h"
#include "proto/status.h"
#include "tests/sim/administrator.h"
#include "tests/sim/cluster.h"
#include "tests/sim/workload.h"
#include "volume/base/aligned_buffer.h"

namespace reel::sim {
namespace {

constexpr Micros kLimit = 600'000 * kMs;
constexpr std::int64_t kOperations = 500;
constexpr int kJobs = 60;

// Some volumes have a pool for data alone, of which all can be moved and changed.
Shape ShapeOf(std::uint64_t seed) {
  switch (seed % 8) {
    case 1:
      return Shape::kTwoPools;
    case 5:
    case 7:
      return Shape::kTwoSets;
    default:
      return Shape::kOnePool;
  }
}

class History {
 public:
  History(std::uint64_t seed, bool verbose)
      : scheduler_(seed),
        cluster_(scheduler_, AnyOptions(seed, scheduler_.random(), verbose)),
        remade_(seed % 8 == 3),
        shape_(ShapeOf(seed)),
        administers_(seed % 2 == 0 || shape_ != Shape::kOnePool),
        scrubs_(seed % 3 == 0),
        shared_{cluster_, names_} {
    cluster_.SetOnSessionOver(
        [this](int host, Micros since) { names_.SessionOver(host, since, scheduler_.now()); });
  }

  Outcome Run();

 private:
  static Cluster::Options AnyOptions(std::uint64_t seed, Random& random, bool verbose) {
    const bool reservations = random.OneIn(2);
    const int controllers = random.OneIn(4) ? 1 : 2;
    const mdc::NameReplies names = AnyNames(ShapeOf(seed), random);
    const bool small_files = names != mdc::NameReplies::kDurable && seed % 3 == 1;
    return {.reservations = reservations,
            .controllers = controllers,
            .names = names,
            .small_file_bytes = small_files ? kMaxSmallFileBytes : 0,
            .changing_leases = seed % 4 == 0,
            .shape = ShapeOf(seed),
            .verbose = verbose};
  }
  // (Where maps change, nobody may be of a release that knows nothing of it.)
  static mdc::NameReplies AnyNames(Shape shape, Random& random) {
    const std::uint64_t any = random.Below(3);
    constexpr auto kDelegated = mdc::NameReplies::kDelegated;
    return shape != Shape::kOnePool && any == 0 ? kDelegated : static_cast<mdc::NameReplies>(any);
  }
  void Main();
  void MakeDirectories(Machine& machine);
  void StartPrograms(Machine& machine);
  void AwaitPrograms();
  // Somebody has data moved, again and again.
  void Administer();
  // The same with the metadata checked, as they are in that moment.
  void Scrub();
  // As another machine sees it, when all is over; null: it could not mount the volume.
  Machine* LookAtAll();
  void Stop(Machine& machine);
  void AwaitSessions();
  void StopAll(Machine& last);
  // The same without the last one, under which another volume is made; then that one is looked at.
  void RemakeUnder(Machine& last);
  void UseRemade(Machine& forgotten);
  void AwaitService();
  void CheckNames();
  template <typename Body>
  void On(Machine& machine, Body body) {
    scheduler_.Join(scheduler_.Spawn(machine.host(), body));
  }
  Random& random() { return scheduler_.random(); }

  Scheduler scheduler_;
  Cluster cluster_;
  const bool remade_;
  const Shape shape_;
  const bool administers_;
  const bool scrubs_;
  Daemon::Scrubs scrubs_found_;
  bool over_ = false;  // no program runs any more
  NameHistory names_;
  Shared shared_;
  std::map<int, int> running_;  // programs by host
  std::unique_ptr<Faults> faults_;
  std::vector<std::unique_ptr<Program>> programs_;
  Coverage coverage_;
};

void History::MakeDirectories(Machine& machine) {
  On(machine, [&] {
    for (int i = 0; i < NameHistory::kDirectories; ++i) {
      const auto made = machine.vfs().Make({1, absl::StrCat("d", i)}, S_IFDIR | 0755, 0, {});
      if (made.ok()) shared_.directories[i] = made->inode();
    }
    client::DirHandle root(kRootInode.value());
    (void)machine.vfs().SyncDirectory(root, {});
  });
}

void History::StartPrograms(Machine& machine) {
  machine.SetOnEarlyLost(
      [this, host = machine.host()](std::uint64_t first) { names_.Lost(host, first); });
  const std::uint64_t count = random().Between(2, 3);
  for (std::uint64_t i = 0; i < count; ++i) {
    ++running_[machine.host()];
    Program& program = *programs_.emplace_back(std::make_unique<Program>(shared_, machine));
    scheduler_.Spawn(machine.host(), [this, &program, host = machine.host()] {
      program.Run();
      --running_[host];
    });
  }
}

void History::AwaitPrograms() {
  const auto runs = [&] {
    return std::any_of(running_.begin(), running_.end(), [&](const auto& entry) {
      return entry.second > 0 && scheduler_.alive(entry.first);
    });
  };
  while (runs()) scheduler_.Sleep(20 * kMs);
}

void History::Administer() {
  scheduler_.Spawn(0, [this] {
    for (int jobs = 0; !over_ && jobs < kJobs; ++jobs) {
      scheduler_.Sleep(random().Between(10 * kMs, 200 * kMs));
      Daemon* const active = cluster_.Active();
      if (active != nullptr) sim::Administer(*active, shape_, random());
    }
  });
}

void History::Scrub() {
  scheduler_.Spawn(0, [this] {
    while (!over_) {
      scheduler_.Sleep(random().Between(50 * kMs, 1'000 * kMs));
      Daemon* active = cluster_.Active();
      if (active != nullptr) StartScrub(*active, random());
      scheduler_.Sleep(random().Between(50 * kMs, 500 * kMs));
      active = cluster_.Active();
      if (active != nullptr) active->ReadScrubs(scrubs_found_);
    }
  });
}

Machine* History::LookAtAll() {
  Machine* machine = cluster_.AddMachine();
  if (machine != nullptr) {
    Program program(shared_, *machine);
    On(*machine, [&] { program.ReadAll(); });
  }
  return machine;
}

void History::Stop(Machine& machine) {
  if (cluster_.alive(machine) && machine.session() != nullptr) {
    On(machine, [&] { machine.Stop(); });
  }
}

void History::AwaitSessions() {
  for (int i = 0; !cluster_.Quiet(); ++i) {
    if (i == 300) return cluster_.Violate("sessions or orphans are left when all is over");
    scheduler_.Sleep(100 * kMs);
  }
}

// The last one stays until the sessions of the dead have run out, and what they had open is
// removed: where nobody is heard, no lease runs. (So its own stays if its goodbye finds nobody.)
void History::StopAll(Machine& last) {
  for (const auto& machine : cluster_.machines()) {
    if (machine.get() != &last) Stop(*machine);
  }
  AwaitSessions();
  Stop(last);
  cluster_.Stop();
}

// It stays mounted, and a standby stands still: neither hears of anything.
void History::RemakeUnder(Machine& last) {
  for (const auto& machine : cluster_.machines()) {
    if (machine.get() != &last) Stop(*machine);
  }
  AwaitSessions();
  On(last, [&] {  // something is in its memory
    const auto made = last.vfs().Make({1, "forgotten"}, S_IFREG | 0644, 0, {});
    if (!made.ok() || !last.vfs().Open(made->inode(), O_RDWR, {}).ok()) return;
    const AlignedBuffer bytes = AlignedBuffer::Zeroed(3 * kKiB);
    (void)last.vfs().Write(made->inode(), 0, bytes.span(), 0, client::PageCacheWrite::kNone, {});
  });
  // One that is started again meanwhile would take the seat, and mkfs.reelfs has to wait for that.
  const auto down = [](const auto& controller) { return !controller->running(); };
  Daemon* active = nullptr;
  std::vector<Daemon*> standbys;
  for (int i = 0; i < 600 && (active == nullptr || !active->running()); ++i) {
    // (The active one may end by itself while another one comes to stand still.)
    for (Daemon* standby : std::exchange(standbys, {})) standby->Resume();
    for (; i < 600 && std::ranges::any_of(cluster_.controllers(), down); ++i) {
      scheduler_.Sleep(50 * kMs);
    }
    active = cluster_.Active();
    for (const auto& controller : cluster_.controllers()) {
      if (controller.get() == active || !controller->running()) continue;
      if (cluster_.Pause(*controller)) standbys.push_back(controller.get());
    }
  }
  constexpr Micros kLease = 2 * Cluster::kLeaseMs * kMs;
  if (active != nullptr) active->Kill(2 * kLease + random().Between(kMs, kLease));
  scheduler_.Sleep(2 * kLease);  // as mkfs.reelfs(8) has it: what hosts had under way is over
  cluster_.Remake();
  if (random().OneIn(2)) AwaitService();
  for (Daemon* standby : standbys) standby->Resume();
  AwaitService();
  UseRemade(last);
}

void History::AwaitService() {
  for (int i = 0; i < 600; ++i) {
    const Daemon* const active = cluster_.Active();
    if (active != nullptr && active->serves()) return;
    scheduler_.Sleep(50 * kMs);
  }
  cluster_.Violate("nobody serves the volume that was made anew");
}

void History::UseRemade(Machine& forgotten) {
  if (cluster_.alive(forgotten)) {
    On(forgotten, [&] {
      if (forgotten.vfs().Make({1, "stray"}, S_IFREG | 0644, 0, {}).ok()) {
        cluster_.Violate("a host makes names in a volume that it never mounted");
      }
    });
  }
  Machine* const fresh = cluster_.AddMachine();
  if (fresh == nullptr) return;
  On(*fresh, [&] {
    for (const char* name : {"d0", "forgotten", "stray"}) {
      const absl::Status status = fresh->vfs().Lookup({1, name}, {}).status();
      if (ErrnoOf(status) != ENOENT) {
        cluster_.Violate(absl::StrCat("a fresh volume has ", name, ": ", status.ToString()));
      }
    }
  });
  Stop(forgotten);
  AwaitSessions();
  Stop(*fresh);
  cluster_.Stop();
}

void History::CheckNames() {
  std::string why;
  switch (names_.Check(why)) {
    case NameHistory::Verdict::kExplained:
      break;
    case NameHistory::Verdict::kNoOrder:
      cluster_.Violate(why);
      break;
    case NameHistory::Verdict::kUndecided:
      ++coverage_.undecided;
      break;
  }
}

void History::Main() {
  const std::uint64_t clients = random().Between(3, 4);
  shared_.page_cache = random().OneIn(2);
  shared_.maps = random().OneIn(2);
  if (random().OneIn(3)) shared_.mix.use_file = 16;
  if (random().OneIn(4)) shared_.mix.use_file = 1;
  if (random().OneIn(2)) shared_.mix.at_home = 64;
  if (shared_.mix.at_home != 0 && random().OneIn(2)) shared_.mix.journal = 4;
  shared_.mix.default_acls = random().OneIn(3);
  shared_.left = kOperations;
  cluster_.Start();
  for (std::uint64_t i = 0; i < clients; ++i) {
    if (cluster_.AddMachine() == nullptr) return;
  }
  MakeDirectories(*cluster_.machines()[0]);
  for (std::uint64_t i = 0; i < clients; ++i) StartPrograms(*cluster_.machines()[i]);
  if (administers_) Administer();
  if (scrubs_) Scrub();
  faults_ = std::make_unique<Faults>(cluster_, [this](Machine& m) { StartPrograms(m); });
  // (What a full pool takes from mapped pages the kernel would tell.)
  if (!shared_.maps) faults_->AllowFilling();
  faults_->Run(static_cast<int>(random().Between(3, 6)));
  AwaitPrograms();
  over_ = true;
  Machine* const last = LookAtAll();
  if (last != nullptr) remade_ ? RemakeUnder(*last) : StopAll(*last);
}

Outcome History::Run() {
  if (!scheduler_.Run([this] { Main(); }, kLimit)) {
    cluster_.Violate("the cluster hangs");
  }
  CheckNames();
  for (const auto& [job, problems] : scrubs_found_) {
    for (const std::string& problem : problems) {
      cluster_.Violate(absl::StrCat("scrub, job ", job, ": ", problem));
    }
  }
  Outcome outcome;
  Coverage& c = coverage_;
  if (faults_ != nullptr) {
    c.faults = faults_->counts();
    c.moments = faults_->moments();
  }
  c.operations = names_.size() + shared_.done;
  c.unanswered = shared_.errors;
  c.attributes_read = shared_.attributes_read;
  c.scrubs = scrubs_found_.size();
  c.without_space = shared_.refused;
  c.cells_checked = cluster_.data().cells_checked();
  c.locks = cluster_.locks().granted();
  for (const auto& machine : cluster_.machines()) {
    c.page_hits += machine->pages().hits();
    c.attr_hits += machine->attributes().hits();
    c.name_hits += machine->kept_names().hits();
    c.listing_hits += machine->kept_listings().hits();
    c.pages_invalidated += machine->pages().invalidated();
    c.prefetched_reads += machine->data().prefetch_counts().reads;
    c.prefetched_layouts += machine->data().prefetch_counts().layouts;
    c.frames_ahead += machine->data().prefetch_counts().frames;
    c.files_ahead += machine->data().prefetch_counts().files;
    c.frame_reads += machine->data().prefetch_counts().frame_reads;
  }
  for (const auto& controller : cluster_.controllers()) {
    const Daemon::Totals totals = controller->totals();
    c.evictions += totals.evictions;
    c.recalls += totals.recalls;
    c.repetitions += totals.repetitions;
    c.delegated += totals.delegated;
    c.replayed += totals.replayed;
    c.blocked += totals.blocked;
    c.misses += totals.misses;
    c.reaped += totals.reaped;
    for (std::size_t i = 0; i < c.moved.size(); ++i) c.moved[i] += totals.moved[i];
    c.broken_moves += totals.broken_moves;
    c.store_failures += totals.failures;
    c.early += totals.early;
    c.seats_lost += totals.seats_lost;
    c.expiries += totals.expiries;
    c.failed_starts += totals.refusals;
    c.refused_controller_writes += totals.refused_writes;
  }
  c.terms = cluster_.terms().terms();
  c.takeovers = cluster_.terms().takeovers();
  c.lost_claims = cluster_.terms().claims() - c.terms;
  c.lost_batches = StoreEvents::Get().lost_batches;
  c.lost_blocks = cluster_.lost_blocks();
  c.map_changes = cluster_.map_changes();
  const Cluster::Totals totals = cluster_.totals();
  c.fences = totals.preemptions;
  c.unknowns = totals.unknowns;
  c.refused_writes = totals.refused_writes - c.refused_controller_writes;
  c.simulated_ms = scheduler_.now() / kMs;
  c.switches = scheduler_.switches();
  outcome.coverage = c;
  outcome.violations = cluster_.Violations();
  scheduler_.Trace(c.operations);
  scheduler_.Trace(c.cells_checked);
  scheduler_.Trace(scheduler_.now());
  outcome.hash = scheduler_.trace_hash();
  return outcome;
}

}  // namespace

Outcome RunHistory(std::uint64_t seed, bool verbose) {
  // Never destroyed: the fibers of crashed machines stay where they are.
  return (*new History(seed, verbose)).Run();
}

}  // namespace reel::sim
