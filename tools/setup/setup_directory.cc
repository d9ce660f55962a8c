#include "tools/setup/setup_directory.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "tools/lib/text_file.h"
#include "tools/lib/volume_toml.h"
#include "tools/setup/setup_certificates.h"
#include "tools/setup/setup_files.h"

namespace reel::tools {
namespace {

using State = SetupOutcome::File::State;

constexpr char kPlanName[] = "setup.toml";

// What WriteSetup is about to do with one file.
struct PlannedFile {
  SetupFile file;
  State state = State::kNew;
};

// The text that the stored plan has for the path; nullopt: it has none.
std::optional<std::string> StoredText(const std::vector<SetupFile>& stored,
                                      const std::string& path) {
  for (const SetupFile& file : stored) {
    if (file.path == path) return file.text;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<PlannedFile>> PlanFiles(const SetupRequest& request) {
  const std::vector<SetupFile> stored =
      request.stored.volume.empty() ? std::vector<SetupFile>{} : FilesOf(request.stored);
  std::vector<PlannedFile> planned;
  for (SetupFile& file : FilesOf(request.plan)) {
    const std::string path = absl::StrCat(request.directory, "/", file.path);
    const auto there = ReadTextFile(path);
    if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
    State state = State::kNew;
    if (there.ok()) state = *there == file.text ? State::kUnchanged : State::kChanged;
    if (state == State::kChanged && !request.force &&
        StoredText(stored, file.path) != std::optional(*there)) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, " was changed by hand, or is another release's; nothing was written. To have it ",
          "written anew, add --force"));
    }
    planned.push_back({std::move(file), state});
  }
  return planned;
}

absl::Status CheckVolume(const std::vector<PlannedFile>& files) {
  for (const PlannedFile& planned : files) {
    if (!planned.file.path.ends_with("/volume.toml")) continue;
    if (auto volume = ParseVolumeToml(planned.file.text, "volume.toml"); !volume.ok()) {
      return volume.status();
    }
  }
  return absl::OkStatus();
}

absl::Status MakeDirectory(const std::string& path, std::filesystem::perms mode) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(path, error);
  if (!error && made) std::filesystem::permissions(path, mode, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot make ", path, ": ", error.message()));
}

absl::Status WritePlan(const SetupRequest& request) {
  return WriteTextFile(absl::StrCat(request.directory, "/", kPlanName), SetupPlanText(request.plan),
                       0600);
}

absl::Status WriteFiles(const SetupRequest& request, const std::vector<PlannedFile>& files) {
  for (const PlannedFile& planned : files) {
    if (planned.state == State::kUnchanged) continue;
    const std::string path = absl::StrCat(request.directory, "/", planned.file.path);
    absl::Status status = WriteTextFile(path, planned.file.text, planned.file.secret ? 0600 : 0644);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

bool SetupOutcome::Touches(const std::string& host) const {
  return std::any_of(files.begin(), files.end(), [&](const File& file) {
    return file.state != State::kUnchanged && file.path.starts_with(HostDirectory(host) + "/");
  });
}

absl::StatusOr<std::optional<SetupPlan>> ReadSetupPlan(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kPlanName);
  const auto text = ReadTextFile(path);
  if (text.ok()) {
    auto plan = ParseSetupPlan(*text, path);
    if (!plan.ok()) return plan.status();
    return *std::move(plan);
  }
  if (!absl::IsNotFound(text.status())) return text.status();
  std::error_code error;
  if (std::filesystem::exists(directory, error) && !std::filesystem::is_empty(directory, error)) {
    return absl::FailedPreconditionError(absl::StrCat(directory, " holds something, and no ",
                                                      kPlanName, ": it is no set; name an ",
                                                      "empty directory, or one that is not there"));
  }
  return std::optional<SetupPlan>();
}

absl::StatusOr<SetupOutcome> WriteSetup(const SetupRequest& request) {
  auto files = PlanFiles(request);
  if (!files.ok()) return files.status();
  if (absl::Status s = CheckVolume(*files); !s.ok()) return s;
  auto certificates = PlanCertificates(request);
  if (!certificates.ok()) return certificates.status();

  using std::filesystem::perms;
  if (absl::Status s = MakeDirectory(request.directory, perms::owner_all); !s.ok()) return s;
  constexpr perms kOpen = perms::owner_all | perms::group_read | perms::group_exec |
                          perms::others_read | perms::others_exec;
  for (const SetupHost& host : HostsOf(request.plan)) {
    const std::string directory = absl::StrCat(request.directory, "/", HostDirectory(host.name));
    for (const std::string& path : {directory, directory + "/tls"}) {
      if (absl::Status s = MakeDirectory(path, kOpen); !s.ok()) return s;
    }
  }
  // A run that is interrupted can be repeated: a new set knows its plan from the first moment on,
  // and one that grows keeps the plan that its files are of until all of them are of the new one.
  const bool fresh = request.stored.volume.empty();
  if (fresh) {
    if (absl::Status s = WritePlan(request); !s.ok()) return s;
  }
  if (absl::Status s = WriteFiles(request, *files); !s.ok()) return s;
  SetupOutcome outcome;
  for (const PlannedFile& planned : *files) {
    outcome.files.push_back({planned.file.path, planned.state});
  }
  if (absl::Status s = IssueCertificates(request, *certificates, outcome); !s.ok()) return s;
  if (!fresh) {
    if (absl::Status s = WritePlan(request); !s.ok()) return s;
  }
  return outcome;
}

}  // namespace reel::tools
