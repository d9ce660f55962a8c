// A Vfs over a session that answers as the test has laid out, and files without data.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "client/vfs/vfs.h"
#include "proto/status.h"

namespace reel::client {

// Answers each call with the next reply that the test has laid out.
class FakeSession : public Session {
 public:
  absl::StatusOr<v1::Reply> Call(v1::Request request, const CallOptions& options) override {
    const absl::StatusOr<v1::Reply> outcome = Answer(std::move(request), options);
    if (options.on_done) options.on_done(outcome);
    return outcome;
  }
  absl::StatusOr<v1::Reply> Answer(v1::Request request, const CallOptions& options) {
    uid = options.credentials == nullptr ? 0 : options.credentials->uid();
    groups = options.credentials == nullptr ? 0 : options.credentials->groups_size();
    requests.push_back(std::move(request));
    if (away && options.interrupt != nullptr && options.interrupt->interrupted()) {
      return ErrnoStatus(EINTR, "nobody there");
    }
    if (away) return ErrnoStatus(ETIMEDOUT);  // of a soft mount
    if (replies.empty()) return v1::Reply();
    v1::Reply reply = std::move(replies.front());
    replies.pop_front();
    if (reply.error() != 0) return ErrnoStatus(reply.error(), reply.message());
    if (options.on_reply) options.on_reply(reply);
    if (interrupted) return ErrnoStatus(EINTR);
    return reply;
  }
  void Post(v1::Request) override {}
  bool LeaseHolds() const override { return true; }
  std::uint64_t LeaseLeftMs() const override { return 10'000; }
  std::uint64_t session_id() const override { return 1; }
  const VolumeDescriptor& descriptor() const override { return descriptor_; }
  bool Away() const override { return away; }
  void Shutdown() override {}

  bool away = false;
  bool interrupted = false;  // the caller has gone when the reply comes
  std::vector<v1::Request> requests;
  std::deque<v1::Reply> replies;
  std::uint32_t uid = 0;
  int groups = 0;

 private:
  VolumeDescriptor descriptor_;
};

// Owns the size of every inode: 4711.
class FakeFileData : public FileData {
 public:
  absl::Status Start(Session&, OpenVolume&) override { return absl::OkStatus(); }
  absl::StatusOr<std::size_t> Read(std::uint64_t, std::uint64_t, std::span<std::byte> buffer,
                                   const IoContext& io) override {
    last = io;
    return buffer.size();
  }
  absl::StatusOr<ByteRange> Write(std::uint64_t, std::uint64_t offset,
                                  std::span<const std::byte> data, const IoContext& io) override {
    last = io;
    return ByteRange{offset, offset + data.size()};
  }
  absl::Status Fsync(std::uint64_t, const IoContext&) override { return absl::OkStatus(); }
  absl::Status Flush(std::uint64_t, const IoContext&) override { return absl::OkStatus(); }
  absl::Status SyncWritten(const IoContext&) override { return absl::OkStatus(); }
  absl::StatusOr<v1::Attr> SetAttr(v1::SetAttr set, const IoContext&) override {
    set_fields = set.fields();
    return v1::Attr();
  }
  absl::Status Allocate(std::uint64_t, std::uint32_t, std::uint64_t, std::uint64_t,
                        const IoContext&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::uint64_t> Seek(std::uint64_t, std::uint64_t, bool data,
                                     const IoContext&) override {
    return data ? 1 : 2;
  }
  void Overlay(v1::Attr& attr) const override { attr.set_size_bytes(4711); }
  absl::StatusOr<v1::Attr> Open(std::uint64_t inode, bool write, const IoContext&) override {
    opened_for_write = write;
    v1::Attr attr;
    attr.set_inode(inode);
    return attr;
  }
  bool HasUncommittedWrites(std::uint64_t) const override { return wrote; }
  void NoteAccess(const v1::Attr& attr, AtimePolicy) override { accessed.push_back(attr.inode()); }
  bool IsSettled(std::uint64_t) const override { return settled; }
  bool IsOpen(std::uint64_t inode) const override { return inode == open; }
  void OpenDirectory(std::uint64_t) override {}
  void RegisterOpens(std::uint64_t inode, std::function<void()> done) override {
    registered.push_back(inode);
    done();
  }
  std::uint64_t ExpectedBytes() const override { return 5'000; }
  void Created(const v1::EntryReply& entry, std::uint64_t, std::uint64_t) override {
    opened = entry.attr().inode();
  }
  void Close(std::uint64_t inode) override { closed = inode; }
  absl::Status Stop() override { return absl::OkStatus(); }
  void OnRecall(std::uint64_t, v1::TokenMode, const TokenSpan&) override {}
  void OnEvicted() override {}
  std::vector<v1::Reclaim> CollectReclaims() override { return {}; }

  IoContext last;
  std::vector<std::uint64_t> accessed;
  std::vector<std::uint64_t> registered;
  std::uint32_t set_fields = 0;
  std::uint64_t opened = 0;
  std::uint64_t open = 0;
  std::uint64_t closed = 0;
  bool opened_for_write = false;
  bool wrote = false;
  bool settled = true;
};

inline constexpr char kAclName[] = "system.posix_acl_access";

class TwoGroups : public CallerGroups {
 public:
  std::vector<std::uint32_t> Get() const override { return {10, 20}; }
};

class VfsTest : public ::testing::Test {
 protected:
  VfsTest() { caller_.credentials.set_uid(1000); }

  void ReplyError(int error) { session_.replies.emplace_back().set_error(error); }
  void ReplyAttr(std::uint64_t inode) {
    session_.replies.emplace_back().mutable_attr()->mutable_attr()->set_inode(inode);
  }
  void ReplyEntry(std::uint64_t inode) {
    session_.replies.emplace_back().mutable_entry()->mutable_attr()->set_inode(inode);
  }
  void ReplyListing(std::initializer_list<std::uint64_t> cookies, bool end) {
    v1::Reply reply;
    for (const std::uint64_t cookie : cookies) {
      v1::ReadDirReply::Entry& entry = *reply.mutable_read_dir()->add_entries();
      entry.set_cookie(cookie);
      entry.set_name("n" + std::to_string(cookie));
    }
    reply.mutable_read_dir()->set_end(end);
    session_.replies.push_back(reply);
  }
  // Reads from a cookie to the end, or to an error, which it returns.
  int ReadAll(DirHandle& handle, std::uint64_t cookie, std::vector<std::uint64_t>* cookies) {
    while (true) {
      const auto entry = vfs_.NextEntry(handle, cookie, caller_);
      if (!entry.ok()) return ErrnoOf(entry.status());
      if (*entry == nullptr) return 0;
      cookie = (*entry)->cookie();
      cookies->push_back(cookie);
    }
  }
  // What the name in the root leads to is cached, and the root.
  void Know(std::uint64_t inode, const char* name, std::uint32_t mode) {
    v1::Request looked;
    looked.mutable_lookup()->set_parent(1);
    looked.mutable_lookup()->set_name(name);
    v1::Reply reply;
    reply.add_cacheable(1);
    reply.add_cacheable(inode);
    v1::Attr& attr = *reply.mutable_entry()->mutable_attr();
    attr.set_inode(inode);
    attr.set_mode(mode);
    attr.set_nlink(1);
    names_.OnReply(looked, reply);
  }
  const v1::Request& LastRequest() const { return session_.requests.back(); }

  FakeSession session_;
  FakeFileData data_;
  NameCache names_;
  KernelNames kernel_names_{names_, SystemClock(), /*left_ms=*/0};
  std::vector<std::uint64_t> forgotten_;  // inodes whose attributes the kernel was told of
  Vfs vfs_{
      session_, data_, names_,
      VfsOptions{.forget_attributes = [this](std::uint64_t inode) { forgotten_.push_back(inode); },
                 .kernel_names = &kernel_names_}};
  Caller caller_;
  TwoGroups groups_;
};

}  // namespace reel::client
