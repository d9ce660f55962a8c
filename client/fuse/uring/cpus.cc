#include "client/fuse/uring/cpus.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace reel::client {
namespace {

constexpr int kMostCpus = 65'536;

std::vector<int> Listed(const char* file, int otherwise) {
  std::string text;
  std::getline(std::ifstream(file), text);
  std::vector<int> cpus = ParseCpuList(text);
  if (!cpus.empty()) return cpus;
  for (int cpu = 0; cpu < std::max(1, otherwise); ++cpu) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

std::vector<int> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  const absl::string_view all(text.data(), text.size());
  for (absl::string_view range : absl::StrSplit(absl::StripSuffix(all, "\n"), ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(range, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) return {};
    if (!absl::SimpleAtoi(range.find('-') == range.npos ? ends.first : ends.second, &last)) {
      return {};
    }
    if (first < 0 || last < first || last >= kMostCpus) return {};
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> PossibleCpus() {
  return Listed("/sys/devices/system/cpu/possible", get_nprocs_conf());
}

std::vector<int> OnlineCpus() {
  return Listed("/sys/devices/system/cpu/online", get_nprocs());
}

}  // namespace reel::client
