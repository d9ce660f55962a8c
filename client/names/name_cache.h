// What this client may answer for the controller: attributes of inodes, and which names are in a
// directory and which are not, while it holds the inodes' attribute tokens.
//
// It is filled from replies and emptied by recalls, both in the order in which the stream brought
// them, so it never knows less of this client's own changes than a caller that was told of them,
// and nothing that another client changed afterwards: that one had to wait for the recall's answer.
// Invariants:
//   1. There is a node for an inode only while its token is held.
//   2. A directory is *complete* when every name in it is known: then what is not there is absent.
//      Its listing is kept in the parts in which it came, until a name in it changes.
//   3. What the kernel was told to take for valid (Show, ShowName; not ShowListing) is told back to
//      it before the token goes back, and before a change of this client's own is sent. (What that
//      is, kernel_views.h knows.)
//   4. A directory is *delegated* where its token is exclusive: nobody else sees it, or the links
//      of what was made in it meanwhile. Then names are made and removed here first
//      (delegations.h, name_cache_delegation.cc).
//   5. Nodes and names together weigh at most max_weight; beyond it the nodes longest unused are
//      dropped, many at once, and their tokens are given back (TakeDropped) in one message. A token
//      on its way back is not taken again before the controller has answered (Returned).
// Source: the idea of tokens over cached metadata is GFS2's glocks and AFS's callbacks.
// Threads: all methods may be called concurrently; what the stream brings comes from the receiving
// thread only.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "client/base/attributes.h"
#include "client/names/delegations.h"
#include "client/names/kernel_views.h"
#include "client/names/pending_changes.h"
#include "proto/mdc.pb.h"
#include "volume/base/mutex.h"

namespace reel::client {

class NameCache {
 public:
  // One unit of weight stands for some 100 bytes: 150 MB at most. A directory of a million names
  // that this client made fits, and stays complete; of one that it lists, an eighth is kept.
  static constexpr std::size_t kNodeWeight = 5;
  static constexpr std::size_t kDefaultMaxWeight = 1'500'000;
  static std::size_t WeightOf(std::string_view name) { return 1 + name.size() / 64; }
  explicit NameCache(std::size_t max_weight = kDefaultMaxWeight) : max_weight_(max_weight) {}

  // ---- what is known; nullopt where the controller has to be asked ----

  struct Found {
    bool absent = false;
    Attributes attr;  // unless absent; as the controller has it
  };
  std::optional<Found> Lookup(std::uint64_t parent, std::string_view name);
  std::optional<Attributes> GetAttr(std::uint64_t inode);
  std::optional<std::string> ReadLink(std::uint64_t inode);
  bool Holds(std::uint64_t inode) const;
  // The part of a directory's listing behind `cookie`, as it came from the controller, but for the
  // attributes; null where it has to be asked for.
  std::shared_ptr<const v1::ReadDirReply> Page(std::uint64_t directory, std::uint64_t cookie);
  // A walk through the subdirectories of `parent` has come to `directory`: at most `siblings` that
  // follow it there, and the first one within, as far as the beginnings of their listings are not
  // known. Nothing when that is no walk: when the one before it was not the last that was asked
  // for.
  std::vector<std::uint64_t> NextOfWalk(std::uint64_t parent, std::uint64_t directory,
                                        std::size_t siblings);
  // Whether the kernel may take these attributes for valid: they are what the controller said last,
  // and nothing is about to change them. If so, OnRecall and BeginChange will speak of the inode.
  // kKept: until that time at the latest, a directory's or a regular file's, where they are to be
  // kept. kMoment: for the system call that asks.
  using Shown = KernelViews::Shown;
  Shown Show(const Attributes& attr, std::uint64_t until_ms, bool keep);
  // Whether it was shown what it may take for valid by now.
  bool KeepsAttributes(std::uint64_t inode, std::uint64_t now_ms) const;
  // Whether the kernel may keep what it was told of a name: that it leads to this inode (0: to
  // none). If so, OnRecall will speak of the directory, and of the inode. `quiet`: no name of it
  // has changed lately, which matters where it is not delegated.
  bool ShowName(std::uint64_t parent, std::string_view name, std::uint64_t inode,
                bool quiet = true);
  // A directory's listing, which the kernel may keep until a name in it changes; it is not told,
  // but asks for it anew with the next opendir(3). `number`: of this state of the directory, for
  // NoteListing; 0: it may not keep it. `kept`: what it has is of this state.
  using Listing = KernelViews::Listing;
  Listing ShowListing(std::uint64_t directory);
  // The kernel has dropped what it had from before, and now it begins to list again.
  void NoteListing(std::uint64_t directory, const Listing& listing);
  // Around the forgetting of all that the kernel keeps; nothing more is kept meanwhile. False when
  // there is nothing.
  bool BeginForget();
  // Whether the kernel keeps any.
  bool keeps() const {
    MutexLock lock(mutex_);
    return views_.keeps();
  }
  void EndForget();
  // Counts what this client has done to the volume's usage.
  std::uint64_t space_changes() const;
  // Whether a name was looked up in the directory since the last call (false where its token is not
  // held): then whoever lists it wants attributes.
  bool TakeLookedUp(std::uint64_t directory);
  // A known name of the directory had to be looked up, since nobody knows the attributes that it
  // leads to. Where that has happened a few times: behind which cookie to list the directory on,
  // with attributes.
  std::optional<std::uint64_t> NoteMissed(std::uint64_t directory, std::string_view name);

