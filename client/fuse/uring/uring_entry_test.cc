// An entry's memory as the kernel fills it, and reads it.
#include "client/fuse/uring/uring_entry.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "client/fuse/request/request_bytes.h"
#include "client/fuse/uring/uring_memory.h"
#include "volume/base/aligned_buffer.h"

namespace reel::client {
namespace {

class UringEntryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto memory = UringMemory::Map(2, kUsualFuseRequestBytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_.emplace(*std::move(memory));
    entry_.Place(memory_->Of(1), 3, nullptr);
  }
  UringHeader& head() { return *static_cast<UringHeader*>(entry_.pieces()[0].iov_base); }
  char* payload() { return static_cast<char*>(entry_.pieces()[1].iov_base); }

  // As the kernel does.
  template <typename Argument>
  bool Receive(std::uint32_t opcode, const Argument& argument, std::string_view rest) {
    fuse_in_header header{};
    header.len = static_cast<std::uint32_t>(sizeof(header) + sizeof(argument) + rest.size());
    header.opcode = opcode;
    header.unique = 42;
    std::memcpy(head().in_out, &header, sizeof(header));
    std::memcpy(head().op_in, &argument, sizeof(argument));
    std::memcpy(payload(), rest.data(), rest.size());
    head().entry = {.commit_id = 42, .payload_bytes = static_cast<std::uint32_t>(rest.size())};
    return entry_.Take();
  }
  fuse_out_header Answer() {
    fuse_out_header header;
    std::memcpy(&header, head().in_out, sizeof(header));
    return header;
  }
  ssize_t Reply(std::string_view data, const void* from) {
    fuse_out_header header{};
    header.len = static_cast<std::uint32_t>(sizeof(header) + data.size());
    header.unique = 42;
    const iovec parts[2] = {{&header, sizeof(header)}, {const_cast<void*>(from), data.size()}};
    return entry_.Reply(parts, 2);
  }

  std::optional<UringMemory> memory_;
  UringEntry entry_;
};

TEST_F(UringEntryTest, ARequestLiesInOnePiece) {
  fuse_create_in create{};
  create.mode = 0640;
  ASSERT_TRUE(Receive(FUSE_CREATE, create, std::string_view("name\0", 5)));
  EXPECT_EQ(entry_.opcode(), static_cast<std::uint32_t>(FUSE_CREATE));
  EXPECT_EQ(entry_.length_bytes(), sizeof(fuse_in_header) + sizeof(create) + 5);
  EXPECT_EQ(entry_.arguments<fuse_create_in>().mode, 0640u);
  EXPECT_STREQ(entry_.begin() + sizeof(fuse_in_header) + sizeof(create), "name");
  EXPECT_EQ(entry_.commit_id(), 42u);
  EXPECT_EQ(entry_.queue(), 3);
}

TEST_F(UringEntryTest, APayloadFollowsAnArgumentOfOddLength) {
  const std::array<char, 5> name{"name"};
  ASSERT_TRUE(Receive(FUSE_SYMLINK, name, std::string_view("link\0", 5)));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(entry_.begin()) % alignof(fuse_in_header), 0u);
  EXPECT_STREQ(entry_.begin() + sizeof(fuse_in_header), "name");
  EXPECT_STREQ(entry_.begin() + sizeof(fuse_in_header) + name.size(), "link");
}

TEST_F(UringEntryTest, AWritesPayloadStaysOnItsPage) {
  fuse_write_in write{};
  write.size = 4;
  write.write_flags = FUSE_WRITE_LOCKOWNER;
  ASSERT_TRUE(Receive(FUSE_WRITE, write, "data"));
  const char* data = entry_.begin() + sizeof(fuse_in_header) + sizeof(write);
  EXPECT_EQ(data, payload());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kIoAlignment, 0u);
  EXPECT_EQ(std::string_view(data, 4), "data");
  EXPECT_TRUE(entry_.IsDirect());
  EXPECT_FALSE(entry_.IsWriteBack());
}

TEST_F(UringEntryTest, AWriteOfOtherBytesThanThereAreIsRefused) {
  fuse_write_in write{};
  write.size = 5;
  EXPECT_FALSE(Receive(FUSE_WRITE, write, "data"));
  EXPECT_EQ(Answer().error, -EIO);
}

TEST_F(UringEntryTest, AWriteBackIsKnown) {
  fuse_write_in write{};
  write.size = 4;
  write.write_flags = FUSE_WRITE_CACHE;
  ASSERT_TRUE(Receive(FUSE_WRITE, write, "data"));
  EXPECT_TRUE(entry_.IsWriteBack());
  EXPECT_FALSE(entry_.IsDirect());
}

TEST_F(UringEntryTest, AReadIsAnsweredWhereItsDataAre) {
  ASSERT_TRUE(Receive(FUSE_READ, fuse_read_in{}, ""));
  const std::span<std::byte> buffer = entry_.reply_buffer();
  EXPECT_EQ(reinterpret_cast<char*>(buffer.data()), payload());
  std::memcpy(buffer.data(), "xyz", 3);
  EXPECT_EQ(Reply("xyz", buffer.data()), static_cast<ssize_t>(sizeof(fuse_out_header) + 3));
  EXPECT_EQ(std::string_view(payload(), 3), "xyz");
  EXPECT_EQ(head().entry.payload_bytes, 3u);
  EXPECT_EQ(Answer().unique, 42u);
}

TEST_F(UringEntryTest, IsAnsweredOnce) {
  ASSERT_TRUE(Receive(FUSE_STATFS, char{}, ""));
  EXPECT_GT(Reply("a", "a"), 0);
  EXPECT_EQ(Reply("b", "b"), -1);
  EXPECT_EQ(errno, ENOENT);
  entry_.ReplyError(EIO);
  EXPECT_EQ(Answer().error, 0);
  EXPECT_EQ(payload()[0], 'a');
}

TEST_F(UringEntryTest, AnErrorHasNoData) {
  ASSERT_TRUE(Receive(FUSE_STATFS, char{}, ""));
  entry_.ReplyError(EIO);
  EXPECT_EQ(Answer().error, -EIO);
  EXPECT_EQ(Answer().unique, 42u);
  EXPECT_EQ(head().entry.payload_bytes, 0u);
}

TEST_F(UringEntryTest, ARequestThatMakesNoSenseIsRefused) {
  struct {
    char bytes[200];
  } longer_than_an_argument{};
  static_assert(sizeof(longer_than_an_argument) > sizeof(UringHeader::op_in));
  fuse_in_header header{};
  header.len = sizeof(header) + sizeof(longer_than_an_argument);
  header.unique = 42;
  std::memcpy(head().in_out, &header, sizeof(header));
  head().entry = {.commit_id = 42};
  EXPECT_FALSE(entry_.Take());
  EXPECT_EQ(Answer().error, -EIO);
  header.len = 10;  // shorter than its own header
  std::memcpy(head().in_out, &header, sizeof(header));
  EXPECT_FALSE(entry_.Take());
}

}  // namespace
}  // namespace reel::client
