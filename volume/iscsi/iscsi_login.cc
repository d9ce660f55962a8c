// How an IscsiConnection begins: in the opener's thread, before there is another one.
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "volume/base/env.h"
#include "volume/iscsi/iscsi_connection.h"
#include "volume/lun/lun.h"
#include "volume/scsi/lun_times.h"

namespace reel {
namespace {

iscsi_header_digest DigestOf(const IscsiUrl& url) {
  switch (url.header_digest) {
    case IscsiUrl::HeaderDigest::kCrc32c:
      return ISCSI_HEADER_DIGEST_CRC32C;
    case IscsiUrl::HeaderDigest::kNone:
      return ISCSI_HEADER_DIGEST_NONE;
    case IscsiUrl::HeaderDigest::kAuto:
      break;
  }
  return ISCSI_HEADER_DIGEST_CRC32C_NONE;
}

}  // namespace

absl::StatusOr<std::unique_ptr<IscsiConnection>> IscsiConnection::Open(const IscsiUrl& url,
                                                                       const std::string& portal) {
  const absl::StatusOr<std::string> secret = ChapSecret(url);
  if (!secret.ok()) return secret.status();
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return OpenFailed(url.shown, errno);
  std::unique_ptr<IscsiConnection> connection(new IscsiConnection(url, portal, std::move(wake)));
  if (absl::Status status = connection->LogIn(*secret); !status.ok()) return status;
  connection->thread_ = std::thread([raw = connection.get()] { raw->Run(); });
  return connection;
}

std::string IscsiConnection::ContextError() const {
  std::string text = iscsi_get_error(context_);
  absl::StripAsciiWhitespace(&text);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return absl::ascii_iscntrl(c); }, ' ');
  return text.empty() ? "an error without a name" : text;
}

absl::Status IscsiConnection::LoginError(const std::string& what) const {
  const std::string text = absl::StrCat(url_.shown, ": ", what);
  if (absl::StrContains(what, "Authentication failure") ||
      absl::StrContains(what, "Authorization failure")) {
    return absl::PermissionDeniedError(absl::StrCat(
        text, "; check the user, its CHAP secret and the target's list of initiators (this one is ",
        InitiatorName(url_), ")"));
  }
  if (absl::StrContains(what, "Target not found")) {
    return absl::NotFoundError(absl::StrCat(text, "; check the target's name"));
  }
  // libiscsi's word for a connection that was refused, or ended before the login did.
  return absl::UnavailableError(
      absl::StrCat(absl::StrContains(what, "reconnect")
                       ? absl::StrCat(url_.shown, ": no connection to ", portal_)
                       : text,
                   "; check the portal and the network"));
}

absl::Status IscsiConnection::MakeContext(const std::string& secret) {
  if (context_ != nullptr) iscsi_destroy_context(context_);
  context_ = iscsi_create_context(InitiatorName(url_).c_str());
  if (context_ == nullptr) return absl::ResourceExhaustedError("out of memory");
  iscsi_set_noautoreconnect(context_, 1);
  iscsi_set_reconnect_max_retries(context_, 0);
  iscsi_set_timeout(context_, 0);  // CheckTimes does it
  iscsi_set_tcp_user_timeout(context_, static_cast<int>(url_.timeout_ms));
  // One nexus a connection: with the ISID of another one, a login would end that.
  const std::uint64_t random = RandomU64();
  iscsi_set_isid_random(context_, random & 0xffffff, random >> 24 & 0xffff);
  iscsi_set_targetname(context_, url_.target.c_str());
  iscsi_set_session_type(context_, ISCSI_SESSION_NORMAL);
  iscsi_set_header_digest(context_, DigestOf(url_));
  if (!url_.user.empty()) {
    iscsi_set_initiator_username_pwd(context_, url_.user.c_str(), secret.c_str());
  }
  return absl::OkStatus();
}

absl::Status IscsiConnection::LogIn(const std::string& secret) {
  const Clock::time_point deadline =
      Clock::now() + std::chrono::milliseconds(PortalLoginMs(url_.portals.size()));
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    if (absl::Status status = MakeContext(secret); !status.ok()) return status;
    step_ = {};
    if (iscsi_connect_async(context_, portal_.c_str(), &OnStep, &step_) != 0) {
      return LoginError(ContextError());
    }
    if (absl::Status status = Drive(step_, deadline); !status.ok()) return status;
    if (step_.status != SCSI_STATUS_GOOD) return LoginError(ContextError());
    step_ = {};
    if (iscsi_login_async(context_, &OnStep, &step_) != 0) return LoginError(ContextError());
    if (absl::Status status = Drive(step_, deadline); !status.ok()) return status;
    if (step_.status == SCSI_STATUS_GOOD) return absl::OkStatus();
    if (step_.status != SCSI_STATUS_REDIRECT) return LoginError(ContextError());
    portal_ = iscsi_get_target_address(context_);
  }
  return LoginError("the target sends from portal to portal");
}

absl::Status IscsiConnection::Drive(const Step& step, Clock::time_point deadline) {
  while (!step.ended) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return LoginError(absl::StrCat("no answer from ", portal_));
    pollfd event{.fd = iscsi_get_fd(context_),
                 .events = static_cast<short>(iscsi_which_events(context_)),
                 .revents = 0};
    const int ready = poll(&event, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno != EINTR) return OpenFailed(url_.shown, errno);
    if (ready <= 0) continue;
    if (iscsi_service(context_, event.revents) != 0 && !step.ended) {
      return LoginError(ContextError());
    }
  }
  return absl::OkStatus();
}

void IscsiConnection::OnStep(iscsi_context* /*context*/, int status, void* /*data*/, void* step) {
  Step& mine = *static_cast<Step*>(step);
  if (mine.ended) return;
  mine.ended = true;
  mine.status = status;
}

}  // namespace reel
