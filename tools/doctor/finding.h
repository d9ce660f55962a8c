// What `reeladm doctor` has to say of one thing: how it is, and what to do.
//
// Threads: plain values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace reel::tools {

struct Finding {
  enum class Level { kOk, kWarning, kFailure };
  Level level = Level::kOk;
  std::string check;    // of a small set: "configuration", "lun", "controller", …
  std::string subject;  // what was looked at: a path, an address; may be empty
  std::string text;     // how it is
  std::string todo;     // empty where it is well

  static Finding Ok(std::string check, std::string subject, std::string text) {
    return {Level::kOk, std::move(check), std::move(subject), std::move(text), ""};
  }
  static Finding Warning(std::string check, std::string subject, std::string text,
                         std::string todo) {
    return {Level::kWarning, std::move(check), std::move(subject), std::move(text),
            std::move(todo)};
  }
  static Finding Failure(std::string check, std::string subject, std::string text,
                         std::string todo) {
    return {Level::kFailure, std::move(check), std::move(subject), std::move(text),
            std::move(todo)};
  }
};

// One line each, and one that counts them.
std::string FindingsText(const std::vector<Finding>& findings);
nlohmann::ordered_json FindingsJson(const std::vector<Finding>& findings);
bool AnyFailure(const std::vector<Finding>& findings);

}  // namespace reel::tools
