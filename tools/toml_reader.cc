#include "tools/toml_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

// Compiled into this file alone, and without exceptions: the packaged library is built with them.
#undef TOML_SHARED_LIB
#undef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tools/size.h"

namespace reel::tools {
namespace {

constexpr std::size_t kMaxDocumentBytes = 1 << 20;
constexpr std::size_t kMaxTextBytes = 4096;

TomlNode Convert(const toml::node& from) {
  TomlNode node;
  node.line = from.source().begin.line;
  if (const auto* text = from.as_string()) {
    node.kind = TomlNode::Kind::kText;
    node.text = text->get();
  } else if (const auto* integer = from.as_integer()) {
    node.kind = TomlNode::Kind::kInteger;
    node.integer = integer->get();
  } else if (const toml::array* array = from.as_array()) {
    node.kind = TomlNode::Kind::kArray;
    for (const toml::node& element : *array) node.elements.push_back(Convert(element));
  } else if (const toml::table* table = from.as_table()) {
    node.kind = TomlNode::Kind::kTable;
    for (const auto& [key, value] : *table) {
      node.keys.emplace_back(std::string(key.str()), Convert(value));
    }
  }
  return node;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  std::string text(kMaxDocumentBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return absl::UnavailableError(absl::StrCat("cannot read ", path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

const TomlNode* TomlNode::Find(std::string_view key) const {
  const auto found = std::ranges::find(keys, key, &std::pair<std::string, TomlNode>::first);
  return found == keys.end() ? nullptr : &found->second;
}

absl::StatusOr<TomlNode> ParseToml(std::string_view text, std::string_view source) {
  if (text.size() > kMaxDocumentBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(source), ":1: longer than 1 MiB: not a description"));
  }
  const toml::parse_result result = toml::parse(text, source);
  if (result) return Convert(result.table());
  const std::string_view what = result.error().description();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(source), ":", result.error().source().begin.line, ": ",
                   absl::CHexEscape(std::string(what.substr(0, what.find('\n'))))));
}

absl::StatusOr<TomlNode> ReadToml(const std::string& path) {
  auto text = ReadText(path);
  if (!text.ok()) return text.status();
  return ParseToml(*text, path);
}

std::string TomlTable::Where(const TomlNode& node) const {
  return absl::StrCat(source_, ":", node.line, ": ");
}

std::string TomlTable::Where(std::string_view key) const {
  const TomlNode* node = table_.Find(key);
  return Where(node == nullptr ? table_ : *node);
}

void TomlTable::Fail(const TomlNode& node, std::string_view what) {
  if (status_.ok())
    status_ = absl::InvalidArgumentError(absl::StrCat(Where(node), std::string(what)));
}

const TomlNode* TomlTable::Find(std::string_view key) {
  known_.emplace_back(key);
  return table_.Find(key);
}

std::optional<std::string> TomlTable::Text(std::string_view key) {
  const TomlNode* node = Find(key);
  if (node == nullptr) return std::nullopt;
  return TextOf(key, *node, /*in_list=*/false);
}

std::optional<std::string> TomlTable::TextOf(std::string_view key, const TomlNode& node,
                                             bool in_list) {
  if (node.kind != TomlNode::Kind::kText) {
    Fail(node,
         absl::StrCat(std::string(key), " must be a ", in_list ? "list of strings" : "string"));
    return std::nullopt;
  }
  if (node.text.empty() || node.text.size() > kMaxTextBytes) {
    Fail(node, absl::StrCat(std::string(key), " is ", node.text.empty() ? "empty" : "too long"));
    return std::nullopt;
  }
  return node.text;
}

std::optional<std::uint64_t> TomlTable::Size(std::string_view key) {
  const TomlNode* node = Find(key);
  if (node == nullptr) return std::nullopt;
  if (node->kind == TomlNode::Kind::kInteger && node->integer >= 0) {
    return static_cast<std::uint64_t>(node->integer);
  }
  if (node->kind != TomlNode::Kind::kText) {
    Fail(*node, absl::StrCat(std::string(key), " must be a size, such as \"256KiB\""));
    return std::nullopt;
  }
  const auto size = ParseSize(node->text);
  if (size.ok()) return *size;
  Fail(*node, absl::StrCat(std::string(key), ": ", size.status().message()));
  return std::nullopt;
}

std::vector<TomlText> TomlTable::Texts(std::string_view key, std::size_t max_count) {
  const TomlNode* node = Find(key);
  if (node == nullptr) return {};
  if (node->kind != TomlNode::Kind::kArray) {
    Fail(*node, absl::StrCat(std::string(key), " must be a list of strings"));
    return {};
  }
  if (node->elements.size() > max_count) {
    Fail(*node, absl::StrCat(std::string(key), " has ", node->elements.size(), " entries; at most ",
                             max_count, " are possible"));
    return {};
  }
  std::vector<TomlText> texts;
  for (const TomlNode& element : node->elements) {
    texts.push_back({TextOf(key, element, /*in_list=*/true).value_or(""), Where(element)});
  }
  return texts;
}

absl::Status TomlTable::Finish() {
  for (const auto& [key, node] : table_.keys) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    Fail(node, absl::StrCat("unknown key \"", absl::CHexEscape(key), "\""));
  }
  return status_;
}

}  // namespace reel::tools
