#include "tools/fsck/fsck_output.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "tools/lib/cli.h"
#include "volume/base/size.h"

namespace reel::tools {
namespace {

// Enough to see what happened; a store that is damaged all over has millions.
constexpr std::uint64_t kMaxLines = 10'000;

std::string Counted(std::uint64_t count, std::string_view what) {
  return absl::StrCat(count, " ", std::string(what), count == 1 ? "" : "s");
}

}  // namespace

void FsckOutput::Begin(Stage stage) {
  stage_ = stage;
  count_ = 0;
  phases_ = 0;
}

void FsckOutput::Phase(std::string_view name) {
  phase_ = name;
  ++phases_;
  if (json_ || stage_ == Stage::kFinal) return;
  std::cout << (stage_ == Stage::kCheck ? absl::StrCat("Phase ", phases_) : "Repair") << ": "
            << phase_ << std::endl;
}

void FsckOutput::Line(const mdc::Problem& line, std::string_view mark,
                      nlohmann::ordered_json& list) {
  if (++count_ > kMaxLines) return;
  if (json_) {
    list.push_back(
        {{"phase", phase_}, {"code", line.code}, {"where", line.where}, {"what", line.what}});
    return;
  }
  std::cout << "  " << mark << line.where << ": " << line.what << "\n";
  if (count_ == kMaxLines) std::cout << "  further lines are only counted\n";
}

void FsckOutput::Problem(const mdc::Problem& problem) {
  const bool left = stage_ == Stage::kFinal;
  Line(problem, left ? "LEFT " : "", left ? left_ : problems_);
}

void FsckOutput::Action(const mdc::Problem& action) {
  Line(action, "", repairs_);
}

void FsckOutput::Finish(const VolumeDescriptor& descriptor, const FsckResult& result) {
  if (json_) {
    PrintJson(result);
  } else {
    PrintSummary(descriptor, result);
  }
}

void FsckOutput::PrintJson(const FsckResult& result) {
  nlohmann::ordered_json json = {{"volume", volume_},
                                 {"clean", result.left == 0},
                                 {"problem_count", result.found},
                                 {"problems", std::move(problems_)}};
  if (result.repairing) {
    json["repair_count"] = result.repairs;
    json["repairs"] = std::move(repairs_);
    json["left_count"] = result.left;
    json["left"] = std::move(left_);
  }
  if (const auto& totals = result.totals; totals.has_value()) {
    json["totals"] = {{"inodes", totals->inodes},
                      {"files", totals->files},
                      {"directories", totals->directories},
                      {"entries", totals->entries},
                      {"extents", totals->extents},
                      {"orphans", totals->orphans},
                      {"sessions", totals->sessions},
                      {"data_blocks", totals->data_blocks},
                      {"file_blocks", totals->file_blocks},
                      {"free_blocks", totals->free_blocks},
                      {"stopped_in_order", totals->stopped_in_order}};
  }
  std::cout << JsonText(json) << "\n";
}

void FsckOutput::PrintSummary(const VolumeDescriptor& descriptor, const FsckResult& result) const {
  const auto& totals = result.totals;
  if (verbose_ && totals.has_value()) {
    const std::uint64_t block_bytes = descriptor.block_bytes;
    std::cout << "\n"
              << totals->directories << " directories, " << totals->entries << " entries, "
              << totals->inodes << " inodes\n"
              << totals->extents << " extents, " << FormatSize(totals->file_blocks * block_bytes)
              << " in files, " << FormatSize(totals->free_blocks * block_bytes) << " free\n"
              << totals->orphans << " orphans, " << totals->sessions << " sessions, "
              << (totals->stopped_in_order ? "stopped in order\n" : "not stopped in order\n");
  }
  std::cout << volume_ << ": ";
  if (result.repairs > 0) {
    std::cout << Counted(result.found, "problem") << " found, " << Counted(result.repairs, "repair")
              << " made, ";
  }
  if (result.left == 0) {
    std::cout << "clean";
  } else {
    std::cout << Counted(result.left, "problem")
              << (result.repairs > 0 ? " left" : " found, nothing was changed");
  }
  if (totals.has_value()) {
    std::cout << ", " << totals->files << " files, " << totals->data_blocks - totals->free_blocks
              << "/" << totals->data_blocks << " blocks";
  }
  std::cout << "\n";
}

}  // namespace reel::tools
