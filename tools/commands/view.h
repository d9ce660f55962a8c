// From the data of a command to text: tables of rows of JSON, by columns; how sizes, times and
// UUIDs are written, in data and for people.
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/admin.pb.h"
#include "tools/commands/command.h"

namespace reel::tools {

// How a member reads in a cell. Nothing ("", null, an empty list) is "-".
enum class Cell {
  kText,
  kNumber,
  kCount,     // as a number, but 0 is "-"
  kSize,      // bytes: "4 GiB"
  kSpeed,     // bytes a second: "4 GiB/s"
  kTime,      // as IsoText wrote it: in local time
  kDuration,  // milliseconds
  kYesNo,
  kList,  // with commas
};
struct Column {
  const char* title;
  const char* member;
  Cell cell = Cell::kText;
};
std::string TableOf(const Json& rows, const std::vector<Column>& columns);

std::string CellText(const Json& value, Cell cell);

// "62 %", of a whole that may be 0.
std::string Percent(std::uint64_t part, std::uint64_t whole);

// As text; empty where there is none.
std::string UuidText(const std::string& raw);
std::string IsoText(const v1::Time& time);

// The strings of a repeated field.
template <typename Repeated>
Json ListOf(const Repeated& strings) {
  Json list = Json::array();
  for (const auto& one : strings) list.push_back(one);
  return list;
}

}  // namespace reel::tools
