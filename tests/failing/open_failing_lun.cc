// OpenLun for programs under test: image files that fail where a control file says so.
//
// Linked into a program's own objects it takes the place of volume/iscsi/open_lun.cc.
// REEL_LUN_FAULTS names the control file, which may come, change and go while the program runs;
// each of its lines is
//   read|write|flush LUN FIRST END DELAY_MS
// and makes such requests of the image whose path ends in LUN, where they touch bytes [FIRST, END),
// take DELAY_MS longer and then, if DELAY_MS is 0, fail. REEL_LUN_COUNTS is a prefix: PREFIX.PID
// holds what the process asked of its LUNs so far, as four native 64-bit numbers (requests and
// bytes read, requests and bytes written). REEL_LUN_JOURNAL is a prefix too: PREFIX.PID gets a line
//   BOOTTIME_MS OFFSET LENGTH LUN
// for each write, when it is handed to the image. REEL_LUN_WRITES is how many writes the process
// does: it ends, with 86, when it is to do another one.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "volume/base/env.h"
#include "volume/lun/file_lun.h"
#include "volume/lun/lun.h"

namespace reel {
namespace {

struct Counts {
  std::atomic<std::uint64_t> requests;
  std::atomic<std::uint64_t> bytes;
};

// Of reads and of writes; in the process's own memory when there is no file to share them by.
Counts* SharedCounts() {
  static Counts* const counts = [] {
    static Counts own[2];
    const char* prefix = std::getenv("REEL_LUN_COUNTS");
    if (prefix == nullptr) return own;
    const std::string path = std::string(prefix) + "." + std::to_string(getpid());
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, sizeof(own)) != 0) return own;
    void* map = mmap(nullptr, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? own : static_cast<Counts*>(map);
  }();
  return counts;
}

// The journal of this process's writes; -1 where none is wanted.
int Journal() {
  static const int fd = [] {
    const char* prefix = std::getenv("REEL_LUN_JOURNAL");
    if (prefix == nullptr) return -1;
    const std::string path = std::string(prefix) + "." + std::to_string(getpid());
    return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  }();
  return fd;
}

void Note(const Lun& lun, const LunRequest& request) {
  if (Journal() < 0) return;
  const std::string line = absl::StrCat(SystemClock().NowMs(), " ", request.offset_bytes, " ",
                                        request.length_bytes, " ", lun.name(), "\n");
  // One line is one append, whole or not at all.
  if (write(Journal(), line.data(), line.size()) < 0) std::abort();
}

constexpr int kEnoughWritten = 86;

void EndWhereEnoughIsWritten() {
  static const char* const most = std::getenv("REEL_LUN_WRITES");
  static std::atomic<std::int64_t> left(most == nullptr ? 0 : std::atoll(most));
  if (most != nullptr && left-- <= 0) _exit(kEnoughWritten);
}

struct Fault {
  std::string kind;
  std::uint64_t first = 0, end = 0, delay_ms = 0;
};

std::vector<Fault> FaultsOf(const std::string& lun) {
  std::vector<Fault> faults;
  const char* path = std::getenv("REEL_LUN_FAULTS");
  if (path == nullptr) return faults;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    Fault fault;
    std::string name;
    if (!(words >> fault.kind >> name >> fault.first >> fault.end >> fault.delay_ms)) continue;
    if (absl::EndsWith(lun, name)) faults.push_back(std::move(fault));
  }
  return faults;
}

class FailingLun final : public Lun {
 public:
  explicit FailingLun(std::unique_ptr<Lun> lun) : lun_(std::move(lun)) {}

  const std::string& name() const override { return lun_->name(); }
  std::uint64_t size_bytes() const override { return lun_->size_bytes(); }
  std::uint32_t logical_block_bytes() const override { return lun_->logical_block_bytes(); }
  std::uint32_t optimal_io_bytes() const override { return lun_->optimal_io_bytes(); }
  bool read_only() const override { return lun_->read_only(); }
  absl::Status ClaimForThisProcess() override { return lun_->ClaimForThisProcess(); }

  void Start(LunRequest& request) override {
    const bool read = request.kind == LunRequest::Kind::kRead;
    Counts& counts = SharedCounts()[read ? 0 : 1];
    ++counts.requests;
    counts.bytes += request.length_bytes;
    if (Fails(read ? "read" : "write", request.offset_bytes, request.length_bytes)) {
      request.Complete(absl::UnknownError("Input/output error (injected)"));
    } else {
      if (!read) {
        EndWhereEnoughIsWritten();
        Note(*this, request);
      }
      lun_->Start(request);
    }
  }
  absl::Status Flush() override {
    if (Fails("flush", 0, size_bytes())) {
      return absl::UnknownError(name() + ": flush: Input/output error (injected)");
    }
    return lun_->Flush();
  }
  absl::Status Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) override {
    return lun_->Discard(offset_bytes, length_bytes);
  }

 private:
  bool Fails(const char* kind, std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
    for (const Fault& fault : FaultsOf(name())) {
      if (fault.kind != kind || offset_bytes >= fault.end ||
          fault.first >= offset_bytes + length_bytes) {
        continue;
      }
      if (fault.delay_ms == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(fault.delay_ms));  // tidy: sleep: slow
    }
    return false;
  }

  const std::unique_ptr<Lun> lun_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Lun>> OpenLun(const std::string& name, LunAccess access) {
  absl::StatusOr<std::unique_ptr<Lun>> lun = FileLun::Open(name, access);
  if (!lun.ok()) return lun.status();
  return std::make_unique<FailingLun>(*std::move(lun));
}

}  // namespace reel
