// Measures a running controller over its own protocol: creates, lookups and unlinks per second, by
// pipelined streams. Each stream is a session with a directory of its own.
//
//   mdc_bench --mdc 127.0.0.1:7440 --volume reel --streams 8 --depth 64 --count 20000
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "grpcpp/grpcpp.h"
#include "proto/address.h"
#include "proto/mdc.grpc.pb.h"
#include "volume/base/uuid.h"

namespace reel {
namespace {

struct Settings {
  std::string mdc = "127.0.0.1:" + std::to_string(kDefaultMdcPort);
  std::string volume = "reel";
  std::uint32_t streams = 8;
  std::uint32_t depth = 64;
  std::uint32_t count = 20'000;
};

class BenchStream {
 public:
  explicit BenchStream(const Settings& settings) : settings_(settings) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection each, as clients have
    stub_ = v1::Mdc::NewStub(
        grpc::CreateCustomChannel(settings.mdc, grpc::InsecureChannelCredentials(), arguments));
    stream_ = stub_->Session(&context_);
    v1::Request request;
    v1::Hello& hello = *request.mutable_hello();
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.set_volume(settings.volume);
    hello.set_client(Uuid::Random().ToBytes());
    hello.set_host("mdc_bench");
    const v1::Reply reply = Call(request);
    depth_ = std::min(settings.depth, reply.hello().slots());
    sequences_.resize(depth_ + 1);
    v1::Request mkdir;
    mkdir.mutable_create()->set_parent(1);
    mkdir.mutable_create()->set_name("bench." + std::to_string(reply.hello().session()));
    mkdir.mutable_create()->set_mode(S_IFDIR | 0755);
    mkdir.set_slot(1);
    mkdir.set_slot_sequence(++sequences_[1]);
    directory_ = Call(mkdir).entry().attr().inode();
  }

  // `make(i)` for i in [0, count), `depth` of them under way at a time.
  void Pipeline(bool mutation, const std::function<v1::Request(std::uint32_t)>& make) {
    std::uint32_t next = 0, answered = 0;
    std::vector<std::uint32_t> slots;
    for (std::uint32_t slot = depth_; slot > 0; --slot) slots.push_back(slot);
    while (answered < settings_.count) {
      v1::ClientFrame frame;
      while (next < settings_.count && !slots.empty()) {
        v1::Request& request = *frame.add_requests();
        request = make(next++);
        request.set_id(slots.back());
        if (mutation) {
          request.set_slot(slots.back());
          request.set_slot_sequence(++sequences_[slots.back()]);
        }
        slots.pop_back();
      }
      if (frame.requests_size() > 0 && !stream_->Write(frame)) Die("write");
      v1::ServerFrame answer;
      if (!stream_->Read(&answer)) Die("read");
      for (const v1::Reply& reply : answer.replies()) {
        if (reply.error() != 0) Die(reply.message().c_str());
        slots.push_back(static_cast<std::uint32_t>(reply.id()));
        ++answered;
      }
    }
  }

  std::uint64_t directory() const { return directory_; }

  void Goodbye() {
    v1::Request request;
    request.mutable_goodbye();
    Call(request);
    stream_->WritesDone();
    stream_->Finish();
  }

 private:
  [[noreturn]] void Die(const char* what) {
    std::fprintf(stderr, "mdc_bench: the stream failed: %s\n", what);
    std::exit(1);
  }
  v1::Reply Call(v1::Request request) {
    v1::ClientFrame frame;
    request.set_id(1);
    *frame.add_requests() = std::move(request);
    v1::ServerFrame answer;
    if (!stream_->Write(frame) || !stream_->Read(&answer)) Die("is the controller running?");
    if (answer.replies(0).error() != 0) Die(answer.replies(0).message().c_str());
    return answer.replies(0);
  }

  const Settings& settings_;
  std::unique_ptr<v1::Mdc::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientFrame, v1::ServerFrame>> stream_;
  std::uint32_t depth_ = 1;
  std::vector<std::uint64_t> sequences_;
  std::uint64_t directory_ = 0;
};

using Make = std::function<v1::Request(std::uint64_t directory, std::uint32_t i)>;

void Measure(const char* name, const Settings& settings,
             std::vector<std::unique_ptr<BenchStream>>& streams, bool mutation, const Make& make) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (auto& stream : streams) {
    threads.emplace_back([&] {
      stream->Pipeline(mutation, [&](std::uint32_t i) { return make(stream->directory(), i); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%-8s %9.0f /s  (%u streams of depth %u, %u each)\n", name,
              double(settings.count) * double(streams.size()) / took.count(), settings.streams,
              settings.depth, settings.count);
}

void Main(const Settings& settings) {
  std::vector<std::unique_ptr<BenchStream>> streams;
  for (std::uint32_t i = 0; i < settings.streams; ++i) {
    streams.push_back(std::make_unique<BenchStream>(settings));
  }
  const auto name = [](std::uint32_t i) { return "file." + std::to_string(i); };
  Measure("create", settings, streams, true, [&](std::uint64_t directory, std::uint32_t i) {
    v1::Request request;
    request.mutable_create()->set_parent(directory);
    request.mutable_create()->set_name(name(i));
    request.mutable_create()->set_mode(S_IFREG | 0644);
    return request;
  });
  Measure("lookup", settings, streams, false, [&](std::uint64_t directory, std::uint32_t i) {
    v1::Request request;
    request.mutable_lookup()->set_parent(directory);
    request.mutable_lookup()->set_name(name(i));
    return request;
  });
  Measure("unlink", settings, streams, true, [&](std::uint64_t directory, std::uint32_t i) {
    v1::Request request;
    request.mutable_unlink()->set_parent(directory);
    request.mutable_unlink()->set_name(name(i));
    return request;
  });
  for (auto& stream : streams) stream->Goodbye();
}

}  // namespace
}  // namespace reel

int main(int argc, char** argv) {
  reel::Settings settings;
  CLI::App app("Creates, lookups and unlinks per second of a running controller", "mdc_bench");
  app.add_option("--mdc", settings.mdc, "HOST:PORT")->capture_default_str();
  app.add_option("--volume", settings.volume, "name of the volume")->capture_default_str();
  app.add_option("--streams", settings.streams, "sessions, one stream each")->capture_default_str();
  app.add_option("--depth", settings.depth, "operations under way on each")->capture_default_str();
  app.add_option("--count", settings.count, "operations of each kind on each")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  reel::Main(settings);
  return 0;
}
