// A FUSE file system that does nothing: the upper bound of what a FUSE client can reach.
//
// It shares the client's read loop. The root holds one file, `data`, of a given size, whose reads
// return whatever lies in the buffer and whose writes are counted as done; beside it, files and
// directories can be made, looked up and removed in memory, for the metadata figures. As in the
// client, the kernel may cache neither names nor attributes.
#include <fuse_lowlevel.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "CLI/CLI.hpp"
#include "client/fuse/connection/fuse_session.h"
#include "client/fuse/exit_signals.h"
#include "client/fuse/fuse_reply.h"
#include "volume/base/mutex.h"

namespace reel::client {
namespace {

constexpr fuse_ino_t kRoot = 1;
constexpr fuse_ino_t kData = 2;

struct Node {
  mode_t mode = 0;
  std::uint64_t size_bytes = 0;
};

// Threads: all methods may be called concurrently.
class Tree {
 public:
  explicit Tree(std::uint64_t data_bytes) {
    nodes_[kRoot] = {S_IFDIR | 0777, 0};
    nodes_[kData] = {S_IFREG | 0666, data_bytes};
    names_[{kRoot, "data"}] = kData;
  }

  fuse_ino_t Find(fuse_ino_t parent, const char* name, Node* node) {
    MutexLock lock(mutex_);
    const auto found = names_.find({parent, name});
    if (found == names_.end()) return 0;
    *node = nodes_[found->second];
    return found->second;
  }
  bool Get(fuse_ino_t inode, Node* node) {
    MutexLock lock(mutex_);
    const auto found = nodes_.find(inode);
    if (found == nodes_.end()) return false;
    *node = found->second;
    return true;
  }
  fuse_ino_t Make(fuse_ino_t parent, const char* name, mode_t mode) {
    MutexLock lock(mutex_);
    const auto [place, added] = names_.try_emplace({parent, name}, next_);
    if (!added) return 0;
    nodes_[next_] = {mode, 0};
    return next_++;
  }
  bool Remove(fuse_ino_t parent, const char* name) {
    MutexLock lock(mutex_);
    const auto found = names_.find({parent, name});
    if (found == names_.end()) return false;
    nodes_.erase(found->second);
    names_.erase(found);
    return true;
  }
  void Grow(fuse_ino_t inode, std::uint64_t end_bytes) {
    MutexLock lock(mutex_);
    const auto found = nodes_.find(inode);
    if (found != nodes_.end())
      found->second.size_bytes = std::max(found->second.size_bytes, end_bytes);
  }

 private:
  Mutex mutex_;
  std::map<std::pair<fuse_ino_t, std::string>, fuse_ino_t> names_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<fuse_ino_t, Node> nodes_ ABSL_GUARDED_BY(mutex_);
  fuse_ino_t next_ ABSL_GUARDED_BY(mutex_) = kData + 1;
};

struct EmptyFileSystem {
  Tree tree;
  bool direct;
};

EmptyFileSystem& Self(fuse_req_t req) {
  return *static_cast<EmptyFileSystem*>(fuse_req_userdata(req));
}

v1::Attr AttrOf(fuse_ino_t inode, const Node& node) {
  v1::Attr attr;
  attr.set_inode(inode);
  attr.set_mode(node.mode);
  attr.set_nlink(1);
  attr.set_size_bytes(node.size_bytes);
  return attr;
}

void OnLookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  Node node;
  const fuse_ino_t inode = Self(req).tree.Find(parent, name, &node);
  if (inode == 0) {
    fuse_reply_err(req, ENOENT);
  } else {
    ReplyEntry(req, AttrOf(inode, node));
  }
}

void OnForget(fuse_req_t req, fuse_ino_t, std::uint64_t) {
  fuse_reply_none(req);
}
void OnForgetMulti(fuse_req_t req, std::size_t, fuse_forget_data*) {
  fuse_reply_none(req);
}

void OnGetattr(fuse_req_t req, fuse_ino_t inode, fuse_file_info*) {
  Node node;
  if (Self(req).tree.Get(inode, &node)) {
    ReplyAttr(req, AttrOf(inode, node));
  } else {
    fuse_reply_err(req, ENOENT);
  }
}

void OnSetattr(fuse_req_t req, fuse_ino_t inode, struct stat*, int, fuse_file_info* info) {
  OnGetattr(req, inode, info);
}

void OnMkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) {
  const fuse_ino_t inode = Self(req).tree.Make(parent, name, S_IFDIR | mode);
  if (inode == 0) {
    fuse_reply_err(req, EEXIST);
  } else {
    ReplyEntry(req, AttrOf(inode, {S_IFDIR | mode, 0}));
  }
}

