// The repairer's pass over directories: the entries by name and by cookie become the same.
#include <algorithm>
#include <optional>
#include <set>

#include "mdc/repair/repairer_facts.h"
#include "proto/convert.h"
#include "proto/folded_name.h"

namespace reel::mdc::repairer {
namespace {

constexpr std::uint64_t kEndOfCookies = std::uint64_t{1} << 63;

bool CookieIsSound(std::uint64_t cookie) {
  return cookie >= kFirstCookie && cookie < kEndOfCookies;
}
bool NameIsSound(std::string_view name) {
  return ValidateName(name).ok() && name != "." && name != "..";
}

struct Entry {
  std::string key_name;     // as in the key
  v1::DirentRecord record;  // as by name
  bool decoded = false;
  bool changed = false;  // is not what is stored by name
  bool dropped = false;
  std::string_view name() const { return record.name().empty() ? key_name : record.name(); }
};
struct Cookie {
  std::uint64_t cookie = 0;
  v1::DirentRecord record;
  bool decoded = false;
};

class DirectoryMender {
 public:
  DirectoryMender(State& state, std::uint64_t directory)
      : state_(state), directory_(directory), flags_(state.FlagsOf(directory)) {}

  void TakeEntries(FamilyScan& scan) {
    for (; scan.valid() && scan.key().first == directory_; scan.Next()) {
      Entry& entry = entries_.emplace_back();
      entry.key_name = scan.key().name;
      entry.decoded = scan.Decode(entry.record) && entry.record.inode() != 0;
    }
  }
  void TakeCookies(FamilyScan& scan) {
    for (; scan.valid() && scan.key().first == directory_; scan.Next()) {
      Cookie& cookie = cookies_.emplace_back();
      cookie.cookie = scan.key().second;
      cookie.decoded = scan.Decode(cookie.record) && cookie.record.inode() != 0;
    }
  }
  void Mend() {
    if (IsSound()) return;
    DropBadNames();
    ResolveContradictions();
    RestoreFromCookies();
    GiveCookies();
    WriteEntries();
    WriteCookies();
  }

 private:
  std::string Where(const Entry& entry) const { return EntryText(directory_, entry.name()); }

