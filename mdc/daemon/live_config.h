// The configuration that the daemon goes by, for administrators; and what of it may change while
// the daemon runs: exports, which are read from its file again. Threads: any.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/daemon/config.h"
#include "mdc/tables/live_exports.h"
#include "proto/admin.pb.h"

namespace reel::mdc {

class LiveConfig {
 public:
  // `path`: the file that it was read from.
  LiveConfig(const Config& config, std::string path);

  std::shared_ptr<LiveExports> exports(const std::string& volume) const {
    return exports_.at(volume);
  }
  // With `reload`, as the file has them now. NOT_FOUND: no such volume in it, or here. Errors as
  // ReadConfig's; nothing has changed then.
  absl::StatusOr<std::vector<Export>> Exports(const std::string& volume, bool reload) const;
  // All settings by name; where a setting is not in the file, its default.
  void Describe(v1::SettingsReply& reply) const;

 private:
  const Config config_;
  const std::string path_;
  std::map<std::string, std::shared_ptr<LiveExports>> exports_;
};

}  // namespace reel::mdc
