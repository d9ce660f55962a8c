// Advisory locks: which there are, and taking them away.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/view.h"

namespace reel::tools {
namespace {

// To the end of a file, however far that is.
constexpr std::uint64_t kToEnd = (std::uint64_t{1} << 63) - 1;

absl::StatusOr<v1::LocksReply> BreakLocks(AdminContext& context, const Words& words) {
  std::uint64_t inode = 0, session = 0;
  if (!absl::SimpleAtoi(words[2], &inode) || inode == 0 ||
      (words.size() > 3 && !absl::SimpleAtoi(words[3], &session))) {
    return absl::InvalidArgumentError(
        "use: locks [break INODE [SESSION]], with the numbers that \"locks\" shows");
  }
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  v1::BreakLocksRequest request;
  request.set_volume(*volume);
  request.set_inode(inode);
  request.set_session(session);
  auto reply = context.api.Ask<v1::LocksReply>(request);
  if (reply.ok() && reply->locks().empty()) {
    return absl::NotFoundError(absl::StrCat("nobody holds a lock on inode ", inode,
                                            session == 0 ? "" : " in that session"));
  }
  return reply;
}

absl::StatusOr<Json> Locks(AdminContext& context, const Words& words) {
  const bool breaks = words.size() > 1;
  const auto reply =
      breaks ? BreakLocks(context, words) : AskOfVolume<v1::LocksReply, v1::LocksRequest>(context);
  if (!reply.ok()) return reply.status();
  Json locks = Json::array();
  for (const auto& lock : reply->locks()) {
    locks.push_back({{"inode", lock.inode()},
                     {"kind", lock.kind()},
                     {"type", lock.type()},
                     {"first", lock.first()},
                     {"last", lock.last()},
                     {"session", lock.session()},
                     {"host", lock.host()},
                     {"pid", lock.pid()},
                     {"state", lock.waiting() ? "waits"
                               : breaks       ? "broken"
                                              : "held"}});
  }
  return Json{{"locks", std::move(locks)}};
}

std::string LocksText(const Json& json) {
  Json rows = json["locks"];
  bool broken = false;
  for (Json& row : rows) {
    const auto last = row["last"].get<std::uint64_t>();
    row["last"] = last >= kToEnd ? "end" : absl::StrCat(last);
    broken |= row["state"] == "broken";
  }
  const std::string table = TableOf(rows, {{"inode", "inode", Cell::kNumber},
                                           {"kind", "kind"},
                                           {"type", "type"},
                                           {"first byte", "first", Cell::kNumber},
                                           {"last byte", "last"},
                                           {"session", "session", Cell::kNumber},
                                           {"host", "host"},
                                           {"process", "pid", Cell::kNumber},
                                           {"state", "state"}});
  if (!broken) return table;
  return absl::StrCat(
      "Warning: these processes go on in the belief that they hold what others may ",
      "lock now; end them.\n\n", table);
}

}  // namespace

AdminCommands LockCommands() {
  return {{.name = "locks",
           .usage = "[break INODE [SESSION]]",
           .help = "advisory locks; break takes them from their holders",
           .run = Locks,
           .text = LocksText,
           .examples = {"locks", "locks break 1099511627777 17"},
           .watched = true}};
}

}  // namespace reel::tools
