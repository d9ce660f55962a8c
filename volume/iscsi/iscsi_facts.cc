#include "volume/iscsi/iscsi_facts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/types.h"
#include "volume/lun/lun.h"
#include "volume/lun/lun_fault.h"

namespace reel {
namespace {

using Kind = ScsiOutcome::Kind;
using Bytes = std::span<const std::byte>;

// Longer requests are several commands: a target keeps a buffer for each whole one, and the next
// command's data travel while the last one's are written.
constexpr std::uint32_t kMaxTransferBytes = 1 << 20;

enum Page : std::uint8_t { kPages = 0x00, kSerial = 0x80, kDesignators = 0x83, kLimits = 0xb0 };

// The questions to one LUN. An answer is valid until the next question.
class Questions {
 public:
  explicit Questions(ScsiQuestion ask) : ask_(ask) {}

  absl::StatusOr<Bytes> Answer(const scsi::Cdb& cdb, std::size_t most_bytes) {
    return Answered(ask_(cdb, std::span(buffer_).first(most_bytes)));
  }
  // nullopt: the target has no such page.
  absl::StatusOr<std::optional<Bytes>> VitalPage(Page number) {
    const ScsiOutcome outcome = ask_(scsi::InquiryPage(number, buffer_.size()), buffer_);
    if (IsUnsupported(outcome)) return std::nullopt;
    return Answered(outcome);
  }
  ScsiOutcome Ask(const scsi::Cdb& cdb, std::size_t most_bytes) {
    return ask_(cdb, std::span(buffer_).first(most_bytes));
  }

 private:
  absl::StatusOr<Bytes> Answered(const ScsiOutcome& outcome) const {
    if (outcome.kind != Kind::kDone) return FailureOf(outcome);
    return Bytes(buffer_).first(std::min<std::size_t>(outcome.transferred_bytes, buffer_.size()));
  }

  const ScsiQuestion ask_;
  std::array<std::byte, 1024> buffer_{};
};

absl::Status AskForSize(Questions& questions, IscsiFacts& facts) {
  const auto answer = questions.Answer(scsi::ReadCapacity16(32), 32);
  if (!answer.ok()) return answer.status();
  const auto capacity = scsi::DecodeCapacity(*answer);
  if (!capacity.ok()) return capacity.status();
  if (!IsPowerOfTwo(capacity->block_bytes) || capacity->block_bytes < 512 ||
      capacity->block_bytes > kIoAlignment ||
      capacity->blocks > kMaxVolumeBytes / capacity->block_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(capacity->blocks, " logical blocks of ", capacity->block_bytes,
                     " bytes are not supported; use a LUN with blocks of 512 or 4096 bytes"));
  }
  facts.size_bytes = capacity->blocks * capacity->block_bytes;
  facts.logical_block_bytes = capacity->block_bytes;
  facts.max_transfer_bytes = kMaxTransferBytes;
  return absl::OkStatus();
}

void TakeLimits(Bytes page, IscsiFacts& facts) {
  const scsi::BlockLimits limits = scsi::DecodeBlockLimits(page).value_or(scsi::BlockLimits());
  const std::uint64_t block_bytes = facts.logical_block_bytes;
  const std::uint64_t optimal = limits.optimal_transfer_blocks * block_bytes;
  if (optimal <= kMaxVolumeBytes && optimal <= UINT32_MAX) {
    facts.optimal_io_bytes = static_cast<std::uint32_t>(optimal);
  }
  const std::uint64_t most = limits.max_transfer_blocks * block_bytes;
  if (most != 0 && most < kMaxTransferBytes) {
    facts.max_transfer_bytes = static_cast<std::uint32_t>(most);
  }
}

// The pages that a target need not have. One that it has and that makes no sense is none.
absl::Status AskForPages(Questions& questions, IscsiFacts& facts) {
  const auto list = questions.VitalPage(kPages);
  if (!list.ok()) return list.status();
  if (!*list) return absl::OkStatus();
  const std::vector<std::uint8_t> pages =
      scsi::DecodePages(**list).value_or(std::vector<std::uint8_t>());
  for (const Page number : {kLimits, kDesignators, kSerial}) {
    if (std::find(pages.begin(), pages.end(), number) == pages.end()) continue;
    const auto page = questions.VitalPage(number);
    if (!page.ok()) return page.status();
    if (!*page) continue;
    if (number == kLimits) TakeLimits(**page, facts);
    if (number == kDesignators) facts.identity = scsi::DecodeDesignator(**page).value_or("");
    if (number == kSerial) {
      absl::StrAppend(&facts.identity, "/", scsi::DecodeSerial(**page).value_or(""));
    }
  }
  return absl::OkStatus();
}

absl::Status AskForReservations(Questions& questions, IscsiFacts& facts) {
  const ScsiOutcome outcome =
      questions.Ask(scsi::PersistentReserveIn(scsi::ReserveIn::kReadKeys, 8), 8);
  facts.reservations = outcome.kind == Kind::kDone;
  if (facts.reservations || IsUnsupported(outcome)) return absl::OkStatus();
  const absl::Status failure = FailureOf(outcome);
  return ReservationsNotKnown(WithText(failure, absl::StrCat("READ KEYS: ", failure.message())));
}

}  // namespace

absl::StatusOr<IscsiFacts> AskForFacts(std::uint32_t lun, ScsiQuestion ask) {
  Questions questions(ask);
  // Unit attentions of the login end here.
  const ScsiOutcome ready = questions.Ask(scsi::TestUnitReady(), 0);
  if (ready.kind != Kind::kDone && ready.kind != Kind::kCheck) return FailureOf(ready);
  const auto inquiry = questions.Answer(scsi::Inquiry(96), 96);
  if (!inquiry.ok()) return inquiry.status();
  const auto is_disk = scsi::DecodeIsDisk(*inquiry);
  if (!is_disk.ok()) return is_disk.status();
  if (!*is_disk) {
    return absl::NotFoundError(absl::StrCat("the target has no disk as LUN ", lun,
                                            "; check the number (of many targets 0 is no disk)"));
  }
  if (ready.kind == Kind::kCheck) return FailureOf(ready);
  IscsiFacts facts;
  for (const auto step : {AskForSize, AskForPages, AskForReservations}) {
    if (absl::Status status = step(questions, facts); !status.ok()) return status;
  }
  return facts;
}

}  // namespace reel
