// A table of text for a terminal: aligned columns, a header, two spaces between.
// Thread rule: a plain value.
#pragma once

#include <string>
#include <vector>

namespace reel::tools {

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // REQUIRES: one cell a column. Control characters are shown as "?", so that nothing that came
  // from elsewhere can drive the terminal.
  void Add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Ends with a newline; no line ends with spaces.
  std::string ToString() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace reel::tools
