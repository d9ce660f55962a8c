#include "proto/web/https_server.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "proto/address.h"
#include "proto/tls/server_context.h"
#include "spdlog/spdlog.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel {
namespace {

constexpr time_t kIoSeconds = 5;  // of one read, and one write
constexpr std::size_t kRequestsOfAConnection = 100;

// So many connections at once, and so many that wait; then the listener waits, and with it who
// connects.
class Pool final : public httplib::TaskQueue {
 public:
  Pool() {
    for (std::size_t i = 0; i < HttpsServer::kThreads; ++i)
      threads_.emplace_back([this] { Main(); });
  }
  void enqueue(std::function<void()> task) override {
    MutexLock lock(mutex_);
    while (tasks_.size() >= HttpsServer::kMostWaiting) changed_.Wait(mutex_);
    tasks_.push_back(std::move(task));
    changed_.NotifyAll();
  }
  void shutdown() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    for (Thread& thread : threads_) thread.Join();
  }

 private:
  void Main() {
    for (;;) {
      std::function<void()> task;
      {
        MutexLock lock(mutex_);
        while (tasks_.empty() && !stopping_) changed_.Wait(mutex_);
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
        changed_.NotifyAll();
      }
      task();
    }
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Thread> threads_;
};

struct Address {
  std::string host;
  int port = 0;
};

absl::StatusOr<Address> Split(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  std::uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port > 65'535) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CHexEscape(listen), "\" is not HOST:PORT"));
  }
  std::string host = listen.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return Address{std::move(host), static_cast<int>(port)};
}

class Server final : public HttpsServer {
 public:
  Server(std::shared_ptr<WatchedTls> tls, Pages pages)
      : tls_(std::move(tls)), pages_(std::move(pages)) {
    if (tls_ == nullptr) {
      server_ = std::make_unique<httplib::Server>();
    } else {
      server_ = std::make_unique<httplib::SSLServer>([this](SSL_CTX& context) {
        SetUpServerContext(context, *tls_);
        return true;
      });
    }
  }
  ~Server() override { Stop(); }

  absl::Status Listen(const std::string& listen) {
    const auto address = Split(listen);
    if (!address.ok()) return address.status();
    SetUp();
    port_ = address->port;
    const bool bound = address->port == 0 ? (port_ = server_->bind_to_any_port(address->host)) > 0
                                          : server_->bind_to_port(address->host, address->port);
    if (!bound) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", listen, ": is the address this host's, and free?"));
    }
    thread_ = Thread([this] {
      server_->listen_after_bind();
      ended_ = true;
    });
    return absl::OkStatus();
  }
  int port() const override { return port_; }
  void Stop() override {
    if (!thread_.joinable()) return;
    // (Before it runs, a stop would be forgotten.)
    while (!server_->is_running() && !ended_) std::this_thread::yield();
    server_->stop();
    thread_.Join();
  }

 private:
  void SetUp() {
    server_->new_task_queue = [] { return new Pool(); };
    server_->set_read_timeout(kIoSeconds);
    server_->set_write_timeout(kIoSeconds);
    server_->set_keep_alive_timeout(kIoSeconds);
    server_->set_keep_alive_max_count(kRequestsOfAConnection);
    server_->set_payload_max_length(kMostRequestBytes);
    server_->set_tcp_nodelay(true);
    server_->set_socket_options([](socket_t socket) {  // (Its own let others have the port, too.)
      const int on = 1;
      (void)setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    server_->set_default_headers({{"X-Content-Type-Options", "nosniff"},
                                  {"X-Frame-Options", "DENY"},
                                  {"Referrer-Policy", "no-referrer"},
                                  {"Cache-Control", "no-store"}});
    server_->set_exception_handler([](const httplib::Request&, httplib::Response& response,
                                      std::exception_ptr) { response.status = 500; });
    server_->set_pre_routing_handler([this](const httplib::Request& in, httplib::Response& out) {
      Serve(in, out);
      return httplib::Server::HandlerResponse::Handled;
    });
  }
  void Serve(const httplib::Request& in, httplib::Response& out) const {
    const auto page = pages_.find(in.path);
    if (page == pages_.end() || (in.method != "GET" && in.method != "HEAD")) {
      out.status = page == pages_.end() ? 404 : 405;
      out.set_content(page == pages_.end() ? "no such page\n" : "only GET is served\n",
                      "text/plain");
      return;
    }
    Request request{.path = in.path, .from = in.remote_addr, .peer = std::nullopt};
    if (in.ssl != nullptr) request.peer = PeerOf(*in.ssl);
    Answer answer = page->second(request);
    out.status = answer.status;
    out.set_content(answer.body, answer.type);
  }

  const std::shared_ptr<WatchedTls> tls_;
  const Pages pages_;
  std::unique_ptr<httplib::Server> server_;
  int port_ = 0;
  std::atomic<bool> ended_{false};
  Thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpsServer>> HttpsServer::Start(const std::string& listen,
                                                                std::shared_ptr<WatchedTls> tls,
                                                                Pages pages) {
  if (tls == nullptr && !IsLoopbackAddress(listen)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", absl::CHexEscape(listen), "\": without TLS only loopback addresses are served"));
  }
  auto server = std::make_unique<Server>(std::move(tls), std::move(pages));
  if (absl::Status status = server->Listen(listen); !status.ok()) return status;
  return server;
}

}  // namespace reel
