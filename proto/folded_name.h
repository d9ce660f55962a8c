// How a directory that folds names (INODE_FLAG_CASEFOLD) compares them: names that differ in case
// alone, or in how their accents are put together, are one. Linux and Windows write an accented
// letter as one character (NFC), a Mac may write it as two (NFD).
//
// Source: Unicode 15, section 3.13, "canonical caseless match", by libutf8proc. Characters that are
// assigned keep their folding in all later versions of Unicode; others have none yet, so a name
// with such a character cannot be made. Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace reel {

// All spellings of one name come out as the same bytes, of which folding makes themselves again.
// EILSEQ: the name is no UTF-8, or has characters that are not assigned.
absl::StatusOr<std::string> FoldName(std::string_view name);

bool FoldsNames(std::uint32_t directory_flags);  // InodeFlag bits

// What stands for a name in a directory with these flags: the name itself, or where the directory
// folds names, the folded one. (Where that cannot be, the name itself: none is ever made there.)
class NameKey {
 public:
  // Borrows the name.
  NameKey(std::uint32_t directory_flags, std::string_view name);
  std::string_view view() const { return folded_ ? *folded_ : name_; }

 private:
  std::string_view name_;
  std::optional<std::string> folded_;
};

}  // namespace reel
