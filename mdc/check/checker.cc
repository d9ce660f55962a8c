#include "mdc/check/checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "mdc/check/checker_facts.h"
#include "mdc/space/open_space.h"
#include "proto/mdc.pb.h"

namespace reel::mdc {
namespace checker {

std::string EntryText(std::uint64_t directory, std::string_view name) {
  return absl::StrCat("directory ", directory, ", entry \"",
                      absl::CHexEscape(absl::string_view(name.data(), name.size())), "\"");
}

void Report::Add(std::string_view code, std::string where, std::string what) {
  if (!pace_.stopped().ok()) return;
  ++totals_.problems;
  if (sink_.on_problem) sink_.on_problem({std::string(code), std::move(where), std::move(what)});
}

// A LUN that does not answer just now is no damage, and fsck.reelfs would not mend it.
void Report::AddUnreadable(std::string where, const absl::Status& why) {
  if (pace_.bounded() && !absl::IsDataLoss(why)) return pace_.Stop(why);
  Add("unreadable", std::move(where), absl::StrCat("reading stopped early: ", why.message()));
}

void Report::AddAll(std::vector<Problem> problems, const CheckTotals& totals) {
  if (sink_.on_problem) {
    for (const Problem& problem : problems) sink_.on_problem(problem);
  }
  totals_.Add(totals);
}

void Pace::Look() {
  const std::uint64_t passed = std::exchange(passed_, 0);
  if (!stopped_.ok()) return;
  if (bounds_->most_bytes != 0 && kept_bytes_ > bounds_->most_bytes) {
    stopped_ = absl::ResourceExhaustedError(absl::StrCat(
        "the check has to keep more than the ", bounds_->most_bytes / kMiB, " MiB that it may"));
  } else if (bounds_->go_on && !bounds_->go_on(passed)) {
    stopped_ = absl::CancelledError("the check was stopped");
  }
}

// A key that is shorter than that of an inode lies in the first range that ends behind it.
std::string FirstKeyOf(schema::Family family, std::uint64_t inode) {
  std::string key = schema::Prefix(family);
  if (inode == 0) return key;
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(inode >> shift));
  return key;
}

FamilyCursor::FamilyCursor(const Snapshot& view, schema::Family family, const InodeRange& range,
                           Report& report)
    : report_(report), family_(schema::Prefix(family)) {
  cursor_ = view.ScanRange(FirstKeyOf(family, range.from),
                           range.to ? FirstKeyOf(family, *range.to) : EndOfPrefix(family_));
  SkipUnreadable();
}

void FamilyCursor::Next() {
  report_.pace().Passed();
  cursor_->Next();
  SkipUnreadable();
}

void FamilyCursor::SkipUnreadable() {
  for (; report_.pace().stopped().ok() && cursor_->Valid(); cursor_->Next()) {
    auto key = schema::Parse(cursor_->key());
    if (key.ok()) {
      key_ = *key;
      valid_ = true;
      return;
    }
    report_.Add("key-unknown", absl::StrCat("family ", family_),
                std::string(key.status().message()));
  }
  valid_ = false;
  if (!cursor_->status().ok()) {
    report_.AddUnreadable(absl::StrCat("family ", family_), cursor_->status());
  }
}

InodeRange State::RangeOf(std::size_t part) const {
  if (part + 1 == parts.size()) return {parts[part], std::nullopt};
  return {parts[part], parts[part + 1]};
}

std::size_t State::PartOf(std::uint64_t inode) const {
  const auto next = std::upper_bound(parts.begin(), parts.end(), inode);
  return static_cast<std::size_t>(next - parts.begin()) - 1;
}

DirectoryFact* State::FindDirectory(std::uint64_t inode) {
  const auto found =
      std::lower_bound(directories.begin(), directories.end(), inode,
                       [](const DirectoryFact& fact, std::uint64_t n) { return fact.inode < n; });
  return found != directories.end() && found->inode == inode ? &*found : nullptr;
}

std::string State::NameOf(const NameFact& name) const {
  std::string value;
  v1::DirentRecord record;
  const auto found =
      input.view.Get(schema::CookieKey(InodeNumber(name.directory), name.cookie), &value);
  if (found.ok() && *found == Found::kYes && record.ParseFromString(value)) return record.name();
  return absl::StrCat("(cookie ", name.cookie, ")");
}

namespace {

void CheckVolumeRecord(State& state) {
  FamilyCursor cursor(state.input.view, schema::Family::kVolume, state.report);
  if (!cursor.valid()) {
    state.report.Add("volume-record", "volume record", "it is missing");
    return;
  }
  v1::VolumeRecord record;
  if (!cursor.Decode(record, [] { return "volume record"; })) return;
  if (!schema::IsKnownFormat(record.format())) {
    state.report.Add("volume-record", "volume record",
                     absl::StrCat("it has format ", record.format(), "; this program knows ",
                                  schema::kFormat, " to ", schema::kLastFormat));
  }
  if (record.volume() != state.input.descriptor.volume.ToBytes()) {
    const auto uuid = Uuid::FromBytes(record.volume());
    state.report.Add(
        "volume-record", "volume record",
        absl::StrCat("it belongs to volume ", uuid.ok() ? uuid->ToString() : "of no valid UUID",
                     ", not to ", state.input.descriptor.volume.ToString()));
  }
  state.totals().stopped_in_order = record.clean();
  state.volume = std::move(record);
}

// Families that are reserved or unknown have no records.
void CheckOtherFamilies(State& state) {
  constexpr std::string_view kKnown = "VIDCEXFWOSRJQB";
  for (int byte = 0; byte < 256; ++byte) {
    const std::string prefix(1, static_cast<char>(byte));
    if (kKnown.find(prefix) != std::string_view::npos) continue;
    const auto cursor = state.input.view.Scan(prefix);
    if (cursor->Valid()) {
      state.report.Add("key-unknown", absl::StrCat("family 0x", absl::BytesToHexString(prefix)),
                       "it holds records, which this version does not know");
    }
  }
}

void CheckSession(State& state, const FamilyCursor& cursor) {
  const std::string where = absl::StrCat("session ", cursor.key().first);
  ++state.totals().sessions;
  v1::SessionRecord record;
  if (!cursor.Decode(record, [&] { return where; })) return;
  if (!Uuid::FromBytes(record.client()).ok()) {
    state.report.Add("session", where, "its client has no valid UUID");
  }
  if (state.volume.has_value() && cursor.key().first >= state.volume->next_session()) {
    state.report.Add("session", where,
                     absl::StrCat("its number was never given out (the next is ",
                                  state.volume->next_session(), ")"));
  }
}

void CheckStoredReply(State& state, const FamilyCursor& cursor, bool session_exists) {
  const std::string where =
      absl::StrCat("session ", cursor.key().first, ", slot ", cursor.key().second);
  if (!session_exists) state.report.Add("reply", where, "a stored reply of no session");
  v1::StoredReply record;
  if (!cursor.Decode(record, [&] { return where; })) return;
  v1::Reply reply;
  if (cursor.key().second == 0 || record.sequence() == 0 ||
      !reply.ParseFromString(record.reply())) {
    state.report.Add("reply", where, "the stored reply is not one");
  }
}

}  // namespace

void CheckSessions(State& state) {
  FamilyCursor sessions(state.input.view, schema::Family::kSession, state.report);
  FamilyCursor replies(state.input.view, schema::Family::kReply, state.report);
  while (sessions.valid() || replies.valid()) {
    if (sessions.valid() && (!replies.valid() || sessions.key().first <= replies.key().first)) {
      CheckSession(state, sessions);
      const std::uint64_t session = sessions.key().first;
      for (; replies.valid() && replies.key().first == session; replies.Next()) {
        CheckStoredReply(state, replies, true);
      }
      sessions.Next();
    } else {
      CheckStoredReply(state, replies, false);
      replies.Next();
    }
  }
  if (state.totals().stopped_in_order && state.totals().sessions > 0) {
    state.report.Add(
        "volume-record", "volume record",
        absl::StrCat("it says that no session is left, but there are ", state.totals().sessions));
  }
}

void CheckJobs(State& state) {
  FamilyCursor jobs(state.input.view, schema::Family::kJob, state.report);
  for (; jobs.valid(); jobs.Next()) {
    v1::JobRecord record;
    jobs.Decode(record, [&] { return absl::StrCat("job ", jobs.key().first); });
  }
}

void CheckBandwidth(State& state) {
  FamilyCursor cursor(state.input.view, schema::Family::kBandwidth, state.report);
  for (; cursor.valid(); cursor.Next()) {
    const std::uint64_t number = cursor.key().second;
    v1::CapacityRecord capacity;
    v1::ReservationRecord reservation;
    if (cursor.key().first == static_cast<std::uint64_t>(schema::BandwidthKind::kCapacity)) {
      cursor.Decode(capacity, [&] {
        return absl::StrCat("capacity of stripe set ", number & 0xffffffff, " of pool ",
                            number >> 32);
      });
    } else {
      cursor.Decode(reservation, [&] { return absl::StrCat("reservation ", number); });
    }
  }
}

}  // namespace checker

