#include "tools/bench/compare.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "tools/bench/plot/svg_plot.h"
#include "tools/bench/sweep/sweep_grid.h"

namespace reel::bench {
namespace {

using Json = nlohmann::ordered_json;

const Json& At(const Json& json, const char* name) {
  static const Json* const nothing = new Json();
  if (!json.is_object()) return *nothing;
  const auto found = json.find(name);
  return found == json.end() ? *nothing : *found;
}

double NumberAt(const Json& json, const char* name) {
  const Json& value = At(json, name);
  return value.is_number() ? value.get<double>() : 0;
}

std::uint64_t CountAt(const Json& json, const char* name) {
  const double value = NumberAt(json, name);
  return value > 0 && value < 1e18 ? static_cast<std::uint64_t>(value) : 0;
}

std::string TextAt(const Json& json, const char* name) {
  const Json& value = At(json, name);
  return value.is_string() ? value.get<std::string>() : "";
}

Spread SpreadAt(const Json& json, const char* name) {
  const Json& value = At(json, name);
  if (value.is_number()) {
    const double one = value.get<double>();
    return {one, one, one};
  }
  return {NumberAt(value, "median"), NumberAt(value, "least"), NumberAt(value, "most")};
}

std::vector<Figure> OfRows(const Json& rows) {
  std::vector<Figure> figures;
  for (const Json& row : rows) {
    const Json& sides = At(row, "sides");
    if (!sides.is_object()) continue;
    for (const auto& [name, side] : sides.items()) {
      figures.push_back({absl::StrCat(TextAt(row, "work"), ": ", name), TextAt(row, "unit"), true,
                         SpreadAt(side, "rate")});
    }
  }
  return figures;
}

std::vector<Figure> OfStreams(const Json& streams) {
  std::vector<Figure> figures;
  for (const Json& stream : streams) {
    const std::string name = TextAt(stream, "stream");
    figures.push_back({name + ": rate", "frames/s", true, SpreadAt(stream, "fps")});
    for (const char* what : {"open_ms", "io_ms"}) {
      const std::string title =
          absl::StrCat(name, ": ", std::string(what) == "io_ms" ? "I/O" : "open");
      const Json& times = At(stream, what);
      figures.push_back({title + ", median", "ms", false, SpreadAt(times, "p50")});
      figures.push_back({title + ", 99 %", "ms", false, SpreadAt(times, "p99")});
    }
  }
  return figures;
}

std::vector<Figure> OfPoints(const Json& points) {
  std::vector<Figure> figures;
  for (const Json& point : points) {
    const bool scattered = TextAt(point, "layout") == "scattered";
    const SweepPoint named{scattered, CountAt(point, scattered ? "block_bytes" : "breadth_bytes"),
                           CountAt(point, "io_bytes"),
                           static_cast<std::uint32_t>(CountAt(point, "depth")),
                           At(point, "write") == Json(true)};
    figures.push_back({TextOf(named), "bytes/s", true, SpreadAt(point, "rate")});
  }
  return figures;
}

std::vector<Figure> OfCapacity(const Json& result) {
  return {{"reads of 1 MiB", "bytes/s", true, SpreadAt(result, "read_bytes")},
          {"writes of 1 MiB", "bytes/s", true, SpreadAt(result, "written_bytes")},
          {"reads of 4 KiB", "operations/s", true, SpreadAt(result, "reads")},
          {"writes of 4 KiB", "operations/s", true, SpreadAt(result, "writes")}};
}

Difference Compare(const Figure& before, const Figure& after, double tolerance) {
  Difference difference{before, after};
  const double from = before.value.median, to = after.value.median;
  // What took no time, or moved nothing, has no ratio.
  const double ratio = from > 0 && to > 0 ? to / from : 1;
  difference.change = before.more_is_better ? ratio - 1 : 1 / ratio - 1;
  const bool vanished = from > 0 && to <= 0 && before.more_is_better;
  if (vanished) difference.change = -1;
  if (std::abs(difference.change) <= tolerance) return difference;
  const bool meet =
      before.value.least <= after.value.most && after.value.least <= before.value.most;
  difference.kind = meet                    ? Difference::Kind::kUnclear
                    : difference.change > 0 ? Difference::Kind::kFaster
                                            : Difference::Kind::kSlower;
  return difference;
}

const char* NameOf(Difference::Kind kind) {
  switch (kind) {
    case Difference::Kind::kEqual:
      return "equal";
    case Difference::Kind::kFaster:
      return "faster";
    case Difference::Kind::kSlower:
      return "slower";
    case Difference::Kind::kUnclear:
      return "unclear";
  }
  return "";
}

std::string TextOf(const Figure& figure) {
  const bool bytes = figure.unit == "bytes/s";
  const double unit = bytes ? 1e6 : 1;
  const Spread& value = figure.value;
  std::string text = absl::StrFormat("%.5g", value.median / unit);
  if (value.least != value.most) {
    absl::StrAppendFormat(&text, " (%.5g-%.5g)", value.least / unit, value.most / unit);
  }
  return absl::StrCat(text, " ", bytes ? "MB/s" : figure.unit);
}

Json JsonOf(const Spread& spread) {
  return {{"median", spread.median}, {"least", spread.least}, {"most", spread.most}};
}

}  // namespace

absl::StatusOr<std::vector<Figure>> FiguresIn(const Json& result) {
  std::vector<Figure> figures;
  if (At(result, "rows").is_array() && TextAt(result, "command") != "compare") {
    figures = OfRows(At(result, "rows"));
  } else if (At(result, "streams").is_array()) {
    figures = OfStreams(At(result, "streams"));
  } else if (At(result, "points").is_array()) {
    figures = OfPoints(At(result, "points"));
  } else if (At(result, "read_bytes").is_number()) {
    figures = OfCapacity(result);
  }
  if (figures.empty()) {
    return absl::InvalidArgumentError("is no result of reel-bench --json that can be compared");
  }
  return figures;
}

Comparison::Comparison(const std::vector<Figure>& before, const std::vector<Figure>& after,
                       double tolerance)
    : tolerance_(tolerance) {
  const auto find = [](const std::vector<Figure>& in, const Figure& like) {
    return std::find_if(in.begin(), in.end(), [&](const Figure& one) {
      return one.name == like.name && one.unit == like.unit;
    });
  };
  for (const Figure& one : before) {
    const auto other = find(after, one);
    if (other == after.end()) {
      only_before_.push_back(one.name);
    } else {
      differences_.push_back(Compare(one, *other, tolerance));
    }
  }
  for (const Figure& one : after) {
    if (find(before, one) == before.end()) only_after_.push_back(one.name);
  }
}

bool Comparison::any_slower() const {
  return std::any_of(differences_.begin(), differences_.end(),
                     [](const Difference& one) { return one.kind == Difference::Kind::kSlower; });
}

std::string Comparison::Verdict() const {
  std::size_t counts[4] = {};
  for (const Difference& one : differences_) ++counts[static_cast<std::size_t>(one.kind)];
  std::string text = absl::StrFormat(
      "%d figures: %d equal within %.3g %%, %d faster, %d slower, %d unclear (their runs overlap).",
      differences_.size(), counts[0], 100 * tolerance_, counts[1], counts[2], counts[3]);
  if (!only_before_.empty()) {
    absl::StrAppend(&text, " Only in the first: ", absl::StrJoin(only_before_, "; "), ".");
  }
  if (!only_after_.empty()) {
    absl::StrAppend(&text, " Only in the second: ", absl::StrJoin(only_after_, "; "), ".");
  }
  return text;
}

ReportTable Comparison::ToTable() const {
  using enum tools::Table::Align;
  ReportTable table{
      {{"figure", kLeft}, {"first", kRight}, {"second", kRight}, {"change", kRight}, {"", kLeft}},
      {}};
  for (const Difference& one : differences_) {
    table.rows.push_back({one.before.name, TextOf(one.before), TextOf(one.after),
                          absl::StrFormat("%+.1f %%", 100 * one.change),
                          one.kind == Difference::Kind::kEqual ? "" : NameOf(one.kind)});
  }
  return table;
}

std::string Comparison::ToText() const {
  return absl::StrCat(ToTable().ToText(), Verdict(), "\n");
}

Json Comparison::ToJson() const {
  Json json = {{"command", "compare"},       {"tolerance", tolerance_},    {"slower", any_slower()},
               {"only_first", only_before_}, {"only_second", only_after_}, {"rows", Json::array()}};
  for (const Difference& one : differences_) {
    json["rows"].push_back({{"figure", one.before.name},
                            {"unit", one.before.unit},
                            {"more_is_better", one.before.more_is_better},
                            {"first", JsonOf(one.before.value)},
                            {"second", JsonOf(one.after.value)},
                            {"change", one.change},
                            {"verdict", NameOf(one.kind)}});
  }
  return json;
}

void Comparison::ToHtml(HtmlReport& html) const {
  html.Verdict(Verdict(), !any_slower());
  html.Table(ToTable());
  std::vector<std::string> names;
  PlotBars ratios{"second by first", {}};
  for (const Difference& one : differences_) {
    names.push_back(one.before.name);
    const double ratio = 100 * (1 + one.change);
    ratios.bars.push_back(PlotBar{ratio, ratio, ratio});
  }
  html.Plot(
      CategoryBars({"The second by the first: above 100 % is better", "", "%"}, names, {ratios}));
}

}  // namespace reel::bench
