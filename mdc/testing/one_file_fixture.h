// One client with the exclusive token of one file, and a check at the end that every block has one
// owner, whatever was done: the vocabulary of tests of layouts.
#pragma once

#include <cstdint>
#include <string_view>

#include "gtest/gtest.h"
#include "mdc/check/checker.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {

class OneFileFixture : public testing::Test {
 protected:
  ~OneFileFixture() override {
    CheckSink sink;
    sink.on_phase = [](std::string_view) {};
    sink.on_problem = [](const Problem& problem) {
      ADD_FAILURE() << problem.code << ": " << problem.where << ": " << problem.what;
    };
    const CheckTotals totals = CheckVolume({harness_.db(), harness_.volume_, {}}, sink);
    EXPECT_EQ(totals.free_blocks, harness_.FreeBlocks());
  }

  // Registers the client, and makes the file.
  void Begin() {
    a_.Register();
    file_ = a_.Create("file", /*open=*/true);
  }
  // The layout of some blocks of it; an errno.
  int Get(std::uint64_t block, std::uint64_t blocks, bool allocate = false) {
    return a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, allocate, block * mdc::kBlock,
                                  blocks * mdc::kBlock),
                 allocate);
  }
  v1::Attr Attributes() {
    EXPECT_EQ(a_.Do(Client::GetAttrOf(file_)), 0);
    return a_.last_.attr().attr();
  }

  CoreHarness harness_;
  Client a_{harness_, 1};
  std::uint64_t file_ = 0;
};

}  // namespace reel::mdc
