#include "tools/commands/view.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "tools/lib/table.h"
#include "volume/base/size.h"
#include "volume/base/uuid.h"

namespace reel::tools {
namespace {

bool IsRight(Cell cell) {
  return cell == Cell::kNumber || cell == Cell::kCount || cell == Cell::kSize ||
         cell == Cell::kSpeed || cell == Cell::kDuration;
}

std::string NumberText(const Json& value) {
  if (value.is_number_unsigned()) return absl::StrCat(value.get<std::uint64_t>());
  return value.is_number_integer() ? absl::StrCat(value.get<std::int64_t>())
                                   : absl::StrCat(value.get<double>());
}

std::string LocalText(const std::string& iso) {
  absl::Time time;
  if (!absl::ParseTime(absl::RFC3339_full, iso, &time, nullptr)) return iso;
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::LocalTimeZone());
}

}  // namespace

std::string CellText(const Json& value, Cell cell) {
  if (value.is_null()) return "-";
  switch (cell) {
    case Cell::kText: {
      const auto text = value.get<std::string>();
      return text.empty() ? "-" : text;
    }
    case Cell::kNumber:
      return NumberText(value);
    case Cell::kCount:
      return value == 0 ? "-" : NumberText(value);
    case Cell::kSize:
      return FormatSize(value.get<std::uint64_t>());
    case Cell::kSpeed:
      return FormatSize(value.get<std::uint64_t>()) + "/s";
    case Cell::kTime:
      return LocalText(value.get<std::string>());
    case Cell::kDuration:
      return absl::FormatDuration(absl::Milliseconds(value.get<std::uint64_t>()));
    case Cell::kYesNo:
      return value.get<bool>() ? "yes" : "no";
    case Cell::kList:
      return value.empty() ? "-" : absl::StrJoin(value.get<std::vector<std::string>>(), ",");
  }
  return "";
}

std::string TableOf(const Json& rows, const std::vector<Column>& columns) {
  std::vector<Table::Column> titles;
  for (const Column& column : columns) {
    titles.push_back(
        {column.title, IsRight(column.cell) ? Table::Align::kRight : Table::Align::kLeft});
  }
  Table table(std::move(titles));
  for (const Json& row : rows) {
    std::vector<std::string> cells;
    for (const Column& column : columns) {
      cells.push_back(CellText(row.at(column.member), column.cell));
    }
    table.Add(std::move(cells));
  }
  return table.ToString();
}

std::string Percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return absl::StrCat(
      static_cast<std::uint64_t>(100.0 * static_cast<double>(part) / static_cast<double>(whole)),
      " %");
}

std::string UuidText(const std::string& raw) {
  const auto uuid = Uuid::FromBytes(raw);
  return uuid.ok() && !uuid->is_nil() ? uuid->ToString() : "";
}

std::string IsoText(const v1::Time& time) {
  return absl::FormatTime(
      "%Y-%m-%dT%H:%M:%E*SZ",
      absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanoseconds()),
      absl::UTCTimeZone());
}

}  // namespace reel::tools
