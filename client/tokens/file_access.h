// Who may use a file's bytes when: the way in and out of a FileState for every operation.
//
// A caller decides, under the lock and again after every wait, whether the token held and the known
// extents suffice. Entered, it may do I/O without the lock until it leaves. What
// is missing is fetched by one LayoutGet at a time. Threads: all methods may be called
// concurrently.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/file/data_context.h"
#include "client/file/layout_request.h"
#include "client/tokens/committer.h"
#include "client/tokens/recaller.h"

namespace reel::client {

// What an operation finds when it looks at the state.
struct Finding {
  enum class Kind { kGo, kWait, kFetch, kFail };
  Kind kind = Kind::kGo;
  bool has_token = true;  // only extents are missing, if anything
  FetchRange fetch{};
  absl::Status failure{};
  std::optional<TokenSpan> uses{};  // with kGo: all that it needs of the token

  static Finding Go() { return {}; }
  static Finding ProceedUsing(const TokenSpan& span) { return {.uses = span}; }
  static Finding Wait() { return {.kind = Kind::kWait}; }
  static Finding Fetch(FetchRange range) { return {.kind = Kind::kFetch, .fetch = range}; }
  static Finding FetchToken(FetchRange range) {
    return {.kind = Kind::kFetch, .has_token = false, .fetch = range};
  }
  static Finding Fail(absl::Status why) { return {.kind = Kind::kFail, .failure = std::move(why)}; }
};

struct AccessNeed {
  v1::TokenMode mode = v1::TOKEN_SHARED;
  bool exclusive = false;  // alone among this client's users of the file
  // Of a request of the kernel's page cache: the pages that it keeps locked meanwhile.
  std::optional<ByteRange> locks_pages{};
  // The kernel writes no page back until it is done, so none is dropped either (truncation).
  bool holds_back_pages = false;
  // Once it has the token it lets no recall pass, not even while a path is lost: it asks for none
  // then.
  bool keeps_token = false;
};

// Who has entered, for Leave.
struct Entered {
  bool exclusive = false;
  std::uint64_t passing_round = 0;  // 0: not beside a recall
  bool gave_way = false;            // it has done nothing, because of a lost path or lease
};

class FileAccess {
 public:
  FileAccess(DataContext& context, Committer& committer, Recaller& recaller)
      : context_(context), committer_(committer), recaller_(recaller) {}

  // Waits until the operation may begin; `look` runs under the lock, and its last finding was kGo.
  // On error the file is not entered.
  absl::StatusOr<Entered> Enter(FileState& f, const AccessNeed& need, const IoContext& io,
                                absl::FunctionRef<Finding()> look)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  void Leave(FileState& f, const Entered& entered) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // A read of the page cache has left because of a lost path: the token is returned ahead of the
  // invalidation, which waits for its page. REQUIRES: no page of the file may have been changed.
  void GiveWay(FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex) { recaller_.Bypass(f); }
  // Of a request that has sent nothing yet, or only reads: it lets a recall pass rather than wait
  // for a lost path.
  IoPermit YieldingPermit(const FileState& f, const Entered& entered,
                          const Interrupt* interrupt) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex) {
    return {.session = f.grant.session(),
            .interrupt = interrupt,
            .yields_to = entered.passing_round == 0 ? &context_.recalls : nullptr,
            .inode = f.inode,
            .tree = f.attr.project()};
  }

  // For a stream that has come to `at_bytes`, under a token of `mode`: when less is known beyond
  // that than it will soon use, asks for the next part, and waits for nothing. REQUIRES: no lock
  // held.
  void PrefetchLayout(const FileRef& file, v1::TokenMode mode, std::uint64_t at_bytes,
                      const IoContext& io);

  // Asks for the right to give back what lies behind the end of a file that nobody has open. What
  // becomes of that the committer is told. REQUIRES: no lock held.
  void FetchTail(const FileRef& file);

  // Returns when the kernel holds no page of the range; it may fill them again at once. REQUIRES:
  // nothing entered, no lock held.
  absl::Status DropPages(const FileRef& file, const ByteRange& range, const IoContext& io) {
    return recaller_.DropPages(file, range, io.interrupt);
  }

  // Waits until the lease holds. REQUIRES: nothing entered, no lock held.
  absl::Status AwaitLease(const IoContext& io) { return context_.AwaitLease(io.interrupt); }
  // Pages take the token of the whole file, and a request that fills one gives no way: it asks for
  // none where this host has not reached a LUN since its session began, lest it lose that again.
  // REQUIRES: as AwaitLease.
  absl::Status AwaitPathsOfPages(const IoContext& io) {
    if (!io.page_cache || io.write_back) return absl::OkStatus();
    return context_.paths->AwaitAll(io.interrupt);
  }
  bool LeaseHolds() const { return context_.session->LeaseHolds(); }

 private:
  // What `choose` says, if anything, is asked for; nobody waits. False: it is not asked for.
  bool Fetch(const FileRef& file, v1::TokenMode mode, const IoContext& io,
             absl::FunctionRef<std::optional<FetchRange>(FileState&)> choose);
  struct Ticket;  // a LayoutGet under way
  // There may be blocks behind the end of the file.
  void NoteBlocks(FileState& f, const FetchRange& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // Takes in what a LayoutGet for `range` brought. EIO when that is malformed.
  absl::Status TakeIn(FileState& f, const FetchRange& range, const v1::LayoutReply& layout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  struct Attempt {
    bool pinned = false;                // this operation's grant is still to be used
    int fruitless = 0;                  // answers that brought nothing in a row
    std::uint64_t awaits_since_ms = 0;  // paths; 0: it does not
  };
  bool MustAwaitPaths(FileState& f, const AccessNeed& need, const Finding& finding) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  absl::Status AwaitPaths(FileState& f, const IoContext& io, Attempt& attempt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  bool Admitted(FileState& f, const AccessNeed& need, const Finding& finding, const IoContext& io,
                const Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  absl::Status Fetch(FileState& f, v1::TokenMode mode, const FetchRange& range, const IoContext& io,
                     Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  static void Unpin(FileState& f, Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  static bool TakePlace(FileState& f, const AccessNeed& need, const Attempt& attempt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);

  DataContext& context_;
  Committer& committer_;
  Recaller& recaller_;
};

}  // namespace reel::client
