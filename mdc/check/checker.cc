#include "mdc/check/checker.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "mdc/check/checker_facts.h"
#include "proto/mdc.pb.h"

namespace reel::mdc {
namespace checker {

std::string EntryText(std::uint64_t directory, std::string_view name) {
  return absl::StrCat("directory ", directory, ", entry \"",
                      absl::CHexEscape(absl::string_view(name.data(), name.size())), "\"");
}

FamilyCursor::FamilyCursor(const MetaDb& db, schema::Family family, Report& report)
    : report_(report),
      family_(schema::Prefix(family)),
      cursor_(db.Scan(family_, family_, Tier::kAll)) {
  SkipUnreadable();
}

void FamilyCursor::Next() {
  cursor_->Next();
  SkipUnreadable();
}

void FamilyCursor::SkipUnreadable() {
  for (; cursor_->Valid(); cursor_->Next()) {
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
    report_.Add("unreadable", absl::StrCat("family ", family_),
                absl::StrCat("reading stopped early: ", cursor_->status().message()));
  }
}

InodeFact* State::Find(std::uint64_t inode) {
  const auto found =
      std::lower_bound(inodes.begin(), inodes.end(), inode,
                       [](const InodeFact& fact, std::uint64_t n) { return fact.inode < n; });
  return found != inodes.end() && found->inode == inode ? &*found : nullptr;
}

std::string State::NameOf(const NameFact& name) const {
  std::string value;
  v1::DirentRecord record;
  const auto found =
      input.db.Get(schema::CookieKey(InodeNumber(name.directory), name.cookie), &value, Tier::kAll);
  if (found.ok() && *found == Found::kYes && record.ParseFromString(value)) return record.name();
  return absl::StrCat("(cookie ", name.cookie, ")");
}

namespace {

void CheckVolumeRecord(State& state) {
  FamilyCursor cursor(state.input.db, schema::Family::kVolume, state.report);
  if (!cursor.valid()) {
    state.report.Add("volume-record", "volume record", "it is missing");
    return;
  }
  v1::VolumeRecord record;
  if (!cursor.Decode(record, "volume record")) return;
  if (!schema::IsKnownFormat(record.format())) {
    state.report.Add("volume-record", "volume record",
                     absl::StrCat("it has format ", record.format(), "; this program knows ",
                                  schema::kFormat, " to ", schema::kDumpedFormat));
  }
  if (record.volume() != state.input.descriptor.volume.ToBytes()) {
    const auto uuid = Uuid::FromBytes(record.volume());
    state.report.Add(
        "volume-record", "volume record",
        absl::StrCat("it belongs to volume ", uuid.ok() ? uuid->ToString() : "of no valid UUID",
                     ", not to ", state.input.descriptor.volume.ToString()));
  }
  state.totals.stopped_in_order = record.clean();
  state.volume = std::move(record);
}

// Families that are reserved or unknown have no records.
void CheckOtherFamilies(State& state) {
  constexpr std::string_view kKnown = "VIDCEXFWOSR";
  for (int byte = 0; byte < 256; ++byte) {
    const std::string prefix(1, static_cast<char>(byte));
    if (kKnown.find(prefix) != std::string_view::npos) continue;
    const auto cursor = state.input.db.Scan(prefix, prefix, Tier::kAll);
    if (cursor->Valid()) {
      state.report.Add("key-unknown", absl::StrCat("family 0x", absl::BytesToHexString(prefix)),
                       "it holds records, which this version does not know");
    }
  }
}

void CheckSession(State& state, const FamilyCursor& cursor) {
  const std::string where = absl::StrCat("session ", cursor.key().first);
  ++state.totals.sessions;
  v1::SessionRecord record;
  if (!cursor.Decode(record, where)) return;
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
  if (!cursor.Decode(record, where)) return;
  v1::Reply reply;
  if (cursor.key().second == 0 || record.sequence() == 0 ||
      !reply.ParseFromString(record.reply())) {
    state.report.Add("reply", where, "the stored reply is not one");
  }
}

}  // namespace

void CheckSessions(State& state) {
  FamilyCursor sessions(state.input.db, schema::Family::kSession, state.report);
  FamilyCursor replies(state.input.db, schema::Family::kReply, state.report);
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
  if (state.totals.stopped_in_order && state.totals.sessions > 0) {
    state.report.Add(
        "volume-record", "volume record",
        absl::StrCat("it says that no session is left, but there are ", state.totals.sessions));
  }
}

}  // namespace checker

CheckTotals CheckVolume(const CheckInput& input, const CheckSink& sink) {
  CheckTotals totals;
  checker::State state{.input = input, .report = {sink, totals}, .totals = totals};
  state.owned.resize(input.descriptor.pools.size());
  state.report.Phase("inodes and extents");
  checker::CheckVolumeRecord(state);
  checker::CheckOtherFamilies(state);
  checker::CheckInodes(state);
  state.report.Phase("names and links");
  checker::CheckNames(state);
  state.report.Phase("space");
  checker::CheckSpace(state);
  state.report.Phase("sessions");
  checker::CheckSessions(state);
  return totals;
}

}  // namespace reel::mdc
