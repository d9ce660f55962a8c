// An iSCSI target of a test's own: Debian's tgtd on 127.0.0.1, with LUNs 1 to N of zeros, in a
// directory of its own under TMPDIR. It ends with this object, or with the test's process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reel {

class TgtTarget {
 public:
  struct Options {
    int luns = 1;
    std::uint64_t lun_bytes = 64 << 20;
    std::string chap_user, chap_secret;
  };

  TgtTarget() : TgtTarget(Options()) {}
  // A failure is the test's.
  explicit TgtTarget(const Options& options);
  ~TgtTarget();
  TgtTarget(const TgtTarget&) = delete;
  TgtTarget& operator=(const TgtTarget&) = delete;

  int port() const { return port_; }
  // Through another port where one is given (a proxy's). `options` as in ?options.
  std::string Url(int lun = 1, const std::string& options = "", int port = 0,
                  const std::string& user = "") const;
  // SIGKILL, and the end of it.
  void Kill();

 private:
  bool Start(int port);
  bool Admin(std::vector<std::string> arguments) const;

  std::string directory_;
  pid_t pid_ = 0;
  int port_ = 0;
};

}  // namespace reel
