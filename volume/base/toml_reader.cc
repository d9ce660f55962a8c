#include "volume/base/toml_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

// Compiled into this file alone, and without exceptions: the packaged library is built with them.
#undef TOML_SHARED_LIB
#undef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
// Some of its assertions fail on wrong texts ("[/x"), for which it has a proper error right behind
// them.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "volume/base/size.h"

namespace reel {
namespace {

constexpr std::size_t kMaxDocumentBytes = 1 << 20;
constexpr std::size_t kMaxTextBytes = 4096;

// What stands between quotes, and what does not.
enum class Lexeme { kPlain, kComment, kBasic, kLiteral, kLongBasic, kLongLiteral };

// The state after the quote at `at`, which is moved to the last character taken.
Lexeme AfterQuote(std::string_view text, std::size_t& at, Lexeme state) {
  const char quote = text[at];
  const bool basic = quote == '"';
  const bool three = text.substr(at, 3) == std::string(3, quote);
  switch (state) {
    case Lexeme::kPlain:
      if (three) at += 2;
      return basic ? (three ? Lexeme::kLongBasic : Lexeme::kBasic)
                   : (three ? Lexeme::kLongLiteral : Lexeme::kLiteral);
    case Lexeme::kBasic:
    case Lexeme::kLiteral:
      return basic == (state == Lexeme::kBasic) ? Lexeme::kPlain : state;
    case Lexeme::kLongBasic:
    case Lexeme::kLongLiteral:
      if (!three || basic != (state == Lexeme::kLongBasic)) return state;
      // Up to two more quotes belong to the string.
      for (at += 2; at + 1 < text.size() && text[at + 1] == quote;) ++at;
      return Lexeme::kPlain;
    case Lexeme::kComment:
      break;
  }
  return state;
}

// The text as toml++ 3.3 may see it: it runs into undefined behaviour on some control characters
// and on letters beyond ASCII. The former TOML forbids; the latter are blotted out in comments, and
// elsewhere have to be written as TOML's escapes.
absl::StatusOr<std::string> CleanText(std::string_view text, std::string_view source) {
  std::string clean(text);
  std::size_t line = 1;
  Lexeme state = Lexeme::kPlain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const unsigned char c = static_cast<unsigned char>(text[at]);
    const bool line_end = c == '\n' || (c == '\r' && text.substr(at, 2) == "\r\n");
    if ((c < ' ' && c != '\t' && !line_end) || c == 0x7f) {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(source), ":", line, ": control character 0x", absl::Hex(c)));
    }
    if (c == '\n') {
      ++line;
      if (state != Lexeme::kLongBasic && state != Lexeme::kLongLiteral) state = Lexeme::kPlain;
    } else if (c >= 0x80 && state == Lexeme::kComment) {
      clean[at] = '?';
    } else if (c >= 0x80) {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(source), ":", line,
                       ": a character that is not ASCII; write it as \"\\uXXXX\""));
    } else if (c == '#' && state == Lexeme::kPlain) {
      state = Lexeme::kComment;
    } else if (c == '\\' && (state == Lexeme::kBasic || state == Lexeme::kLongBasic)) {
      if (at + 1 < text.size() && (text[at + 1] == '\\' || text[at + 1] == '"')) ++at;
    } else if (c == '"' || c == '\'') {
      state = AfterQuote(text, at, state);
    }
  }
  return clean;
}

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
      node.elements.push_back(Convert(value));
      node.elements.back().key = key.str();
    }
  }
  return node;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int error = errno;
    const std::string message = absl::StrCat("cannot open ", path, ": ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::PermissionDeniedError(message);
  }
  std::string text(kMaxDocumentBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return absl::UnavailableError(absl::StrCat("cannot read ", path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

const TomlNode* TomlNode::Find(std::string_view name) const {
  if (kind != Kind::kTable) return nullptr;
  for (const TomlNode& element : elements) {
    if (element.key == name) return &element;
  }
  return nullptr;
}

absl::StatusOr<TomlNode> ParseToml(std::string_view text, std::string_view source) {
  if (text.size() > kMaxDocumentBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(source), ":1: longer than 1 MiB: not a configuration"));
  }
  const auto clean = CleanText(text, source);
  if (!clean.ok()) return clean.status();
  const toml::parse_result result = toml::parse(std::string_view(*clean), source);
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

void TomlTable::Fail(std::string_view key, std::string_view what) {
  const TomlNode* node = table_.Find(key);
  Fail(node == nullptr ? table_ : *node, what);
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

std::optional<std::int64_t> TomlTable::Number(std::string_view key, std::int64_t least,
                                              std::int64_t most) {
  const TomlNode* node = Find(key);
  if (node == nullptr) return std::nullopt;
  if (node->kind == TomlNode::Kind::kInteger && node->integer >= least && node->integer <= most) {
    return node->integer;
  }
  Fail(*node, absl::StrCat(std::string(key), " must be a number from ", least, " to ", most));
  return std::nullopt;
}

std::optional<std::string> TomlTable::Choice(std::string_view key,
                                             std::span<const std::string_view> choices) {
  auto text = Text(key);
  if (!text || std::find(choices.begin(), choices.end(), *text) != choices.end()) return text;
  const auto quoted = [](std::string* out, std::string_view choice) {
    absl::StrAppend(out, "\"", std::string(choice), "\"");
  };
  Fail(key, absl::StrCat(std::string(key), " must be one of ",
                         absl::StrJoin(choices.begin(), choices.end(), ", ", quoted)));
  return std::nullopt;
}

bool TomlTable::CheckArray(std::string_view key, const TomlNode& node, std::string_view of,
                           std::size_t max_count) {
  if (node.kind != TomlNode::Kind::kArray) {
    Fail(node, absl::StrCat(std::string(key), " must be a list of ", std::string(of)));
    return false;
  }
  if (node.elements.size() <= max_count) return true;
  Fail(node, absl::StrCat(std::string(key), " has ", node.elements.size(), " entries; at most ",
                          max_count, " are possible"));
  return false;
}

std::vector<TomlText> TomlTable::Texts(std::string_view key, std::size_t max_count) {
  const TomlNode* node = Find(key);
  if (node == nullptr || !CheckArray(key, *node, "strings", max_count)) return {};
  std::vector<TomlText> texts;
  for (const TomlNode& element : node->elements) {
    texts.push_back({TextOf(key, element, /*in_list=*/true).value_or(""), Where(element)});
  }
  return texts;
}

std::vector<const TomlNode*> TomlTable::Tables(std::string_view key, std::size_t max_count) {
  const TomlNode* node = Find(key);
  if (node == nullptr || !CheckArray(key, *node, "tables", max_count)) return {};
  std::vector<const TomlNode*> tables;
  for (const TomlNode& element : node->elements) {
    if (element.kind != TomlNode::Kind::kTable) {
      Fail(element, absl::StrCat(std::string(key), " must be a list of tables"));
      return {};
    }
    tables.push_back(&element);
  }
  return tables;
}

absl::Status TomlTable::Finish() {
  for (const TomlNode& node : table_.elements) {
    if (std::find(known_.begin(), known_.end(), node.key) != known_.end()) continue;
    Fail(node, absl::StrCat("unknown key \"", absl::CHexEscape(node.key), "\""));
  }
  return status_;
}

}  // namespace reel