namespace {

// The volume as it is open, by the record that the view has.
VolumeDescriptor OpenPartOf(const SnapshotInput& whole) {
  std::string bytes;
  v1::VolumeRecord volume;
  const auto found = whole.view.Get(schema::VolumeKey(), &bytes);
  const bool known = found.ok() && *found == Found::kYes && volume.ParseFromString(bytes);
  return OpenPart(whole.descriptor, known ? volume : v1::VolumeRecord());
}

CheckTotals CheckAll(const SnapshotInput& whole, const CheckSink& sink, const CheckEffort& effort,
                     checker::Pace& pace) {
  const VolumeDescriptor open = OpenPartOf(whole);
  const SnapshotInput input{whole.view, open, whole.regions};
  CheckTotals totals;
  checker::State state{
      .input = input, .effort = effort, .pace = pace, .report = {sink, totals, pace}};
  state.parts = checker::PartsOf(input.view, effort);
  state.report.Phase("inodes and extents");
  checker::CheckVolumeRecord(state);
  checker::CheckOtherFamilies(state);
  checker::LoadQuotaState(state);
  checker::CheckInodes(state);
  pace.LookAgain();
  state.report.Phase("names and links");
  checker::CheckNames(state);
  state.report.Phase("space");
  checker::CheckSpace(state);
  state.report.Phase("sessions");
  checker::CheckSessions(state);
  checker::CheckQuotas(state);
  checker::CheckJobs(state);
  checker::CheckBandwidth(state);
  pace.LookAgain();
  return totals;
}

}  // namespace

