// A client of a controller that starts, or of a volume made by scale_volume, for tests/bench/scale:
//
//   scale_client --mdc 127.0.0.1:7440 first            # waits for the first reply
//   scale_client --mdc 127.0.0.1:7440 operations --files 1000000 --count 20000
//   scale_client --mdc 127.0.0.1:7440 tokens --files 1000000 --count 200000
//
// "first" prints when it came, on CLOCK_MONOTONIC in ms. "operations" prints one line for each
// kind: its name, and us for one, one at a time, of files at random places. "tokens" looks files
// up, at first without and then with the token of each, and says a line after either; it goes on
// when a line comes on its standard input.
#include <sys/stat.h>
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "proto/address.h"
#include "proto/mdc.grpc.pb.h"
#include "volume/base/uuid.h"

namespace reel {
namespace {

constexpr std::uint64_t kRoot = 1;
constexpr std::uint64_t kFilesInDirectory = 1000;  // as scale_volume makes them
constexpr std::uint64_t kCallsInRenewal = 1000;

struct Settings {
  std::string mdc = "127.0.0.1:" + std::to_string(kDefaultMdcPort);
  std::string volume = "reel";
  std::uint64_t files = 0;
  std::uint64_t count = 10'000;
};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "scale_client: %s\n", what.c_str());
  std::exit(1);
}

class Stream {
 public:
  Stream(const Settings& settings, bool caches_attributes) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection each, as clients have
    stub_ = v1::Mdc::NewStub(
        grpc::CreateCustomChannel(settings.mdc, grpc::InsecureChannelCredentials(), arguments));
    stream_ = stub_->Session(&context_);
    v1::Hello& hello = *request_.mutable_hello();
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.set_volume(settings.volume);
    hello.set_client(Uuid::Random().ToBytes());
    hello.set_host("scale_client");
    hello.set_caches_attributes(caches_attributes);
    registered_ = Try() && reply_.error() == 0;
  }
  bool registered() const { return registered_; }

  v1::Request& Begin() {
    request_.Clear();
    return request_;
  }
  v1::Request& BeginChange() {
    Begin().set_slot(1);
    request_.set_slot_sequence(++sequence_);
    return request_;
  }
  const v1::Reply& Call() {
    if (!Try()) Die("the stream has ended");
    if (reply_.error() != 0) Die(reply_.message());
    return reply_;
  }
  std::uint64_t Lookup(std::uint64_t parent, const std::string& name) {
    v1::Lookup& lookup = *Begin().mutable_lookup();
    lookup.set_parent(parent);
    lookup.set_name(name);
    return Call().entry().attr().inode();
  }
  std::uint64_t Create(std::uint64_t parent, const std::string& name, std::uint32_t mode) {
    v1::Create& create = *BeginChange().mutable_create();
    create.set_parent(parent);
    create.set_name(name);
    create.set_mode(mode);
    return Call().entry().attr().inode();
  }
  void Goodbye() {
    Begin().mutable_goodbye();
    Call();
    stream_->WritesDone();
    stream_->Finish();
  }
  void GiveUp() {
    context_.TryCancel();
    stream_->Finish();
  }

 private:
  // The reply to request_, whatever else comes before it.
  bool Try() {
    v1::ClientFrame frame;
    request_.set_id(++last_id_);
    *frame.add_requests() = request_;
    if (!stream_->Write(frame)) return false;
    for (v1::ServerFrame answer; stream_->Read(&answer);) {
      for (v1::Reply& reply : *answer.mutable_replies()) {
        if (reply.id() != last_id_) continue;
        reply_ = std::move(reply);
        return true;
      }
    }
    return false;
  }

  std::unique_ptr<v1::Mdc::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientFrame, v1::ServerFrame>> stream_;
  v1::Request request_;
  v1::Reply reply_;
  std::uint64_t last_id_ = 0, sequence_ = 0;
  bool registered_ = false;
};

void First(const Settings& settings) {
  for (;;) {
    Stream stream(settings, false);
    if (stream.registered()) {
      stream.Begin().mutable_get_attr()->set_inode(kRoot);
      stream.Call();
      timespec now{};
      clock_gettime(CLOCK_MONOTONIC, &now);
      std::printf("%.1f\n", double(now.tv_sec) * 1e3 + double(now.tv_nsec) / 1e6);
      stream.Goodbye();
      return;
    }
    stream.GiveUp();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // tidy: sleep (polling)
  }
}

