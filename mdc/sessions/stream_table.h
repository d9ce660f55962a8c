// The streams of a volume: who is at the other end, and of which nothing more is read.
//
// Invariant: a stream that is refused stays so until it is removed. Threads: the core thread.
#pragma once

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "mdc/base/ids.h"

namespace reel::mdc {

class StreamTable {
 public:
  // False: it was here before, and keeps the certificate that it had.
  bool Add(StreamId stream, std::string certificate) {
    const auto [known, added] = streams_.try_emplace(stream);
    if (added) known->second.certificate = std::move(certificate);
    return added;
  }
  bool IsHere(StreamId stream) const { return streams_.contains(stream); }
  void Remove(StreamId stream) { streams_.erase(stream); }

  // It is to end, and nothing more is read from it. No effect where it is not here.
  void Refuse(StreamId stream) {
    const auto found = streams_.find(stream);
    if (found != streams_.end()) found->second.refused = true;
  }
  bool IsRefused(StreamId stream) const {
    const auto found = streams_.find(stream);
    return found != streams_.end() && found->second.refused;
  }
  // The name of its peer's; empty without TLS.
  std::string CertificateOf(StreamId stream) const {
    const auto found = streams_.find(stream);
    return found == streams_.end() ? std::string() : found->second.certificate;
  }

 private:
  struct Stream {
    bool refused = false;
    std::string certificate;
  };

  absl::flat_hash_map<StreamId, Stream> streams_;
};

}  // namespace reel::mdc
