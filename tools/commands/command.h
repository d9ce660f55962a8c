// What a command of reeladm is: how it is called, a function from words to data, and a view of the
// data as text. --json prints the data, which docs/schema/NAME.json describes; so nothing is shown
// that a program cannot read.
//
// A family of commands is one file, which lists them; command_table.cc lists the families. Thread
// rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tools/admin/admin_api.h"

namespace reel::tools {

// Members keep the order in which they were written.
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

absl::Status WaitSeconds(std::uint64_t seconds);

struct AdminContext {
  AdminApi& api;
  std::string volume;  // the one that was chosen; empty: the only one there is
  bool json = false;
  // Whether to go on, where somebody can be asked; unset: nobody can, and nobody is.
  std::function<bool(const std::string& question)> confirm = {};
  // What the same command returned when it ran last, under --watch; null the first time.
  const Json* previous = nullptr;
  // Waits so many seconds. CANCELLED: the person does not want to any more.
  std::function<absl::Status(std::uint64_t seconds)> wait = WaitSeconds;
};

struct AdminCommand {
  std::string_view name;
  std::string_view usage;  // its arguments, by the rules of usage.h
  std::string_view help;   // one line
  // From the words, of which the first is the command; they are as `usage` says.
  // INVALID_ARGUMENT: but not all of them mean something.
  absl::StatusOr<Json> (*run)(AdminContext& context, const Words& words);
  std::string (*text)(const Json& json);
  std::vector<std::string_view> examples = {};
  bool watched = false;  // it shows what changes, and --watch repeats it
};
using AdminCommands = std::vector<AdminCommand>;

// The volume to talk about: the chosen one, or the only one that the MDC serves.
absl::StatusOr<std::string> ChosenVolume(AdminContext& context);

// The session that a word names: by its number, or by its client's host; "all" is 0.
// NOT_FOUND, INVALID_ARGUMENT: the host has several.
absl::StatusOr<std::uint64_t> SessionNamed(AdminContext& context, const std::string& volume,
                                           const std::string& word);
// A number of seconds, up to an hour; `otherwise` where there is no such word.
absl::StatusOr<std::uint64_t> SecondsAt(const Words& words, std::size_t place,
                                        std::uint64_t otherwise);

// Asks before what takes something from others. CANCELLED: they want it not.
absl::Status Confirm(const AdminContext& context, const std::string& question);

// The reply to a request that names the chosen volume and nothing else.
template <typename Reply, typename Request>
absl::StatusOr<Reply> AskOfVolume(AdminContext& context) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  return context.api.AskOf<Reply, Request>(*volume);
}

}  // namespace reel::tools
