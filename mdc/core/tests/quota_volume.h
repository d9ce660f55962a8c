// The vocabulary of the tests of quotas: a volume whose usage is counted, and the count of it that
// a test makes itself from the inodes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "mdc/metadb/schema.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {

class QuotaVolume : public testing::Test {
 protected:
  using Counts = std::map<QuotaId, std::pair<std::uint64_t, std::uint64_t>>;  // blocks, files

  QuotaVolume() {
    harness_.options_.names = NameReplies::kDelegated;
    harness_.Restart();
    for (Client* client : {&a_, &b_}) {
      client->caches_ = true;
      client->features_ = v1::FEATURE_EARLY_REPLY | v1::FEATURE_DELEGATION | v1::FEATURE_QUOTA;
      client->Register();
    }
  }

  // The controller dies, and all clients with it: others come.
  void Restart() {
    harness_.Restart();
    for (Client* client : {&a_, &b_}) {
      client->recalls_.clear();
      client->attr_recalls_.clear();
      client->sequences_.clear();
      client->uuid_.bytes[1] += 1;
      client->Register();
    }
    harness_.Pass(30'000, {&a_, &b_});
  }

  // ---- administration ---------------------------------------------------------------------------

  absl::Status Set(const v1::SetQuotasRequest& request) {
    v1::SetQuotasReply reply;
    std::optional<absl::Status> outcome;
    harness_.core_->SetQuotas(request, reply, [&](const absl::Status& s) { outcome = s; });
    harness_.Run();
    EXPECT_TRUE(outcome.has_value());
    tree_ = reply.tree();
    return outcome.value_or(absl::UnknownError("not answered"));
  }
  absl::Status Switch(const std::string& state) {
    v1::SetQuotasRequest request;
    request.set_state(state);
    return Set(request);
  }
  std::uint32_t AddTree(const std::string& name) {
    v1::SetQuotasRequest request;
    request.set_add_tree(name);
    EXPECT_TRUE(Set(request).ok());
    return tree_;
  }
  static v1::SetQuotasRequest LimitsOf(const std::string& kind, std::uint32_t id) {
    v1::SetQuotasRequest request;
    request.mutable_limits()->set_kind(kind);
    request.mutable_limits()->set_id(id);
    return request;
  }
  absl::Status LimitBlocks(const std::string& kind, std::uint32_t id, std::uint64_t soft,
                           std::uint64_t hard, const std::string& tree = "") {
    v1::SetQuotasRequest request = LimitsOf(kind, id);
    request.mutable_limits()->set_soft_bytes(soft * kBlock);
    request.mutable_limits()->set_hard_bytes(hard * kBlock);
    request.mutable_limits()->set_tree(tree);
    return Set(request);
  }
  absl::Status LimitFiles(const std::string& kind, std::uint32_t id, std::uint64_t soft,
                          std::uint64_t hard) {
    v1::SetQuotasRequest request = LimitsOf(kind, id);
    request.mutable_limits()->set_soft_files(soft);
    request.mutable_limits()->set_hard_files(hard);
    return Set(request);
  }
  std::string State() const {
    v1::QuotasReply reply;
    EXPECT_TRUE(harness_.core_->Describe(v1::QuotasRequest(), reply).ok());
    return reply.state();
  }
  v1::QuotasReply::Quota QuotaOf(const std::string& kind, std::uint32_t id,
                                 const std::string& tree = "") const {
    v1::QuotasRequest request;
    request.set_kind(kind);
    request.set_one(true);
    request.set_id(id);
    request.set_tree(tree);
    v1::QuotasReply reply;
    EXPECT_TRUE(harness_.core_->Describe(request, reply).ok());
    return reply.quotas_size() == 1 ? reply.quotas(0) : v1::QuotasReply::Quota();
  }
  std::uint64_t BlocksOf(const std::string& kind, std::uint32_t id) const {
    return QuotaOf(kind, id).bytes() / kBlock;
  }
  std::uint64_t FilesOf(const std::string& kind, std::uint32_t id) const {
    return QuotaOf(kind, id).files();
  }

  // ---- what is stored ---------------------------------------------------------------------------

  v1::QuotaStateRecord StoredState() {
    v1::QuotaStateRecord state;
    std::string value;
    const auto found = harness_.db().Get(schema::QuotaStateKey(), &value, Tier::kAll);
    EXPECT_TRUE(found.ok() && (*found != Found::kYes || state.ParseFromString(value)));
    return state;
  }
  // Of the inodes that are counted by now; those of no tree for none.
  Counts Recounted() {
    const std::uint64_t below = StoredState().counted_below();
    Counts counts;
    Each(schema::Family::kInode, [&](const schema::ParsedKey& key, const std::string& value) {
      v1::InodeRecord record;
      EXPECT_TRUE(record.ParseFromString(value));
      if (key.first >= below) return;
      for (const QuotaId& id : QuotaOwner{record.uid(), record.gid(), record.project()}.ids()) {
        std::string quota;
        const auto tree = harness_.db().Get(schema::QuotaKey(id), &quota, Tier::kAll);
        if (id.kind == QuotaKind::kTree && *tree != Found::kYes) continue;  // there is none
        counts[id].first += record.allocated_blocks();
        ++counts[id].second;
      }
    });
    return counts;
  }
  Counts Charged() {
    const std::uint64_t round = StoredState().round();
    Counts counts;
    Each(schema::Family::kQuota, [&](const schema::ParsedKey& key, const std::string& value) {
      v1::QuotaRecord record;
      if (key.first == 0) return;
      EXPECT_TRUE(record.ParseFromString(value));
      const std::pair counted{record.blocks(), record.files()};
      if (record.round() != round || counted == std::pair{std::uint64_t{0}, std::uint64_t{0}})
        return;
      counts[{static_cast<QuotaKind>(key.first), static_cast<std::uint32_t>(key.second)}] = counted;
    });
    return counts;
  }
  void Each(schema::Family family,
            const std::function<void(const schema::ParsedKey&, const std::string&)>& visit) {
    const std::string prefix = schema::Prefix(family);
    auto cursor = harness_.db().Scan(prefix, prefix, Tier::kAll);
    for (; cursor->Valid(); cursor->Next()) {
      visit(schema::Parse(cursor->key()).value(), std::string(cursor->value()));
    }
  }
  void CountAll() {
    EXPECT_TRUE(Switch("on").ok());
    for (int i = 0; i < 100 && State() != "on"; ++i) harness_.Tick();
    ASSERT_EQ(State(), "on");
  }

  // ---- requests ---------------------------------------------------------------------------------

  static v1::Request As(std::uint32_t id, v1::Request request) {
    request.mutable_credentials()->set_uid(id);
    request.mutable_credentials()->set_gid(id);
    return request;
  }
  static v1::Request CreateIn(std::uint64_t parent, const std::string& name, std::uint32_t type,
                              bool open = false) {
    v1::Request request = Client::CreateOf(name, open);
    request.mutable_create()->set_parent(parent);
    request.mutable_create()->set_mode(type | 0777);
    if (type == S_IFLNK) request.mutable_create()->set_symlink("target");
    return request;
  }
  static v1::Request RenameOf(std::uint64_t parent, const std::string& name,
                              std::uint64_t new_parent, const std::string& new_name,
                              std::uint32_t flags = 0) {
    v1::Request request;
    request.mutable_rename()->set_parent(parent);
    request.mutable_rename()->set_name(name);
    request.mutable_rename()->set_new_parent(new_parent);
    request.mutable_rename()->set_new_name(new_name);
    request.mutable_rename()->set_flags(flags);
    return request;
  }
  static v1::Request LinkOf(std::uint64_t inode, std::uint64_t parent, const std::string& name) {
    v1::Request request;
    request.mutable_link()->set_inode(inode);
    request.mutable_link()->set_parent(parent);
    request.mutable_link()->set_name(name);
    return request;
  }
  static v1::Request OwnerChangeOf(std::uint64_t inode, std::uint32_t id) {
    v1::Request request;
    request.mutable_set_attr()->set_inode(inode);
    request.mutable_set_attr()->set_fields(v1::SetAttr::UID | v1::SetAttr::GID);
    request.mutable_set_attr()->set_uid(id);
    request.mutable_set_attr()->set_gid(id);
    return request;
  }
  static v1::Request SizeOf(std::uint64_t inode, std::uint64_t size) {
    v1::Request request;
    request.mutable_set_attr()->set_inode(inode);
    request.mutable_set_attr()->set_fields(v1::SetAttr::SIZE);
    request.mutable_set_attr()->set_size_bytes(size);
    return request;
  }
  static v1::Request ReserveOf(std::uint64_t inode, std::uint64_t first, std::uint64_t blocks,
                               std::uint32_t mode = 0) {
    v1::Request request;
    request.mutable_allocate()->set_inode(inode);
    request.mutable_allocate()->set_mode(mode);
    request.mutable_allocate()->set_offset_bytes(first * kBlock);
    request.mutable_allocate()->set_length_bytes(blocks * kBlock);
    return request;
  }
  static v1::Request BlocksFor(std::uint64_t inode, std::uint64_t first, std::uint64_t blocks) {
    return Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true, first * kBlock, blocks * kBlock);
  }
  static v1::Request TreeOf(std::uint64_t inode, const std::string& tree) {
    v1::Request request;
    request.mutable_set_xattr()->set_inode(inode);
    request.mutable_set_xattr()->set_name("reelfs.tree");
    request.mutable_set_xattr()->set_value(tree);
    return request;
  }
  static v1::Request XattrOf(std::uint64_t inode, const std::string& name) {
    v1::Request request;
    request.mutable_get_xattr()->set_inode(inode);
    request.mutable_get_xattr()->set_name(name);
    return request;
  }
  // The new inode of `id`'s; 0: it was refused.
  std::uint64_t Make(std::uint32_t id, const std::string& name, bool open = false,
                     std::uint64_t parent = 1) {
    a_.Do(As(id, CreateIn(parent, name, S_IFREG, open)), true);
    return a_.last_.entry().attr().inode();
  }
  std::uint64_t MakeDir(std::uint64_t parent, const std::string& name) {
    EXPECT_EQ(a_.Do(As(0, CreateIn(parent, name, S_IFDIR)), true), 0);
    return a_.last_.entry().attr().inode();
  }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
  std::uint32_t tree_ = 0;
};

}  // namespace reel::mdc
