// What the kernel was shown of each inode, and may take for valid until it is told otherwise.
//
// The data of one inode, a View, lie with its token in the name cache, and go with it; whoever owns
// one passes it in. This object knows nothing of tokens, names or changes: whether something may be
// shown at all, its caller has found out.
// Invariants:
//   1. What the kernel keeps is kept in an *epoch*. After EndForget it keeps nothing of before, and
//      between BeginForget and EndForget nothing more is kept.
//   2. keeps() is true where any View is kept in this epoch.
//   3. A View whose attributes were shown says so until TakeAttributes: so the kernel can be told.
//   4. No two states of directories have one listing's number, and a listing is kept only in the
//      state in which it was asked for.
// Threads: externally synchronised.
#pragma once

#include <cstdint>

namespace reel::client {

class KernelViews {
 public:
  // kKept: until a time at the latest. kMoment: for the system call that asks.
  enum class Shown : std::uint8_t { kNo, kMoment, kKept };
  // `number`: of this state of the directory; 0: the kernel may not keep it. `kept`: what it has is
  // of this state.
  struct Listing {
    std::uint64_t number = 0;
    bool kept = false;
  };
  // Of one inode.
  class View {
   public:
    Shown attributes() const { return attributes_; }
    bool KeepsAttributesAt(std::uint64_t now_ms) const { return kept_until_ms_ > now_ms; }
    std::uint64_t shown_until_ms() const { return shown_until_ms_; }
    // The kernel is told of the attributes now; false: it had none.
    bool TakeAttributes();
    // The directory has changed.
    void DropListing() { listing_ = {}; }
    // The kernel has dropped the listing that it had from before, and lists again.
    void NoteListing(std::uint64_t number);

   private:
    friend class KernelViews;
    Shown attributes_ = Shown::kNo;
    // The last epochs in which the kernel was shown what it keeps, and names among that; 0: none.
    std::uint64_t kept_in_ = 0;
    std::uint64_t names_kept_in_ = 0;
    std::uint64_t kept_until_ms_ = 0;   // attributes, where they are kept
    std::uint64_t shown_until_ms_ = 0;  // … or shown at all
    Listing listing_;                   // number 0: nobody has asked for it in this state
  };

  // Attributes, until then where they are to be kept, or else for a moment. `directory`: those of
  // one are kept in the epoch.
  Shown ShowAttributes(View& view, std::uint64_t until_ms, bool keep, bool directory);
  // A name in `directory` that leads to `child` (null: to none). REQUIRES: may_keep().
  void ShowName(View& directory, View* child);
  Listing ShowListing(View& directory);

  // Whether the kernel keeps anything of it: its attributes, names in it, or one that leads there.
  bool Keeps(const View& view) const { return view.kept_in_ == epoch_; }
  bool KeepsNames(const View& view) const { return view.names_kept_in_ == epoch_; }

  bool may_keep() const { return !forgetting_; }
  bool keeps() const { return keeps_; }
  // Around the kernel's forgetting. BeginForget: false when there is nothing to forget.
  bool BeginForget();
  void EndForget();

 private:
  void Keep(View& view);

  std::uint64_t epoch_ = 1;
  std::uint64_t last_listing_ = 0;
  bool forgetting_ = false;
  bool keeps_ = false;  // something, in this epoch
};

}  // namespace reel::client
