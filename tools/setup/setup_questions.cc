#include "tools/setup/setup_questions.h"

#include <functional>
#include <istream>
#include <ostream>

#include "absl/strings/str_split.h"
#include "tools/lib/volume_toml.h"

namespace reel::tools {
namespace {

using Words = std::vector<std::string>;

struct Question {
  const char* text;
  bool optional = false;
  std::function<absl::Status(const Words&)> take;
};

absl::Status Ask(const Question& question, std::istream& in, std::ostream& out) {
  while (true) {
    out << question.text << ": " << std::flush;
    std::string line;
    if (!std::getline(in, line)) {
      out << "\n";
      return absl::CancelledError("no more answers; nothing was written");
    }
    const Words words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() && question.optional) return absl::OkStatus();
    const absl::Status status =
        words.empty() ? absl::InvalidArgumentError("an answer is needed") : question.take(words);
    if (status.ok()) return status;
    out << "  " << std::string(status.message()) << "\n";
  }
}

absl::Status TakeVolume(SetupPlan& plan, const Words& words) {
  if (words.size() != 1) return absl::InvalidArgumentError("one name is wanted");
  if (absl::Status s = ValidateVolumeName(words.front()); !s.ok()) return s;
  plan.volume = words.front();
  return absl::OkStatus();
}

absl::Status TakeControllers(SetupPlan& plan, const Words& words) {
  std::vector<PlannedController> controllers;
  for (const std::string& word : words) {
    auto controller = ParseController(word);
    if (!controller.ok()) return controller.status();
    controllers.push_back(*std::move(controller));
  }
  plan.controllers = std::move(controllers);
  return absl::OkStatus();
}

absl::Status TakeHosts(std::vector<std::string>& hosts, const Words& words) {
  for (const std::string& word : words) {
    if (absl::Status s = CheckHostName(word); !s.ok()) return s;
  }
  hosts = words;
  return absl::OkStatus();
}

absl::Status TakeTexts(std::vector<std::string>& texts, const Words& words) {
  texts = words;
  return absl::OkStatus();
}

}  // namespace

absl::Status AskForPlan(SetupPlan& plan, std::istream& in, std::ostream& out) {
  std::vector<Question> questions;
  if (plan.volume.empty()) {
    questions.push_back(
        {"Name of the volume", false, [&](const Words& words) { return TakeVolume(plan, words); }});
  }
  if (plan.controllers.empty()) {
    questions.push_back({"Hosts of metadata controllers (HOST[:PORT][,ADDRESS], two for a standby)",
                         false, [&](const Words& words) { return TakeControllers(plan, words); }});
  }
  if (plan.clients.empty()) {
    questions.push_back({"Hosts of clients (workstations; none: later)", true,
                         [&](const Words& words) { return TakeHosts(plan.clients, words); }});
  }
  if (plan.luns.empty()) {
    questions.push_back(
        {"Where hosts find the LUNs (paths, patterns such as "
         "/dev/disk/by-id/wwn-*, iscsi:// URLs)",
         false, [&](const Words& words) { return TakeTexts(plan.luns, words); }});
  }
  if (!plan.describes_volume()) {
    questions.push_back({"LUNs of file data, by label or path (none: the volume is there already)",
                         true,
                         [&](const Words& words) { return TakeTexts(plan.data_luns, words); }});
  }
  for (const Question& question : questions) {
    if (absl::Status s = Ask(question, in, out); !s.ok()) return s;
  }
  if (plan.data_luns.empty() || !plan.metadata_luns.empty()) return absl::OkStatus();
  return Ask({"LUNs of metadata alone, by label or path (none: they share the data's)", true,
              [&](const Words& words) { return TakeTexts(plan.metadata_luns, words); }},
             in, out);
}

}  // namespace reel::tools
