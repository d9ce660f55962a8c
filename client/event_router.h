// Hands what a session tells to those whom it concerns: names, locks and data.
//
// The kernel is told of a recalled attribute token by a thread of its own: the kernel may wait for
// an inode that it is about to forget, and so for a request that waits for the receiving thread.
// Threads: as SessionEvents.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "client/file_data.h"
#include "client/file_locks.h"
#include "client/name_cache.h"
#include "client/session.h"
#include "client/worker_pool.h"
#include "volume/mutex.h"

namespace reel::client {

class EventRouter : public SessionEvents {
 public:
  // `forget_attributes(inode)`: the kernel shall take nothing for valid that it knows of the inode.
  EventRouter(FileData& data, NameCache& names, FileLocks& locks,
              const std::unique_ptr<Session>& session,
              std::function<void(std::uint64_t inode)> forget_attributes)
      : data_(data),
        names_(names),
        locks_(locks),
        session_(session),
        forget_attributes_(std::move(forget_attributes)) {}
  // After it the kernel is told nothing. REQUIRES: the session is shut down.
  void Stop() { pool_.Stop(); }

  void OnRecall(std::uint64_t inode, v1::TokenMode mode, const TokenSpan& span) override {
    data_.OnRecall(inode, mode, span);
  }
  void OnRecallAttr(std::uint64_t inode) override {
    switch (names_.OnRecall(inode)) {
      case NameCache::Recall::kOnItsWay:
        return;
      case NameCache::Recall::kReturn:
        return Return({inode}, streams_lost_);
      case NameCache::Recall::kTellKernelFirst:
        pool_.Run([this, inode, stream = streams_lost_.load()] {
          forget_attributes_(inode);
          Return({inode}, stream);
        });
    }
  }
  void OnReply(const v1::Request& request, const v1::Reply& reply) override {
    names_.OnReply(request, reply);
    if (request.has_renew()) locks_.OnRenewed();
    if (std::vector<std::uint64_t> dropped = names_.TakeDropped(); !dropped.empty()) {
      Return(std::move(dropped), streams_lost_);
    }
  }
  void OnRegistered(std::uint64_t session, std::uint64_t key) override {
    data_.OnRegistered(session, key);
  }
  void OnStreamLost() override {
    {
      MutexLock lock(mutex_);
      ++streams_lost_;
    }
    names_.Clear();
    data_.OnStreamLost();
  }
  void OnToldLost(std::uint64_t first) override { data_.OnToldLost(first); }
  void OnRedone(const v1::Request& request, const v1::Reply& reply) override {
    data_.OnRedone(request, reply);
  }
  void OnEvicted() override {
    names_.Clear();
    locks_.OnEvicted();
    data_.OnEvicted();
  }
  void OnRecallLocks(std::uint64_t inode, std::uint64_t token, bool contended) override {
    locks_.OnRecall(inode, token, contended);
  }
  void OnLocksBroken(std::uint64_t inode) override { locks_.OnBroken(inode); }
  std::vector<v1::Reclaim> CollectReclaims() override {
    std::vector<v1::Reclaim> reclaims = data_.CollectReclaims();
    locks_.Reclaim(reclaims);
    return reclaims;
  }

 private:
  // Behind the opens of directories that these tokens alone have kept. Not on another stream than
  // that which they were recalled on: they may have been granted anew there.
  void Return(std::vector<std::uint64_t> inodes, std::uint64_t stream) {
    const auto left = std::make_shared<std::size_t>(inodes.size());
    const auto sent = std::make_shared<std::vector<std::uint64_t>>(std::move(inodes));
    for (const std::uint64_t inode : *sent) {
      data_.RegisterOpens(inode, [this, left, sent, stream] {
        if (--*left != 0) return;
        MutexLock lock(mutex_);  // the stream is not lost between the look and the sending
        if (stream == streams_lost_) SendReturn(*sent);
      });
    }
  }

  void SendReturn(std::vector<std::uint64_t> inodes) {
    v1::Request request;
    request.mutable_attr_return()->mutable_inodes()->Add(inodes.begin(), inodes.end());
    session_->Start(std::move(request),
                    [this, inodes = std::move(inodes)](const absl::StatusOr<v1::Reply>&) {
                      names_.Returned(inodes);
                    });
  }

  static constexpr std::size_t kMaxThreads = 4;

  FileData& data_;
  NameCache& names_;
  FileLocks& locks_;
  const std::unique_ptr<Session>& session_;  // set before there is anything to return
  const std::function<void(std::uint64_t inode)> forget_attributes_;
  Mutex mutex_;  // held where one is counted
  std::atomic<std::uint64_t> streams_lost_{0};
  WorkerPool pool_{kMaxThreads};
};

}  // namespace reel::client
