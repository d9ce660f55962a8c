#include "volume/join/new_lun.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/format/label.h"
#include "volume/iscsi/iscsi_url.h"

namespace reel {

absl::Status RefuseNewLun(const std::string& path, std::string_view holds, std::string_view hint) {
  const std::string shown = LunNameForPeople(path);
  return absl::FailedPreconditionError(absl::StrCat(shown, " holds ", std::string(holds),
                                                    "; to overwrite it, give ", std::string(hint),
                                                    " ", shown));
}

absl::StatusOr<NewLun> LookAtNewLun(Lun& lun, const std::string& path, bool forced,
                                    std::string_view hint) {
  const auto reading = ReadLabel(lun);
  if (!reading.ok() && !absl::IsNotFound(reading.status()) && !forced) {
    const bool label =
        absl::IsDataLoss(reading.status()) || absl::IsUnimplemented(reading.status());
    if (!label) return reading.status();
    return RefuseNewLun(
        path, absl::StrCat("a label that cannot be used (", reading.status().message(), ")"), hint);
  }
  // Also behind a good label: the copy outlives an mkfs of another kind at the start.
  if (!forced) {
    const auto foreign = ProbeForeignContent(lun);
    if (!foreign.ok()) return foreign.status();
    if (!foreign->empty()) return RefuseNewLun(path, *foreign, hint);
  }
  if (!reading.ok()) {
    return NewLun{
        .uuid = Uuid::Random(), .name = LunNameFromPath(path), .volume = {}, .start_over = true};
  }
  const Label& label = reading->label;
  return NewLun{.uuid = label.lun,
                .name = label.name,
                .volume = label.volume,
                .label_generation = label.generation,
                .start_over = !label.volume.is_nil()};
}

absl::Status PrepareNewLun(Lun& lun, const NewLun& as) {
  if (as.start_over) {
    // First of all: a standby of the volume that was here takes a seat that is free, but none of a
    // LUN that is its volume's no more.
    absl::Status status = WriteLabel(lun, {.lun = as.uuid,
                                           .name = as.name,
                                           .volume = {},
                                           .generation = as.label_generation + 1,
                                           .size_bytes = lun.size_bytes()});
    if (!status.ok()) return status;
  }
  // Old descriptors, an old arbitration block and old marks must not be taken for the new volume's.
  const AlignedBuffer zeros = AlignedBuffer::Zeroed(kLabelCopyOffset - kLabelBytes);
  if (absl::Status status = lun.Write(kLabelBytes, zeros.span()); !status.ok()) return status;
  return lun.Flush();
}

std::string LunNameFromPath(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  if (const auto url = ParseIscsiUrl(path); url.ok()) {
    name = absl::StrCat(url->target.substr(url->target.rfind(':') + 1), "-", url->lun);
  }
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return !absl::ascii_isalnum(c) && c != '.' && c != '_' && c != '-'; },
      '-');
  name.resize(std::min(name.size(), kMaxLunNameBytes));
  return name.empty() ? "lun" : name;
}

}  // namespace reel
