// An iSCSI LUN against a real target, and through a proxy that cuts, holds and spoils.
#include "volume/iscsi/iscsi_lun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/format/label.h"
#include "volume/format/lun_scan.h"
#include "volume/lun/io_batch.h"
#include "volume/lun/lun_fault.h"
#include "volume/testing/tcp_proxy.h"
#include "volume/testing/tgt_target.h"

namespace reel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint8_t kCheck = 0x02, kBusy = 0x08, kConflict = 0x18, kTaskSetFull = 0x28,
                       kTaskAborted = 0x40;
constexpr int kForEver = 1 << 20;

std::unique_ptr<Lun> Open(const std::string& url, LunAccess access = LunAccess::kReadWrite) {
  auto lun = OpenLun(url, access);
  EXPECT_TRUE(lun.ok()) << lun.status();
  return lun.ok() ? *std::move(lun) : nullptr;
}

absl::Status ErrorOf(const std::string& url) {
  return OpenLun(url, LunAccess::kReadWrite).status();
}

AlignedBuffer Noise(std::size_t size_bytes, std::uint64_t seed) {
  AlignedBuffer buffer(size_bytes);
  std::mt19937_64 random(seed);
  for (std::size_t at = 0; at < size_bytes; at += 8) {
    const std::uint64_t word = random();
    std::memcpy(buffer.data() + at, &word, 8);
  }
  return buffer;
}

absl::Status WriteBlock(Lun& lun, std::uint64_t block, std::uint64_t seed) {
  return lun.Write(block * kBlock, Noise(kBlock, seed).span());
}

testing::AssertionResult Holds(Lun& lun, std::uint64_t offset_bytes, const AlignedBuffer& want) {
  const AlignedBuffer got(want.size());
  if (const absl::Status status = lun.Read(offset_bytes, got.span()); !status.ok()) {
    return testing::AssertionFailure() << status;
  }
  return std::memcmp(got.data(), want.data(), want.size()) == 0
             ? testing::AssertionSuccess()
             : testing::AssertionFailure() << "other bytes at " << offset_bytes;
}

// `count` one-block writes at once, each of a thread's own; what became of them.
std::vector<absl::Status> WritesAtOnce(Lun& lun, int count, TcpProxy& proxy,
                                       const std::function<void()>& when_sent) {
  std::vector<absl::Status> outcomes(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  proxy.HoldAnswers();
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] { outcomes[static_cast<std::size_t>(i)] = WriteBlock(lun, i, i); });
  }
  EXPECT_TRUE(proxy.AwaitRequests(static_cast<std::uint64_t>(count) * kBlock));
  when_sent();
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

TEST(IscsiLunTest, ReportsItsFacts) {
  TgtTarget target({.luns = 1, .lun_bytes = 32 << 20, .chap_user = "", .chap_secret = ""});
  const auto lun = Open(target.Url());
  ASSERT_NE(lun, nullptr);
  EXPECT_EQ(lun->name(), target.Url());
  EXPECT_EQ(lun->size_bytes(), 32U << 20);
  EXPECT_EQ(lun->logical_block_bytes(), 4096U);
  EXPECT_TRUE(lun->has_reservations());
  EXPECT_FALSE(lun->read_only());
  EXPECT_TRUE(absl::IsUnimplemented(lun->Discard(0, kBlock)));
  EXPECT_TRUE(lun->Reopen().ok());  // nothing was lost
}

