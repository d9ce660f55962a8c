#include "client/names/pending_changes.h"

namespace reel::client {
namespace {

template <typename Map, typename Key>
void Release(Map& map, const Key& key) {
  const auto found = map.find(key);
  if (found != map.end() && --found->second == 0) map.erase(found);
}

}  // namespace

PendingChanges::Change PendingChanges::Of(const v1::Request& request) {
  Change change;
  switch (request.op_case()) {
    case v1::Request::kCreate:
      if (request.create().unnamed()) break;
      change.names.emplace_back(request.create().parent(), request.create().name());
      break;
    case v1::Request::kLink:
      change.names.emplace_back(request.link().parent(), request.link().name());
      change.inodes.push_back(request.link().inode());
      break;
    case v1::Request::kUnlink:
      change.names.emplace_back(request.unlink().parent(), request.unlink().name());
      break;
    case v1::Request::kRename:
      change.names.emplace_back(request.rename().parent(), request.rename().name());
      change.names.emplace_back(request.rename().new_parent(), request.rename().new_name());
      break;
    case v1::Request::kSetAttr:
      change.inodes.push_back(request.set_attr().inode());
      break;
    case v1::Request::kSetXattr:
      change.inodes.push_back(request.set_xattr().inode());
      break;
    case v1::Request::kRemoveXattr:
      change.inodes.push_back(request.remove_xattr().inode());
      break;
    default:
      break;
  }
  return change;
}

void PendingChanges::Begin(const Change& change) {
  for (const auto& name : change.names) ++names_[name];
  for (const std::uint64_t inode : change.inodes) ++inodes_[inode];
}

void PendingChanges::End(const Change& change) {
  for (const auto& name : change.names) Release(names_, name);
  for (const std::uint64_t inode : change.inodes) Release(inodes_, inode);
}

bool PendingChanges::TouchName(std::uint64_t directory, std::string_view name) const {
  return !names_.empty() && names_.contains({directory, std::string(name)});
}

bool PendingChanges::TouchNamesOf(std::uint64_t directory) const {
  const auto first = names_.lower_bound({directory, ""});
  return first != names_.end() && first->first.first == directory;
}

bool PendingChanges::TouchInode(std::uint64_t inode) const {
  return !inodes_.empty() && (inodes_.contains(inode) || inodes_.contains(0));
}

}  // namespace reel::client
