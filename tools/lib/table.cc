#include "tools/lib/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "volume/base/check.h"

namespace reel::tools {
namespace {

// Columns of the terminal that UTF-8 text takes, wide characters aside.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

void Table::Add(std::vector<std::string> cells) {
  REEL_CHECK(cells.size() == columns_.size(), "a row has one cell a column");
  for (std::string& cell : cells) {
    std::replace_if(cell.begin(), cell.end(), absl::ascii_iscntrl, '?');
  }
  rows_.push_back(std::move(cells));
}

std::string Table::ToString() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths.push_back(Width(columns_[i].title));
    for (const auto& row : rows_) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string out;
  const auto line = [&](auto cell_of) {
    std::string text;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& cell = cell_of(i);
      const std::string pad(widths[i] - Width(cell), ' ');
      if (i > 0) text += "  ";
      text += columns_[i].align == Align::kRight ? pad + cell : cell + pad;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) {
    line([&](std::size_t i) -> const std::string& { return row[i]; });
  }
  return out;
}

}  // namespace reel::tools