TEST(IscsiLunTest, KeepsDataAtDepthAndSplitsLongRequests) {
  TgtTarget target;
  const auto lun = Open(target.Url());
  ASSERT_NE(lun, nullptr);
  // Pieces of all lengths, in disorder, from several places of memory, each larger than one command
  // may be now and then.
  struct Piece {
    std::uint64_t offset_bytes;
    AlignedBuffer data;
  };
  std::vector<Piece> pieces;
  std::mt19937_64 random(7);
  std::uint64_t at = 0;
  while (at < (40 << 20)) {
    const std::uint64_t length = kBlock * (1 + random() % (random() % 8 == 0 ? 900 : 20));
    pieces.push_back({at, Noise(length, at)});
    at += length + kBlock * (random() % 3);
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  IoBatch batch;
  for (const Piece& piece : pieces) {
    // In two parts, so that a request has more than one.
    const std::uint64_t half = piece.data.size() / 2 / kBlock * kBlock;
    if (half != 0) {
      batch.Add(*lun, LunRequest::Kind::kWrite, piece.offset_bytes, {piece.data.data(), half});
    }
    batch.Add(*lun, LunRequest::Kind::kWrite, piece.offset_bytes + half,
              {piece.data.data() + half, piece.data.size() - half});
  }
  ASSERT_TRUE(batch.Run().ok());
  ASSERT_TRUE(lun->Flush().ok());
  const auto again = Open(target.Url(), LunAccess::kReadOnly);
  for (const Piece& piece : pieces) EXPECT_TRUE(Holds(*again, piece.offset_bytes, piece.data));
}

TEST(IscsiLunTest, CarriesRequestsOfManyThreads) {
  TgtTarget target;
  const auto lun = Open(target.Url());
  ASSERT_NE(lun, nullptr);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&lun, t] {
      for (std::uint64_t i = 0; i < 100; ++i) {
        const std::uint64_t block = i * 8 + t;
        EXPECT_TRUE(WriteBlock(*lun, block, block).ok());
        EXPECT_TRUE(Holds(*lun, block * kBlock, Noise(kBlock, block)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(IscsiLunTest, RefusesOutOfRangeRequests) {
  TgtTarget target;
  const auto lun = Open(target.Url(), LunAccess::kReadOnly);
  ASSERT_NE(lun, nullptr);
  const AlignedBuffer block = AlignedBuffer::Zeroed(kBlock);
  EXPECT_TRUE(absl::IsFailedPrecondition(lun->Write(0, block.span())));
  EXPECT_TRUE(absl::IsInvalidArgument(lun->Read(512, block.span())));
  EXPECT_TRUE(absl::IsOutOfRange(lun->Read(lun->size_bytes(), block.span())));
  EXPECT_TRUE(lun->Read(lun->size_bytes() - kBlock, block.span()).ok());
}

TEST(IscsiLunTest, AFailedOpenSaysWhy) {
  TgtTarget target;
  const auto place = [&](const std::string& from, const std::string& to) {
    std::string url = target.Url();
    return url.replace(url.find(from), from.size(), to);
  };
  EXPECT_TRUE(absl::IsInvalidArgument(ErrorOf("iscsi://nothing")));
  EXPECT_TRUE(absl::IsNotFound(ErrorOf(place(":target/1", ":other/1")))) << "no such target";
  EXPECT_TRUE(absl::IsNotFound(ErrorOf(target.Url(7)))) << "no such LUN";
  EXPECT_TRUE(absl::IsNotFound(ErrorOf(target.Url(0)))) << "a controller";
  target.Kill();
  const absl::Status nobody = ErrorOf(target.Url());
  EXPECT_TRUE(absl::IsUnavailable(nobody)) << nobody;
  EXPECT_THAT(std::string(nobody.message()), AllOf(HasSubstr(target.Url()), Not(HasSubstr("\n"))));
}

TEST(IscsiLunTest, LogsInByChap) {
  TgtTarget target(
      {.luns = 1, .lun_bytes = 8 << 20, .chap_user = "reel", .chap_secret = "a-long-secret"});
  const auto lun = Open(target.Url(1, "", 0, "reel%a-long-secret"));
  ASSERT_NE(lun, nullptr);
  EXPECT_TRUE(WriteBlock(*lun, 1, 1).ok());
  EXPECT_THAT(lun->name(), Not(HasSubstr("a-long-secret")));
  const absl::Status wrong = ErrorOf(target.Url(1, "", 0, "reel%another-secret"));
  EXPECT_TRUE(absl::IsPermissionDenied(wrong)) << wrong;
  EXPECT_THAT(std::string(wrong.message()), Not(HasSubstr("another-secret")));
  const absl::Status without = ErrorOf(target.Url());
  EXPECT_TRUE(absl::IsPermissionDenied(without)) << without;
}

TEST(IscsiLunTest, IsClaimedByOneProcess) {
  TgtTarget target({.luns = 2, .lun_bytes = 8 << 20, .chap_user = "", .chap_secret = ""});
  const auto first = Open(target.Url(1));
  EXPECT_TRUE(first->ClaimForThisProcess().ok());
  EXPECT_TRUE(first->ClaimForThisProcess().ok());
  const auto second = Open(target.Url(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(second->ClaimForThisProcess()));
  EXPECT_TRUE(Open(target.Url(2))->ClaimForThisProcess().ok());
}

TEST(IscsiLunTest, ForeignContentAndLabelsAreFoundAsOnADevice) {
  TgtTarget target(
      {.luns = 1, .lun_bytes = 32 << 20, .chap_user = "reel", .chap_secret = "a-long-secret"});
  const std::string url = target.Url(1, "", 0, "reel%a-long-secret");
  const auto lun = Open(url);
  ASSERT_NE(lun, nullptr);
  EXPECT_EQ(*ProbeForeignContent(*lun), "");
  // Swap space, by its signature at the end of the first page.
  const AlignedBuffer page = AlignedBuffer::Zeroed(kBlock);
  std::memcpy(page.data() + kBlock - 10, "SWAPSPACE2", 10);
  page.data()[1024] = std::byte{1};
  page.data()[1028] = std::byte{0xff};
  ASSERT_TRUE(lun->Write(0, page.span()).ok());
  EXPECT_THAT(*ProbeForeignContent(*lun), HasSubstr("swap"));

  ASSERT_TRUE(WriteLabel(*lun, {.lun = Uuid::Random(),
                                .name = "data1",
                                .volume = {},
                                .generation = 1,
                                .size_bytes = lun->size_bytes()})
                  .ok());
  const std::vector<FoundLun> found = ScanLuns({url});
  ASSERT_EQ(found.size(), 1U);
  ASSERT_TRUE(found[0].status.ok()) << found[0].status;
  EXPECT_EQ(found[0].reading.label.name, "data1");
  EXPECT_EQ(found[0].name, url);
  EXPECT_EQ(found[0].path, LunNameForPeople(url));
  EXPECT_THAT(found[0].path, Not(HasSubstr("a-long-secret")));
}

TEST(IscsiLunTest, AHeaderDigestFindsAFlippedBit) {
  TgtTarget target;
  const AlignedBuffer block(kBlock);
  for (const std::string digest : {"none", "crc32c", "auto"}) {
    TcpProxy proxy(target.port());
    const auto lun = Open(target.Url(1, "header_digest=" + digest, proxy.port()));
    ASSERT_NE(lun, nullptr);
    EXPECT_TRUE(lun->Read(0, block.span()).ok());
    proxy.CorruptNextAnswer();
    const absl::Status status = lun->Read(0, block.span());
    if (digest == "none") {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      EXPECT_EQ(FaultOf(status), LunFault::kUnknown) << digest << ": " << status;
    }
  }
}

TEST(IscsiLunTest, ALostConnectionLeavesOutcomesUnknownAndNothingIsSentAgain) {
  TgtTarget target;
  TcpProxy proxy(target.port());
  const auto lun = Open(target.Url(1, "", proxy.port()));
  ASSERT_NE(lun, nullptr);
  for (const absl::Status& status : WritesAtOnce(*lun, 16, proxy, [&] { proxy.Cut(); })) {
    EXPECT_EQ(FaultOf(status), LunFault::kUnknown) << status;
    EXPECT_TRUE(IsOutcomeUnknown(status));
    EXPECT_FALSE(IsFenced(status));
  }
  const absl::Status later = WriteBlock(*lun, 0, 0);
  EXPECT_EQ(FaultOf(later), LunFault::kClosed) << later;
  EXPECT_FALSE(IsOutcomeUnknown(later));
  EXPECT_EQ(FaultOf(lun->Flush()), LunFault::kClosed);
  EXPECT_EQ(proxy.connections(), 1) << "it logged in again by itself";

  EXPECT_TRUE(lun->Reopen().ok());
  EXPECT_EQ(proxy.connections(), 2);
  EXPECT_TRUE(WriteBlock(*lun, 3, 99).ok());
  EXPECT_TRUE(Holds(*lun, 3 * kBlock, Noise(kBlock, 99)));
}

TEST(IscsiLunTest, AnIdlePathThatIsCutIsKnownByTheNextRequest) {
  TgtTarget target;
  TcpProxy proxy(target.port());
  const auto lun = Open(target.Url(1, "", proxy.port()));
  proxy.Cut();
  const absl::Status status = WriteBlock(*lun, 0, 0);
  EXPECT_NE(FaultOf(status), LunFault::kNone) << status;
  EXPECT_EQ(proxy.connections(), 1);
}

TEST(IscsiLunTest, AKilledTargetLeavesOutcomesUnknown) {
  TgtTarget target;
  TcpProxy proxy(target.port());
  const auto lun = Open(target.Url(1, "", proxy.port()));
  ASSERT_NE(lun, nullptr);
  const auto outcomes = WritesAtOnce(*lun, 16, proxy, [&] {
    target.Kill();
    proxy.Cut();
  });
  for (const absl::Status& status : outcomes) EXPECT_EQ(FaultOf(status), LunFault::kUnknown);
  EXPECT_TRUE(absl::IsUnavailable(lun->Reopen()));
  EXPECT_EQ(FaultOf(WriteBlock(*lun, 0, 0)), LunFault::kClosed);
}

TEST(IscsiLunTest, ATargetThatFallsSilentIsGivenUp) {
  TgtTarget target;
  TcpProxy proxy(target.port());
  const auto lun = Open(target.Url(1, "timeout_ms=300", proxy.port()));
  ASSERT_NE(lun, nullptr);
  for (const absl::Status& status : WritesAtOnce(*lun, 16, proxy, [] {})) {
    EXPECT_EQ(FaultOf(status), LunFault::kUnknown) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("300 ms"));
  }
  EXPECT_EQ(proxy.connections(), 1);
}

// What a storage array says while its controllers change places: nobody above hears of what passes
// at once, and what takes longer comes with its word.
TEST(IscsiLunTest, AnAnswerThatSaysNotNowIsWaitedForOrNamed) {
  struct Row {
    int answers;
    std::uint8_t status, key;
    std::uint16_t code;
    LunFault fault;
  };
  TgtTarget target;
  TcpProxy proxy(target.port());
  const auto lun = Open(target.Url(1, "header_digest=none", proxy.port()));
  ASSERT_NE(lun, nullptr);
  for (const Row& row : {
           Row{3, kCheck, 6, 0x2a06, LunFault::kNone},          // unit attentions
           Row{kForEver, kCheck, 2, 0x040a, LunFault::kBusy},   // an ALUA transition
           Row{kForEver, kCheck, 2, 0x0401, LunFault::kBusy},   // becoming ready
           Row{kForEver, kBusy, 0, 0, LunFault::kBusy},         //
           Row{kForEver, kTaskSetFull, 0, 0, LunFault::kBusy},  //
           Row{1, kCheck, 11, 0x4700, LunFault::kAborted},      //
           Row{1, kCheck, 3, 0x0c00, LunFault::kNone},          // a write error is final
           Row{1, kCheck, 1, 0x1701, LunFault::kNone},          // recovered: that is success
       }) {
    proxy.ForgeAnswers(
        {.count = row.answers, .status = row.status, .key = row.key, .code = row.code});
    const absl::Status status = WriteBlock(*lun, 3, row.code);
    const bool fails = row.fault != LunFault::kNone || row.key == 3;
    EXPECT_EQ(!status.ok(), fails) << status;
    EXPECT_EQ(FaultOf(status), row.fault) << status;
    EXPECT_EQ(proxy.forgeries_left() == 0, row.answers != kForEver);
    proxy.ForgeAnswers({});
    ASSERT_TRUE(WriteBlock(*lun, 3, 1).ok());
  }
  EXPECT_EQ(proxy.connections(), 1);
}

// Only a target that knows no such command has no reservations. A LUN that was asked at a bad
// moment must not become one without fences.
TEST(IscsiLunTest, OnlyATargetThatKnowsNoReservationsHasNone) {
  constexpr std::uint8_t kPersistentReserveIn = 0x5e;
  enum class End { kHasThem, kHasNone, kNotOpened };
  struct Row {
    int answers;
    std::uint8_t status, key;
    std::uint16_t code;
    End end;
  };
  TgtTarget target;
  TcpProxy proxy(target.port());
  const std::string url = target.Url(1, "header_digest=none&timeout_ms=300", proxy.port());
  for (const Row& row : {
           Row{1, kCheck, 5, 0x2000, End::kHasNone},            // no such command
           Row{1, kCheck, 5, 0x2400, End::kHasNone},            // no such service action
           Row{3, kCheck, 6, 0x2900, End::kHasThem},            // unit attentions
           Row{3, kCheck, 2, 0x0401, End::kHasThem},            // becoming ready
           Row{3, kBusy, 0, 0, End::kHasThem},                  //
           Row{3, kTaskAborted, 0, 0, End::kHasThem},           // others' resets
           Row{kForEver, kCheck, 6, 0x2900, End::kNotOpened},   //
           Row{kForEver, kCheck, 2, 0x040a, End::kNotOpened},   // an ALUA transition
           Row{kForEver, kBusy, 0, 0, End::kNotOpened},         //
           Row{kForEver, kTaskSetFull, 0, 0, End::kNotOpened},  //
           Row{kForEver, kTaskAborted, 0, 0, End::kNotOpened},  //
           Row{1, kConflict, 0, 0, End::kNotOpened},            // an older reservation
           Row{1, kCheck, 5, 0x2500, End::kNotOpened},          // the LUN is gone
           Row{1, kCheck, 4, 0x4400, End::kNotOpened},          // a hardware error
       }) {
    proxy.ForgeAnswers({.count = row.answers,
                        .status = row.status,
                        .key = row.key,
                        .code = row.code,
                        .operation = kPersistentReserveIn});
    const auto lun = OpenLun(url, LunAccess::kReadWrite);
    const std::string answer = absl::StrCat(row.status, ": ", row.key, ", ", absl::Hex(row.code));
    EXPECT_NE(proxy.forgeries_left(), row.answers) << answer;
    EXPECT_EQ(lun.ok(), row.end != End::kNotOpened) << answer << ": " << lun.status();
    if (lun.ok()) {
      EXPECT_EQ((*lun)->has_reservations(), row.end == End::kHasThem) << answer;
    } else {
      EXPECT_THAT(std::string(lun.status().message()),
                  AllOf(HasSubstr("127.0.0.1"), HasSubstr("READ KEYS"), HasSubstr("try again"),
                        Not(HasSubstr("\n"))));
    }
  }
}

}  // namespace
}  // namespace reel
