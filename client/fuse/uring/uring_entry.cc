#include "client/fuse/uring/uring_entry.h"

#include <linux/fuse.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "spdlog/spdlog.h"
#include "volume/base/aligned_buffer.h"

namespace reel::client {

namespace {

// What an entry may keep.
constexpr std::size_t kLargeBytes = 64 << 10;

}  // namespace

void UringEntry::Place(std::byte* memory, std::uint16_t queue, UringResident* home) {
  pieces_ = {iovec{memory, sizeof(UringHeader)},
             iovec{memory + kIoAlignment, kMaxFuseRequestBytes}};
  queue_ = queue;
  home_ = home;
}

bool UringEntry::Take() {
  fuse_in_header header;
  std::memcpy(&header, head().in_out, sizeof(header));
  commit_id_ = head().entry.commit_id;
  unique_ = header.unique;
  const std::uint32_t payload_bytes = head().entry.payload_bytes;
  const std::size_t rest = sizeof(header) + payload_bytes;
  const std::size_t argument = header.len - rest;
  if (payload_bytes > kMaxFuseRequestBytes || header.len < rest ||
      argument > sizeof(head().op_in) || !HasItsBytes(header, payload_bytes)) {
    spdlog::error("a request of {} bytes, of which {} payload: refused", header.len, payload_bytes);
    state_.store(State::kWaits, std::memory_order_release);
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
  Show(begin, header.len, {reinterpret_cast<std::byte*>(payload()), kMaxFuseRequestBytes});
  // Last: from here on Refuse may answer it, and the kernel have the headers.
  state_.store(State::kWaits, std::memory_order_release);
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
  if (length > kMaxFuseRequestBytes || parts[0].iov_len != sizeof(fuse_out_header)) {
    errno = EINVAL;
    return -1;
  }
  if (!Claim(State::kAnswered)) {
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

bool UringEntry::Claim(State answer) {
  State expected = State::kWaits;
  return state_.compare_exchange_strong(expected, answer, std::memory_order_acq_rel);
}

void UringEntry::PutError(int error) {
  fuse_out_header header{};
  header.len = sizeof(header);
  header.error = -error;
  header.unique = unique_;
  std::memcpy(head().in_out, &header, sizeof(header));
  head().entry.payload_bytes = 0;
}

bool UringEntry::ReplyError(int error) {
  if (!Claim(State::kAnswered)) return false;
  PutError(error);
  return true;
}

bool UringEntry::Refuse(int error) {
  if (!Claim(State::kRefused)) return false;
  PutError(error);
  return true;
}

// Only a WRITE is served from its payload; other requests are decoded by now.
void UringEntry::Protect() {
  if (opcode() != FUSE_WRITE) return;
  mprotect(pieces_[0].iov_base, kIoAlignment + kMaxFuseRequestBytes, PROT_READ);
}

void UringEntry::GiveBack() {
  madvise(payload(), kMaxFuseRequestBytes, MADV_DONTNEED);
  large_ = false;
}

bool UringEntry::EnsureReply() {
  ReplyError(EIO);
  return state_.load(std::memory_order_acquire) == State::kAnswered;
}

}  // namespace reel::client
