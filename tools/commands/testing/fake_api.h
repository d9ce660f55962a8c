// A controller of made-up answers, for tests of commands: each reply is a message that the test
// fills in, and each request is kept. Threads: one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/admin/admin_api.h"
#include "volume/base/uuid.h"

namespace reel::tools {

class FakeApi : public AdminApi {
 public:
  std::vector<std::string> mdcs() const override { return {"mdc1:7440", "mdc2:7440"}; }
  std::vector<MdcAnswer> Everywhere() override {
    return {{"mdc1:7440", status.ok() ? absl::StatusOr<v1::VolumesReply>(volumes) : status},
            {"mdc2:7440", absl::UnavailableError("no answer")}};
  }
  std::unique_ptr<AdminApi> At(const std::string& mdc) override;

  void AddVolume(const std::string& name) {
    auto* volume = volumes.add_volumes();
    volume->set_name(name);
    volume->set_volume(Uuid::Random().ToBytes());
    volume->set_role("active");
    volume->set_epoch(3);
    volume->set_active("mdc1:7440");
    volume->set_active_host("studio1");
  }

  // The answer to a call from now on; `reply` outlives the fake.
  void Answer(const std::string& method, const google::protobuf::Message& reply) {
    replies_[method] = [&reply](const google::protobuf::Message&, google::protobuf::Message& out) {
      out.CopyFrom(reply);
    };
  }
  // The last request of its kind.
  template <typename Request>
  Request Asked() const {
    Request request;
    const auto found = asked_.find(Request::descriptor()->name());
    if (found != asked_.end()) request.ParseFromString(found->second);
    return request;
  }

  absl::Status status;              // of every call
  std::vector<std::string> orders;  // what changes something
  std::function<void()> on_order;   // what the daemons make of them
  std::vector<std::string> dump_blocks;
  v1::VolumesReply volumes;
  v1::DisksReply disks;
  v1::ShowReply show;
  v1::StatReply stat;
  v1::WhoReply who;
  v1::LocksReply locks;
  v1::BeginDumpReply begin_dump;
  v1::ReservationsReply reservations;

 protected:
  absl::Status Call(const std::string& method, const google::protobuf::Message& request,
                    google::protobuf::Message& reply, Repeat) override {
    asked_[request.GetDescriptor()->name()] = request.SerializeAsString();
    if (method == "Fail" || method == "Stop" || method == "Start") Order(method, request);
    if (!status.ok()) return status;
    const auto found = replies_.find(method);
    if (found != replies_.end()) found->second(request, reply);
    return absl::OkStatus();
  }

 private:
  friend class FakeController;
  void Order(const std::string& method, const google::protobuf::Message& request) {
    std::string order = absl::StrCat(absl::AsciiStrToLower(method));
    if (method == "Fail") {
      const auto& fail = dynamic_cast<const v1::FailRequest&>(request);
      absl::StrAppend(&order, " ", fail.volume(), " to ", fail.successor());
    } else {
      const auto* volume = request.GetDescriptor()->FindFieldByName("volume");
      absl::StrAppend(&order, " ", request.GetReflection()->GetString(request, volume));
    }
    orders.push_back(order);
    if (on_order) on_order();
  }

  using Handler = std::function<void(const google::protobuf::Message&, google::protobuf::Message&)>;
  std::map<std::string, Handler> replies_ = Handlers();
  std::map<std::string, std::string> asked_;

  std::map<std::string, Handler> Handlers() {
    const auto copy = [](const google::protobuf::Message& from) {
      return [&from](const google::protobuf::Message&, google::protobuf::Message& to) {
        to.CopyFrom(from);
      };
    };
    return {
        {"Volumes", copy(volumes)},
        {"Disks", copy(disks)},
        {"Show", copy(show)},
        {"Stat", copy(stat)},
        {"Who", copy(who)},
        {"Locks", copy(locks)},
        {"BreakLocks", copy(locks)},
        {"BeginDump", copy(begin_dump)},
        {"Reservations", copy(reservations)},
        {"Stop",
         [](const google::protobuf::Message&, google::protobuf::Message& to) {
           dynamic_cast<v1::StopReply&>(to).set_sessions(3);
         }},
        {"ReadDump", [this](const google::protobuf::Message& from, google::protobuf::Message& to) {
           const auto index = dynamic_cast<const v1::ReadDumpRequest&>(from).index();
           auto& reply = dynamic_cast<v1::ReadDumpReply&>(to);
           reply.set_block(dump_blocks.at(index));
           reply.set_last(index + 1 == dump_blocks.size());
         }}};
  }
};

// One controller of the cluster: the same answers, and the orders say whose they were. Nobody is at
// mdc9.
class FakeController final : public AdminApi {
 public:
  FakeController(FakeApi& all, std::string mdc) : all_(all), mdc_(std::move(mdc)) {}
  std::vector<std::string> mdcs() const override { return {mdc_}; }
  std::vector<MdcAnswer> Everywhere() override { return all_.Everywhere(); }
  std::unique_ptr<AdminApi> At(const std::string& mdc) override { return all_.At(mdc); }

 protected:
  absl::Status Call(const std::string& method, const google::protobuf::Message& request,
                    google::protobuf::Message& reply, Repeat repeat) override {
    if (method == "Fail" || method == "Start") all_.orders.push_back("at " + mdc_);
    if (mdc_ == "mdc9:7440") return absl::UnavailableError("no answer");
    return all_.Call(method, request, reply, repeat);
  }

 private:
  FakeApi& all_;
  const std::string mdc_;
};

inline std::unique_ptr<AdminApi> FakeApi::At(const std::string& mdc) {
  return std::make_unique<FakeController>(*this, mdc);
}

}  // namespace reel::tools
