// How a command is called, in the words of its help: "break INODE [SESSION]". One text is the
// help, the check of what was typed, and what completion offers next.
//
// Upper case is a place for a word, and says what belongs there (VOLUME, PATH: usage.cc knows
// them); lower case is the word itself, "on|off" either of two. What is in brackets may be absent;
// "|" between spaces stands between ways to call it; "..." after a place: one or more.
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reel::tools {

enum class WordKind {
  kLiteral,  // one of the words that stand there
  kAny,
  kVolume,
  kPool,
  kLun,
  kSession,  // its number
  kClient,   // a session's number, or the host of its client
  kController,
  kPath,
  kCommand,
};

struct UsageWord {
  WordKind kind;
  std::vector<std::string> literals;  // kLiteral
  bool repeated = false;              // only of the last one
  bool Takes(const std::string& word) const;
};
// One way to call a command: all of these words.
using UsageForm = std::vector<UsageWord>;

// REQUIRES: by the rules above. (The table's are checked by a test.)
std::vector<UsageForm> FormsOf(std::string_view usage);

// Whether the words after the command are one of its forms.
bool MatchesUsage(std::string_view usage, const std::vector<std::string>& words);

// What the next word may be, after those.
std::vector<UsageWord> NextWords(std::string_view usage, const std::vector<std::string>& before);

}  // namespace reel::tools
