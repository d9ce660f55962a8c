// A small file system on a real mount: needs /dev/fuse and the right to mount.
#include "client/fuse/connection/fuse_session.h"

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <gtest/gtest.h>
#include <linux/aio_abi.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <future>
#include <string>

#include "client/fuse/fuse_interrupt.h"
#include "client/fuse/fuse_reply.h"
#include "proto/status.h"
#include "volume/base/aligned_buffer.h"

namespace reel::client {
namespace {

constexpr fuse_ino_t kFile = 2;
constexpr std::uint64_t kFileBytes = 8192;

// What the calls saw. One file, `f`, full of 'x'; reading at its second page waits for `release`.
struct Seen {
  std::atomic<bool> write_aligned{false};
  std::atomic<int> direct_reads{0};
  std::atomic<int> page_reads{0};
  std::atomic<int> waiting{0};
  std::atomic<int> lookups{0};
  std::atomic<std::size_t> most_bytes{0};  // of a read or write
  std::uint64_t kept_ns = 0;               // for how long the kernel may take names for valid
  std::promise<void> release;
  std::shared_future<void> released{release.get_future()};
};

Seen& Self(fuse_req_t req) {
  return *static_cast<Seen*>(fuse_req_userdata(req));
}

void NoteSize(Seen& seen, std::size_t bytes) {
  if (bytes > seen.most_bytes) seen.most_bytes = bytes;
}

v1::Attr AttrOf(fuse_ino_t inode) {
  v1::Attr attr;
  attr.set_inode(inode);
  attr.set_nlink(1);
  attr.set_mode(inode == kFile ? S_IFREG | 0666 : S_IFDIR | 0777);
  attr.set_size_bytes(inode == kFile ? kFileBytes : 0);
  return attr;
}

fuse_lowlevel_ops Table() {
  fuse_lowlevel_ops ops{};
  ops.lookup = [](fuse_req_t req, fuse_ino_t, const char* name) {
    Seen& seen = Self(req);
    ++seen.lookups;
    const bool there = std::string_view(name) == "f";
    ReplyEntry(req, there ? absl::StatusOr<v1::Attr>(AttrOf(kFile)) : ErrnoStatus(ENOENT),
               {.attr_ns = seen.kept_ns, .name_ns = seen.kept_ns});
  };
  ops.getattr = [](fuse_req_t req, fuse_ino_t inode, fuse_file_info*) {
    ReplyAttr(req, AttrOf(inode));
  };
  ops.open = [](fuse_req_t req, fuse_ino_t, fuse_file_info*) {
    ReplyOpen(req, 0, OpenFlags({.direct = true}));
  };
  ops.read = [](fuse_req_t req, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info*) {
    Seen& seen = Self(req);
    ++(FuseSession::IsPageCacheRequest() ? seen.page_reads : seen.direct_reads);
    NoteSize(seen, size);
    if (offset == 4096) {
      ++seen.waiting;
      seen.released.wait();
    }
    std::span<std::byte> buffer = FuseSession::ReplyBuffer().first(size);
    std::memset(buffer.data(), 'x', buffer.size());
    fuse_reply_buf(req, reinterpret_cast<char*>(buffer.data()), buffer.size());
  };
  ops.write = [](fuse_req_t req, fuse_ino_t, const char* data, std::size_t size, off_t,
                 fuse_file_info*) {
    Self(req).write_aligned = reinterpret_cast<std::uintptr_t>(data) % kIoAlignment == 0;
    NoteSize(Self(req), size);
    fuse_reply_write(req, size);
  };
  return ops;
}

bool KernelOffersUring() {
  std::string value;
  std::getline(std::ifstream("/sys/module/fuse/parameters/enable_uring"), value);
  return value == "Y";
}

// What a call in a file of a connection that has ended may say.
bool IsGone(int error) {
  return error == ENOTCONN || error == ECONNABORTED || error == ECANCELED;
}

class FuseSessionTest : public ::testing::TestWithParam<UringChoice> {
 protected:
  void SetUp() override {
    ASSERT_EQ(access("/dev/fuse", R_OK | W_OK), 0)
        << "this test mounts a FUSE file system and needs /dev/fuse";
    if (GetParam() == UringChoice::kOn && !KernelOffersUring()) {
      GTEST_SKIP() << "the kernel does not offer FUSE over io_uring";
    }
    char name[] = "/tmp/fuse_session_test.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    session_.reset();
    if (!directory_.empty()) rmdir(directory_.c_str());
  }
  void Mount(FuseSession::Options options = {}) {
    options.source = "test";
    options.subtype = "reeltest";
    options.mount_point = directory_;
    options.uring = GetParam();
    options.on_end = [this] { ended_.set_value(); };
    auto session = FuseSession::Mount(options, Table(), &seen_);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_EQ((*session)->over_uring(), GetParam() == UringChoice::kOn);
    session_ = *std::move(session);
  }
  int OpenFile() { return open((directory_ + "/f").c_str(), O_RDWR); }

