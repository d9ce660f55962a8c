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
  const std::size_t rest = sizeof(header) + head().entry.payload_bytes;
  const std::size_t argument = header.len - rest;
  state_.store(State::kWaits, std::memory_order_release);
  if (header.len < rest || argument > sizeof(head().op_in)) {
    spdlog::error("a request of {} bytes, of which {} payload: refused", header.len,
                  head().entry.payload_bytes);
    ReplyError(EIO);
    return false;
  }
  large_ = large_ || head().entry.payload_bytes > kLargeBytes;
  char* const begin = payload() - argument - sizeof(header);
  std::memcpy(begin, &header, sizeof(header));
  std::memcpy(begin + sizeof(header), head().op_in, argument);
  Show(begin, header.len, {reinterpret_cast<std::byte*>(payload()), kMaxFuseRequestBytes});
  return true;
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

void UringEntry::GiveBack() {
  madvise(payload(), kMaxFuseRequestBytes, MADV_DONTNEED);
  large_ = false;
}

bool UringEntry::EnsureReply() {
  ReplyError(EIO);
  return state_.load(std::memory_order_acquire) == State::kAnswered;
}

}  // namespace reel::client
