#include "tools/bench/runner.h"

#include <cstdio>
#include <filesystem>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reel::bench {
namespace {

Report EmptyReport(const std::vector<Side>& sides, const char* command) {
  Report report;
  report.command = command;
  for (const Side& side : sides) {
    report.sides.push_back(side.name);
    report.clients.push_back(1 + side.more_clients.size());
  }
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

// A directory for each client. Of those that share one, the others see the first one's.
struct MetaScratch {
  std::vector<ScratchDirectory> made;
  std::vector<std::string> clients;
};
absl::StatusOr<MetaScratch> MakeMetaScratch(const Side& side, bool shared) {
  MetaScratch scratch;
  std::vector<std::string> directories = side.more_clients;
  directories.insert(directories.begin(), side.directory);
  for (const std::string& directory : directories) {
    if (shared && !scratch.made.empty()) {
      const std::filesystem::path first = scratch.made.front().path();
      scratch.clients.push_back(directory / first.filename());
      continue;
    }
    auto made = ScratchDirectory::MakeIn(directory);
    if (!made.ok()) return made.status();
    scratch.made.push_back(*std::move(made));
    scratch.clients.push_back(scratch.made.back().path());
  }
  return scratch;
}

absl::Status RunOnce(Load& load, const std::function<absl::Status()>& begin,
                     std::vector<Measure>& to) {
  if (absl::Status s = load.Prepare(); !s.ok()) return s;
  if (absl::Status s = begin(); !s.ok()) return s;
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
  Report report = EmptyReport(sides, "io");
  for (const IoShape& shape : IoShapes()) {
    Say(options, shape.name);
    Row row{shape.name, std::vector<std::vector<Measure>>(sides.size())};
    for (std::uint32_t run = 0; run < options.runs; ++run) {
      for (std::size_t side = 0; side < sides.size(); ++side) {
        const auto load = MakeIoLoad(shape, io, (*scratch)[side].path());
        const auto at_once = [] { return absl::OkStatus(); };
        if (absl::Status s = RunOnce(*load, at_once, row.measures[side]); !s.ok()) return s;
      }
    }
    report.rows.push_back(std::move(row));
  }
  return report;
}

absl::StatusOr<Report> RunMeta(const std::vector<Side>& sides, std::uint32_t threads,
                               const MetaOptions& meta, const RunOptions& options) {
  std::vector<MetaScratch> scratch;
  for (const Side& side : sides) {
    auto made = MakeMetaScratch(side, meta.shared);
    if (!made.ok()) return made.status();
    scratch.push_back(*std::move(made));
  }
  Report report = EmptyReport(sides, "meta");
  std::uint64_t begun = 0;
  const std::vector<MetaShape> shapes = MetaShapes(threads);
  for (const MetaShape& shape : shapes) {
    report.rows.push_back({shape.name, std::vector<std::vector<Measure>>(sides.size())});
  }
  // The shapes build on each other, so a run goes through all of them.
  for (std::uint32_t run = 0; run < options.runs; ++run) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      Say(options, absl::StrCat("run ", run + 1, ": ", shapes[i].name));
      for (std::size_t side = 0; side < sides.size(); ++side) {
        const auto load = MakeMetaLoad(shapes[i], meta, scratch[side].clients);
        const auto begin = [&] {
          return options.start == nullptr ? absl::OkStatus() : options.start->Await(begun++);
        };
        if (absl::Status s = RunOnce(*load, begin, report.rows[i].measures[side]); !s.ok()) {
          return s;
        }
      }
    }
  }
  return report;
}

}  // namespace reel::bench
