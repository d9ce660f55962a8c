#include "client/fuse/request/direct_gate.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace reel::client {
namespace {

// A direct read of that number.
class Read : public KernelRequest {
 public:
  explicit Read(std::uint64_t unique) {
    fuse_in_header header{};
    header.len = sizeof(bytes_);
    header.opcode = FUSE_READ;
    header.unique = unique;
    fuse_read_in read{};
    read.read_flags = FUSE_READ_LOCKOWNER;
    std::memcpy(bytes_, &header, sizeof(header));
    std::memcpy(bytes_ + sizeof(header), &read, sizeof(read));
    Show(bytes_, sizeof(bytes_), {});
  }
  ssize_t Reply(const iovec*, int) override { return 0; }

 private:
  alignas(8) char bytes_[sizeof(fuse_in_header) + sizeof(fuse_read_in)];
};

class DirectGateTest : public ::testing::TestWithParam<DirectGate::Keeps> {
 protected:
  std::vector<DirectGate::Parked> answered_;
  std::vector<int> errors_;
  DirectGate gate_{{.max_served = 1, .max_parked = 4, .stall_ms = 60'000},
                   [this](const DirectGate::Parked& parked, int error) {
                     answered_.push_back(parked);
                     errors_.push_back(error);
                   }};
};

TEST_P(DirectGateTest, WhatIsParkedComesInItsOrder) {
  Read first(2), second(4), third(6);
  EXPECT_TRUE(gate_.Enter(first, GetParam()));
  EXPECT_FALSE(gate_.Enter(second, GetParam()));
  EXPECT_FALSE(gate_.Enter(third, GetParam()));
  const auto next = gate_.Leave();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->unique, 4u);
  const bool keeps_place = GetParam() == DirectGate::Keeps::kPlace;
  EXPECT_EQ(next->place, keeps_place ? &second : nullptr);
  EXPECT_EQ(next->bytes.size(), keeps_place ? 0 : second.length_bytes());
  EXPECT_EQ(gate_.Leave()->unique, 6u);
  EXPECT_FALSE(gate_.Leave().has_value());
  EXPECT_TRUE(errors_.empty());
}

TEST_P(DirectGateTest, AnInterruptEndsOneThatIsParkedOrComesLater) {
  Read first(2), second(4), third(6);
  EXPECT_TRUE(gate_.Enter(first, GetParam()));
  EXPECT_FALSE(gate_.Enter(second, GetParam()));
  EXPECT_TRUE(gate_.Interrupt(4));
  EXPECT_FALSE(gate_.Interrupt(6));  // not here yet
  EXPECT_FALSE(gate_.Enter(third, GetParam()));
  EXPECT_EQ(errors_, (std::vector<int>{EINTR, EINTR}));
  const bool keeps_place = GetParam() == DirectGate::Keeps::kPlace;
  EXPECT_EQ(answered_.at(0).place, keeps_place ? &second : nullptr);
  EXPECT_EQ(answered_.at(1).place, keeps_place ? &third : nullptr);
  EXPECT_EQ(answered_.at(1).unique, 6u);
  EXPECT_FALSE(gate_.Leave().has_value());
}

INSTANTIATE_TEST_SUITE_P(, DirectGateTest,
                         ::testing::Values(DirectGate::Keeps::kCopy, DirectGate::Keeps::kPlace),
                         [](const auto& info) {
                           return info.param == DirectGate::Keeps::kCopy ? "Copy" : "Place";
                         });

}  // namespace
}  // namespace reel::client
