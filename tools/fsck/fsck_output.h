// What fsck.reelfs says: problems and repairs as they come, or gathered as JSON; then a summary.
// Threads: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mdc/check/checker.h"
#include "nlohmann/json.hpp"
#include "volume/format/descriptor.h"

namespace reel::tools {

struct FsckResult {
  std::uint64_t found = 0;  // problems, before any repair
  std::uint64_t repairs = 0;
  std::uint64_t left = 0;  // problems, afterwards
  bool repairing = false;
  std::optional<mdc::CheckTotals> totals{};  // unset when the records cannot be read
};

class FsckOutput {
 public:
  FsckOutput(std::string volume, bool json, bool verbose)
      : volume_(std::move(volume)), json_(json), verbose_(verbose) {}

  // What follows are the findings of a check (`final`: of the one after the repair), or repairs.
  enum class Stage { kCheck, kRepair, kFinal };
  void Begin(Stage stage);
  void Phase(std::string_view name);
  void Problem(const mdc::Problem& problem);
  void Action(const mdc::Problem& action);
  // Of the stage that has begun.
  std::uint64_t count() const { return count_; }

  void Finish(const VolumeDescriptor& descriptor, const FsckResult& result);

 private:
  void Line(const mdc::Problem& line, std::string_view mark, nlohmann::ordered_json& list);
  void PrintJson(const FsckResult& result);
  void PrintSummary(const VolumeDescriptor& descriptor, const FsckResult& result) const;

  const std::string volume_;
  const bool json_, verbose_;
  Stage stage_ = Stage::kCheck;
  std::string phase_;
  int phases_ = 0;
  std::uint64_t count_ = 0;
  nlohmann::ordered_json problems_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json repairs_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json left_ = nlohmann::ordered_json::array();
};

}  // namespace reel::tools
