#include "tools/bench/sweep/sweep_advice.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/bench/report.h"
#include "tools/lib/volume_toml.h"
#include "volume/base/size.h"

namespace reel::bench {
namespace {

constexpr double kLeastNoise = 0.03;

bool IsFor(Purpose purpose, bool write) {
  return purpose == Purpose::kBoth || write == (purpose == Purpose::kWriting);
}

// By size, of one of the two grids.
std::map<std::uint64_t, double> SharesOf(const std::vector<SweepResult>& results, bool scattered,
                                         Purpose purpose) {
  using Work = std::tuple<std::uint64_t, std::uint32_t, bool>;
  std::map<Work, double> best;
  const auto counts = [&](const SweepResult& result) {
    return result.point.scattered == scattered && IsFor(purpose, result.point.write);
  };
  const auto work_of = [](const SweepPoint& point) {
    return Work(point.io_bytes, point.depth, point.write);
  };
  for (const SweepResult& result : results) {
    if (!counts(result)) continue;
    double& rate = best[work_of(result.point)];
    rate = std::max(rate, SpreadOf(result.rates).median);
  }
  std::map<std::uint64_t, double> logs, numbers;
  for (const SweepResult& result : results) {
    if (!counts(result)) continue;
    const double rate = std::max(1.0, SpreadOf(result.rates).median);
    logs[result.point.geometry_bytes] +=
        std::log(rate / std::max(1.0, best[work_of(result.point)]));
    ++numbers[result.point.geometry_bytes];
  }
  for (auto& [bytes, log] : logs) log = std::exp(log / numbers[bytes]);
  return logs;
}

double Distance(std::uint64_t bytes, std::uint64_t from) {
  return std::abs(std::log2(static_cast<double>(bytes)) - std::log2(static_cast<double>(from)));
}

std::string Percent(double share) {
  return absl::StrFormat("%.1f %%", 100 * share);
}

const SizeShare& ShareOf(const std::vector<SizeShare>& shares, std::uint64_t bytes) {
  return *std::find_if(shares.begin(), shares.end(),
                       [&](const SizeShare& one) { return one.bytes == bytes; });
}

std::string Why(const SizeChoice& choice, std::uint64_t standard, double noise, const char* what) {
  const SizeShare& taken = ShareOf(choice.shares, choice.bytes);
  const SizeShare& best =
      *std::max_element(choice.shares.begin(), choice.shares.end(),
                        [](const SizeShare& a, const SizeShare& b) { return a.share < b.share; });
  std::string why = absl::StrCat(what, " ", FormatSize(choice.bytes),
                                 choice.bytes == standard ? " (the default)" : "", ": ");
  if (choice.shares.size() == 1) return why + "no other one was measured.";
  absl::StrAppend(&why, Percent(taken.share), " of the best rate at each I/O size and depth. ");
  if (best.bytes != choice.bytes) {
    absl::StrAppend(&why, FormatSize(best.bytes), " has ", Percent(best.share), ": within ",
                    Percent(noise), " they count as equal, and of equals the ",
                    choice.bytes == standard ? "default" : "one nearest to the default",
                    " is taken.");
    return why;
  }
  const SizeShare* next = nullptr;
  for (const SizeShare& one : choice.shares) {
    if (one.bytes != choice.bytes && (next == nullptr || one.share > next->share)) next = &one;
  }
  absl::StrAppend(&why, "Next is ", FormatSize(next->bytes), " with ", Percent(next->share), ".");
  const bool measured = std::any_of(choice.shares.begin(), choice.shares.end(),
                                    [&](const SizeShare& one) { return one.bytes == standard; });
  if (measured && choice.bytes != standard && next->bytes != standard) {
    absl::StrAppend(&why, " The default, ", FormatSize(standard), ", has ",
                    Percent(ShareOf(choice.shares, standard).share), ".");
  }
  return why;
}

SizeChoice Choose(std::vector<SizeShare> shares, std::uint64_t standard, double noise,
                  const char* what) {
  double best = 0;
  for (const SizeShare& one : shares) best = std::max(best, one.share);
  const SizeShare* taken = nullptr;
  for (const SizeShare& one : shares) {
    if (one.share < best * (1 - noise)) continue;
    if (taken == nullptr || Distance(one.bytes, standard) < Distance(taken->bytes, standard)) {
      taken = &one;
    }
  }
  SizeChoice choice{taken->bytes, std::move(shares), ""};
  choice.why = Why(choice, standard, noise, what);
  return choice;
}

std::string TomlString(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", std::string(1, c));
    } else if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      absl::StrAppendFormat(&quoted, "\\u%04X", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string TomlList(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(TomlString(text));
  return absl::StrCat("[", absl::StrJoin(quoted, ", "), "]");
}

}  // namespace

const char* NameOf(Purpose purpose) {
  switch (purpose) {
    case Purpose::kReading:
      return "reading";
    case Purpose::kWriting:
      return "writing";
    case Purpose::kBoth:
      return "both";
  }
  return "";
}

double NoiseOf(const std::vector<SweepResult>& results) {
  std::vector<double> noises;
  for (const SweepResult& result : results) {
    const Spread spread = SpreadOf(result.rates);
    noises.push_back((spread.most - spread.least) / std::max(1.0, spread.median));
  }
  return noises.empty() ? 0 : SpreadOf(std::move(noises)).median;
}

Advice AdviseOn(const std::vector<SweepResult>& results, Purpose purpose, double scattered_weight) {
  Advice advice{.purpose = purpose, .noise = std::max(kLeastNoise, NoiseOf(results))};
  std::vector<SizeShare> breadths, blocks;
  for (const auto& [bytes, share] : SharesOf(results, false, purpose)) {
    breadths.push_back({bytes, share});
  }
  advice.breadth =
      Choose(std::move(breadths), tools::kDefaultBreadthBytes, advice.noise, "Stripe breadth");
  for (const auto& [bytes, share] : SharesOf(results, true, purpose)) {
    // Others make no volume.
    if (advice.breadth.bytes % bytes != 0) continue;
    blocks.push_back({bytes, 1 - scattered_weight + scattered_weight * share});
  }
  if (blocks.empty()) {
    std::uint64_t block = tools::kDefaultBlockBytes;
    while (advice.breadth.bytes % block != 0) block /= 2;
    advice.block = {block,
                    {{block, 1}},
                    absl::StrCat("Block size ", FormatSize(block),
                                 ": no block size that was measured divides the stripe breadth.")};
    return advice;
  }
  advice.block = Choose(std::move(blocks), tools::kDefaultBlockBytes, advice.noise, "Block size");
  return advice;
}

std::string AdviceToml(const Advice& advice, const AdvisedVolume& volume) {
  std::string toml = absl::StrCat(
      "# Written by reel-bench sweep, for ",
      advice.purpose == Purpose::kBoth ? "reading and writing" : NameOf(advice.purpose), ".\n# ",
      advice.breadth.why, "\n# ", advice.block.why, "\n");
  absl::StrAppend(&toml, "name = ", TomlString(volume.name), "\nblock_size = ", advice.block.bytes,
                  "\nstripe_breadth = ", advice.breadth.bytes, "\n");
  if (!volume.metadata.empty()) {
    absl::StrAppend(&toml, "\n[[pool]]\nname = \"meta\"\nflags = [\"metadata\"]\nluns = ",
                    TomlList(volume.metadata), "\n");
  }
  absl::StrAppend(&toml, "\n[[pool]]\nname = \"data\"\nflags = [",
                  volume.metadata.empty() ? "\"metadata\", " : "",
                  "\"data\"]\nluns = ", TomlList(volume.luns), "\n");
  return toml;
}

}  // namespace reel::bench
