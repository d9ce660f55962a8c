// For tests of a name cache that has the delegation of one directory: what programs do there, and
// what the controller answers. Threads: one.
#pragma once

#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/names/name_cache.h"

namespace reel::client {

inline constexpr std::uint64_t kDirectory = 5, kFirst = 100;

class NameCacheDelegationTest : public testing::Test {
 protected:
  NameCacheDelegationTest() {
    v1::Reply made;
    made.add_exclusive(kDirectory);
    Reply(CreateOf("sub", 1), kDirectory, made, S_IFDIR | 0755);
  }
  static v1::Request CreateOf(const std::string& name, std::uint64_t parent = kDirectory) {
    v1::Request request;
    request.mutable_create()->set_parent(parent);
    request.mutable_create()->set_name(name);
    request.mutable_create()->set_mode(S_IFREG | 0666);
    request.mutable_create()->set_umask(022);
    return request;
  }
  // The answer to a create that was not delegated.
  void Reply(v1::Request request, std::uint64_t inode, v1::Reply reply = {},
             std::uint32_t mode = S_IFREG | 0644) {
    reply.add_cacheable(inode);
    v1::Attr& attr = *reply.mutable_entry()->mutable_attr();
    attr.set_inode(inode);
    attr.set_mode(mode);
    attr.set_nlink(1);
    attr.set_change(1);
    if (const auto directory = cache_.GetAttr(request.create().parent())) {
      *reply.add_changed() = directory->ToProto();
    }
    cache_.OnReply(request, reply);
  }
  void Reserved(int numbers) {
    v1::Request request = CreateOf("stocked");
    request.mutable_create()->set_reserved_inodes(4);
    v1::Reply reply;
    for (int i = 0; i < numbers; ++i) reply.add_reserved_inodes()->set_inode(kFirst + i);
    Reply(std::move(request), 50, std::move(reply));
  }
  std::optional<v1::Attr> Create(const std::string& name, bool sends = true,
                                 const v1::Credentials& owner = {}) {
    v1::Request request = CreateOf(name);
    return cache_.CreateDelegated(*request.mutable_create(), owner, now_,
                                  [&](const v1::EntryReply&, const v1::Replay& decided) {
                                    *request.mutable_delegated() = decided;
                                    if (sends) sent_.push_back(request);
                                    return sends ? sent_.size() : 0;
                                  });
  }
  bool Unlink(const std::string& name, bool directory = false) {
    v1::Request request;
    request.mutable_unlink()->set_parent(kDirectory);
    request.mutable_unlink()->set_name(name);
    request.mutable_unlink()->set_directory(directory);
    return cache_.UnlinkDelegated(request.unlink(), now_,
                                  [&](v1::Attr&, bool only_here, const v1::Replay& decided) {
                                    only_here_ = only_here;
                                    *request.mutable_delegated() = decided;
                                    sent_.push_back(request);
                                    return sent_.size();
                                  });
  }
  static v1::Request RenameOf(const std::string& from, const std::string& to,
                              std::uint32_t flags = 0) {
    v1::Request request;
    v1::Rename& rename = *request.mutable_rename();
    rename.set_parent(kDirectory);
    rename.set_name(from);
    rename.set_new_parent(kDirectory);
    rename.set_new_name(to);
    rename.set_flags(flags);
    return request;
  }
  bool Rename(const std::string& from, const std::string& to, std::uint32_t flags = 0) {
    v1::Request request = RenameOf(from, to, flags);
    return cache_
        .RenameDelegated(request.rename(), may_replace_, now_,
                         [&](v1::Attr* replaced, bool only_here, const v1::Replay& decided) {
                           only_here_ = only_here;
                           replaced_ = replaced != nullptr ? replaced->inode() : 0;
                           *request.mutable_delegated() = decided;
                           sent_.push_back(request);
                           return sent_.size();
                         })
        .has_value();
  }
  // A file that was there before this client had the delegation.
  void Older(const std::string& name, std::uint64_t inode, std::uint64_t directory = kDirectory) {
    v1::Request request;
    request.mutable_lookup()->set_parent(kDirectory);
    request.mutable_lookup()->set_name(name);
    v1::Reply reply;
    reply.add_cacheable(inode);
    v1::Attr& attr = *reply.mutable_entry()->mutable_attr();
    attr.set_inode(inode);
    attr.set_mode(S_IFREG | 0644);
    attr.set_nlink(1);
    attr.set_change(1);
    attr.set_directory(directory);
    cache_.OnReply(request, reply);
  }
  // What a removal that is not delegated asks of the controller, which says that all of it is so.
  std::vector<std::uint64_t> AskAndLearn() {
    v1::Request request;
    request.mutable_unlink()->set_parent(kDirectory);
    request.mutable_unlink()->set_name("gone");
    cache_.AskWhichAreSole(request);
    v1::Reply reply;
    *reply.mutable_sole() = request.siblings();
    *reply.add_changed() = cache_.GetAttr(kDirectory)->ToProto();
    cache_.OnReply(request, reply);
    return {request.siblings().begin(), request.siblings().end()};
  }
  // The controller's answer to the n-th delegated change.
  void DelegatedAnswered(std::size_t n, int error = 0) {
    v1::Reply reply;
    reply.set_error(error);
    if (sent_[n].has_create() && error == 0) reply.add_cacheable(sent_[n].delegated().inode());
    v1::Attr& directory = *reply.add_changed();
    directory = cache_.GetAttr(kDirectory)->ToProto();
    directory.set_nlink(77);
    cache_.OnReply(sent_[n], reply);
  }
  std::uint64_t Found(const std::string& name) {
    const auto found = cache_.Lookup(kDirectory, name);
    EXPECT_TRUE(found.has_value());
    return !found || found->absent ? 0 : found->attr.inode;
  }

  NameCache cache_;
  v1::Time now_;
  std::vector<v1::Request> sent_;
  bool only_here_ = false;      // what was removed last
  std::uint64_t replaced_ = 0;  // by the last rename
  bool may_replace_ = true;
};

}  // namespace reel::client
