// One request of the kernel in memory, however it came, and the way back for its answer.
//
// Its bytes are as libfuse decodes them: header, arguments and payload in one piece, in which a
// WRITE's payload falls on a page. Threads: of whoever serves it.
#pragma once

#include <linux/fuse.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

struct iovec;

namespace reel::client {

// Opcodes newer than this system's <linux/fuse.h>.
inline constexpr std::uint32_t kOpTmpfile = 51;
inline constexpr std::uint32_t kOpStatx = 52;

class KernelRequest {
 public:
  KernelRequest() = default;
  KernelRequest(const KernelRequest&) = delete;
  KernelRequest& operator=(const KernelRequest&) = delete;
  virtual ~KernelRequest() = default;

  char* begin() const { return begin_; }
  std::size_t length_bytes() const { return length_bytes_; }
  fuse_in_header& header() const { return *reinterpret_cast<fuse_in_header*>(begin_); }
  // What follows the header.
  template <typename Arguments>
  const Arguments& arguments() const {
    return *reinterpret_cast<const Arguments*>(begin_ + sizeof(fuse_in_header));
  }
  // As the kernel sent it: the header's may be changed for libfuse.
  std::uint32_t opcode() const { return opcode_; }

  // Page-aligned memory for a reply's data, as long as a request may be. It overlaps the payload of
  // the request, of which READ and READDIR have none.
  std::span<std::byte> reply_buffer() const { return reply_buffer_; }

  // Whether a READ or WRITE comes from the page cache rather than from an application's buffer.
  bool IsPageCache() const {
    // A request from an application's buffer names its owner, one from the page cache does not.
    if (opcode_ == FUSE_READ) {
      return (arguments<fuse_read_in>().read_flags & FUSE_READ_LOCKOWNER) == 0;
    }
    const auto& in = arguments<fuse_write_in>();
    return (in.write_flags & FUSE_WRITE_CACHE) != 0 || (in.write_flags & FUSE_WRITE_LOCKOWNER) == 0;
  }
  // A direct READ or WRITE: of an application's buffer.
  bool IsDirect() const {
    return (opcode_ == FUSE_READ || opcode_ == FUSE_WRITE) && !IsPageCache();
  }

  // A READ or WRITE that takes its time for its bytes, not for its way.
  bool IsLarge() const {
    constexpr std::uint32_t kLargeBytes = 128 << 10;
    if (opcode_ == FUSE_READ) return arguments<fuse_read_in>().size > kLargeBytes;
    return opcode_ == FUSE_WRITE && arguments<fuse_write_in>().size > kLargeBytes;
  }

  // A page that the kernel writes back by itself.
  bool IsWriteBack() const {
    return opcode_ == FUSE_WRITE &&
           (arguments<fuse_write_in>().write_flags & FUSE_WRITE_CACHE) != 0;
  }
  virtual bool over_uring() const { return false; }

  // Answers it: parts as for writev(2), of which the first is the fuse_out_header. -1 and errno
  // where nobody waits for it any more.
  virtual ssize_t Reply(const iovec* parts, int count) = 0;

 protected:
  void Show(char* begin, std::size_t length_bytes, std::span<std::byte> reply_buffer) {
    begin_ = begin;
    length_bytes_ = length_bytes;
    reply_buffer_ = reply_buffer;
    opcode_ = header().opcode;
  }

 private:
  char* begin_ = nullptr;
  std::size_t length_bytes_ = 0;
  std::uint32_t opcode_ = 0;
  std::span<std::byte> reply_buffer_;
};

}  // namespace reel::client
