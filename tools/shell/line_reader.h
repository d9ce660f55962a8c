// Lines for the shell: from a terminal with readline, its completion and a history in
// ~/.reeladm_history; else plainly. Threads: one, and one reader a process (readline has global
// state).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/commands/command.h"

namespace reel::tools {

class LineReader {
 public:
  // `more`: commands that the table has not. Ctrl-C gives up the line that is typed, from now on.
  LineReader(AdminContext& context, std::vector<std::string> more);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  bool terminal() const { return terminal_; }
  // Nothing: the input has ended.
  std::optional<std::string> Next(const std::string& prompt);

 private:
  const bool terminal_;
  std::string history_path_;
  std::string last_;
};

// Whether somebody sits at a terminal who can be asked; and the question: true for "y" or "yes".
bool CanAsk();
bool AskOnTerminal(const std::string& question);

// Waits; CANCELLED where Ctrl-C comes meanwhile, while there is a reader at a terminal.
absl::Status WaitForInterrupt(std::uint64_t seconds);

}  // namespace reel::tools
