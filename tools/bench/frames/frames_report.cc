#include "tools/bench/frames/frames_report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "tools/bench/plot/svg_plot.h"

namespace reel::bench {
namespace {

using tools::Table;

constexpr double kMegabyte = 1e6, kNsOfMs = 1e6;

double OpenMs(const FrameRecord& record) {
  return static_cast<double>(record.times.open_ns) / kNsOfMs;
}
double IoMs(const FrameRecord& record) {
  return static_cast<double>(record.times.io_ns) / kNsOfMs;
}

std::string TextOf(const Percentiles& ms) {
  return absl::StrFormat("%.2f / %.2f / %.2f", ms.p50, ms.p99, ms.most);
}

nlohmann::ordered_json JsonOf(const Percentiles& ms) {
  return {{"p50", ms.p50}, {"p99", ms.p99}, {"most", ms.most}};
}

nlohmann::ordered_json JsonOf(const FrameRecord& record) {
  return {{"frame", record.frame},     {"number", record.number}, {"at_seconds", record.at_s},
          {"open_ms", OpenMs(record)}, {"io_ms", IoMs(record)},   {"spare_ms", record.spare_ms}};
}

}  // namespace

FramesReport::FramesReport(FramesRun run, const Required& required)
    : run_(std::move(run)), required_(required) {
  std::vector<std::string> names;
  for (const StreamRun& stream : run_.streams) {
    figures_.push_back(FiguresOf(stream, run_.options.fps, run_.options.format.bytes));
    names.push_back(stream.name);
  }
  shortfalls_ = ShortfallsOf(names, figures_, required_);
}

std::string FramesReport::Subject() const {
  const FramesOptions& options = run_.options;
  return absl::StrCat(
      options.format.name, ", ",
      absl::StrFormat("%.1f MB a frame", static_cast<double>(options.format.bytes) / kMegabyte),
      ", ",
      options.fps > 0 ? absl::StrFormat("%g frames a second", options.fps)
                      : std::string("as fast as it goes"),
      ", ", NameOf(options.pattern), ", ", options.buffers, " buffers, ",
      options.direct ? "direct" : "through the page cache");
}

std::string FramesReport::Verdict() const {
  if (!enough()) return absl::StrCat("Not reached: ", absl::StrJoin(shortfalls_, "; "), ".");
  std::uint64_t late = 0;
  for (const FrameFigures& one : figures_) late += one.late + one.dropped;
  if (required_.fps || required_.late) return "What is required was reached.";
  if (run_.options.fps <= 0) return "Nothing was required of it.";
  return late == 0 ? "Every frame was in time."
                   : absl::StrCat(late, " frames were late or dropped.");
}

ReportTable FramesReport::StreamTable() const {
  using enum Table::Align;
  ReportTable table{{{"stream", kLeft},
                     {"fps", kRight},
                     {"frames", kRight},
                     {"late", kRight},
                     {"dropped", kRight},
                     {"MB/s", kRight},
                     {"open ms, 50 / 99 / 100 %", kRight},
                     {"I/O ms, 50 / 99 / 100 %", kRight},
                     {"least spare ms", kRight},
                     {"slowest frame", kLeft}},
                    {}};
  for (std::size_t i = 0; i < figures_.size(); ++i) {
    const FrameFigures& one = figures_[i];
    std::string slowest = "-";
    if (!one.slowest.empty()) {
      const FrameRecord& frame = one.slowest.front();
      slowest =
          absl::StrFormat("%d: open %.2f, I/O %.2f", frame.number, OpenMs(frame), IoMs(frame));
    }
    table.rows.push_back(
        {run_.streams[i].name, absl::StrFormat("%.2f", one.fps), absl::StrCat(one.frames),
         absl::StrCat(one.late), absl::StrCat(one.dropped),
         absl::StrFormat("%.0f", one.bytes_per_second / kMegabyte), TextOf(one.open_ms),
         TextOf(one.io_ms),
         run_.options.fps > 0 ? absl::StrFormat("%.1f", one.least_spare_ms) : "-", slowest});
  }
  return table;
}

ReportTable FramesReport::SlowTable() const {
  using enum Table::Align;
  ReportTable table{{{"stream", kLeft},
                     {"frame", kRight},
                     {"file", kRight},
                     {"at s", kRight},
                     {"open ms", kRight},
                     {"I/O ms", kRight},
                     {"spare ms", kRight}},
                    {}};
  for (std::size_t i = 0; i < figures_.size(); ++i) {
    for (const FrameRecord& frame : figures_[i].slowest) {
      table.rows.push_back(
          {run_.streams[i].name, absl::StrCat(frame.frame), absl::StrCat(frame.number),
           absl::StrFormat("%.2f", frame.at_s), absl::StrFormat("%.2f", OpenMs(frame)),
           absl::StrFormat("%.2f", IoMs(frame)), absl::StrFormat("%.1f", frame.spare_ms)});
    }
  }
  return table;
}

std::string FramesReport::ToText() const {
  return absl::StrCat(Subject(), "\n", StreamTable().ToText(), Verdict(), "\n");
}

nlohmann::ordered_json FramesReport::ToJson() const {
  const FramesOptions& options = run_.options;
  nlohmann::ordered_json json = {
      {"command", "frames"},
      {"format", options.format.name},
      {"frame_bytes", options.format.bytes},
      {"fps", options.fps},
      {"pattern", NameOf(options.pattern)},
      {"buffers", options.buffers},
      {"threads", options.threads},
      {"direct", options.direct},
      {"sequence_frames", run_.sequence_frames},
      {"streams", nlohmann::ordered_json::array()},
      {"required_fps", required_.fps ? nlohmann::ordered_json(*required_.fps) : nullptr},
      {"allowed_late", required_.late ? nlohmann::ordered_json(*required_.late) : nullptr},
      {"enough", enough()},
      {"shortfalls", shortfalls_}};
  for (std::size_t i = 0; i < figures_.size(); ++i) {
    const FrameFigures& one = figures_[i];
    nlohmann::ordered_json slowest = nlohmann::ordered_json::array();
    for (const FrameRecord& frame : one.slowest) slowest.push_back(JsonOf(frame));
    json["streams"].push_back({{"stream", run_.streams[i].name},
                               {"directory", run_.streams[i].directory},
                               {"write", run_.streams[i].write},
                               {"seconds", run_.streams[i].seconds},
                               {"frames", one.frames},
                               {"on_time", one.on_time},
                               {"late", one.late},
                               {"dropped", one.dropped},
                               {"fps", one.fps},
                               {"bytes_per_second", one.bytes_per_second},
                               {"open_ms", JsonOf(one.open_ms)},
                               {"io_ms", JsonOf(one.io_ms)},
                               {"least_spare_ms", one.least_spare_ms},
                               {"slowest", slowest}});
  }
  return json;
}

void FramesReport::ToHtml(HtmlReport& html) const {
  html.Verdict(Verdict(), enough());
  html.Paragraph(Subject());
  html.Table(StreamTable());
  std::vector<PlotSeries> totals;
  std::vector<PlotValues> opens, ios;
  for (const StreamRun& stream : run_.streams) {
    totals.push_back({stream.name, {}});
    opens.push_back({stream.name, {}});
    ios.push_back({stream.name, {}});
    for (const FrameRecord& frame : stream.frames) {
      if (!frame.done) continue;
      totals.back().points.push_back({frame.at_s, OpenMs(frame) + IoMs(frame)});
      opens.back().values.push_back(OpenMs(frame));
      ios.back().values.push_back(IoMs(frame));
    }
  }
  std::optional<PlotLimit> period;
  if (run_.options.fps > 0) {
    period = PlotLimit{1000 / run_.options.fps,
                       absl::StrFormat("a frame's time, %.1f ms", 1000 / run_.options.fps)};
  }
  html.Heading("How long each frame took");
  html.Plot(Timeline({"Open and I/O of each frame", "seconds", "ms"}, totals, period));
  html.Plot(Histogram({"I/O times", "ms", "frames"}, ios, std::nullopt));
  html.Plot(Histogram({"Open times", "ms", "frames"}, opens, std::nullopt));
  html.Heading("The slowest frames");
  html.Table(SlowTable());
}

}  // namespace reel::bench