  bool IsSound() {
    if (entries_.size() != cookies_.size()) return false;
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.record.cookie() < b.record.cookie(); });
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      const Cookie& cookie = cookies_[i];
      if (!entry.decoded || !cookie.decoded || entry.record.cookie() != cookie.cookie ||
          !CookieIsSound(cookie.cookie) || NamesDiffer(entry) || !NameIsSound(entry.name()) ||
          !Agree(entry, cookie)) {
        return false;
      }
    }
    return true;
  }
  bool NamesDiffer(const Entry& entry) const {
    return NameKey(flags_, entry.name()).view() != entry.key_name;
  }
  std::string KeyNameOf(const Cookie& cookie) const {
    return std::string(NameKey(flags_, cookie.record.name()).view());
  }
  static bool Agree(const Entry& entry, const Cookie& cookie) {
    return entry.record.inode() == cookie.record.inode() &&
           entry.record.type() == cookie.record.type() && entry.name() == cookie.record.name();
  }

  void DropBadNames() {
    for (Entry& entry : entries_) {
      if (NamesDiffer(entry) && !entry.record.name().empty()) {
        state_.Did("entry-name", EntryText(directory_, entry.key_name),
                   "its record's other name was dropped");
        entry.record.clear_name();
        entry.changed = true;
      }
      if (NamesDiffer(entry)) {  // nobody would find it; by cookie it has its name
        state_.Did("entry-name", Where(entry), "dropped: a name of a directory that folds none");
        entry.dropped = true;
        continue;
      }
      if (NameIsSound(entry.name())) continue;
      state_.Did("entry-name", Where(entry), "dropped: the name is not possible");
      entry.dropped = true;
    }
  }

  // A record by name that does not decode, or leads nowhere, where the one by cookie leads
  // somewhere.
  void ResolveContradictions() {
    std::map<std::string, const Cookie*, std::less<>> by_name;  // as in a key
    for (const Cookie& cookie : cookies_) {
      if (cookie.decoded) by_name[KeyNameOf(cookie)] = &cookie;
    }
    for (Entry& entry : entries_) {
      if (entry.dropped) continue;
      const auto found = by_name.find(entry.key_name);
      const Cookie* twin = found == by_name.end() ? nullptr : found->second;
      if (entry.decoded && (twin == nullptr || twin->record.inode() == entry.record.inode() ||
                            Exists(entry.record.inode()) || !Exists(twin->record.inode()))) {
        continue;
      }
      if (twin == nullptr) {
        state_.Did("record-damaged", Where(entry),
                   "dropped: its record does not decode, and no other says what it names");
        entry.dropped = true;
        continue;
      }
      state_.Did(
          entry.decoded ? "dangling-entry" : "record-damaged", Where(entry),
          absl::StrCat("names inode ", twin->record.inode(), ", as the entry by cookie says"));
      entry.record.set_inode(twin->record.inode());
      entry.record.set_type(twin->record.type());
      entry.record.set_cookie(twin->cookie);
      SetName(entry, twin->record.name());
      entry.decoded = entry.changed = true;
    }
  }
  static void SetName(Entry& entry, const std::string& name) {
    entry.record.clear_name();
    if (name != entry.key_name) entry.record.set_name(name);
  }
  bool Exists(std::uint64_t inode) {
    std::string value;
    const auto found = state_.db().Get(schema::InodeKey(InodeNumber(inode)), &value, Tier::kAll);
    if (!found.ok()) state_.changes.Fail(found.status());
    return found.ok() && *found == Found::kYes;
  }

  // What is there by cookie only, under a cookie and a name that nothing by name has.
  void RestoreFromCookies() {
    std::set<std::uint64_t> cookies;
    std::set<std::string, std::less<>> names;
    for (const Entry& entry : entries_) {
      names.emplace(entry.key_name);
      if (!entry.dropped) cookies.insert(entry.record.cookie());
    }
    for (const Cookie& cookie : cookies_) {
      std::string key_name = KeyNameOf(cookie);
      if (!cookie.decoded || !NameIsSound(cookie.record.name()) ||
          cookies.contains(cookie.cookie) || names.contains(key_name)) {
        continue;
      }
      Entry& entry = entries_.emplace_back();
      entry.key_name = std::move(key_name);
      SetName(entry, cookie.record.name());
      entry.record.set_inode(cookie.record.inode());
      entry.record.set_type(cookie.record.type());
      entry.record.set_cookie(cookie.cookie);
      entry.decoded = entry.changed = true;
      names.emplace(entry.key_name);
      state_.Did("cookie-index", Where(entry), "restored by name from the entry by cookie");
    }
  }

  void GiveCookies() {
    std::uint64_t next = kFirstCookie;
    v1::InodeRecord record;
    if (state_.Get(schema::InodeKey(InodeNumber(directory_)), record) &&
        CookieIsSound(record.next_cookie())) {
      next = record.next_cookie();
    }
    for (const Entry& entry : entries_) {
      if (!entry.dropped && CookieIsSound(entry.record.cookie())) {
        next = std::max(next, entry.record.cookie() + 1);
      }
    }
    std::set<std::uint64_t> taken;
    for (Entry& entry : entries_) {
      if (entry.dropped) continue;
      const std::uint64_t cookie = entry.record.cookie();
      if (CookieIsSound(cookie) && taken.insert(cookie).second) continue;
      state_.Did("cookie", Where(entry), absl::StrCat("given cookie ", next, " for ", cookie));
      entry.record.set_cookie(next);
      entry.changed = true;
      taken.insert(next++);
    }
  }

  void WriteEntries() {
    for (const Entry& entry : entries_) {
      std::string key = schema::DirentKey(InodeNumber(directory_), entry.key_name);
      if (entry.dropped) {
        state_.changes.Delete(std::move(key));
      } else if (entry.changed) {
        state_.changes.Put(std::move(key), entry.record.SerializeAsString());
      }
    }
  }

  void WriteCookies() {
    std::map<std::uint64_t, const Entry*> wanted;
    for (const Entry& entry : entries_) {
      if (!entry.dropped) wanted[entry.record.cookie()] = &entry;
    }
    for (const Cookie& cookie : cookies_) {
      const auto entry = wanted.find(cookie.cookie);
      if (entry == wanted.end()) {
        state_.Did("cookie-index",
                   absl::StrCat("directory ", directory_, ", cookie ", cookie.cookie),
                   "dropped: no entry by name has it");
        state_.changes.Delete(schema::CookieKey(InodeNumber(directory_), cookie.cookie));
        continue;
      }
      if (cookie.decoded && Agree(*entry->second, cookie)) wanted.erase(entry);
    }
    for (const auto& [cookie, entry] : wanted) {
      v1::DirentRecord record;
      record.set_name(std::string(entry->name()));
      record.set_inode(entry->record.inode());
      record.set_type(entry->record.type());
      state_.changes.Put(schema::CookieKey(InodeNumber(directory_), cookie),
                         record.SerializeAsString());
      state_.Did("cookie-index", Where(*entry), "written by cookie as it is by name");
    }
  }

  State& state_;
  const std::uint64_t directory_;
  const std::uint32_t flags_;  // of the directory
  std::vector<Entry> entries_;
  std::vector<Cookie> cookies_;  // in their order
};

}  // namespace

absl::Status MendEntries(State& state) {
  FamilyScan entries(state, schema::Family::kDirent);
  FamilyScan cookies(state, schema::Family::kCookie);
  while (entries.valid() || cookies.valid()) {
    const std::uint64_t directory =
        std::min(entries.valid() ? entries.key().first : ~std::uint64_t{0},
                 cookies.valid() ? cookies.key().first : ~std::uint64_t{0});
    DirectoryMender mender(state, directory);
    mender.TakeEntries(entries);
    mender.TakeCookies(cookies);
    if (!state.changes.status().ok()) break;
    mender.Mend();
  }
  return state.changes.Finish();
}

absl::Status GatherNames(State& state) {
  for (FamilyScan scan(state, schema::Family::kDirent); scan.valid(); scan.Next()) {
    v1::DirentRecord record;
    if (!scan.Decode(record)) continue;
    state.names.push_back({record.inode(), scan.key().first, record.cookie(), record.type()});
  }
  std::sort(state.names.begin(), state.names.end(), [](const NameFact& a, const NameFact& b) {
    return a.child != b.child
               ? a.child < b.child
               : (a.directory != b.directory ? a.directory < b.directory : a.cookie < b.cookie);
  });
  return state.changes.status();
}

}  // namespace reel::mdc::repairer
