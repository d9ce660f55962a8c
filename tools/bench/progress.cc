#include "tools/bench/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace reel::bench {
namespace {

constexpr std::chrono::seconds kEvery(5);  // where lines stay

}  // namespace

Progress::Progress(std::uint64_t total, bool quiet)
    : total_(total),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) != 0),
      begin_(std::chrono::steady_clock::now()) {}

void Progress::Step(const std::string& what) {
  const std::uint64_t done = begun_++;
  const auto now = std::chrono::steady_clock::now();
  if (quiet_ || (!terminal_ && done > 0 && now < said_ + kEvery)) return;
  said_ = now;
  std::string text = absl::StrFormat("[%d/%d] %s", begun_, total_, what);
  if (done > 0 && done < total_) {
    const std::chrono::duration<double> passed = now - begin_;
    const double left =
        passed.count() / static_cast<double>(done) * static_cast<double>(total_ - done);
    absl::StrAppend(&text, ", ", DurationText(left), " left");
  }
  // Names in it must not drive the terminal.
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", text.c_str());
  open_ = terminal_;
}

void Progress::End() {
  if (open_) std::fputs("\n", stderr);
  open_ = false;
}

std::string DurationText(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(std::max(0.0, seconds)));
  if (whole < 100) return absl::StrCat(whole, " s");
  const std::int64_t minutes = (whole + 59) / 60;
  if (minutes < 100) return absl::StrCat(minutes, " min");
  return absl::StrCat(minutes / 60, " h ", minutes % 60, " min");
}

}  // namespace reel::bench
