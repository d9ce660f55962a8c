#include "tools/commands/usage.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "volume/base/check.h"

namespace reel::tools {
namespace {

using Forms = std::vector<UsageForm>;

WordKind KindOf(std::string_view place) {
  static const auto& kinds = *new absl::flat_hash_map<std::string_view, WordKind>{
      {"VOLUME", WordKind::kVolume}, {"POOL", WordKind::kPool},
      {"LUN", WordKind::kLun},       {"SESSION", WordKind::kSession},
      {"CLIENT", WordKind::kClient}, {"HOST", WordKind::kController},
      {"PATH", WordKind::kPath},     {"FILE", WordKind::kPath},
      {"DIR", WordKind::kPath},      {"COMMAND", WordKind::kCommand},
  };
  const auto found = kinds.find(place);
  return found == kinds.end() ? WordKind::kAny : found->second;
}

UsageWord WordOf(std::string_view text) {
  UsageWord word;
  word.repeated = text.ends_with("...");
  if (word.repeated) text.remove_suffix(3);
  REEL_CHECK(!text.empty(), "a usage has words");
  if (absl::ascii_isupper(static_cast<unsigned char>(text.front()))) {
    word.kind = KindOf(text);
  } else {
    word.kind = WordKind::kLiteral;
    word.literals = absl::StrSplit(std::string(text), '|');
  }
  return word;
}

// Each of `heads` followed by each of `tails`.
Forms Followed(const Forms& heads, const Forms& tails) {
  Forms forms;
  for (const UsageForm& head : heads) {
    for (const UsageForm& tail : tails) {
      forms.push_back(head);
      forms.back().insert(forms.back().end(), tail.begin(), tail.end());
    }
  }
  return forms;
}

// Reads alternatives up to a closing bracket, which it takes, or the end.
Forms Alternatives(std::string_view& rest) {
  Forms all, current{{}};
  while (!rest.empty() && rest.front() != ']') {
    if (rest.front() == '[') {
      rest.remove_prefix(1);
      Forms optional = Alternatives(rest);
      optional.insert(optional.begin(), UsageForm());
      current = Followed(current, optional);
    } else if (rest.front() == '|') {
      rest.remove_prefix(1);
      all.insert(all.end(), current.begin(), current.end());
      current = {{}};
    } else if (rest.front() == ' ') {
      rest.remove_prefix(1);
    } else {
      const std::string_view word = rest.substr(0, rest.find_first_of(" []"));
      rest.remove_prefix(word.size());
      current = Followed(current, {UsageForm{WordOf(word)}});
    }
  }
  if (!rest.empty()) rest.remove_prefix(1);
  all.insert(all.end(), current.begin(), current.end());
  return all;
}

// Whether the words are the first ones of the form; `*next` is the place after them, or null where
// nothing more may come.
bool Begins(const UsageForm& form, const std::vector<std::string>& words, const UsageWord** next) {
  std::size_t place = 0;
  for (const std::string& word : words) {
    if (place == form.size() || !form[place].Takes(word)) return false;
    if (!form[place].repeated) ++place;
  }
  *next = place == form.size() ? nullptr : &form[place];
  return true;
}

}  // namespace

bool UsageWord::Takes(const std::string& word) const {
  if (kind != WordKind::kLiteral) return !word.empty();
  return std::find(literals.begin(), literals.end(), word) != literals.end();
}

std::vector<UsageForm> FormsOf(std::string_view usage) {
  return Alternatives(usage);
}

bool MatchesUsage(std::string_view usage, const std::vector<std::string>& words) {
  for (const UsageForm& form : FormsOf(usage)) {
    const UsageWord* next = nullptr;
    if (!Begins(form, words, &next)) continue;
    const bool repeats = next != nullptr && next->repeated && words.size() >= form.size();
    if (next == nullptr || repeats) return true;
  }
  return false;
}

std::vector<UsageWord> NextWords(std::string_view usage, const std::vector<std::string>& before) {
  std::vector<UsageWord> words;
  for (const UsageForm& form : FormsOf(usage)) {
    const UsageWord* next = nullptr;
    if (Begins(form, before, &next) && next != nullptr) words.push_back(*next);
  }
  return words;
}

}  // namespace reel::tools
