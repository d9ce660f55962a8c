// The transport to a metadata controller: one bidirectional stream of frames. A seam: gRPC in the
// daemon, an in-process controller in tests and the simulator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/mdc.pb.h"
#include "proto/tls/watched_tls.h"

namespace reel::client {

// Threads: one thread sends and another receives, concurrently; Cancel comes from any.
class MdcStream {
 public:
  virtual ~MdcStream() = default;
  // False when the stream has ended.
  virtual bool Send(const v1::ClientFrame& frame) = 0;
  // Waits for the next frame; false when the stream has ended.
  virtual bool Receive(v1::ServerFrame* frame) = 0;
  // Ends the stream; pending Send and Receive return false.
  virtual void Cancel() = 0;
  // After Receive returned false: why.
  virtual absl::Status Finish() = 0;
};

// Who serves a volume, as one controller knows it.
struct MdcPlace {
  bool here = false;        // it does itself
  std::uint64_t epoch = 0;  // of who does
  std::string address;      // of who does; empty: not known
  std::string volume{};     // its UUID; empty: not said
};

class MdcConnector {
 public:
  virtual ~MdcConnector() = default;
  // One attempt, bounded in time. UNAVAILABLE when the controller cannot be reached;
  // FAILED_PRECONDITION when it never will be as things are configured (TLS).
  virtual absl::StatusOr<std::unique_ptr<MdcStream>> Connect(const std::string& address) = 0;
  // One question, bounded in time. Errors as above; NOT_FOUND: no such volume there.
  virtual absl::StatusOr<MdcPlace> Where(const std::string& /*address*/,
                                         const std::string& /*volume*/) {
    return absl::UnimplementedError("this transport has no such question");
  }
};

// Over gRPC; the only client file that includes gRPC implements it. `tls` null: without; its files
// are looked at again for each connection. `one_of_several`: there are
// other controllers to try, and little time is lost with one that does not answer.
std::unique_ptr<MdcConnector> MakeGrpcConnector(std::shared_ptr<WatchedTls> tls,
                                                bool one_of_several = false);

}  // namespace reel::client
