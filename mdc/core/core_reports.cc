// What administration asks of sessions: what they have open, what they have sent to LUNs, by which
// stream they are reached; and exports, which an administrator may change.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "mdc/core/core_impl.h"

namespace reel::mdc {
namespace {

// Of a client's word.
constexpr std::size_t kMaxReportBytes = 256;
constexpr int kMaxReports = 1024;
// In one answer to an administrator.
constexpr std::size_t kMaxOpenFiles = 10'000;

std::map<std::string, std::string> NamesOfLuns(const VolumeDescriptor& descriptor) {
  std::map<std::string, std::string> names;
  for (const Pool& pool : descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& lun : set.luns) names[lun.lun.ToBytes()] = lun.name;
    }
  }
  return names;
}

}  // namespace

void CoreImpl::TakeReports(Session& session, const v1::Renew& renew) const {
  session.said.fuse = renew.fuse();
  if (renew.luns().empty() || renew.luns_size() > kMaxReports) return;
  session.said.luns.assign(renew.luns().begin(), renew.luns().end());
  session.said.luns_at_ms = clock_.NowMs();
  for (v1::LunReport& report : session.said.luns) {
    report.set_path(report.path().substr(0, kMaxReportBytes));
    report.set_problem(report.problem().substr(0, kMaxReportBytes));
  }
}

void CoreImpl::DescribeLuns(v1::WhoReply& reply) const {
  const std::map<std::string, std::string> names = NamesOfLuns(descriptor_);
  for (v1::WhoReply::Session& out : *reply.mutable_sessions()) {
    const auto found = sessions_.all().find(SessionId(out.session()));
    if (found == sessions_.all().end()) continue;
    out.set_luns_at_ms(found->second->said.luns_at_ms);
    for (const v1::LunReport& report : found->second->said.luns) {
      const auto name = names.find(report.lun());
      if (name == names.end()) continue;
      v1::WhoReply::LunTraffic& lun = *out.add_luns();
      lun.set_name(name->second);
      lun.set_path(report.path());
      lun.set_problem(report.problem());
      lun.set_reads(report.reads());
      lun.set_read_bytes(report.read_bytes());
      lun.set_writes(report.writes());
      lun.set_written_bytes(report.written_bytes());
    }
  }
}

void CoreImpl::DescribeOpenFiles(InodeNumber only, v1::OpenFilesReply& reply) const {
  absl::btree_map<InodeNumber, std::vector<SessionId>> holders;
  std::size_t room = kMaxOpenFiles;
  for (const auto& [id, session] : sessions_.all()) {
    if (only != InodeNumber(0)) {
      if (holdings_.Holds(id, only)) holders[only].push_back(id);
      continue;
    }
    const std::vector<InodeNumber> inodes = holdings_.InodesOf(id, room);
    for (const InodeNumber inode : inodes) holders[inode].push_back(id);
    room -= std::min(room, inodes.size());
    if (room > 0) continue;
    reply.set_more(true);
    break;
  }
  for (const auto& [inode, sessions] : holders) {
    v1::OpenFilesReply::File& file = *reply.add_files();
    file.set_inode(inode.value());
    for (const SessionId id : sessions) {
      v1::OpenFilesReply::Holder& holder = *file.add_holders();
      holder.set_session(id.value());
      holder.set_host(sessions_.all().at(id)->record.host());
      holder.set_open(holdings_.opens.IsOpenBy(id, inode));
      const v1::TokenMode mode = holdings_.tokens.Most(id, inode);
      holder.set_token(mode == v1::TOKEN_EXCLUSIVE ? "exclusive"
                       : mode == v1::TOKEN_SHARED  ? "shared"
                                                   : "");
    }
  }
}

std::vector<Core::Connected> CoreImpl::connected() const {
  std::vector<Connected> connected;
  for (const auto& [id, session] : sessions_.all()) {
    if (session->stream == kNoStream) continue;
    connected.push_back({.session = id,
                         .stream = session->stream,
                         .host = session->record.host(),
                         .knows_ping = (session->spoken.features & v1::FEATURE_PING) != 0});
  }
  return connected;
}

void CoreImpl::SetExports(std::vector<Export> exports) {
  options_.exports = std::move(exports);
}

}  // namespace reel::mdc
