// reeladm support-bundle: what somebody who is asked for help wants to see, in one file: what the
// controllers say, what this host's programs find, and their journals. No secret is in it: of keys
// and certificates only the names of their files, and passwords of portals are masked where they
// are read.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/commands/command_table.h"
#include "tools/commands/view.h"
#include "tools/lib/cli.h"
#include "tools/lib/text_file.h"

namespace reel::tools {
namespace {

namespace fs = std::filesystem;

// Questions to the controllers, each with its answer as text and as JSON.
const std::vector<Words>& Questions() {
  static const auto& questions = *new std::vector<Words>{
      {"volumes"},     {"fsmlist"}, {"show", "long"}, {"stat"},
      {"who", "long"}, {"paths"},   {"disks"},        {"reservations"},
      {"repof"},       {"locks"},   {"jobs"},         {"quota"},
      {"exports"},     {"cert"},    {"log-level"},    {"config", "running"}};
  return questions;
}

// Programs of this host, by the names of their outputs.
struct Program {
  const char* name;
  const char* command;
};
constexpr Program kPrograms[] = {
    {"doctor", "/proc/self/exe doctor"},
    {"config", "/proc/self/exe config show"},
    {"journal",
     "journalctl --no-pager --lines=20000 --unit='reel-mdcd*' --unit='reelfs*' "
     "--identifier=mount.reelfs --identifier=reel-mdcd"},
    {"kernel", "journalctl --no-pager --lines=2000 --dmesg"},
    {"mounts", "cat /proc/self/mountinfo"},
    {"system", "uname -a; cat /etc/os-release; uptime; free"},
};

// In a shell whose /proc/self is its own: the program's path is put in.
std::string OutputOf(const std::string& command) {
  std::error_code error;
  const std::string self = fs::read_symlink("/proc/self/exe", error).string();
  const std::string line = absl::StrReplaceAll(command, {{"/proc/self/exe", "'" + self + "'"}});
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen(absl::StrCat("{ ", line, "; } 2>&1").c_str(), "re"), pclose);
  if (pipe == nullptr) return "could not be run\n";
  std::string output;
  std::array<char, 65536> some{};
  for (std::size_t n = 0; (n = fread(some.data(), 1, some.size(), pipe.get())) > 0;) {
    output.append(some.data(), n);
  }
  return output;
}

// A directory that goes with its owner.
class Scratch {
 public:
  Scratch() : path_((fs::temp_directory_path() / "reelfs-support-XXXXXX").string()) {
    made_ = mkdtemp(path_.data()) != nullptr;
  }
  ~Scratch() {
    std::error_code error;
    if (made_) fs::remove_all(path_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  bool made() const { return made_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

absl::Status Pack(const std::string& directory, const std::string& file) {
  const std::string quoted = absl::StrReplaceAll(file, {{"'", "'\\''"}});
  const std::string said = OutputOf(
      absl::StrCat("umask 077; tar -czf '", quoted, "' -C '", directory, "' support && echo done"));
  if (said == "done\n") return absl::OkStatus();
  return absl::UnknownError(absl::StrCat("the support bundle ", file, " was not written: ", said));
}

absl::StatusOr<Json> Bundle(AdminContext& context, const Words& words) {
  const Scratch scratch;
  if (!scratch.made()) {
    return absl::UnknownError(absl::StrCat("no directory could be made at ", scratch.path(),
                                           "; set TMPDIR to one that can be written to"));
  }
  const std::string inside = scratch.path() + "/support";
  std::error_code error;
  fs::create_directory(inside, error);
  Json files = Json::array(), problems = Json::array();
  const auto write = [&](const std::string& name, const std::string& text) {
    if (WriteTextFile(absl::StrCat(inside, "/", name), text, 0600).ok()) files.push_back(name);
  };
  for (const Words& question : Questions()) {
    const auto answer = RunForData(context, question);
    if (!answer.ok()) {
      problems.push_back(absl::StrCat(question[0], ": ", answer.status().message()));
      continue;
    }
    write(question[0] + ".json", JsonText(*answer) + "\n");
    write(question[0] + ".txt", FindCommand(question[0])->text(*answer));
  }
  for (const Program& program : kPrograms) {
    write(absl::StrCat("host-", program.name, ".txt"), OutputOf(program.command));
  }
  if (!problems.empty()) write("problems.json", JsonText(problems) + "\n");
  if (absl::Status s = Pack(scratch.path(), words[1]); !s.ok()) return s;
  return Json{{"file", words[1]}, {"contents", std::move(files)}, {"problems", problems}};
}

std::string BundleText(const Json& json) {
  std::string text =
      absl::StrCat(json["contents"].size(), " files are in ", json["file"].get<std::string>(),
                   "; it names hosts, files and clients: look before you pass it on.\n");
  for (const Json& problem : json["problems"]) {
    absl::StrAppend(&text, "Not in it: ", problem.get<std::string>(), "\n");
  }
  return text;
}

}  // namespace

AdminCommands BundleCommands() {
  return {{.name = "support-bundle",
           .usage = "FILE",
           .help = "what to send along with a question: a .tar.gz of what there is to see",
           .run = Bundle,
           .text = BundleText,
           .examples = {"support-bundle /root/reelfs.tar.gz"}}};
}

}  // namespace reel::tools
