#include "volume/iscsi/iscsi_path.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "spdlog/spdlog.h"
#include "volume/base/env.h"
#include "volume/iscsi/iscsi_portals.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/lun_times.h"

namespace reel {
namespace {

constexpr int kMaxQuestions = 8;

// A command that asks for up to `buffer`; again, where another host's reset of the LUN ended it.
ScsiOutcome Question(IscsiConnection& connection, const scsi::Cdb& cdb, std::span<std::byte> buffer,
                     std::chrono::milliseconds patience) {
  ScsiOutcome outcome;
  outcome.kind = ScsiOutcome::Kind::kAborted;
  for (int i = 0; i < kMaxQuestions && outcome.kind == ScsiOutcome::Kind::kAborted; ++i) {
    IscsiCommand command;
    command.cdb = cdb;
    command.patience = patience;
    if (!buffer.empty()) {
      command.data = IscsiCommand::Data::kIn;
      command.length_bytes = static_cast<std::uint32_t>(buffer.size());
      command.memory.push_back({buffer.data(), buffer.size()});
    }
    outcome = connection.Execute(std::move(command));
  }
  return outcome;
}

bool IsSameLun(const IscsiFacts& now, const IscsiFacts& before) {
  return now.identity == before.identity && now.size_bytes >= before.size_bytes &&
         now.logical_block_bytes == before.logical_block_bytes;
}

absl::StatusOr<IscsiPath> OpenBy(const IscsiUrl& url, std::size_t portal,
                                 const IscsiFacts* before) {
  auto connection = IscsiConnection::Open(url, url.portals[portal]);
  if (!connection.ok()) return connection.status();
  // Where there is another portal, that one may be the way to the LUN's present controller.
  const auto patience = std::chrono::milliseconds(
      url.portals.size() > 1
          ? std::min<std::uint64_t>(url.timeout_ms, PortalLoginMs(url.portals.size()))
          : url.timeout_ms);
  absl::StatusOr<IscsiFacts> facts =
      AskForFacts(url.lun, [&](const scsi::Cdb& cdb, std::span<std::byte> buffer) {
        return Question(**connection, cdb, buffer, patience);
      });
  if (!facts.ok()) {
    return WithText(facts.status(), absl::StrCat(url.shown, ": ", facts.status().message()));
  }
  if (before != nullptr && !IsSameLun(*facts, *before)) {
    return absl::FailedPreconditionError(
        absl::StrCat(url.shown,
                     ": another LUN answers there now than before the path was lost; "
                     "check the target"));
  }
  return IscsiPath{
      .connection = *std::move(connection), .facts = *std::move(facts), .portal = portal};
}

// Without the URL, which stands once before what several portals say.
std::string WordsOf(const IscsiUrl& url, const absl::Status& status) {
  absl::string_view why = status.message();
  absl::ConsumePrefix(&why, absl::StrCat(url.shown, ": "));
  return std::string(why);
}

// One for all LUNs: they mostly share their portals, and are opened by nothing but their names.
PortalMemory& Memory() {
  static PortalMemory& memory = *new PortalMemory;
  return memory;
}

absl::StatusOr<IscsiPath> OpenByOne(const IscsiUrl& url, const IscsiFacts* before) {
  if (url.portals.size() == 1) return OpenBy(url, 0, before);
  std::vector<std::string> words;
  absl::Status failure;
  for (const std::size_t place : Memory().Order(url.portals, SystemClock().NowMs())) {
    const std::string& portal = url.portals[place];
    auto path = OpenBy(url, place, before);
    if (path.ok()) {
      if (Memory().NoteAnswered(portal)) spdlog::info("portal {}: answers again", portal);
      return path;
    }
    words.push_back(absl::StrCat("by portal ", portal, ": ", WordsOf(url, path.status())));
    // A portal that answers, and says no, is no worse for other LUNs.
    const bool absent = absl::IsUnavailable(path.status());
    if (!absent || Memory().NoteFailed(portal, SystemClock().NowMs())) {
      spdlog::warn("{}: {}", url.shown, words.back());
    }
    if (failure.ok() || absl::IsUnavailable(failure)) failure = path.status();
  }
  return WithText(failure, absl::StrCat(url.shown, ": ", absl::StrJoin(words, "; ")));
}

}  // namespace

absl::StatusOr<IscsiPath> OpenIscsiPath(const IscsiUrl& url) {
  return OpenByOne(url, nullptr);
}

absl::StatusOr<IscsiPath> ReopenIscsiPath(const IscsiUrl& url, std::size_t lost,
                                          const IscsiFacts& before) {
  Memory().NoteFailed(url.portals[lost], SystemClock().NowMs());
  auto path = OpenByOne(url, &before);
  if (path.ok() && url.portals.size() > 1) {
    spdlog::info("{}: goes on by portal {}", url.shown, url.portals[path->portal]);
  }
  return path;
}

std::vector<PortalLook> LookAtPortals(const IscsiUrl& url) {
  std::vector<PortalLook> looks;
  std::optional<IscsiFacts> lun;
  for (std::size_t portal = 0; portal < url.portals.size(); ++portal) {
    auto path = OpenBy(url, portal, lun.has_value() ? &*lun : nullptr);
    looks.push_back({.portal = url.portals[portal],
                     .status = WithText(path.status(), WordsOf(url, path.status()))});
    if (path.ok() && !lun.has_value()) lun = std::move(path->facts);
  }
  return looks;
}

}  // namespace reel
