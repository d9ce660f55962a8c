#include "mdc/check/checker_entries.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/convert.h"
#include "proto/folded_name.h"

namespace reel::mdc::checker {
namespace {

constexpr std::uint64_t kFirstCookie = 3;
constexpr std::uint64_t kEntryBytes = 32;

std::string CookieText(std::uint64_t directory, std::uint64_t cookie) {
  return absl::StrCat("directory ", directory, ", cookie ", cookie);
}

// What an entry by name is called: the key's name, or where that stands for another one, that.
std::string_view NameOf(const FamilyCursor& cursor, const v1::DirentRecord& record) {
  return record.name().empty() ? cursor.key().name : std::string_view(record.name());
}

bool Parses(const FamilyCursor& cursor, v1::DirentRecord& record) {
  const std::string_view value = cursor.value();
  return record.ParseFromArray(value.data(), static_cast<int>(value.size()));
}

}  // namespace

EntryPass::EntryPass(const State& state, const InodeRange& range, Report& report, FactSink& facts)
    : state_(state),
      report_(report),
      facts_(facts),
      by_name_(state.input.view, schema::Family::kDirent, range, report),
      by_cookie_(state.input.view, schema::Family::kCookie, range, report) {}

void EntryPass::Check(std::uint64_t inode, const v1::InodeRecord* record, InodeFact& fact) {
  const Index by_name = TakeByName(inode, record, fact);
  const Index by_cookie = TakeByCookie(inode);
  Sum difference = by_name.sum;
  difference.Add(by_cookie.sum);
  if (!difference.IsZero() || by_cookie.entries != by_cookie.records) Compare(inode);
  if (record == nullptr) return;
  if (fact.type != S_IFDIR) {
    if (by_name.entries > 0 || by_cookie.records > 0) {
      report_.Add("not-a-directory", InodeText(inode), "it has entries but is no directory");
    }
    return;
  }
  const auto where = [&] { return absl::StrCat("directory ", inode); };
  if (record->entries() != by_name.entries ||
      record->size_bytes() != record->entries() * kEntryBytes) {
    report_.Add("entry-count", where(),
                absl::StrCat("it counts ", record->entries(), " entries in ", record->size_bytes(),
                             " bytes, but has ", by_name.entries));
  }
  if (record->nlink() == 0 && by_name.entries > 0) {
    report_.Add("orphan", where(), "it is removed, but has entries");
  }
  if (record->next_cookie() < kFirstCookie || record->next_cookie() >> 63 != 0 ||
      (by_name.entries > 0 && by_name.last_cookie >= record->next_cookie())) {
    report_.Add("cookie", where(),
                absl::StrCat("its next cookie ", record->next_cookie(),
                             " is in use already or out of range"));
  }
}

EntryPass::Index EntryPass::TakeByName(std::uint64_t inode, const v1::InodeRecord* directory,
                                       InodeFact& fact) {
  Index index;
  for (; by_name_.valid() && by_name_.key().first == inode; by_name_.Next()) {
    ++index.records;
    ++report_.totals().entries;
    if (!by_name_.Decode(record_, [&] { return EntryText(inode, by_name_.key().name); })) continue;
    const std::string_view name = NameOf(by_name_, record_);
    CheckEntry(inode, directory, name);
    ++index.entries;
    index.last_cookie = std::max(index.last_cookie, record_.cookie());
    index.sum.Add(EntryHash(record_.cookie(), record_.inode(), record_.type(), name));
    if (record_.type() == S_IFDIR) ++fact.subdirectories;
    facts_.TakeName({record_.inode(), inode, record_.cookie(), record_.type()});
  }
  return index;
}

void EntryPass::CheckEntry(std::uint64_t directory, const v1::InodeRecord* record,
                           std::string_view name) {
  const auto where = [&] { return EntryText(directory, by_name_.key().name); };
  if (!ValidateName(name).ok() || name == "." || name == "..") {
    report_.Add("entry-name", where(), "the name is not possible");
  }
  if (record != nullptr && NameKey(record->flags(), name).view() != by_name_.key().name) {
    report_.Add("entry-name", where(), "its record has another name");
  }
  if (record_.cookie() < kFirstCookie || record_.cookie() >> 63 != 0) {
    report_.Add("cookie", where(),
                absl::StrCat("its cookie ", record_.cookie(), " is out of range"));
  }
}

// (Of the index by name subtracted.)
EntryPass::Index EntryPass::TakeByCookie(std::uint64_t inode) {
  Index index;
  for (; by_cookie_.valid() && by_cookie_.key().first == inode; by_cookie_.Next()) {
    ++index.records;
    if (!Parses(by_cookie_, record_)) continue;
    ++index.entries;
    index.sum.Subtract(
        EntryHash(by_cookie_.key().second, record_.inode(), record_.type(), record_.name()));
  }
  return index;
}

std::vector<EntryPass::Entry> EntryPass::ReadByName(const InodeRange& one, std::uint64_t inode,
                                                    Report& muted) {
  std::vector<Entry> entries;
  FamilyCursor cursor(state_.input.view, schema::Family::kDirent, one, muted);
  for (; cursor.valid() && cursor.key().first == inode; cursor.Next()) {
    if (!Parses(cursor, record_)) continue;
    entries.push_back(
        {record_.cookie(), record_.inode(), record_.type(),
         EntryHash(record_.cookie(), record_.inode(), record_.type(), NameOf(cursor, record_))});
    report_.pace().Keeps(sizeof(Entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.cookie < b.cookie; });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].cookie != entries[i - 1].cookie) continue;
    report_.Add("cookie", absl::StrCat("directory ", inode),
                absl::StrCat("two entries have the cookie ", entries[i].cookie));
  }
  return entries;
}

void EntryPass::Compare(std::uint64_t inode) {
  const CheckSink nobody{};
  CheckTotals totals;
  Report muted(nobody, totals, report_.pace());
  InodeRange one{inode, std::nullopt};
  if (inode + 1 != 0) one.to = inode + 1;
  const std::vector<Entry> entries = ReadByName(one, inode, muted);
  auto entry = entries.begin();
  const auto missing = [&] {
    report_.Add("cookie-index", CookieText(inode, entry->cookie),
                absl::StrCat("the entry for inode ", entry->inode, " is missing by cookie"));
    ++entry;
  };
  FamilyCursor cursor(state_.input.view, schema::Family::kCookie, one, muted);
  for (; cursor.valid() && cursor.key().first == inode; cursor.Next()) {
    const std::uint64_t cookie = cursor.key().second;
    while (entry != entries.end() && entry->cookie < cookie) missing();
    const bool decoded = Parses(cursor, record_);
    if (!decoded) {
      report_.Add("record-damaged", CookieText(inode, cookie), "the record does not decode");
    }
    if (entry == entries.end() || entry->cookie != cookie) {
      report_.Add("cookie-index", CookieText(inode, cookie),
                  absl::StrCat("the entry for inode ", record_.inode(), " is missing by name"));
      continue;
    }
    if (decoded &&
        entry->hash != EntryHash(cookie, record_.inode(), record_.type(), record_.name())) {
      report_.Add("cookie-index", CookieText(inode, cookie),
                  "the entries by name and by cookie differ");
    }
    ++entry;
  }
  while (entry != entries.end()) missing();
  report_.pace().Drops(entries.size() * sizeof(Entry));
}

}  // namespace reel::mdc::checker