  std::string directory_;
  Seen seen_;
  std::promise<void> ended_;
  std::unique_ptr<FuseSession> session_;
};

TEST_P(FuseSessionTest, AWritesPayloadFallsOnAPage) {
  Mount();
  const int file = OpenFile();
  ASSERT_GE(file, 0) << std::strerror(errno);
  EXPECT_EQ(pwrite(file, "abc", 3, 100), 3);
  EXPECT_TRUE(seen_.write_aligned);
  close(file);
}

// (Where fs.fuse.max_pages_limit is as the kernel has it, that is a MiB.)
TEST_P(FuseSessionTest, ARequestIsAsLargeAsTheKernelsLimitAllows) {
  std::size_t pages = 256;
  std::ifstream("/proc/sys/fs/fuse/max_pages_limit") >> pages;
  if (pages < 256) GTEST_SKIP() << "somebody has made the kernel's limit a smaller one";
  Mount();
  const std::size_t most = FuseRequestBytesHere();
  const int file = OpenFile();
  ASSERT_GE(file, 0) << std::strerror(errno);
  AlignedBuffer bytes(2 * most);
  std::memset(bytes.data(), 'y', bytes.size());
  EXPECT_EQ(pwrite(file, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(seen_.most_bytes, most);
  EXPECT_TRUE(seen_.write_aligned);
  seen_.most_bytes = 0;
  EXPECT_EQ(pread(file, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(seen_.most_bytes, most);
  EXPECT_EQ(std::count(bytes.data(), bytes.data() + bytes.size(), std::byte{'x'}),
            static_cast<std::ptrdiff_t>(bytes.size()));
  close(file);
}

TEST_P(FuseSessionTest, DistinguishesDirectReadsFromPageCacheReads) {
  Mount();
  const int file = OpenFile();
  ASSERT_GE(file, 0);
  char byte = 0;
  EXPECT_EQ(pread(file, &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_EQ(seen_.direct_reads, 1);
  EXPECT_EQ(seen_.page_reads, 0);
  if (!session_->direct_io_mmap()) GTEST_SKIP() << "the kernel maps no FOPEN_DIRECT_IO file";

  seen_.release.set_value();
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(page, MAP_FAILED) << std::strerror(errno);
  EXPECT_EQ(*static_cast<volatile char*>(page), 'x');
  EXPECT_GE(seen_.page_reads, 1);
  const int before = seen_.page_reads;
  session_->Invalidate(kFile, 0, 0);
  EXPECT_EQ(*static_cast<volatile char*>(page), 'x');
  EXPECT_GT(seen_.page_reads, before);
  munmap(page, 4096);
  close(file);
}

TEST_P(FuseSessionTest, RequestsThatWaitDoNotHoldUpOthers) {
  FuseSession::Options options;
  options.threads = 1;
  Mount(options);
  const int file = OpenFile();
  ASSERT_GE(file, 0);
  std::vector<std::thread> readers;
  for (int i = 0; i < 5; ++i) {
    readers.emplace_back([file] {
      char byte = 0;
      EXPECT_EQ(pread(file, &byte, 1, 4096), 1);
    });
  }
  while (seen_.waiting < 5) std::this_thread::yield();
  struct stat stat {};
  EXPECT_EQ(::stat((directory_ + "/f").c_str(), &stat), 0);
  seen_.release.set_value();
  for (std::thread& reader : readers) reader.join();
  close(file);
}

// ---- direct requests that wait for other hosts, and the write-back of pages
// ---------------------------------------------------------------------------------------

// A page of the file, changed in memory.
class DirtyPage {
 public:
  explicit DirtyPage(int file)
      : page_(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) {
    EXPECT_NE(page_, MAP_FAILED) << std::strerror(errno);
    if (page_ != MAP_FAILED) *static_cast<volatile char*>(page_) = 'y';
  }
  ~DirtyPage() { munmap(page_, 4096); }
  int WriteBack() { return msync(page_, 4096, MS_SYNC); }

 private:
  void* page_;
};

TEST_P(FuseSessionTest, DirectRequestsThatWaitLeaveWorkersToWriteBack) {
  FuseSession::Options options;
  options.threads = 2;
  options.max_threads = 4;
  options.direct = {.max_served = 2, .max_parked = 6, .stall_ms = 60'000};
  Mount(options);
  if (!session_->direct_io_mmap()) GTEST_SKIP() << "the kernel maps no FOPEN_DIRECT_IO file";
  const int file = OpenFile();
  ASSERT_GE(file, 0);
  DirtyPage page(file);
  std::vector<std::thread> readers;
  for (int i = 0; i < 6; ++i) {
    readers.emplace_back([file] {
      char byte = 0;
      EXPECT_EQ(pread(file, &byte, 1, 4096), 1);
      EXPECT_EQ(byte, 'x');
    });
  }
  while (seen_.waiting < 2) std::this_thread::yield();
  auto written = std::async(std::launch::async, [&] { return page.WriteBack(); });
  const bool in_time = written.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  EXPECT_TRUE(in_time);
  EXPECT_EQ(seen_.waiting, 2);
  seen_.release.set_value();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(seen_.waiting, 6);
  written.wait();
  close(file);
}

// A process that does nothing but one call sleeps in it.
bool Sleeps(pid_t process) {
  std::string text;
  std::getline(std::ifstream("/proc/" + std::to_string(process) + "/stat"), text);
  return text.find(") S ") != std::string::npos || text.find(") D ") != std::string::npos;
}

TEST_P(FuseSessionTest, AWaitingProcessCanBeKilled) {
  FuseSession::Options options;
  options.direct = {.max_served = 1, .max_parked = 6, .stall_ms = 60'000};
  Mount(options);
  const int file = OpenFile();
  ASSERT_GE(file, 0);
  std::thread first([file] {
    char byte = 0;
    EXPECT_EQ(pread(file, &byte, 1, 4096), 1);
  });
  while (seen_.waiting < 1) std::this_thread::yield();
  // At once, so that the signal may come while the request is on its way.
  const pid_t second = fork();
  if (second == 0) {
    char byte = 0;
    _exit(pread(file, &byte, 1, 4096) == 1 ? 0 : 1);
  }
  kill(second, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(second, &status, 0), second);
  EXPECT_TRUE(WIFSIGNALED(status));
  // One that waits already.
  const pid_t third = fork();
  if (third == 0) {
    char byte = 0;
    _exit(pread(file, &byte, 1, 4096) == 1 ? 0 : 1);
  }
  while (!Sleeps(third)) std::this_thread::yield();
  kill(third, SIGKILL);
  EXPECT_EQ(waitpid(third, &status, 0), third);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(seen_.waiting, 1);
  seen_.release.set_value();
  first.join();
  close(file);
}

// Over io_uring each CPU's queue has a place beyond the limit, so all are to come from one CPU.
void StayOnThisCpu() {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &here);
  ASSERT_EQ(sched_setaffinity(0, sizeof(here), &here), 0);
}

// All of the kernel's places for asynchronous requests are taken by such that wait for another
// host, which may wait for this page.
TEST_P(FuseSessionTest, DirectRequestsThatFillTheKernelsQueueGiveWayToAnInvalidation) {
  constexpr int kPlaces = 4;
  FuseSession::Options options;
  options.max_background = kPlaces;
  options.direct = {.max_served = 2, .max_parked = 2, .stall_ms = 100};
  Mount(options);
  if (!session_->direct_io_mmap()) GTEST_SKIP() << "the kernel maps no FOPEN_DIRECT_IO file";
  const int file = open((directory_ + "/f").c_str(), O_RDWR | O_DIRECT);
  ASSERT_GE(file, 0);
  DirtyPage page(file);
  StayOnThisCpu();
  aio_context_t context = 0;
  ASSERT_EQ(syscall(SYS_io_setup, kPlaces, &context), 0) << std::strerror(errno);
  AlignedBuffer memory(kPlaces * 4096);
  iocb blocks[kPlaces] = {};
  for (int i = 0; i < kPlaces; ++i) {
    blocks[i].aio_fildes = static_cast<std::uint32_t>(file);
    blocks[i].aio_lio_opcode = IOCB_CMD_PREAD;
    blocks[i].aio_buf = reinterpret_cast<std::uint64_t>(memory.data() + i * 4096);
    blocks[i].aio_nbytes = 4096;
    blocks[i].aio_offset = 4096;
    iocb* one = &blocks[i];
    ASSERT_EQ(syscall(SYS_io_submit, context, 1, &one), 1) << std::strerror(errno);
  }
  while (seen_.waiting < 2) std::this_thread::yield();
  auto dropped = std::async(std::launch::async, [&] { session_->Invalidate(kFile, 0, 4096); });
  const bool in_time = dropped.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  EXPECT_TRUE(in_time);
  EXPECT_TRUE(seen_.write_aligned);  // the page was written back
  seen_.release.set_value();
  dropped.wait();
  io_event events[kPlaces] = {};
  ASSERT_EQ(syscall(SYS_io_getevents, context, kPlaces, kPlaces, events, nullptr), kPlaces);
  const auto gave_up = [](const io_event& event) { return event.res == -EAGAIN; };
  EXPECT_EQ(std::ranges::count_if(events, gave_up), 2);
  syscall(SYS_io_destroy, context);
  close(file);
}

TEST_P(FuseSessionTest, TheKernelKeepsNamesUntilTheyAreInvalidated) {
  seen_.kept_ns = 3'600'000'000'000;
  Mount();
  if (!session_->ForgetNames()) GTEST_SKIP() << "this kernel cannot forget names";
  const std::string there = directory_ + "/f";
  const std::string absent = directory_ + "/none";
  for (int round = 1; round <= 2; ++round) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(access(there.c_str(), F_OK), 0);
      EXPECT_EQ(access(absent.c_str(), F_OK), -1);
    }
    EXPECT_EQ(seen_.lookups, 2 * round);
    EXPECT_TRUE(session_->ForgetNames());
  }
}

TEST_P(FuseSessionTest, EndsWhenItIsUnmounted) {
  Mount();
  session_->Detach();
  ended_.get_future().wait();
  EXPECT_TRUE(session_->ended());
  EXPECT_TRUE(session_->StopWorkers(UINT32_MAX));
}

TEST_P(FuseSessionTest, EndsWithAFileOpen) {
  Mount();
  const int file = OpenFile();
  ASSERT_GE(file, 0);
  session_->Detach();
  EXPECT_TRUE(session_->StopWorkers(UINT32_MAX));
  session_.reset();
  char byte = 0;
  EXPECT_EQ(pread(file, &byte, 1, 0), -1);
  EXPECT_PRED1(IsGone, errno);
  close(file);
}

// Within it a worker that only reads requests has been told to end, and ends.
constexpr std::uint32_t kIdleEndMs = 2'000;

// None of this needs the control file system to be mounted (/sys/fs/fuse/connections).
TEST_P(FuseSessionTest, NoCallWaitsOnceTheConnectionIsAborted) {
  Mount();
  const int file = OpenFile();
  ASSERT_GE(file, 0);
  std::thread in_progress([file] {
    char byte = 0;
    EXPECT_EQ(pread(file, &byte, 1, 4096), -1);  // its worker hangs
    EXPECT_PRED1(IsGone, errno);
  });
  while (seen_.waiting < 1) std::this_thread::yield();
  session_->Detach();
  EXPECT_FALSE(session_->StopWorkers(kIdleEndMs));  // one hangs; the idle ones end
  std::thread unread([file] {
    char byte = 0;
    EXPECT_EQ(pread(file, &byte, 1, 0), -1);  // no worker reads its request
    EXPECT_PRED1(IsGone, errno);
  });
  session_->Abort();
  in_progress.join();
  unread.join();
  seen_.release.set_value();
  close(file);
}

TEST_P(FuseSessionTest, AnInvalidationWaitsForNoAbortedRead) {
  seen_.release.set_value();
  Mount();
  if (!session_->direct_io_mmap()) GTEST_SKIP() << "the kernel maps no FOPEN_DIRECT_IO file";
  const int file = OpenFile();
  ASSERT_GE(file, 0);
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(page, MAP_FAILED) << std::strerror(errno);
  session_->Detach();
  EXPECT_TRUE(session_->StopWorkers(UINT32_MAX));
  // The kernel locks the page until it is read, and nobody reads the request.
  std::thread reader([page] { EXPECT_EQ(madvise(page, 4096, MADV_POPULATE_READ), -1); });
  std::thread invalidator([this] { session_->Invalidate(kFile, 0, 0); });
  session_->Abort();
  reader.join();
  invalidator.join();
  munmap(page, 4096);
  close(file);
}

TEST_P(FuseSessionTest, ALaterCallFailsOnceTheConnectionIsAborted) {
  Mount();
  const int file = OpenFile();
  ASSERT_GE(file, 0);
  std::thread in_progress([file] {
    char byte = 0;
    EXPECT_EQ(pread(file, &byte, 1, 4096), -1);
  });
  while (seen_.waiting < 1) std::this_thread::yield();
  session_->Detach();
  EXPECT_FALSE(session_->StopWorkers(0));
  session_->Abort();
  in_progress.join();
  char byte = 0;
  EXPECT_EQ(pread(file, &byte, 1, 0), -1);
  EXPECT_PRED1(IsGone, errno);
  seen_.release.set_value();
  EXPECT_TRUE(session_->StopWorkers(UINT32_MAX));
  close(file);
}

INSTANTIATE_TEST_SUITE_P(, FuseSessionTest, ::testing::Values(UringChoice::kOff, UringChoice::kOn),
                         [](const auto& info) {
                           return info.param == UringChoice::kOn ? "OverUring" : "OverDevFuse";
                         });

TEST(FuseSessionMount, AFailedMountSaysWhy) {
  FuseSession::Options options;
  options.source = "test";
  options.subtype = "reeltest";
  options.mount_point = "/nonexistent/directory";
  const auto session = FuseSession::Mount(options, Table(), nullptr);
  EXPECT_NE(session.status().message().find("No such file"), std::string::npos) << session.status();
}

TEST(IsBeingKilled, KnowsTheLivingAndTheGone) {
  EXPECT_FALSE(IsBeingKilled(getpid()));
  EXPECT_TRUE(IsBeingKilled(0x3fffffff));
}

}  // namespace
}  // namespace reel::client