absl::StatusOr<CheckTotals> CheckSnapshot(const SnapshotInput& input, const CheckSink& sink,
                                          const CheckBounds& bounds) {
  checker::Pace pace(&bounds);
  CheckEffort effort;
  if (bounds.most_bytes != 0) {
    effort.round_bytes = std::min(effort.round_bytes, bounds.most_bytes / 2);
  }
  CheckTotals totals = CheckAll(input, sink, effort, pace);
  if (!pace.stopped().ok()) return pace.stopped();
  return totals;
}

CheckTotals CheckVolume(const CheckInput& input, const CheckSink& sink, const CheckEffort& effort) {
  const std::unique_ptr<Snapshot> view = input.db.TakeSnapshot();
  checker::Pace pace(nullptr);
  return CheckAll({*view, input.descriptor, input.regions}, sink, effort, pace);
}

void CheckTotals::Add(const CheckTotals& part) {
  problems += part.problems;
  inodes += part.inodes;
  files += part.files;
  directories += part.directories;
  entries += part.entries;
  extents += part.extents;
  pieces += part.pieces;
  for (std::size_t i = 0; i < kPieceClasses; ++i) files_by_pieces[i] += part.files_by_pieces[i];
  orphans += part.orphans;
  file_blocks += part.file_blocks;
}

}  // namespace reel::mdc
