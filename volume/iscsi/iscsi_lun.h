// A LUN behind an iSCSI portal, by a userspace initiator: no kernel module, no root.
//
// One session and connection carries all of it (volume/iscsi/iscsi_connection.h). When that is
// lost, every request on its way ends as LunFault::kUnknown and every later one as kClosed, until
// Reopen, which goes on by the next of the LUN's portals (volume/iscsi/iscsi_path.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "volume/base/mutex.h"
#include "volume/iscsi/iscsi_connection.h"
#include "volume/iscsi/iscsi_facts.h"
#include "volume/iscsi/iscsi_url.h"
#include "volume/lun/lun.h"

namespace reel {

class IscsiReservations;

class IscsiLun final : public Lun {
 public:
  // `name` is an iscsi:// URL. Besides OpenLun's errors: FAILED_PRECONDITION where there is no CHAP
  // secret for the URL's user.
  static absl::StatusOr<std::unique_ptr<Lun>> Open(const std::string& name, LunAccess access);
  ~IscsiLun() override;

  const std::string& name() const override { return url_.shown; }
  std::uint64_t size_bytes() const override {
    return std::max(facts_.size_bytes, grown_bytes_.load());
  }
  absl::StatusOr<std::uint64_t> SizeNow() override;
  absl::Status Grow() override;
  std::uint32_t logical_block_bytes() const override { return facts_.logical_block_bytes; }
  std::uint32_t optimal_io_bytes() const override { return facts_.optimal_io_bytes; }
  bool read_only() const override { return read_only_; }
  Reservations* reservations() const override;
  bool executes_late() const override { return true; }

  void Start(LunRequest& request) override;
  absl::Status Flush() override;
  // UNIMPLEMENTED: a fenced host's UNMAP is carried out by some targets, so none is ever sent.
  absl::Status Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) override;
  // Against other processes of this host (strictly: of its network namespace) only. Other hosts are
  // kept out by reservations.
  absl::Status ClaimForThisProcess() override;
  absl::Status Reopen() override;

  // A command that moves no more than `answer` (in or out), waited for.
  ScsiOutcome Execute(const scsi::Cdb& cdb, IscsiCommand::Data data, std::span<std::byte> memory);
  ScsiOutcome ResetLun();
  // What became of it, with the LUN's name; OK when it was done.
  absl::Status StatusOf(const ScsiOutcome& outcome, const std::string& what) const;

 private:
  IscsiLun(IscsiUrl url, bool read_only);
  std::shared_ptr<IscsiConnection> connection();

  const IscsiUrl url_;
  const bool read_only_;
  IscsiFacts facts_;                           // as of Open
  std::atomic<std::uint64_t> grown_bytes_{0};  // the size as of Grow
  std::unique_ptr<IscsiReservations> reservations_;
  UniqueFd claim_;
  Mutex reopening_;  // one at a time; held while logging in, and never with mutex_ wanted by I/O
  std::size_t portal_ ABSL_GUARDED_BY(reopening_) = 0;  // that the path goes by
  Mutex mutex_;
  std::shared_ptr<IscsiConnection> connection_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel
