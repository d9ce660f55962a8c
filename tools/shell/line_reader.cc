#include "tools/shell/line_reader.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <utility>

#include <readline/history.h>
#include <readline/readline.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/shell/completion.h"

namespace reel::tools {
namespace {

constexpr int kHistoryLines = 1000;

// readline asks for completions without an argument of ours.
struct Completing {
  AdminContext* context = nullptr;
  std::vector<std::string> more;
  Completion found;
};
Completing completing;

char* NextCandidate(const char* text, int state) {
  static std::size_t next = 0;
  if (state == 0) next = 0;
  while (next < completing.found.words.size()) {
    const std::string& candidate = completing.found.words[next++];
    // Options only where one has begun: they may come anywhere.
    if (absl::StartsWith(candidate, "-") && *text != '-') continue;
    if (absl::StartsWith(candidate, text)) return strdup(candidate.c_str());
  }
  return nullptr;
}

char** Complete(const char* text, int start, int) {
  completing.found = {};
  const auto before = SplitWords({rl_line_buffer, static_cast<std::size_t>(start)});
  if (before.ok()) {
    completing.found = CompletionAfter(*completing.context, *before, completing.more);
  }
  char** const matches = rl_completion_matches(text, NextCandidate);
  // File names, where one may come and no word fits.
  rl_attempted_completion_over = completing.found.paths ? 0 : 1;
  return matches;
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

// From now on Ctrl-C gives up the line that is typed, or a wait. A command that runs goes on: its
// time is bounded.
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

void SetUpReadline() {
  rl_readline_name = "reeladm";
  rl_attempted_completion_function = Complete;
  rl_basic_word_break_characters = " ";
  rl_completer_word_break_characters = " ";
  rl_completer_quote_characters = "\"'";
  rl_filename_quote_characters = " \\\"'";
  using_history();
  stifle_history(kHistoryLines);
}

}  // namespace

LineReader::LineReader(AdminContext& context, std::vector<std::string> more) : terminal_(CanAsk()) {
  if (!terminal_) return;
  KeepOnAfterInterrupts();
  completing.context = &context;
  completing.more = std::move(more);
  SetUpReadline();
  history_path_ = HistoryPath();
  if (!history_path_.empty()) read_history(history_path_.c_str());
}

LineReader::~LineReader() {
  if (!terminal_ || history_path_.empty()) return;
  const mode_t mask = umask(077);
  write_history(history_path_.c_str());
  umask(mask);
}

std::optional<std::string> LineReader::Next(const std::string& prompt) {
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

absl::Status WaitForInterrupt(std::uint64_t seconds) {
  if (interrupts < 0) return WaitSeconds(seconds);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  pollfd event{.fd = interrupts, .events = POLLIN, .revents = 0};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return absl::OkStatus();
    poll(&event, 1, static_cast<int>(left.count()) + 1);
    if (TakeInterrupts()) return absl::CancelledError("interrupted");
  }
}

}  // namespace reel::tools
