// A cache of names, filled by replies that a test makes up, and what a test of it says.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/names/name_cache.h"
#include "gtest/gtest.h"

namespace reel::client {

class NameCacheFixture : public testing::Test {
 protected:
  static constexpr std::uint64_t kDir = 1;

  static v1::Attr AttrOf(std::uint64_t inode, std::uint32_t mode = S_IFREG | 0644) {
    v1::Attr attr;
    attr.set_inode(inode);
    attr.set_mode(mode);
    attr.set_nlink(1);
    return attr;
  }
  // The reply to a lookup in kDir; inode 0: there is none.
  void LookedUp(const std::string& name, std::uint64_t inode, bool cacheable = true) {
    v1::Request request;
    request.mutable_lookup()->set_parent(kDir);
    request.mutable_lookup()->set_name(name);
    v1::Reply reply;
    if (cacheable) reply.add_cacheable(kDir);
    if (inode == 0) {
      reply.set_error(ENOENT);
    } else {
      if (cacheable) reply.add_cacheable(inode);
      *reply.mutable_entry()->mutable_attr() = AttrOf(inode);
    }
    cache_.OnReply(request, reply);
  }
  void Created(std::uint64_t parent, const std::string& name, std::uint64_t inode,
               std::uint32_t mode = S_IFREG | 0644) {
    v1::Request request;
    request.mutable_create()->set_parent(parent);
    request.mutable_create()->set_name(name);
    v1::Reply reply;
    reply.add_cacheable(inode);
    *reply.mutable_entry()->mutable_attr() = AttrOf(inode, mode);
    *reply.add_changed() = AttrOf(parent, S_IFDIR | 0755);
    cache_.OnReply(request, reply);
  }
  // The reply tells of what stands at the old name where that is a `whiteout`.
  void Renamed(const std::string& from, const std::string& to, std::uint32_t flags = 0,
               std::uint64_t whiteout = 0) {
    v1::Request request;
    request.mutable_rename()->set_parent(kDir);
    request.mutable_rename()->set_name(from);
    request.mutable_rename()->set_new_parent(kDir);
    request.mutable_rename()->set_new_name(to);
    request.mutable_rename()->set_flags(flags);
    v1::Reply reply;
    if (whiteout != 0) {
      reply.add_cacheable(whiteout);
      *reply.mutable_entry()->mutable_attr() = AttrOf(whiteout, S_IFCHR);
    }
    *reply.add_changed() = AttrOf(kDir, S_IFDIR | 0755);
    cache_.OnReply(request, reply);
  }
  void Listed(std::uint64_t from, const std::vector<std::uint64_t>& cookies, bool end) {
    v1::Request request;
    request.mutable_read_dir()->set_inode(kDir);
    request.mutable_read_dir()->set_cookie(from);
    v1::Reply reply;
    reply.add_cacheable(kDir);
    for (const std::uint64_t cookie : cookies) {
      v1::ReadDirReply::Entry& entry = *reply.mutable_read_dir()->add_entries();
      entry.set_name(absl::StrCat("name", cookie));
      entry.set_inode(100 + cookie);
      entry.set_cookie(cookie);
      *entry.mutable_attr() = AttrOf(100 + cookie);
      reply.add_cacheable(100 + cookie);
    }
    reply.mutable_read_dir()->set_end(end);
    cache_.OnReply(request, reply);
  }
  // The attributes of kDir.
  void Described(std::uint32_t flags = 0, std::uint64_t change = 0) {
    v1::Request request;
    request.mutable_get_attr()->set_inode(kDir);
    v1::Reply reply;
    reply.add_cacheable(kDir);
    v1::Attr& attr = *reply.mutable_attr()->mutable_attr() = AttrOf(kDir, S_IFDIR | 0755);
    attr.set_flags(flags);
    attr.set_change(change);
    cache_.OnReply(request, reply);
  }
  // "?": not known; "-": absent; else the inode.
  std::string Find(const std::string& name, std::uint64_t parent = kDir) {
    const auto found = cache_.Lookup(parent, name);
    if (!found) return "?";
    return found->absent ? "-" : absl::StrCat(found->attr.inode);
  }

  NameCache cache_;
  NameCache::KernelForgets to_forget_;
};

}  // namespace reel::client