  // ---- what this client changes itself ----

  // What the kernel has to be told before a change is sent: which inodes' attributes it may take
  // for valid no longer, and whether it keeps names that change.
  struct KernelForgets {
    std::vector<std::uint64_t> attributes;
    bool names = false;
  };
  // Until EndChange, what the request may change is not known here. With each request of names or
  // attributes, before it is sent; from any thread.
  PendingChanges::Change BeginChange(const v1::Request& request, KernelForgets& to_forget);
  // However the request ended, after OnReply.
  void EndChange(const PendingChanges::Change& change);

  // ---- before the controller knows ----

  // How many more Creates in the directory this client would delegate, for Create.reserved_inodes.
  std::uint32_t ReservedInodesWanted(std::uint64_t directory);
  // Makes a regular file, symbolic link or directory here, if its directory is delegated, and
  // nothing of it needs the controller; nullopt: else. `send` sends what is done already, and
  // returns the number under which it was told (0: it cannot be sent now); it gets the reply that
  // the controller will give. Nobody else learns of the inode before it has returned.
  std::optional<v1::Attr> CreateDelegated(
      v1::Create& create, const v1::Credentials& owner, const v1::Time& now,
      absl::FunctionRef<std::uint64_t(const v1::EntryReply& made, const v1::Replay& decided)> send);
  // Takes the only name of a sole file, or of an empty directory that is delegated, too; false: it
  // could not. `send` may add to the attributes that the inode has from then on; `only_here`: no
  // other session has it open.
  bool UnlinkDelegated(
      const v1::Unlink& unlink, const v1::Time& now,
      absl::FunctionRef<std::uint64_t(v1::Attr& removed, bool only_here, const v1::Replay& decided)>
          send);
  // Gives a sole file another name in its directory, in place of another sole one if there is one
  // (`replaced`; else null) and `may_replace`; nullopt: it could not. `forget`: the inode whose
  // attributes the kernel has to be told to forget now; 0: none.
  struct RenamedHere {
    std::uint64_t forget = 0;
  };
  std::optional<RenamedHere> RenameDelegated(
      const v1::Rename& rename, bool may_replace, const v1::Time& now,
      absl::FunctionRef<std::uint64_t(v1::Attr* replaced, bool only_here,
                                      const v1::Replay& decided)>
          send);
  // Adds to an Unlink or a Rename that was not delegated the files of which it asks the controller
  // whether they are sole, so that the next one may be.
  void AskWhichAreSole(v1::Request& request);

  // ---- what the stream brings ----

  // Errors are told too.
  void OnReply(const v1::Request& request, const v1::Reply& reply);
  // What is to be done about it: the token is to be given back, after the kernel was told where it
  // takes the inode's attributes for valid, or keeps names of it (it is on its way then until
  // Returned); or nothing, as it is on its way already, and a second return might take what was
  // granted after the first.
  enum class RecallStep : std::uint8_t {
    kReturn,
    kForgetAttributesFirst,
    kForgetNamesFirst,
    kOnItsWay
  };
  // `until_ms`: as Kept. `delayed`: the return does not go out at once, though the kernel has
  // nothing to be told of.
  struct Recall {
    RecallStep step = RecallStep::kReturn;
    std::uint64_t until_ms = 0;
  };
  Recall OnRecall(std::uint64_t inode, bool delayed = false);
  // The directory is delegated no longer, and its token is to be returned so: after the kernel was
  // told of names where it keeps some of it that may be changing. Never kForgetAttributesFirst.
  RecallStep OnShare(std::uint64_t directory);
  // Attributes that were shown, for a second or a moment, and are over by then at the latest.
  struct Kept {
    std::uint64_t inode = 0;
    std::uint64_t until_ms = 0;
  };
  // No token is held any more. Returns the inodes whose attributes the kernel may have by now, also
  // of which it was about to be told, as their tokens were on their way back.
  struct KeptAttributes {
    std::vector<std::uint64_t> directories;
    std::vector<Kept> others;
  };
  KeptAttributes Clear(std::uint64_t now_ms);

  // Inodes whose nodes were dropped for want of room: their tokens are to be given back, after the
  // kernel was told of those whose attributes it may keep, and where it keeps any of their `names`.
  struct Dropped {
    std::vector<std::uint64_t> inodes;
    std::vector<Kept> kept{};
    bool names = false;
  };
  Dropped TakeDropped();
  // The controller has taken these tokens back.
  void Returned(const std::vector<std::uint64_t>& inodes);

