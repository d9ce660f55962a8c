#include "proto/web/https_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "proto/address.h"
#include "proto/tls/tls_server.h"
#include "proto/web/connection_table.h"
#include "spdlog/spdlog.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel {
namespace {

constexpr std::chrono::milliseconds kRetry{1'000};
constexpr std::chrono::milliseconds kStopAgain{5};

// So many connections at once, and so many that wait; then the listener waits, and with it who
// connects.
class Pool final : public httplib::TaskQueue {
 public:
  explicit Pool(std::function<void()> on_shutdown) : on_shutdown_(std::move(on_shutdown)) {
    for (std::size_t i = 0; i < HttpsServer::kThreads; ++i)
      threads_.emplace_back([this] { Main(); });
  }
  void enqueue(std::function<void()> task) override {
    MutexLock lock(mutex_);
    while (tasks_.size() >= HttpsServer::kMostWaiting) changed_.Wait(mutex_);
    tasks_.push_back(std::move(task));
    changed_.NotifyAll();
  }
  // What waits is run first, and finds that the server stops.
  void shutdown() override {
    on_shutdown_();
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

  const std::function<void()> on_shutdown_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Thread> threads_;
};

// One connection, which gives no more than a request may have.
class Connection final : public httplib::Stream {
 public:
  Connection(int socket, TlsConnection* tls) : socket_(socket), tls_(tls) {}

  bool is_readable() const override { return left_bytes_ > 0; }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, std::size_t bytes) override {
    bytes = std::min(bytes, left_bytes_);
    if (bytes == 0) return -1;
    const ssize_t read = tls_ != nullptr ? tls_->Read(to, bytes) : ::recv(socket_, to, bytes, 0);
    if (read > 0) left_bytes_ -= static_cast<std::size_t>(read);
    return read;
  }
  ssize_t write(const char* from, std::size_t bytes) override {
    return tls_ != nullptr ? tls_->Write(from, bytes) : ::send(socket_, from, bytes, MSG_NOSIGNAL);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    char text[INET6_ADDRSTRLEN] = "?";
    if (getpeername(socket_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return;
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(&address);
    const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(&address);
    const bool is_v6 = address.ss_family == AF_INET6;
    (void)inet_ntop(
        address.ss_family,
        is_v6 ? static_cast<const void*>(&v6->sin6_addr) : static_cast<const void*>(&v4->sin_addr),
        text, sizeof(text));
    ip = text;
    port = ntohs(is_v6 ? v6->sin6_port : v4->sin_port);
  }
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }
  std::optional<TlsPeer> peer() const { return tls_ != nullptr ? tls_->peer() : std::nullopt; }

 private:
  const int socket_;
  TlsConnection* const tls_;
  std::size_t left_bytes_ = HttpsServer::kMostRequestBytes;
};

// What httplib does, on connections of our own.
class Listener final : public httplib::Server {
 public:
  explicit Listener(std::function<void(int socket)> converse) : converse_(std::move(converse)) {}

  // Its socket is closed: the number may be another's.
  void ForgetSocket() { svr_sock_ = INVALID_SOCKET; }
  void Answer(Connection& connection, const std::function<void(httplib::Request&)>& set_up) {
    bool closed = false;
    process_request(connection, /*close_connection=*/true, closed, set_up);
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    (void)fcntl(socket, F_SETFD, FD_CLOEXEC);
    converse_(socket);
    (void)::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return true;
  }
  const std::function<void(int socket)> converse_;
};

class Server final : public HttpsServer {
 public:
  Server(std::shared_ptr<WatchedTls> tls, Pages pages)
      : tls_(tls == nullptr ? nullptr : std::make_unique<TlsServer>(std::move(tls))),
        pages_(std::move(pages)),
        connections_(kConnectionTime),
        listener_([this](int socket) { Converse(socket); }) {}
  ~Server() override { Stop(); }

  absl::Status Listen(const std::string& listen) {
    const auto address = SplitAddress(listen);
    if (!address.ok()) return address.status();
    SetUp();
    port_ = address->port;
    const bool bound = address->port == 0 ? (port_ = listener_.bind_to_any_port(address->host)) > 0
                                          : listener_.bind_to_port(address->host, address->port);
    if (!bound) {
      const std::string why =
          absl::StrCat("cannot listen on ", listen, ": is the address this host's, and free?");
      if (address->port == 0) return absl::UnavailableError(why);
      spdlog::error("{} It is tried again each second", why);
    }
    thread_ = Thread([this, host = address->host, bound] { Main(host, bound); });
    return absl::OkStatus();
  }
  int port() const override { return port_; }
  void Stop() override {
    if (!thread_.joinable()) return;
    connections_.End();
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyAll();
      while (!ended_) {  // (Before it runs, a stop would be forgotten.)
        listener_.stop();
        changed_.WaitFor(mutex_, kStopAgain);
      }
    }
    thread_.Join();
  }

 private:
  // Until Stop: a port that is taken becomes free, and httplib gives up where connections cannot be
  // accepted for a moment.
  void Main(const std::string& host, bool bound) {
    for (;;) {
      if (bound) {
        spdlog::info("pages are served on port {}", port_);
        (void)listener_.listen_after_bind();
      }
      if (IsStopping(kRetry)) break;
      bound = listener_.bind_to_port(host, port_);
    }
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }
  bool IsStopping(std::chrono::milliseconds wait) {
    MutexLock lock(mutex_);
    if (!stopping_) changed_.WaitFor(mutex_, wait);
    return stopping_;
  }
  void SetUp() {
    listener_.new_task_queue = [this] { return new Pool([this] { listener_.ForgetSocket(); }); };
    listener_.set_payload_max_length(kMostRequestBytes);
    listener_.set_socket_options([](socket_t socket) {  // (Its own let others have the port, too.)
      const int on = 1;
      (void)setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    listener_.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                                   {"X-Frame-Options", "DENY"},
                                   {"Referrer-Policy", "no-referrer"},
                                   {"Cache-Control", "no-store"}});
    listener_.set_exception_handler([](const httplib::Request&, httplib::Response& response,
                                       std::exception_ptr) { response.status = 500; });
    listener_.set_pre_routing_handler([this](const httplib::Request& in, httplib::Response& out) {
      Serve(in, out);
      return httplib::Server::HandlerResponse::Handled;
    });
  }

  void Converse(int socket) {
    if (!connections_.Add(socket)) return;
    const absl::Cleanup removed = [this, socket] { connections_.Remove(socket); };
    std::unique_ptr<TlsConnection> tls;
    if (tls_ != nullptr && (tls = tls_->Accept(socket)) == nullptr) return;
    Connection connection(socket, tls.get());
    const std::optional<TlsPeer> peer = connection.peer();
    peer_ = &peer;
    listener_.Answer(connection, [](httplib::Request& request) {
      request.ranges.clear();  // a page is made many times over by a request for many parts of it
    });
    if (tls != nullptr) tls->Close();
  }
  void Serve(const httplib::Request& in, httplib::Response& out) const {
    const auto page = pages_.find(in.path);
    if (page == pages_.end() || (in.method != "GET" && in.method != "HEAD")) {
      out.status = page == pages_.end() ? 404 : 405;
      out.set_content(page == pages_.end() ? "no such page\n" : "only GET is served\n",
                      "text/plain");
      return;
    }
    Answer answer = page->second({.path = in.path, .from = in.remote_addr, .peer = *peer_});
    out.status = answer.status;
    out.set_content(answer.body, answer.type);
  }

  const std::unique_ptr<TlsServer> tls_;
  const Pages pages_;
  static thread_local const std::optional<TlsPeer>* peer_;  // of the thread's connection
  ConnectionTable connections_;
  Listener listener_;
  int port_ = 0;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // its thread
  Thread thread_;
};

thread_local const std::optional<TlsPeer>* Server::peer_ = nullptr;

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
