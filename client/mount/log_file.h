// A log in a file that can be opened anew, by the same name: for logrotate(8).
//
// Threads: all methods may be called concurrently.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "spdlog/sinks/base_sink.h"
#include "volume/lun/fd_lun.h"

namespace reel::client {

class LogFile : public spdlog::sinks::base_sink<std::mutex> {
 public:
  static absl::StatusOr<std::shared_ptr<LogFile>> Open(const std::string& path);
  explicit LogFile(std::string path, UniqueFd file)
      : path_(std::move(path)), file_(std::move(file)) {}

  // The old file goes on where the new one cannot be opened.
  absl::Status Reopen();

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  const std::string path_;
  UniqueFd file_;  // under the base's mutex
};

}  // namespace reel::client
