// A TCP proxy on 127.0.0.1 between a test's two sides, that holds back, cuts or spoils what passes.
//
// Threads: all methods may be called concurrently; a thread of its own moves the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "volume/base/mutex.h"
#include "volume/lun/fd_lun.h"

namespace reel {

class TcpProxy {
 public:
  // In front of 127.0.0.1:`port`.
  explicit TcpProxy(int port);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  int port() const { return port_; }
  // How many connections were made to it so far.
  int connections();
  // From now on no byte from the server reaches a client, until Cut or the end.
  void HoldAnswers();
  // Turns one bit in the header of the next iSCSI answer, one that only a digest can tell of.
  void CorruptNextAnswer();
  // Turns the next `count` answers "GOOD" to iSCSI commands that bring no data, or to those with
  // one operation code whether they do or not, into others: a status, or CHECK CONDITION (0x02)
  // with these sense data. REQUIRES: no digests, one command at a time.
  struct Forgery {
    int count = 0;
    std::uint8_t status = 0, key = 0;
    std::uint16_t code = 0;
    std::optional<std::uint8_t> operation = std::nullopt;
  };
  void ForgeAnswers(const Forgery& forgery);
  // How many of them are still to come.
  int forgeries_left();
  // Counts what clients send from now on.
  void CountRequests();
  // Waits until they have sent `bytes` since then, or since HoldAnswers. False after ten seconds.
  bool AwaitRequests(std::uint64_t bytes);
  // Ends all connections, on both sides.
  void Cut();

 private:
  struct Pair {
    UniqueFd client, server;
  };
  void Run();
  void Accept();
  // False when the pair has ended.
  bool Forward(int from, int to, bool answer);
  bool IsToBeForged(const std::byte* answer, std::size_t size) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns how much of the answer is to be sent then. REQUIRES: room for some more.
  std::size_t Forge(std::byte* answer, std::size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  int port_ = 0;
  const int server_port_;
  UniqueFd listener_, wake_;
  std::vector<std::unique_ptr<Pair>> pairs_;  // the thread's
  Mutex mutex_;
  CondVar changed_;
  int connections_ ABSL_GUARDED_BY(mutex_) = 0;
  bool hold_ ABSL_GUARDED_BY(mutex_) = false;
  bool corrupt_ ABSL_GUARDED_BY(mutex_) = false;
  Forgery forgery_ ABSL_GUARDED_BY(mutex_);
  std::uint8_t operation_ ABSL_GUARDED_BY(mutex_) = 0;  // of the last command
  std::size_t skip_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of an answer that was forged
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t request_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace reel
