#include "client/fuse/uring/uring_entry.h"

#include <linux/fuse.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "spdlog/spdlog.h"
#include "volume/base/aligned_buffer.h"

namespace reel::client {

namespace {

// What an entry may keep.
constexpr std::size_t kLargeBytes = 64 << 10;

}  // namespace

void UringEntry::Place(std::span<std::byte> memory, std::uint16_t queue, UringResident* home) {
  const std::span<std::byte> payload = memory.subspan(kIoAlignment);
  pieces_ = {iovec{memory.data(), sizeof(UringHeader)}, iovec{payload.data(), payload.size()}};
  queue_ = queue;
  home_ = home;
}

bool UringEntry::Take() {
  fuse_in_header header;
  std::memcpy(&header, head().in_out, sizeof(header));
  commit_id_ = head().entry.commit_id;
  unique_ = header.unique;
  waits_ = true;
  const std::uint32_t payload_bytes = head().entry.payload_bytes;
  const std::size_t rest = sizeof(header) + payload_bytes;
  const std::size_t argument = header.len - rest;
  if (payload_bytes > most_payload_bytes() || header.len < rest ||
      argument > sizeof(head().op_in) || !HasItsBytes(header, payload_bytes)) {
    spdlog::error("a request of {} bytes, of which {} payload: refused", header.len, payload_bytes);
    ReplyError(EIO);
    return false;
  }
  large_ = large_ || payload_bytes > kLargeBytes;
  // The header lies where a structure may. Behind an argument of odd length (SYMLINK's first name)
  // the payload follows it there; a WRITE's stays on its page.
  const std::size_t pad =
      (alignof(fuse_in_header) - argument % alignof(fuse_in_header)) % alignof(fuse_in_header);
  char* const begin = payload() - pad - argument - sizeof(header);
  std::memcpy(begin, &header, sizeof(header));
  std::memcpy(begin + sizeof(header), head().op_in, argument);
  if (pad != 0) std::memmove(payload() - pad, payload(), payload_bytes);
  Show(begin, header.len, {reinterpret_cast<std::byte*>(payload()), most_payload_bytes()});
  return true;
}

// libfuse believes what a WRITE says of its length.
bool UringEntry::HasItsBytes(const fuse_in_header& header, std::uint32_t payload_bytes) const {
  if (header.opcode != FUSE_WRITE) return true;
  fuse_write_in write;
  std::memcpy(&write, head().op_in, sizeof(write));
  return write.size == payload_bytes;
}

ssize_t UringEntry::Reply(const iovec* parts, int count) {
  std::size_t length = 0;
  for (int i = 1; i < count; ++i) length += parts[i].iov_len;
  if (length > most_payload_bytes() || parts[0].iov_len != sizeof(fuse_out_header)) {
    errno = EINVAL;
    return -1;
  }
  if (!std::exchange(waits_, false)) {
    errno = ENOENT;
    return -1;
  }
  char* to = payload();
  for (int i = 1; i < count; ++i) {
    // A READ's data are there already.
    if (parts[i].iov_base != to) std::memmove(to, parts[i].iov_base, parts[i].iov_len);
    to += parts[i].iov_len;
  }
  std::memcpy(head().in_out, parts[0].iov_base, sizeof(fuse_out_header));
  head().entry.payload_bytes = static_cast<std::uint32_t>(length);
  large_ = large_ || length > kLargeBytes;
  return static_cast<ssize_t>(length + sizeof(fuse_out_header));
}

void UringEntry::ReplyError(int error) {
  if (!std::exchange(waits_, false)) return;
  fuse_out_header header{};
  header.len = sizeof(header);
  header.error = -error;
  header.unique = unique_;
  std::memcpy(head().in_out, &header, sizeof(header));
  head().entry.payload_bytes = 0;
}

void UringEntry::GiveBack() {
  madvise(payload(), most_payload_bytes(), MADV_DONTNEED);
  large_ = false;
}

}  // namespace reel::client
