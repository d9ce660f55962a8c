// Administration of dumps of a volume's metadata: each call is the volume's DumpKeeper's to answer.
#include <utility>

#include "mdc/rpc/admin_service.h"

namespace reel::mdc {
void AdminService::AcceptDumpCalls(CallQueue& queue) {
  using BeginCall = Call<v1::BeginDumpRequest, v1::BeginDumpReply>;
  using ReadCall = Call<v1::ReadDumpRequest, v1::ReadDumpReply>;
  using KeepCall = Call<v1::KeepDumpRequest, v1::KeepDumpReply>;
  using ReleaseCall = Call<v1::ReleaseDumpRequest, v1::ReleaseDumpReply>;
  AcceptKind<BeginCall>(
      &Service::RequestBeginDump,
      [this](BeginCall& call) {
        OnDumps(call, [&call](DumpKeeper& dumps) {
          dumps.Begin([&call](const absl::StatusOr<Uuid>& dump) {
            if (dump.ok()) call.reply().set_dump(dump->ToBytes());
            call.Finish(ToGrpc(dump.status()));
          });
        });
      },
      queue);
  AcceptKind<ReadCall>(
      &Service::RequestReadDump,
      [this](ReadCall& call) {
        OnDump(call, [&call](DumpKeeper& dumps, const Uuid& dump) {
          dumps.Read(dump, call.request().index(),
                     [&call](absl::StatusOr<DumpKeeper::Block> block) {
                       if (block.ok()) {
                         call.reply().set_block(std::move(block->bytes));
                         call.reply().set_last(block->last);
                       }
                       call.Finish(ToGrpc(block.status()));
                     });
        });
      },
      queue);
  AcceptKind<KeepCall>(
      &Service::RequestKeepDump,
      [this](KeepCall& call) {
        OnDump(call, [&call](DumpKeeper& dumps, const Uuid& dump) {
          dumps.Keep(dump, [&call](const absl::Status& kept) { call.Finish(ToGrpc(kept)); });
        });
      },
      queue);
  AcceptKind<ReleaseCall>(
      &Service::RequestReleaseDump,
      [this](ReleaseCall& call) {
        OnDumps(call, [&call](DumpKeeper& dumps) {
          dumps.Release([&call](const absl::Status& done) { call.Finish(ToGrpc(done)); });
        });
      },
      queue);
}

}  // namespace reel::mdc
