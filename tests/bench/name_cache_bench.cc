// How many hot stats the client's cache of names answers, by 1 to 8 threads at once: one mutex is
// over all of it. A stat is GetAttr and Show; one by name is a Lookup before that. What the
// kernel's FUSE can ask for is the other side of the ratio (docs/internals/name-cache.md).
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "client/names/name_cache.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kDirectory = 1;
constexpr std::uint64_t kFiles = 10'000;

std::string NameOf(std::uint64_t number) {
  return "frame." + std::to_string(number) + ".dpx";
}

// A cache that was told of a directory and its files, as lookups tell it.
NameCache& Cache() {
  static NameCache& cache = *[] {
    auto* const made = new NameCache;
    for (std::uint64_t number = 0; number < kFiles; ++number) {
      v1::Request request;
      request.mutable_lookup()->set_parent(kDirectory);
      request.mutable_lookup()->set_name(NameOf(number));
      v1::Reply reply;
      reply.add_cacheable(kDirectory);
      reply.add_cacheable(kDirectory + 1 + number);
      v1::Attr& attr = *reply.mutable_entry()->mutable_attr();
      attr.set_inode(kDirectory + 1 + number);
      attr.set_mode(S_IFREG | 0644);
      attr.set_nlink(1);
      made->OnReply(request, reply);
    }
    return made;
  }();
  return cache;
}

void BM_Stat(benchmark::State& state) {
  NameCache& cache = Cache();
  std::uint64_t number = static_cast<std::uint64_t>(state.thread_index()) * 1'009;
  for ([[maybe_unused]] auto step : state) {
    number = (number + 7'919) % kFiles;
    const auto attr = cache.GetAttr(kDirectory + 1 + number);
    if (!attr)
      state.SkipWithError("an inode is not known");
    else
      benchmark::DoNotOptimize(cache.Show(*attr, 1, false));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Stat)->ThreadRange(1, 8)->UseRealTime();

void BM_StatByName(benchmark::State& state) {
  NameCache& cache = Cache();
  std::vector<std::string> names;
  for (std::uint64_t number = 0; number < kFiles; ++number) names.push_back(NameOf(number));
  std::uint64_t number = static_cast<std::uint64_t>(state.thread_index()) * 1'009;
  for ([[maybe_unused]] auto step : state) {
    number = (number + 7'919) % kFiles;
    const auto found = cache.Lookup(kDirectory, names[number]);
    if (!found || found->absent)
      state.SkipWithError("a name is not known");
    else
      benchmark::DoNotOptimize(cache.Show(found->attr, 1, false));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_StatByName)->ThreadRange(1, 8)->UseRealTime();

}  // namespace
}  // namespace reel::client

BENCHMARK_MAIN();
