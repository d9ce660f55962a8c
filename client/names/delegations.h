// Directories that are delegated to this session: held by their exclusive token, so that nobody
// else sees them. Names are made, moved and removed there before the controller knows.
//
// The data of one directory, and of one file, lie with their tokens in the name cache, and go with
// them; whoever owns them passes them in. This object knows nothing of names: whether a change can
// be made here, its caller has found out.
// Invariants:
//   1. Each delegation has a number of its own. A file is *sole* in one where it has its only name
//      there and no other session knows its attributes: it was made under that number, or the
//      controller has said so under it. One of the same directory from before says nothing.
//   2. A reserved inode is given to one file, in the order in which they came, and to none once the
//      delegation is over or what it was reserved for has changed.
//   3. While a delegated change of an inode is not answered, replies say less of it than is known:
//      HasUnanswered.
// What a delegated change leaves behind is what the controller will make of it: times are its own.
// Threads: externally synchronised.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "client/base/attributes.h"
#include "proto/mdc.pb.h"

namespace reel::client {

class Delegations {
 public:
  // Of one directory.
  class Directory {
   public:
    bool delegated() const { return number_ != 0; }
    bool has_reserved() const { return !reserved_.empty(); }
    // REQUIRES: has_reserved().
    const v1::ReservedInode& next_reserved() const { return reserved_.front(); }
    // Whether the next one may become a file of theirs: it may be charged to somebody. REQUIRES:
    // has_reserved().
    bool MayMakeFor(std::uint32_t uid, std::uint32_t gid) const {
      const v1::ReservedInode& next = reserved_.front();
      return !next.owned() || (next.uid() == uid && next.gid() == gid);
    }
    void DropReserved() { reserved_.clear(); }
    // How many more the next delegated create asks for, and the next one that waits for the
    // controller.
    std::uint32_t WantedByDelegated() const;
    std::uint32_t WantedByWaiting() const;
    // Whether to look for files to ask about: after each time that there were none, half as often.
    bool MayAsk();
    void NoteAsked(bool found);
    // So many files in one request: few at first, since others may lose what they know of them.
    int MostToAskAbout() const { return 32 << (delegated() ? found_ : 0); }

   private:
    friend class Delegations;
    std::uint64_t number_ = 0;               // 0: it is not delegated
    std::uint32_t passes_ = 0, passed_ = 0;  // requests between two looks, and since the last one
    int found_ = 0;                          // requests that asked about some, at most 5
    std::deque<v1::ReservedInode> reserved_;
  };
  // Of one inode that may have its name in such a directory.
  class File {
   public:
    // Its last name was removed here: what replies say of its links is older.
    bool removed() const { return removed_; }
    void NoteRemoved() { removed_ = true; }
    // It has, or may have, another name.
    void NoteOtherName() { sole_in_ = made_in_ = asked_in_ = asked_ = 0; }
    // It was asked about, and there was no answer.
    void NoteNotTold() { asked_in_ = asked_ = 0; }

   private:
    friend class Delegations;
    std::uint64_t sole_in_ = 0;   // the number of that delegation; 0: in none
    std::uint64_t made_in_ = 0;   // … under which it was made here
    std::uint64_t asked_in_ = 0;  // … under which it was asked whether it is; 0: it was not
    std::uint32_t asked_ = 0;     // … so often
    bool removed_ = false;
  };

  // The directory's token is exclusive now. Nothing new where it was before.
  void Begin(Directory& directory);
  // It is shared.
  static void End(Directory& directory);
  // What came for the files to come. `anew`: it was asked for as one that has none, so that what is
  // there is the client's no more.
  static void Reserve(Directory& directory, bool anew,
                      const google::protobuf::RepeatedPtrField<v1::ReservedInode>& reserved);
  // The file with the next reserved inode is made. REQUIRES: has_reserved().
  static void TakeReserved(Directory& directory);

  // `file` is sole under this delegation of the directory, if it is delegated. NoteMade: because it
  // was made here under it.
  static void NoteSole(const Directory& directory, File& file);
  static void NoteMade(const Directory& directory, File& file);
  static bool IsSole(const Directory& directory, const File& file);
  // A sole file that was made here: no other session has it open. (Of others one may, and a program
  // there may yet read what is written here.)
  static bool IsOnlyHere(const Directory& directory, const File& file);
  // True a few times under each delegation where it is not known to be, always where there is none.
  static bool MayAskAbout(const Directory& directory, const File& file);
  static void NoteAskedAbout(const Directory& directory, File& file);

  // Delegated changes of the inode that are on their way.
  void NoteSent(std::uint64_t inode) { ++unanswered_[inode]; }
  void NoteAnswered(std::uint64_t inode);
  bool HasUnanswered(std::uint64_t inode) const { return unanswered_.contains(inode); }
  // The stream is lost, and all delegations with it.
  void ForgetUnanswered() { unanswered_.clear(); }

 private:
  std::uint64_t last_number_ = 0;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> unanswered_;
};

// The moment of a delegated change: `now`, or the next one after `than`.
v1::Time DelegatedTime(const WallTime& than, const v1::Time& now);

// What the controller will reply to a create, and what makes the same inode again in a new epoch.
struct DelegatedFile {
  v1::EntryReply made;
  v1::Replay decided;
};
DelegatedFile MakeDelegated(const v1::ReservedInode& reserved, const v1::Create& create,
                            const v1::Credentials& owner, const Attributes& parent,
                            const v1::Time& now);

}  // namespace reel::client
