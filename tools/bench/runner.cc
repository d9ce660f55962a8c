#include "tools/bench/runner.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reel::bench {
namespace {

Report EmptyReport(const std::vector<Side>& sides) {
  Report report;
  for (const Side& side : sides) report.sides.push_back(side.name);
  return report;
}

absl::StatusOr<std::vector<ScratchDirectory>> MakeScratch(const std::vector<Side>& sides) {
  std::vector<ScratchDirectory> scratch;
  for (const Side& side : sides) {
    auto made = ScratchDirectory::Make(side);
    if (!made.ok()) return made.status();
    scratch.push_back(*std::move(made));
  }
  return scratch;
}

absl::Status RunOnce(Load& load, std::vector<Measure>& to) {
  if (absl::Status s = load.Prepare(); !s.ok()) return s;
  auto measure = load.Run();
  if (!measure.ok()) return measure.status();
  to.push_back(*measure);
  return absl::OkStatus();
}

void Say(const RunOptions& options, const std::string& what) {
  if (options.progress) std::fprintf(stderr, "%s\n", what.c_str());
}

}  // namespace

absl::StatusOr<Report> RunIo(const std::vector<Side>& sides, const IoOptions& io,
                             const RunOptions& options) {
  auto scratch = MakeScratch(sides);
  if (!scratch.ok()) return scratch.status();
  for (const ScratchDirectory& directory : *scratch) {
    Say(options, absl::StrCat("laying out ", directory.path(), "/data"));
    if (absl::Status s = LayOutFile(directory.path(), io.file_bytes); !s.ok()) return s;
  }
  Report report = EmptyReport(sides);
  for (const IoShape& shape : IoShapes()) {
    Say(options, shape.name);
    Row row{shape.name, std::vector<std::vector<Measure>>(sides.size())};
    for (std::uint32_t run = 0; run < options.runs; ++run) {
      for (std::size_t side = 0; side < sides.size(); ++side) {
        const auto load = MakeIoLoad(shape, io, (*scratch)[side].path());
        if (absl::Status s = RunOnce(*load, row.measures[side]); !s.ok()) return s;
      }
    }
    report.rows.push_back(std::move(row));
  }
  return report;
}

absl::StatusOr<Report> RunMeta(const std::vector<Side>& sides, std::uint32_t threads,
                               const MetaOptions& meta, const RunOptions& options) {
  auto scratch = MakeScratch(sides);
  if (!scratch.ok()) return scratch.status();
  Report report = EmptyReport(sides);
  const std::vector<MetaShape> shapes = MetaShapes(threads);
  for (const MetaShape& shape : shapes) {
    report.rows.push_back({shape.name, std::vector<std::vector<Measure>>(sides.size())});
  }
  // The shapes build on each other, so a run goes through all of them.
  for (std::uint32_t run = 0; run < options.runs; ++run) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      Say(options, absl::StrCat("run ", run + 1, ": ", shapes[i].name));
      for (std::size_t side = 0; side < sides.size(); ++side) {
        const auto load = MakeMetaLoad(shapes[i], meta, (*scratch)[side].path());
        if (absl::Status s = RunOnce(*load, report.rows[i].measures[side]); !s.ok()) return s;
      }
    }
  }
  return report;
}

}  // namespace reel::bench
