// Hands what a session tells to those whom it concerns: names, locks and data.
// Threads: as SessionEvents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "client/file_data.h"
#include "client/file_locks.h"
#include "client/name_cache.h"
#include "client/session.h"

namespace reel::client {

class EventRouter : public SessionEvents {
 public:
  EventRouter(FileData& data, NameCache& names, FileLocks& locks,
              const std::unique_ptr<Session>& session)
      : data_(data), names_(names), locks_(locks), session_(session) {}

  void OnRecall(std::uint64_t inode, v1::TokenMode mode, const TokenSpan& span) override {
    data_.OnRecall(inode, mode, span);
  }
  void OnRecallAttr(std::uint64_t inode) override {
    names_.OnRecall(inode);
    Return({inode});
  }
  void OnReply(const v1::Request& request, const v1::Reply& reply) override {
    names_.OnReply(request, reply);
    if (std::vector<std::uint64_t> dropped = names_.TakeDropped(); !dropped.empty()) {
      Return(std::move(dropped));
    }
  }
  void OnRegistered(std::uint64_t session, std::uint64_t key) override {
    data_.OnRegistered(session, key);
  }
  void OnStreamLost() override {
    ++streams_lost_;
    names_.Clear();
    data_.OnStreamLost();
  }
  void OnEvicted() override {
    names_.Clear();
    locks_.OnEvicted();
    data_.OnEvicted();
  }
  void OnLocksBroken(std::uint64_t inode) override { locks_.OnBroken(inode); }
  std::vector<v1::Reclaim> CollectReclaims() override {
    std::vector<v1::Reclaim> reclaims = data_.CollectReclaims();
    locks_.AddTo(reclaims);
    return reclaims;
  }

 private:
  // Behind the opens of directories that these tokens alone have kept. Not on another stream than
  // that which they were recalled on: they may have been granted anew there.
  void Return(std::vector<std::uint64_t> inodes) {
    const auto left = std::make_shared<std::size_t>(inodes.size());
    const auto sent = std::make_shared<std::vector<std::uint64_t>>(std::move(inodes));
    for (const std::uint64_t inode : *sent) {
      data_.RegisterOpens(inode, [this, left, sent, stream = streams_lost_] {
        if (--*left == 0 && stream == streams_lost_) SendReturn(*sent);
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

  FileData& data_;
  NameCache& names_;
  FileLocks& locks_;
  const std::unique_ptr<Session>& session_;  // set before there is anything to return
  std::uint64_t streams_lost_ = 0;           // the receiving thread's
};

}  // namespace reel::client
