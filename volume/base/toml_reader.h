// TOML, read strictly: a document becomes a tree of nodes that know their lines, and a table is
// read key by key, so that a wrong type or a key that nobody knows is one line with its place.
//
// A library of its own, so that only who reads a configuration pays for it. The only code that
// knows toml++ is toml_reader.cc. Thread rule: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace reel {

struct TomlNode {
  enum class Kind { kText, kInteger, kArray, kTable, kOther };
  Kind kind = Kind::kOther;
  std::uint32_t line = 1;
  std::string key;  // its name, within a table
  std::string text;
  std::int64_t integer = 0;
  std::vector<TomlNode> elements;  // of an array or a table; a table's in order of key

  // The element of a table that has this key; nullptr when there is none.
  const TomlNode* Find(std::string_view name) const;
};

// The table of the whole document. INVALID_ARGUMENT: "SOURCE:LINE: what". Safe on any bytes.
absl::StatusOr<TomlNode> ParseToml(std::string_view text, std::string_view source);
// NOT_FOUND: no such file; else as above.
absl::StatusOr<TomlNode> ReadToml(const std::string& path);

// A string of the document, with "SOURCE:LINE: " to put before messages about it.
struct TomlText {
  std::string text;
  std::string where;
};

// Reads one table. The first error sticks; Finish reports it, or a key that nobody asked for.
class TomlTable {
 public:
  // REQUIRES: `table` is one, and outlives this.
  TomlTable(const TomlNode& table, std::string_view source) : table_(table), source_(source) {}

  std::string Where(const TomlNode& node) const;
  // Of the key, or of the table where it is absent.
  std::string Where(std::string_view key) const;

  const TomlNode* Find(std::string_view key);
  // Absent, or of the wrong type (which Finish reports): nullopt.
  std::optional<std::string> Text(std::string_view key);
  // A number of bytes, or text that ParseSize reads.
  std::optional<std::uint64_t> Size(std::string_view key);
  // A number within [least, most].
  std::optional<std::int64_t> Number(std::string_view key, std::int64_t least, std::int64_t most);
  // Text that is one of `choices`.
  std::optional<std::string> Choice(std::string_view key,
                                    std::span<const std::string_view> choices);
  // An array of strings; empty when absent.
  std::vector<TomlText> Texts(std::string_view key, std::size_t max_count);
  // [[key]], an array of tables; empty when absent.
  std::vector<const TomlNode*> Tables(std::string_view key, std::size_t max_count);

  void Fail(const TomlNode& node, std::string_view what);
  // About the key's value, or the table where it is absent.
  void Fail(std::string_view key, std::string_view what);
  absl::Status Finish();

 private:
  std::optional<std::string> TextOf(std::string_view key, const TomlNode& node, bool in_list);
  // False (and reported) when the node is no array, or has more than `max_count` elements.
  bool CheckArray(std::string_view key, const TomlNode& node, std::string_view of,
                  std::size_t max_count);

  const TomlNode& table_;
  std::string source_;
  std::vector<std::string> known_;
  absl::Status status_;
};

}  // namespace reel
