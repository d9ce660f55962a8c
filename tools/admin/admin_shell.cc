#include "tools/admin/admin_shell.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>

#include <readline/history.h>
#include <readline/readline.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tools/lib/cli.h"

namespace reel::tools {
namespace {

constexpr int kHistoryLines = 1000;
constexpr std::string_view kShellWords[] = {"volume", "quit", "exit"};

// readline asks for completions without an argument of ours.
AdminContext* completing = nullptr;
std::vector<std::string> candidates;

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  for (const AdminCommand& command : AdminCommands()) names.emplace_back(command.name);
  names.insert(names.end(), std::begin(kShellWords), std::end(kShellWords));
  return names;
}

std::vector<std::string> CandidatesFor(const std::vector<std::string>& before) {
  if (before.empty()) return CommandNames();
  if (before.size() != 1) return {};
  if (before[0] == "help") return CommandNames();
  std::vector<std::string> names;
  if (before[0] == "volume") {
    const auto volumes = completing->api.Volumes();
    if (!volumes.ok()) return {};
    for (const auto& volume : volumes->volumes()) names.push_back(volume.name());
  }
  return names;
}

char* NextCandidate(const char* text, int state) {
  static std::size_t next = 0;
  if (state == 0) next = 0;
  while (next < candidates.size()) {
    const std::string& candidate = candidates[next++];
    if (absl::StartsWith(candidate, text)) return strdup(candidate.c_str());
  }
  return nullptr;
}

char** Complete(const char* text, int start, int) {
  rl_attempted_completion_over = 1;  // never file names
  candidates = CandidatesFor(
      absl::StrSplit(absl::string_view(rl_line_buffer, start), ' ', absl::SkipWhitespace()));
  return rl_completion_matches(text, NextCandidate);
}

std::string HistoryPath() {
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : absl::StrCat(home, "/.reeladm_history");
}

// Counts the interrupts that nobody has seen yet. A flag that is looked at before the shell sleeps
// would miss the one that comes in between.
int interrupts = -1;

// Any thread may get the signal (gRPC has some).
void OnInterrupt(int /*number*/) {
  const int before = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(interrupts, &one, sizeof(one));
  errno = before;
}

// Takes the interrupts that have come so far; false: none has.
bool TakeInterrupts() {
  uint64_t count = 0;
  return read(interrupts, &count, sizeof(count)) == sizeof(count);
}

// A line that was given up makes room for another.
void GiveUpLine() {
  std::fputs("^C", rl_outstream);
  rl_crlf();
  rl_on_new_line();
  rl_replace_line("", 0);
  rl_forced_update_display();
}

// What readline calls for the next byte that is typed.
int NextByte(FILE* stream) {
  std::array<pollfd, 2> events{{{.fd = fileno(stream), .events = POLLIN, .revents = 0},
                                {.fd = interrupts, .events = POLLIN, .revents = 0}}};
  while (true) {
    if (poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return EOF;
    if (TakeInterrupts()) {
      GiveUpLine();
    } else if (events[0].revents != 0) {
      return rl_getc(stream);
    }
  }
}

// From now on Ctrl-C gives up the line that is typed. A command that runs goes on: its time is
// bounded.
void KeepOnAfterInterrupts() {
  interrupts = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (interrupts < 0) return;  // Ctrl-C ends the shell, as it does most programs
  rl_catch_signals = 0;        // it would send the signal once more, to whichever thread
  rl_getc_function = NextByte;
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

class LineReader {
 public:
  explicit LineReader(AdminContext& context) : terminal_(CanAsk()) {
    if (!terminal_) return;
    KeepOnAfterInterrupts();
    completing = &context;
    rl_readline_name = "reeladm";
    rl_attempted_completion_function = Complete;
    using_history();
    stifle_history(kHistoryLines);
    history_path_ = HistoryPath();
    if (!history_path_.empty()) read_history(history_path_.c_str());
  }
  ~LineReader() {
    if (!terminal_ || history_path_.empty()) return;
    const mode_t mask = umask(077);
    write_history(history_path_.c_str());
    umask(mask);
  }

  bool terminal() const { return terminal_; }

  std::optional<std::string> Next(const std::string& prompt) {
    if (!terminal_) {
      std::string line;
      return std::getline(std::cin, line) ? std::optional(line) : std::nullopt;
    }
    TakeInterrupts();  // during the last command
    char* raw = readline(prompt.c_str());
    if (raw == nullptr) {
      std::cout << "\n";
      return std::nullopt;
    }
    std::string line = raw;
    std::free(raw);
    if (!absl::StripAsciiWhitespace(line).empty() && line != last_) add_history(line.c_str());
    last_ = line;
    return line;
  }

 private:
  const bool terminal_;
  std::string history_path_;
  std::string last_;
};

// "volume NAME": only one that is there.
absl::Status Choose(AdminContext& context, const std::vector<std::string>& words) {
  if (words.size() != 2) return absl::InvalidArgumentError("use: volume NAME");
  auto volumes = context.api.Volumes();
  if (!volumes.ok()) return volumes.status();
  for (const auto& volume : volumes->volumes()) {
    if (volume.name() != words[1]) continue;
    context.volume = words[1];
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("this MDC serves no volume ", words[1]));
}

}  // namespace

bool CanAsk() {
  return isatty(STDIN_FILENO) != 0;
}

bool AskOnTerminal(const std::string& question) {
  TakeInterrupts();
  const std::unique_ptr<char, decltype(&std::free)> answer(
      readline(absl::StrCat(question, " [y/N] ").c_str()), &std::free);
  if (answer == nullptr) return false;
  const std::string text = absl::AsciiStrToLower(absl::StripAsciiWhitespace(answer.get()));
  return text == "y" || text == "yes";
}

int RunAdminShell(AdminContext& context) {
  LineReader reader(context);
  if (reader.terminal()) std::cout << "\"help\" lists the commands, \"quit\" ends.\n";
  for (;;) {
    const std::optional<std::string> line = reader.Next(
        context.volume.empty() ? "reeladm> " : absl::StrCat("reeladm ", context.volume, "> "));
    if (!line.has_value()) return 0;
    const std::vector<std::string> words = absl::StrSplit(*line, ' ', absl::SkipWhitespace());
    if (words.empty() || words[0].starts_with('#')) continue;
    if (words[0] == "quit" || words[0] == "exit") return 0;
    absl::StatusOr<std::string> outcome = std::string();
    if (words[0] == "volume") {
      if (absl::Status status = Choose(context, words); !status.ok()) outcome = status;
    } else {
      outcome = RunAdminCommand(context, words);
    }
    if (outcome.ok()) {
      std::cout << *outcome << std::flush;
      continue;
    }
    PrintError("reeladm", outcome.status());
    if (!reader.terminal()) return AdminExitCode(outcome.status());
  }
}

}  // namespace reel::tools