void OnCreate(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info*) {
  EmptyFileSystem& self = Self(req);
  const fuse_ino_t inode = self.tree.Make(parent, name, S_IFREG | mode);
  if (inode == 0) {
    fuse_reply_err(req, EEXIST);
  } else {
    ReplyCreate(req, AttrOf(inode, {S_IFREG | mode, 0}), {}, 0, OpenFlags({.direct = self.direct}));
  }
}

void OnUnlink(fuse_req_t req, fuse_ino_t parent, const char* name) {
  fuse_reply_err(req, Self(req).tree.Remove(parent, name) ? 0 : ENOENT);
}

void OnOpen(fuse_req_t req, fuse_ino_t, fuse_file_info*) {
  ReplyOpen(req, 0, OpenFlags({.direct = Self(req).direct}));
}

void OnRelease(fuse_req_t req, fuse_ino_t, fuse_file_info*) {
  fuse_reply_err(req, 0);
}

void OnRead(fuse_req_t req, fuse_ino_t inode, std::size_t size, off_t offset, fuse_file_info*) {
  Node node;
  Self(req).tree.Get(inode, &node);
  const auto start = static_cast<std::uint64_t>(offset);
  const std::uint64_t left = node.size_bytes > start ? node.size_bytes - start : 0;
  const std::span<std::byte> buffer = FuseSession::ReplyBuffer();
  fuse_reply_buf(req, reinterpret_cast<const char*>(buffer.data()),
                 std::min<std::uint64_t>({size, left, buffer.size()}));
}

void OnWrite(fuse_req_t req, fuse_ino_t inode, const char*, std::size_t size, off_t offset,
             fuse_file_info*) {
  Self(req).tree.Grow(inode, static_cast<std::uint64_t>(offset) + size);
  fuse_reply_write(req, size);
}

void OnFsync(fuse_req_t req, fuse_ino_t, int, fuse_file_info*) {
  fuse_reply_err(req, 0);
}

fuse_lowlevel_ops Table() {
  fuse_lowlevel_ops ops{};
  ops.lookup = OnLookup;
  ops.forget = OnForget;
  ops.forget_multi = OnForgetMulti;
  ops.getattr = OnGetattr;
  ops.setattr = OnSetattr;
  ops.mkdir = OnMkdir;
  ops.rmdir = OnUnlink;
  ops.create = OnCreate;
  ops.unlink = OnUnlink;
  ops.open = OnOpen;
  ops.release = OnRelease;
  ops.read = OnRead;
  ops.write = OnWrite;
  ops.fsync = OnFsync;
  ops.fsyncdir = OnFsync;
  return ops;
}

int Run(FuseSession::Options options, std::uint64_t data_bytes, bool page_cache) {
  char resolved[PATH_MAX];
  if (realpath(options.mount_point.c_str(), resolved) == nullptr) {
    std::fprintf(stderr, "%s: %s\n", options.mount_point.c_str(), std::strerror(errno));
    return 1;
  }
  options.mount_point = resolved;
  options.source = "empty";
  options.subtype = "empty";
  options.mount_options = {"default_permissions"};
  options.on_end = ExitSignals::Raise;
  ExitSignals::Block();
  EmptyFileSystem file_system{.tree = Tree(data_bytes), .direct = !page_cache};
  const auto session = FuseSession::Mount(options, Table(), &file_system);
  if (!session.ok()) {
    std::fprintf(stderr, "%s\n", std::string(session.status().message()).c_str());
    return 1;
  }
  std::printf("ready, by %s\n", (*session)->over_uring() ? "io_uring" : "/dev/fuse");
  std::fflush(stdout);
  ExitSignals::Wait();
  return 0;
}

}  // namespace
}  // namespace reel::client

int main(int argc, char** argv) {
  CLI::App app("Mounts a FUSE file system that moves no data, until it is unmounted.");
  reel::client::FuseSession::Options options;
  std::uint64_t data_bytes = std::uint64_t{4} << 30;
  bool page_cache = false;
  app.add_option("DIR", options.mount_point, "where to mount it")->required();
  app.add_option("--size", data_bytes, "size of DIR/data, e.g. 4GiB")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--threads", options.threads, "idle workers kept");
  bool dev_fuse = false;
  app.add_flag("--dev-fuse", dev_fuse, "not over io_uring, also where the kernel offers it");
  app.add_flag("--page-cache", page_cache, "files go through the kernel's page cache");
  CLI11_PARSE(app, argc, argv);
  if (dev_fuse) options.uring = reel::client::UringChoice::kOff;
  return reel::client::Run(options, data_bytes, page_cache);
}
