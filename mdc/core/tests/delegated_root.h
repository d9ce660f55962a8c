// Two sessions of which one may hold the root's delegation: the vocabulary of the tests of
// delegated changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {

class DelegatedRoot : public testing::Test {
 protected:
  static constexpr std::uint64_t kRoot = 1;

  DelegatedRoot() {
    harness_.options_.names = NameReplies::kDelegated;
    harness_.Restart();
    for (Client* client : {&a_, &b_}) {
      client->caches_ = true;
      client->features_ =
          v1::FEATURE_EARLY_REPLY | v1::FEATURE_DELEGATION | v1::FEATURE_DELEGATED_NAMES;
      client->Register();
    }
  }
  static v1::Request OpenOf(const std::string& name, std::uint32_t reserved = 0) {
    v1::Request request = Client::CreateOf(name, /*open=*/true);
    request.mutable_create()->set_token(v1::TOKEN_EXCLUSIVE);
    request.mutable_create()->set_reserved_inodes(reserved);
    request.mutable_create()->set_reserved_bytes(10'000);
    return request;
  }
  // So that the root is delegated, with some numbers.
  std::vector<v1::ReservedInode> HoldRoot(Client& client) {
    client.Create("zeroth");  // takes the range that numbers are reserved from
    EXPECT_EQ(client.Do(Client::LookupOf("nothing")), ENOENT);
    EXPECT_EQ(client.Do(OpenOf("first", 3), true), 0);
    EXPECT_THAT(Exclusive(client), testing::ElementsAre(kRoot));
    return {client.last_.reserved_inodes().begin(), client.last_.reserved_inodes().end()};
  }
  static std::vector<std::uint64_t> Exclusive(const Client& client) {
    return {client.last_.exclusive().begin(), client.last_.exclusive().end()};
  }
  static v1::Request Delegated(v1::Request request, const v1::ReservedInode& reserved = {}) {
    v1::Replay& decided = *request.mutable_delegated();
    decided.mutable_time()->set_seconds(777);
    decided.set_inode(reserved.inode());
    decided.set_generation(reserved.generation());
    return request;
  }
  static v1::Request ReplayOf(const std::string& name, const v1::ReservedInode& reserved) {
    v1::Request replay = OpenOf(name);
    replay.mutable_create()->set_allocate_bytes(10'000);
    *replay.mutable_replay() = Delegated(OpenOf(name), reserved).delegated();
    *replay.mutable_replay()->mutable_extents() = reserved.extents();
    return replay;
  }
  // Whether a file can get all that is free but so many blocks.
  int TakeAllBut(Client& client, std::uint64_t blocks) {
    const std::uint64_t all = client.Create("all", /*open=*/true);
    const std::uint64_t bytes = (harness_.FreeBlocks() - blocks) * 4096;
    return client.Do(Client::LayoutOf(all, v1::TOKEN_EXCLUSIVE, true, 0, bytes), true);
  }
  bool Answered(Client& client, v1::Request request) {
    const std::uint64_t id = client.Send(std::move(request));
    harness_.Run();
    return client.Answered(id);
  }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
};

}  // namespace reel::mdc
