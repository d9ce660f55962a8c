#include "mdc/ops/read_dir.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "mdc/metadb/schema.h"
#include "mdc/ops/entries.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/open.h"
#include "mdc/tables/token_table.h"
#include "proto/convert.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kDotCookie = 1;
constexpr std::uint64_t kDotDotCookie = 2;
constexpr std::uint64_t kFirstCookie = 3;
constexpr std::size_t kEntryOverheadBytes = 32;
constexpr std::size_t kMaxLimitBytes = 1 << 20;  // a reply stays well below a frame's 4 MiB
constexpr std::uint32_t kMaxLayouts = 256;
// Of larger files nobody asks for the layout so: it may have very many extents.
constexpr std::uint64_t kMaxListedFileBytes = 1 << 20;

std::size_t LimitBytes(const v1::ReadDir& read) {
  return std::min<std::size_t>(read.limit_bytes(), kMaxLimitBytes);
}

// Appends entries while they fit; the first always does.
class Page {
 public:
  Page(v1::ReadDirReply& reply, const v1::ReadDir& read)
      : reply_(reply),
        limit_bytes_(LimitBytes(read)),
        most_(read.layouts() == 0 ? std::numeric_limits<int>::max()
                                  : static_cast<int>(std::min(read.layouts(), kMaxLayouts))) {}

  v1::ReadDirReply::Entry* Add(std::string_view name, std::uint64_t inode, std::uint32_t type,
                               std::uint64_t cookie) {
    const std::size_t bytes = name.size() + kEntryOverheadBytes;
    if (full_ || reply_.entries_size() >= most_ ||
        (reply_.entries_size() > 0 && used_bytes_ + bytes > limit_bytes_)) {
      full_ = true;
      return nullptr;
    }
    used_bytes_ += bytes;
    v1::ReadDirReply::Entry* entry = reply_.add_entries();
    entry->set_name(name.data(), name.size());
    entry->set_inode(inode);
    entry->set_type(type);
    entry->set_cookie(cookie);
    return entry;
  }
  bool full() const { return full_; }

 private:
  v1::ReadDirReply& reply_;
  const std::size_t limit_bytes_;
  const int most_;  // entries
  std::size_t used_bytes_ = 0;
  bool full_ = false;
};

absl::Status AddEntries(OpContext& ctx, InodeNumber directory, std::uint64_t cookie, Page& page) {
  absl::Status damage;
  const std::uint64_t first = std::max(cookie + 1, kFirstCookie);
  const absl::Status scanned = ctx.txn.Scan(
      schema::CookiePrefix(directory), schema::CookieKey(directory, first),
      [&](std::string_view key, std::string_view value) {
        const absl::StatusOr<schema::ParsedKey> parsed = schema::Parse(key);
        v1::DirentRecord record;
        if (!parsed.ok() || !record.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
            record.name().empty() || record.inode() == 0) {
          damage = DamagedRecord("an entry", directory);
          return false;
        }
        return page.Add(record.name(), record.inode(), record.type(), parsed->second) != nullptr;
      });
  return damage.ok() ? scanned : damage;
}

// The inode's record, if nobody needs to be asked for what is said of it; else null.
absl::StatusOr<const v1::InodeRecord*> Describable(OpContext& ctx, InodeNumber inode) {
  if (!ctx.tokens.OthersAtMost(ctx.caller.session, inode, v1::TOKEN_SHARED)) {
    // A lookup of its own will wait for the writer; of those that are closed, now for all at once.
    if (!ctx.opens.IsOpen(inode)) ctx.effects.soon_wanted.push_back(inode);
    return nullptr;
  }
  const absl::StatusOr<v1::InodeRecord*> record = NamedInode(ctx.txn, inode);
  if (!record.ok()) return record.status();
  return ctx.IsUndelegated(inode, **record) ? *record : nullptr;
}

// Ends behind the entry whose layout is the first that does not fit. What is not in memory keeps it
// from nothing: it runs again, when all that it lacks has been fetched at once.
absl::Status AddAttributes(OpContext& ctx, const v1::ReadDir& read, v1::ReadDirReply& reply) {
  std::size_t layout_bytes = 0;
  for (int i = 0; i < reply.entries_size(); ++i) {
    v1::ReadDirReply::Entry& entry = *reply.mutable_entries(i);
    if (entry.cookie() < kFirstCookie) continue;
    const InodeNumber inode(entry.inode());
    const absl::StatusOr<const v1::InodeRecord*> record = Describable(ctx, inode);
    if (!record.ok()) {
      if (ctx.txn.missed()) continue;
      return record.status();
    }
    if (*record == nullptr) continue;
    ctx.effects.described.push_back(inode);
    FillAttr(inode, **record, ctx.descriptor, *entry.mutable_attr());
    if (read.layouts() == 0 || (*record)->size_bytes() > kMaxListedFileBytes) continue;
    v1::LayoutReply layout;
    const absl::StatusOr<bool> granted =
        GrantAtOnce(ctx, inode, **record, 1, v1::TOKEN_SHARED, layout);
    if (!granted.ok()) {
      if (ctx.txn.missed()) continue;
      return granted.status();
    }
    if (!*granted) continue;
    layout_bytes += layout.ByteSizeLong();
    *entry.mutable_layout() = std::move(layout);
    if (layout_bytes <= LimitBytes(read) || i + 1 == reply.entries_size()) continue;
    reply.mutable_entries()->DeleteSubrange(i + 1, reply.entries_size() - i - 1);
    reply.set_end(false);
  }
  return absl::OkStatus();
}

// The cookie behind which the part begins.
absl::StatusOr<std::uint64_t> Beginning(OpContext& ctx, const v1::ReadDir& read) {
  if (read.behind().empty()) return read.cookie();
  if (absl::Status valid = ValidateName(read.behind()); !valid.ok()) return valid;
  const auto entry = FindEntry(ctx.txn, InodeNumber(read.inode()), read.behind());
  if (!entry.ok()) return entry.status();
  if (!entry->has_value()) return ErrnoStatus(ENOENT);
  return (*entry)->cookie;
}

}  // namespace

absl::Status ReadDir(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const v1::ReadDir& read = request.read_dir();
  const InodeNumber inode(read.inode());
  const absl::StatusOr<v1::InodeRecord*> directory = LiveDirectory(ctx.txn, inode);
  if (!directory.ok()) return directory.status();
  ctx.effects.described.push_back(inode);
  v1::ReadDirReply& out = *reply.mutable_read_dir();
  const absl::StatusOr<std::uint64_t> cookie = Beginning(ctx, read);
  if (!cookie.ok()) return cookie.status();
  Page page(out, read);
  if (*cookie < kDotCookie) page.Add(".", inode.value(), S_IFDIR, kDotCookie);
  if (*cookie < kDotDotCookie) page.Add("..", (*directory)->parent(), S_IFDIR, kDotDotCookie);
  // next_cookie bounds the scan: a position at the end needs none.
  if (!page.full() && *cookie + 1 < (*directory)->next_cookie() && (*directory)->entries() > 0) {
    if (absl::Status added = AddEntries(ctx, inode, *cookie, page); !added.ok()) return added;
  }
  out.set_end(!page.full());
  out.set_next_cookie((*directory)->next_cookie());
  out.set_atime_due(AtimeDue(**directory, ctx.now));
  return read.attributes() ? AddAttributes(ctx, read, out) : absl::OkStatus();
}

}  // namespace reel::mdc