// Looks up files in an order that has nothing to do with where they lie.
class Files {
 public:
  Files(const Settings& settings, Stream& stream) : settings_(settings), stream_(stream) {}
  std::uint64_t LookupAtRandom() { return Lookup(random_() % settings_.files); }
  std::uint64_t Lookup(std::uint64_t file) {
    return stream_.Lookup(Directory(file / kFilesInDirectory),
                          absl::StrCat("file.", file % kFilesInDirectory));
  }
  std::uint64_t Directory(std::uint64_t number) {
    return stream_.Lookup(kRoot, absl::StrCat("directory.", number));
  }

 private:
  const Settings& settings_;
  Stream& stream_;
  std::mt19937_64 random_{1};
};

void Measure(const char* name, std::uint64_t count, const std::function<void(std::uint64_t)>& one) {
  const auto began = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < count; ++i) one(i);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
  std::printf("%s %.1f\n", name, took.count() / double(count));
  std::fflush(stdout);
}

void Operations(const Settings& settings) {
  Stream stream(settings, false);
  if (!stream.registered()) Die("no session");
  std::mt19937_64 random(1);
  const std::uint64_t first = Files(settings, stream).Lookup(0);
  const std::uint64_t directory = stream.Create(kRoot, "made", S_IFDIR | 0755);
  const auto name = [](std::uint64_t i) { return absl::StrCat("made.", i); };
  // Inode numbers follow each other, with a directory's own before those of its files.
  Measure("stat", settings.count, [&](std::uint64_t) {
    const std::uint64_t file = random() % settings.files;
    stream.Begin().mutable_get_attr()->set_inode(first + file + file / kFilesInDirectory);
    stream.Call();
  });
  const std::uint64_t middle =
      stream.Lookup(kRoot, absl::StrCat("directory.", settings.files / kFilesInDirectory / 2));
  Measure("lookup", settings.count, [&](std::uint64_t) {
    stream.Lookup(middle, absl::StrCat("file.", random() % kFilesInDirectory));
  });
  Measure("create", settings.count,
          [&](std::uint64_t i) { stream.Create(directory, name(i), S_IFREG | 0644); });
  Measure("unlink", settings.count, [&](std::uint64_t i) {
    v1::Unlink& unlink = *stream.BeginChange().mutable_unlink();
    unlink.set_parent(directory);
    unlink.set_name(name(i));
    unlink.set_lets_go(true);
    stream.Call();
  });
  v1::Unlink& made = *stream.BeginChange().mutable_unlink();
  made.set_parent(kRoot);
  made.set_name("made");
  made.set_directory(true);
  stream.Call();
  stream.Goodbye();
}

// The controller has read all of them before the second round: what grows then is for the tokens.
void Tokens(const Settings& settings) {
  for (const bool tokens : {false, true}) {
    Stream stream(settings, tokens);
    if (!stream.registered()) Die("no session");
    const std::uint64_t first = Files(settings, stream).Lookup(0);
    std::uint64_t granted = 0;
    for (std::uint64_t file = 0; file < settings.count; ++file) {
      stream.Begin().mutable_get_attr()->set_inode(first + file + file / kFilesInDirectory);
      granted += static_cast<std::uint64_t>(stream.Call().cacheable_size());
      if (file % kCallsInRenewal != 0) continue;
      stream.Begin().mutable_renew();
      stream.Call();
    }
    if (tokens && granted < settings.count) Die("the controller did not grant all tokens");
    std::printf("%s\n", tokens ? "tokens" : "looked");
    std::fflush(stdout);
    std::getchar();
    stream.Goodbye();
  }
}

}  // namespace
}  // namespace reel

int main(int argc, char** argv) {
  reel::Settings settings;
  CLI::App app("A client that measures a controller of many files", "scale_client");
  app.add_option("--mdc", settings.mdc, "HOST:PORT")->capture_default_str();
  app.add_option("--volume", settings.volume, "name of the volume")->capture_default_str();
  app.require_subcommand(1);
  auto* first = app.add_subcommand("first", "when the first reply comes");
  auto* operations = app.add_subcommand("operations", "what one costs");
  auto* tokens = app.add_subcommand("tokens", "inodes that are cached");
  for (auto* command : {operations, tokens}) {
    command->add_option("--files", settings.files, "that there are")->required();
    command->add_option("--count", settings.count, "of each kind")->capture_default_str();
  }
  CLI11_PARSE(app, argc, argv);
  if (first->parsed()) reel::First(settings);
  if (operations->parsed()) reel::Operations(settings);
  if (tokens->parsed()) reel::Tokens(settings);
  return 0;
}