  std::size_t weight() const;

 private:
  // By NameKey (proto/folded_name.h); 0: absent.
  using Names = absl::flat_hash_map<std::string, std::uint64_t>;
  struct Node {
    std::optional<Attributes> attr;
    std::optional<std::string> link;
    Names names;
    std::size_t names_weight = 0;
    // Parts of its listing, by the cookie that each begins behind.
    absl::flat_hash_map<std::uint64_t, std::shared_ptr<const v1::ReadDirReply>> pages;
    std::size_t pages_weight = 0;
    // Those of its entries, in the order of a listing from the start without a gap; goes with the
    // pages. A walk has come to the one before `walked_to`.
    std::vector<std::uint64_t> subdirectories;
    std::size_t walked_to = 0;
    Delegations::Directory delegation;
    Delegations::File sole;
    bool complete = false;
    bool looked_up_in = false;
    KernelViews::View view;
    // A listing from the start, without a gap, has come to this cookie.
    std::uint64_t listed_to = 0;
    // The same of one with attributes; 0: there is none, or it has come to the end.
    std::uint64_t described_to = 0;
    std::uint32_t missed = 0;  // names of which they had to be asked for since
    std::list<std::uint64_t>::iterator use;
  };

  // Where a name of the directory stands, in whatever spelling where that folds names.
  static Names::iterator FindName(Node& directory, std::string_view name);
  static std::uint32_t FlagsOf(const Node& directory) {
    return directory.attr ? directory.attr->flags : 0;
  }
  // Whether what is not in `names` is absent: not before it is known what stands for a name there.
  static bool IsComplete(const Node& directory);
  // Whether a change of this client's own may be about to change the name.
  bool IsChanging(std::uint64_t parent, const Node& directory, std::string_view name) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Node* Find(std::uint64_t inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Use(Node& node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hold(std::uint64_t inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(std::uint64_t inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Shrink() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::size_t WeightLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAttr(const Attributes& attr) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetName(Node& directory, std::string_view name, std::uint64_t inode)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseName(Node& directory, std::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetName(Node& directory, std::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropNames(Node& directory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Attributes of what is not being changed ahead, unless they are older than what is known.
  void LearnAttr(const Attributes& attr) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Node* FindDelegated(std::uint64_t directory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A file whose name may go, or change, here; and a directory.
  bool IsSole(const Node& directory, const Node& child) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsEmptyDelegated(std::uint64_t inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a name is known to be absent.
  static bool IsAbsent(Node& directory, std::string_view name);
  // What a delegated change has made of its directory.
  struct Touch {
    int entries = 0;
    int subdirectories = 0;
    std::uint64_t changes = 1;
  };
  void TouchDelegated(std::uint64_t directory, Node& node, const v1::Time& time, const Touch& touch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Its last name has gone here.
  static void RemoveDelegated(Node& child, const v1::Attr& removed);
  void TakeDelegations(const v1::Reply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool Describes(const v1::Reply& reply, std::uint64_t directory);
  // What a change has made of a name.
  void NameChanged(const v1::Reply& reply, std::uint64_t directory, const std::string& name,
                   std::uint64_t inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddSiblings(std::uint64_t parent, Node& directory, v1::Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeSole(const v1::Request& request, const v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeReservedInodes(const v1::Request& request, const v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DelegatedAnswered(const v1::Request& request, const v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(std::uint64_t inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void LookedUp(const v1::Lookup& lookup, const v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Created(const v1::Create& create, const v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Renamed(const v1::Rename& rename, const v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepPage(Node& directory, std::uint64_t cookie, const v1::ReadDirReply& listing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsPageKnown(std::uint64_t directory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void NoteDescribed(Node& directory, const v1::ReadDir& request,
                            const v1::ReadDirReply& listing);
  static void NoteSubdirectories(Node& directory, bool from_start, const v1::ReadDirReply& listing);
  void DropPages(Node& directory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Listed(const v1::ReadDir& request, const v1::ReadDirReply& listing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::size_t max_weight_;
  mutable Mutex mutex_;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<Node>> nodes_ ABSL_GUARDED_BY(mutex_);
  std::list<std::uint64_t> uses_ ABSL_GUARDED_BY(mutex_);  // the last used is in front
  std::size_t names_weight_ ABSL_GUARDED_BY(mutex_) = 0;   // of all nodes, and their pages
  PendingChanges pending_changes_ ABSL_GUARDED_BY(mutex_);
  Dropped dropped_ ABSL_GUARDED_BY(mutex_);
  Delegations delegations_ ABSL_GUARDED_BY(mutex_);
  KernelViews views_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t space_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Until when the kernel may keep attributes of it, by inode.
  absl::flat_hash_map<std::uint64_t, std::uint64_t> returning_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
