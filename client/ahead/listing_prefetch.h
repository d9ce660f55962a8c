// Asks for the listings of directories before they are read: those that whoever walks a tree comes
// to next.
//
// A walk (find, du, rsync, tar) lists the subdirectories of a directory in the order in which the
// listing of that has them. Who does so twice running, or begins with the first, is taken for one:
// then the next of them, and the first one within, are asked for while it still looks at what the
// last has. Who looks up name after name of a directory of which only names are known (a listing
// that the kernel wants without attributes) has the next part of it described. What is brought is
// the name cache's, like every listing.
// Threads: all methods may be called concurrently.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "client/names/name_cache.h"
#include "client/session/session.h"
#include "proto/names.pb.h"
#include "volume/base/mutex.h"

namespace reel::client {

// Names, and 32 bytes for each, of one ReadDir reply: some 700 entries.
inline constexpr std::uint32_t kReadDirBytes = 32 * 1024;

class ListingPrefetch {
 public:
  // Both outlive this object, whose requests end with the session.
  ListingPrefetch(Session& session, NameCache& names, std::uint32_t page_bytes = kReadDirBytes)
      : session_(session), names_(names), page_bytes_(page_bytes) {}

  // Somebody has begun to read the directory, whose listing begins so.
  void Follow(std::uint64_t directory, const v1::ReadDirReply& beginning,
              const v1::Credentials& credentials);
  // A name of the directory was not found in the name cache.
  void NoteMissed(std::uint64_t directory, std::string_view name,
                  const v1::Credentials& credentials);
  // Waits until a request for the beginning of the directory's listing that is under way has been
  // answered, if there is one. EINTR.
  absl::Status Await(std::uint64_t directory, const Interrupt* interrupt);

 private:
  static constexpr std::size_t kSiblings = 2;   // of the directory that is read now
  static constexpr std::size_t kUnderWay = 16;  // requests at a time

  // What a request that is answered later still needs.
  struct UnderWay {
    Mutex mutex;
    CondVar changed;
    std::set<std::uint64_t> directories ABSL_GUARDED_BY(mutex);
  };
  void Ask(std::uint64_t directory, std::uint64_t cookie, const v1::Credentials& credentials);

  Session& session_;
  NameCache& names_;
  const std::uint32_t page_bytes_;
  const std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
};

}  // namespace reel::client
