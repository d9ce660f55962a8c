#include "tools/commands/command.h"

#include <chrono>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace reel::tools {

absl::StatusOr<std::string> ChosenVolume(AdminContext& context) {
  if (!context.volume.empty()) return context.volume;
  auto volumes = context.api.Volumes();
  if (!volumes.ok()) return volumes.status();
  if (volumes->volumes_size() == 1) return volumes->volumes(0).name();
  if (volumes->volumes_size() == 0) return absl::NotFoundError("this MDC serves no volume");
  return absl::InvalidArgumentError(absl::StrCat(
      "which volume? Choose one with --volume: ",
      absl::StrJoin(volumes->volumes(), ", ", [](std::string* out, const auto& volume) {
        absl::StrAppend(out, volume.name());
      })));
}

absl::StatusOr<std::uint64_t> SessionNamed(AdminContext& context, const std::string& volume,
                                           const std::string& word) {
  std::uint64_t session = 0;
  if (word == "all" || (absl::SimpleAtoi(word, &session) && session != 0)) return session;
  const auto who = context.api.AskOf<v1::WhoReply, v1::WhoRequest>(volume);
  if (!who.ok()) return who.status();
  std::vector<std::uint64_t> found;
  for (const auto& one : who->sessions()) {
    if (one.host() == word) found.push_back(one.session());
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no client ", word, " has mounted volume ", volume, "; \"who\" lists them"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "client ", word, " has several sessions, name one: ", absl::StrJoin(found, ", ")));
}

absl::StatusOr<std::uint64_t> SecondsAt(const Words& words, std::size_t place,
                                        std::uint64_t otherwise) {
  constexpr std::uint64_t kMost = 3600;
  if (words.size() <= place) return otherwise;
  std::uint64_t seconds = 0;
  if (absl::SimpleAtoi(words[place], &seconds) && seconds > 0 && seconds <= kMost) return seconds;
  return absl::InvalidArgumentError(
      absl::StrCat(words[0], ": SECONDS is a number from 1 to ", kMost, ", not ", words[place]));
}

absl::Status WaitSeconds(std::uint64_t seconds) {
  std::this_thread::sleep_for(std::chrono::seconds(seconds));  // tidy: sleep: it is asked for
  return absl::OkStatus();
}

absl::Status Confirm(const AdminContext& context, const std::string& question) {
  if (!context.confirm || context.confirm(question)) return absl::OkStatus();
  return absl::CancelledError("nothing was done");
}

}  // namespace reel::tools
