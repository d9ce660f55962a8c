#include "tools/admin_shell.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

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
#include "tools/cli.h"

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

volatile sig_atomic_t interrupted = 0;
pthread_t reader;

// Any thread may get the signal (gRPC has some); the one that reads a line has to wake up.
void OnInterrupt(int number) {
  interrupted = 1;
  if (pthread_equal(pthread_self(), reader) == 0) pthread_kill(reader, number);
}

// readline calls it where a signal has woken it: a line that was given up makes room for another.
int OnSignal() {
  if (interrupted == 0) return 0;
  interrupted = 0;
  std::fputs("^C", rl_outstream);
  rl_crlf();
  rl_on_new_line();
  rl_replace_line("", 0);
  rl_forced_update_display();
  return 0;
}

// From now on Ctrl-C gives up the line that is typed. A command that runs goes on: its time is
// bounded.
void KeepOnAfterInterrupts() {
  reader = pthread_self();
  rl_catch_signals = 0;  // it would send the signal once more, to whichever thread
  rl_signal_event_hook = OnSignal;
  struct sigaction action {};
  action.sa_handler = OnInterrupt;  // without SA_RESTART: it is to interrupt read(2)
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
    interrupted = 0;  // during the last command
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
  interrupted = 0;
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
