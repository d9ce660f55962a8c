#include "proto/folded_name.h"

#include <utf8proc.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/status.h"
#include "proto/types.pb.h"

namespace reel {
namespace {

absl::StatusOr<std::string> Mapped(std::string_view name, unsigned options) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(name.data()),
                   static_cast<utf8proc_ssize_t>(name.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_REJECTNA | options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (bytes < 0) {
    return ErrnoStatus(EILSEQ, absl::StrCat("a name in a directory that ignores case: ",
                                            utf8proc_errmsg(bytes), "; write it in UTF-8"));
  }
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(bytes));
}

}  // namespace

absl::StatusOr<std::string> FoldName(std::string_view name) {
  if (std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isascii(c); })) {
    return absl::AsciiStrToLower(absl::string_view(name.data(), name.size()));
  }
  // Taken apart first: a few characters fold differently where they stand within another one.
  const absl::StatusOr<std::string> apart = Mapped(name, UTF8PROC_DECOMPOSE);
  if (!apart.ok()) return apart;
  return Mapped(*apart, UTF8PROC_CASEFOLD | UTF8PROC_COMPOSE);
}

bool FoldsNames(std::uint32_t directory_flags) {
  return (directory_flags & v1::INODE_FLAG_CASEFOLD) != 0;
}

NameKey::NameKey(std::uint32_t directory_flags, std::string_view name) : name_(name) {
  if (!FoldsNames(directory_flags)) return;
  absl::StatusOr<std::string> folded = FoldName(name);
  if (folded.ok()) folded_ = *std::move(folded);
}

}  // namespace reel
