#include "client/mount/tables/mount_table.h"

#include <dirent.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

extern char** environ;  // NOLINT: posix_spawn(3) wants it

namespace reel::client {
namespace {

constexpr char kOurType[] = "fuse.reelfs";
constexpr char kUtab[] = "/run/mount/utab";

// The first fields of a line, and the rest of it.
struct Line {
  std::string_view id, parent, device, root, where, rest;
};

std::vector<Line> Parse(std::string_view table) {
  std::vector<Line> lines;
  const auto std_view = [](absl::string_view text) {
    return std::string_view(text.data(), text.size());
  };
  for (absl::string_view text :
       absl::StrSplit(absl::string_view(table.data(), table.size()), '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(text, absl::MaxSplits(' ', 5));
    if (fields.size() < 5) continue;
    lines.push_back({std_view(fields[0]), std_view(fields[1]), std_view(fields[2]),
                     std_view(fields[3]), std_view(fields[4]),
                     fields.size() > 5 ? std_view(fields[5]) : std::string_view()});
  }
  return lines;
}

// Of an overlay, which names its directories among its options.
bool IsLayer(const std::vector<Line>& lines, std::string_view where) {
  return std::any_of(lines.begin(), lines.end(), [&](const Line& line) {
    return line.rest.find(" - overlay ") != line.rest.npos &&
           line.rest.find(where) != line.rest.npos;
  });
}

// A space and the like are written as three octal digits.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '7' ? text[at] - '0' : -1;
    };
    const bool escaped =
        text[i] == '\\' && digit(i + 1) >= 0 && digit(i + 2) >= 0 && digit(i + 3) >= 0;
    plain +=
        escaped ? static_cast<char>(digit(i + 1) * 64 + digit(i + 2) * 8 + digit(i + 3)) : text[i];
    if (escaped) i += 3;
  }
  return plain;
}

std::string Read(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

Mounted MountedIn(std::string_view table, std::string_view mount_point) {
  Mounted found;
  for (const Line& line : Parse(table)) {
    if (Unescaped(line.where) != mount_point) continue;
    found = Mounted();  // the last one is on top
    found.device = std::string(line.device);
    // Behind the fields of which there may be any number: type, source, options.
    const std::size_t dash = line.rest.find("- ");
    if (dash == line.rest.npos) continue;
    const std::vector<std::string> fields =
        absl::StrSplit(absl::string_view(line.rest.data(), line.rest.size()).substr(dash + 2), ' ');
    found.type = fields[0];
    if (fields.size() > 1) found.source = fields[1];
  }
  return found;
}

Mounted MountedAt(const std::string& mount_point) {
  return MountedIn(Read("/proc/self/mountinfo"), mount_point);
}

bool IsOurs(const Mounted& mounted) {
  return mounted.type == kOurType;
}

bool IsMountedUponIn(std::string_view table, std::string_view device) {
  const std::vector<Line> lines = Parse(table);
  std::set<std::string_view> ours;
  for (const Line& line : lines) {
    if (line.device == device) ours.insert(line.id);
  }
  for (const Line& line : lines) {
    if (line.parent != line.id && ours.contains(line.parent)) return true;
    // (overlayfs gives up a layer whose names are forgotten.)
    if (line.device == device && IsLayer(lines, line.where)) return true;
  }
  return false;
}

std::string DeviceOfMount(const std::string& mount_point) {
  return MountedAt(mount_point).device;
}

bool IsNotedIn(std::string_view utab, std::string_view mount_point) {
  for (absl::string_view line : absl::StrSplit(absl::string_view(utab.data(), utab.size()), '\n')) {
    bool there = false;
    bool network = false;
    for (absl::string_view word : absl::StrSplit(line, ' ')) {
      if (absl::ConsumePrefix(&word, "TARGET=")) {
        there = Unescaped({word.data(), word.size()}) == mount_point;
      } else if (absl::ConsumePrefix(&word, "OPTS=")) {
        const std::vector<absl::string_view> options = absl::StrSplit(word, ',');
        network = std::find(options.begin(), options.end(), "_netdev") != options.end();
      }
    }
    if (there && network) return true;
  }
  return false;
}

// By mount(8), which owns the file. Where it fails, a shutdown may come in another order.
void NoteNetworkMount(const std::string& source, const std::string& mount_point) {
  // (An earlier mount may have left its line: only umount(8) takes it off.)
  if (geteuid() != 0 || IsNotedIn(Read(kUtab), mount_point)) return;
  std::vector<std::string> words{"mount", "-i",      "-f",   "--no-canonicalize", "-t", kOurType,
                                 "-o",    "_netdev", source, mount_point};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, "/bin/mount", nullptr, nullptr, argv.data(), environ) == 0) {
    waitpid(child, nullptr, 0);
  }
}

namespace {

// Whether it holds of the table of any namespace.
bool OfAnyTable(absl::FunctionRef<bool(std::string_view table)> holds) {
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(opendir("/proc"), &closedir);
  if (processes == nullptr) return holds(Read("/proc/self/mountinfo"));
  std::set<std::string> seen;  // namespaces
  while (const dirent* entry = readdir(processes.get())) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    const std::string process = absl::StrCat("/proc/", static_cast<const char*>(entry->d_name));
    std::array<char, 64> name{};
    const ssize_t length = readlink((process + "/ns/mnt").c_str(), name.data(), name.size());
    if (length <= 0 || !seen.emplace(name.data(), static_cast<std::size_t>(length)).second)
      continue;
    if (holds(Read(process + "/mountinfo"))) return true;
  }
  return false;
}

}  // namespace

bool IsMountedUpon(const std::string& device) {
  return OfAnyTable([&](std::string_view table) { return IsMountedUponIn(table, device); });
}

bool IsMounted(const std::string& device) {
  return OfAnyTable([&](std::string_view table) {
    const std::vector<Line> lines = Parse(table);
    return std::any_of(lines.begin(), lines.end(),
                       [&](const Line& line) { return line.device == device; });
  });
}

}  // namespace reel::client
