// A table that is shown on a terminal and in an HTML report alike. Thread rule: a plain value.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/lib/table.h"

namespace reel::bench {

struct ReportTable {
  std::vector<tools::Table::Column> columns;
  std::vector<std::vector<std::string>> rows;  // one cell a column

  std::string ToText() const {
    tools::Table table(columns);
    for (const auto& row : rows) table.Add(row);
    return table.ToString();
  }
};

}  // namespace reel::bench
