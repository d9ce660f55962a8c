// What libfuse answers goes where it belongs. Needs /dev/fuse and the right to mount.
#include "client/fuse/request/fuse_dispatcher.h"

#include <fuse_lowlevel.h>
#include <gmock/gmock.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "client/fuse/request/kernel_request.h"

namespace reel::client {
namespace {

// A request made up here, or read from /dev/fuse; remembers whom its answers were for.
class MadeRequest : public KernelRequest {
 public:
  template <typename Arguments>
  MadeRequest(std::uint32_t opcode, std::uint64_t unique, const Arguments& arguments)
      : bytes_(sizeof(fuse_in_header) + sizeof(arguments)) {
    fuse_in_header header{};
    header.len = static_cast<std::uint32_t>(bytes_.size());
    header.opcode = opcode;
    header.unique = unique;
    header.nodeid = FUSE_ROOT_ID;
    std::memcpy(bytes_.data(), &header, sizeof(header));
    std::memcpy(bytes_.data() + sizeof(header), &arguments, sizeof(arguments));
    Show(bytes_.data(), bytes_.size(), {});
  }
  explicit MadeRequest(int dev_fuse) : bytes_(1 << 21), dev_fuse_(dev_fuse) {
    const ssize_t length = read(dev_fuse, bytes_.data(), bytes_.size());
    Show(bytes_.data(), static_cast<std::size_t>(length), {});
  }
  ssize_t Reply(const iovec* parts, int count) override {
    fuse_out_header header;
    std::memcpy(&header, parts[0].iov_base, sizeof(header));
    answers.push_back(header.unique);
    return dev_fuse_ >= 0 ? writev(dev_fuse_, parts, count) : 0;
  }

  std::vector<std::uint64_t> answers;

 private:
  std::vector<char> bytes_;
  const int dev_fuse_ = -1;
};

TEST(FuseDispatcher, AnEarlyInterruptIsNotAnsweredInAnothersPlace) {
  char directory[] = "/tmp/fuse_dispatcher_test.XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  fuse_lowlevel_ops ops{};
  ops.getattr = [](fuse_req_t request, fuse_ino_t, fuse_file_info*) {
    fuse_reply_err(request, ENOENT);
  };
  FuseDispatcher dispatcher({.max_background = 16});
  ASSERT_TRUE(dispatcher.Open("test", {"fsname=test"}, directory, ops, nullptr).ok());
  MadeRequest handshake(dispatcher.fd());
  dispatcher.Serve(handshake);
  ASSERT_EQ(handshake.answers.size(), 1u);

  // libfuse keeps it until the next request, and answers it with that one where it is another's.
  MadeRequest early(FUSE_INTERRUPT, 1001, fuse_interrupt_in{.unique = 1000});
  dispatcher.Serve(early);
  MadeRequest other(FUSE_GETATTR, 2000, fuse_getattr_in{});
  dispatcher.Serve(other);
  EXPECT_THAT(early.answers, ::testing::IsEmpty());
  EXPECT_THAT(other.answers, ::testing::ElementsAre(2000));
  dispatcher.Unmount();
  rmdir(directory);
}

}  // namespace
}  // namespace reel::client
