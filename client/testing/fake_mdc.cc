#include "client/testing/fake_mdc.h"

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "client/session/request_queue.h"
#include "proto/convert.h"
#include "proto/request_kind.h"

namespace reel::client {

class FakeMdc::Stream : public MdcStream {
 public:
  explicit Stream(FakeMdc& mdc) : mdc_(mdc) {}
  ~Stream() override {
    MutexLock lock(mdc_.mutex_);
    mdc_.streams_.erase(this);
  }
  bool Send(const v1::ClientFrame& frame) override {
    {
      MutexLock lock(mdc_.mutex_);
      if (ended_) return false;
    }
    mdc_.Receive(*this, frame);
    return true;
  }
  bool Receive(v1::ServerFrame* frame) override {
    MutexLock lock(mdc_.mutex_);
    while (out_.empty() && !ended_) wake_.Wait(mdc_.mutex_);
    if (ended_) return false;
    *frame = std::move(out_.front());
    out_.pop_front();
    return true;
  }
  void Cancel() override {
    MutexLock lock(mdc_.mutex_);
    End();
  }
  absl::Status Finish() override { return absl::UnavailableError("the test ended the stream"); }

  // REQUIRES: the controller's mutex.
  void End() {
    mdc_.mutex_.AssertHeld();
    ended_ = true;
    for (auto& [id, session] : mdc_.sessions_) {
      if (session.stream != this) continue;
      session.stream = nullptr;
      for (auto& [inode, file] : mdc_.files_) {
        std::erase_if(file.parked, [&s = session](const Parked& p) { return p.session == s.id; });
      }
    }
    wake_.NotifyAll();
  }
  void Push(v1::ServerFrame frame) {
    out_.push_back(std::move(frame));
    wake_.NotifyAll();
  }
  void Hold(v1::ServerFrame frame) { held_.push_back(std::move(frame)); }
  void ReleaseHeld() {
    for (v1::ServerFrame& frame : held_) Push(std::move(frame));
    held_.clear();
  }
  ClientSession* session = nullptr;

 private:
  FakeMdc& mdc_;
  CondVar wake_;
  std::deque<v1::ServerFrame> out_;
  std::vector<v1::ServerFrame> held_;
  bool ended_ = false;
};

FakeMdc::FakeMdc(FakeMdcOptions options)
    : descriptor_(options.descriptor),
      options_(std::move(options)),
      block_bytes_(options_.descriptor.block_bytes),
      small_file_bytes_(options_.small_file_bytes) {
  const std::uint64_t blocks =
      options_.max_blocks != 0 ? options_.max_blocks : options_.descriptor.pools[0].size_blocks();
  for (std::uint64_t block = 0; block < blocks; ++block) free_.insert(free_.end(), block);
}

FakeMdc::~FakeMdc() = default;

absl::StatusOr<std::unique_ptr<MdcStream>> FakeMdc::Connect(const std::string& address) {
  MutexLock lock(mutex_);
  if (down_) return absl::UnavailableError(absl::StrCat(address, " is down"));
  auto stream = std::make_unique<Stream>(*this);
  streams_.insert(stream.get());
  return stream;
}

// ---- faults -----------------------------------------------------------------------------------

void FakeMdc::SetDown(bool down) {
  MutexLock lock(mutex_);
  down_ = down;
  if (!down) return;
  for (Stream* stream : streams_) stream->End();
}

void FakeMdc::SetSilent(bool silent) {
  MutexLock lock(mutex_);
  silent_ = silent;
}

void FakeMdc::LoseReplies(bool lose) {
  MutexLock lock(mutex_);
  lose_replies_ = lose;
}

void FakeMdc::HoldReplies(v1::Request::OpCase op) {
  MutexLock lock(mutex_);
  held_op_ = op;
}

void FakeMdc::ReleaseReplies() {
  MutexLock lock(mutex_);
  held_op_ = v1::Request::OP_NOT_SET;
  for (Stream* stream : streams_) stream->ReleaseHeld();
}

void FakeMdc::DropStreams() {
  MutexLock lock(mutex_);
  lose_replies_ = false;
  for (Stream* stream : streams_) stream->End();
}

void FakeMdc::Refuse(v1::Request::OpCase op, int error) {
  MutexLock lock(mutex_);
  refused_op_ = op;
  refusal_ = error;
}

void FakeMdc::Restart() {
  MutexLock lock(mutex_);
  ++epoch_;
  lose_replies_ = false;
  for (Stream* stream : streams_) stream->End();
  for (auto& [inode, file] : files_) file.holders.clear();
  for (auto& [id, session] : sessions_) {
    session.opens.clear();
    session.must_reclaim = true;
  }
}

void FakeMdc::Serve(const Uuid& volume, bool compares) {
  MutexLock lock(mutex_);
  descriptor_.volume = volume;
  compares_volumes_ = compares;
  for (Stream* stream : streams_) {
    stream->session = nullptr;
    stream->End();
  }
  for (auto& [inode, file] : files_) file.holders.clear();
  sessions_.clear();
}

void FakeMdc::ShutOut(int error) {
  MutexLock lock(mutex_);
  shut_out_ = error;
  for (Stream* stream : streams_) {
    stream->session = nullptr;
    stream->End();
  }
}

void FakeMdc::ShowInstead(const Uuid& volume, int hellos) {
  MutexLock lock(mutex_);
  other_volume_ = volume;
  other_volume_hellos_ = hellos;
  for (Stream* stream : streams_) stream->End();
}

void FakeMdc::Evict(std::uint64_t id) {
  MutexLock lock(mutex_);
  EndSession(sessions_.at(id));
}

void FakeMdc::LetGiveUp() {
  MutexLock lock(mutex_);
  lets_give_up_ = true;
}

v1::RecallWork FakeMdc::recall_work() const {
  MutexLock lock(mutex_);
  return recall_work_;
}

v1::Renew FakeMdc::last_renewal() const {
  MutexLock lock(mutex_);
  return last_renewal_;
}

void FakeMdc::Ping(std::uint64_t session, std::uint64_t number) {
  MutexLock lock(mutex_);
  v1::ServerFrame frame;
  frame.add_callbacks()->mutable_ping()->set_number(number);
  sessions_.at(session).stream->Push(std::move(frame));
}

void FakeMdc::EndSession(ClientSession& session) {
  session.evicted = true;
  if (session.stream != nullptr) {
    v1::ServerFrame frame;
    frame.add_callbacks()->mutable_evicted()->set_reason("the test wants it");
    session.stream->Push(std::move(frame));
  }
  DropSession(session);
}

void FakeMdc::DropSession(ClientSession& session) {
  session.opens.clear();
  std::vector<std::uint64_t> inodes;
  for (auto& [inode, file] : files_) {
    file.holders.erase(session.id);
    std::erase_if(file.parked, [&](const Parked& p) { return p.session == session.id; });
    inodes.push_back(inode);
  }
  for (const std::uint64_t inode : inodes) RunParked(inode);
}

// ---- questions --------------------------------------------------------------------------------

std::uint64_t FakeMdc::CreateFile(std::uint32_t mode) {
  MutexLock lock(mutex_);
  const std::uint64_t inode = next_inode_++;
  File& file = files_[inode];
  file.attr.set_inode(inode);
  file.attr.set_mode(mode);
  file.attr.set_nlink(1);
  return inode;
}

v1::Attr FakeMdc::AttrOf(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  return files_.at(inode).attr;
}

bool FakeMdc::HasWriter(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  const auto& holders = files_.at(inode).holders;
  return std::any_of(holders.begin(), holders.end(), [](const auto& holder) {
    return holder.second.held.Most() == v1::TOKEN_EXCLUSIVE;
  });
}

std::uint64_t FakeMdc::OpensOf(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [id, session] : sessions_) {
    sum += session.opens.count(inode);
  }
  return sum;
}

std::uint64_t FakeMdc::WaitingFor(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  return files_.at(inode).parked.size();
}

std::uint64_t FakeMdc::CountOf(v1::Request::OpCase op) const {
  MutexLock lock(mutex_);
  const auto it = counts_.find(op);
  return it == counts_.end() ? 0 : it->second;
}

std::uint64_t FakeMdc::received_bytes() const {
  MutexLock lock(mutex_);
  return received_bytes_;
}

std::uint64_t FakeMdc::repetitions() const {
  MutexLock lock(mutex_);
  return repetitions_;
}

std::vector<std::string> FakeMdc::wrongs() const {
  MutexLock lock(mutex_);
  return mistakes_;
}

// ---- requests ---------------------------------------------------------------------------------

void FakeMdc::Receive(Stream& stream, const v1::ClientFrame& frame) {
  MutexLock lock(mutex_);
  received_bytes_ += frame.ByteSizeLong();
  if (silent_) return;
  for (const v1::Request& request : frame.requests()) Handle(stream, request);
}

void FakeMdc::HandleHello(Stream& stream, const v1::Request& request) {
  const v1::Hello& hello = request.hello();
  v1::Reply reply;
  reply.set_id(request.id());
  v1::HelloReply& answer = *reply.mutable_hello();
  ClientSession* session = nullptr;
  const Uuid shown = other_volume_hellos_ > 0 ? other_volume_ : descriptor_.volume;
  other_volume_hellos_ = std::max(0, other_volume_hellos_ - 1);
  if (shut_out_ != 0) {
    reply.set_error(shut_out_);
  } else if (hello.volume() != descriptor_.name) {
    reply.set_error(ENOENT);
  } else if (compares_volumes_ && !hello.mounted_volume().empty() &&
             hello.mounted_volume() != shown.ToBytes()) {
    reply.set_error(ENODEV);
  } else if (hello.resume_session() == 0) {
    session = &sessions_[next_session_];
    session->id = next_session_++;
    session->client = hello.client();
    session->slots.resize(options_.slots + 1);
  } else {
    const auto it = sessions_.find(hello.resume_session());
    if (it == sessions_.end() || it->second.evicted || it->second.client != hello.client()) {
      reply.set_error(ESTALE);
    } else {
      session = &it->second;
    }
  }
  if (session != nullptr) {
    session->stream = &stream;
    stream.session = session;
    answer.set_protocol(1);
    answer.set_session(session->id);
    answer.set_epoch(epoch_);
    answer.set_features(hello.features() & options_.features);
    answer.set_lease_ms(options_.lease_ms);
    answer.set_slots(options_.slots);
    answer.set_small_file_bytes(small_file_bytes_);
    answer.set_must_reclaim(session->must_reclaim);
    if (hello.map_generation() < descriptor_.generation)
      answer.set_volume_descriptor(*EncodeDescriptor(descriptor_));
  }
  v1::ServerFrame frame;
  *frame.add_replies() = reply;
  // Recalls that went out on a stream that ended come with it.
  for (const auto& [inode, file] : files_) {
    const auto holder = session != nullptr ? file.holders.find(session->id) : file.holders.end();
    if (holder == file.holders.end()) continue;
    for (const Recalled& recalled : holder->second.recalled) AddRecall(frame, inode, recalled);
  }
  stream.Push(std::move(frame));
}

void FakeMdc::Handle(Stream& stream, const v1::Request& request) {
  if (request.has_hello()) return HandleHello(stream, request);
  if (stream.session == nullptr || stream.session->evicted) return;
  ClientSession& session = *stream.session;
  if (session.must_reclaim && !request.has_reclaim())
    RecordMistake("a request came before the reclaim");
  if (request.slot() == 0) {
    if (Is(request, kMutation)) RecordMistake("a mutation without a slot");
  } else {
    Slot& slot = session.slots.at(request.slot());
    if (request.slot_sequence() == slot.sequence) {
      ++repetitions_;
      v1::Reply reply = slot.reply;
      Answer(session, request, std::move(reply));
      return;
    }
    if (request.slot_sequence() != slot.sequence + 1) RecordMistake("a slot's sequence jumps");
  }
  if (!Execute(session, request)) {
    files_.at(request.layout_get().inode()).parked.push_back({session.id, request});
  }
}

void FakeMdc::Answer(ClientSession& session, const v1::Request& request, v1::Reply reply) {
  reply.set_id(request.id());
  if (session.stream == nullptr || lose_replies_) return;
  v1::ServerFrame frame;
  *frame.add_replies() = std::move(reply);
  const bool held = held_op_ != v1::Request::OP_NOT_SET && request.op_case() == held_op_;
  held ? session.stream->Hold(std::move(frame)) : session.stream->Push(std::move(frame));
}

bool FakeMdc::Execute(ClientSession& session, const v1::Request& request) {
  v1::Reply reply;
  std::uint64_t returned = 0;
  const bool refused = refused_op_ != v1::Request::OP_NOT_SET && refused_op_ == request.op_case();
  if (refused) {
    reply.set_error(refusal_);
    refused_op_ = v1::Request::OP_NOT_SET;
  }
  switch (refused ? v1::Request::OP_NOT_SET : request.op_case()) {
    case v1::Request::OP_NOT_SET:
      break;
    case v1::Request::kRenew:
      if (request.renew().has_work()) recall_work_ = request.renew().work();
      last_renewal_ = request.renew();
      reply.set_commits_wait(commits_wait_);
      reply.set_small_file_bytes(small_file_bytes_);
      break;
    case v1::Request::kMapTaken:
      if (request.map_taken().problem().empty()) {
        map_taken_.set_generation(request.map_taken().generation());
      }
      map_taken_.set_problem(request.map_taken().problem());
      break;
    case v1::Request::kGoodbye:
    case v1::Request::kPong:
      break;
    case v1::Request::kGiveUp:
      if (lets_give_up_) {
        EndSession(session);
        return true;
      }
      reply.set_error(EAGAIN);
      break;
    case v1::Request::kReclaim:
      for (const std::uint64_t inode : request.reclaim().opens()) session.opens.insert(inode);
      for (const v1::HeldToken& token : request.reclaim().tokens()) {
        const TokenSpan span = *ParseTokenSpan(token.first_block(), token.length_blocks());
        files_.at(token.inode()).holders[session.id].held.Raise(span, token.mode());
      }
      if (request.reclaim().done()) session.must_reclaim = false;
      break;
    case v1::Request::kOpen:
      Open(session, request.open(), reply);
      break;
    case v1::Request::kLookup:
      LookAhead(session, request.lookup(), reply);
      break;
    case v1::Request::kReadDir:
      ListAhead(session, request.read_dir(), reply);
      break;
    case v1::Request::kClose: {
      session.opens.erase(request.close().inode());
      if (!request.close().lowers_token()) break;
      Holder& holder = files_.at(request.close().inode()).holders[session.id];
      holder.held.Lower(kWholeFile, v1::TOKEN_SHARED);
      break;
    }
    case v1::Request::kGetAttr:
      *reply.mutable_attr()->mutable_attr() = files_.at(request.get_attr().inode()).attr;
      break;
    case v1::Request::kSetAttr:
      SetAttr(session, request.set_attr(), reply);
      break;
    case v1::Request::kLayoutGet:
      if (std::exchange(parks_layout_get_, false)) return false;
      if (!LayoutGet(session, request, reply)) return false;
      break;
    case v1::Request::kLayoutCommit:
      Commit(session, request.layout_commit(), reply);
      break;
    case v1::Request::kLayoutReturn: {
      returned = request.layout_return().inode();
      File& file = files_.at(returned);
      const auto holder = file.holders.find(session.id);
      if (holder == file.holders.end()) break;
      const v1::LayoutReturn& back = request.layout_return();
      TokenRanges& held = holder->second.held;
      held.Lower(*ParseTokenSpan(back.first_block(), back.length_blocks()), back.mode());
      std::erase_if(holder->second.recalled, [&](const Recalled& recalled) {
        return held.Most(recalled.span) <= recalled.mode;
      });
      if (held.empty()) file.holders.erase(holder);
      break;
    }
    case v1::Request::kAllocate:
      Allocate(session, request.allocate(), reply);
      break;
    case v1::Request::kSync:
      break;
    case v1::Request::kAccessed:
      NoteReads(request.accessed());
      break;
    default:
      reply.set_error(EOPNOTSUPP);
  }
  ++counts_[request.op_case()];
  if (request.slot() != 0) {
    session.slots[request.slot()].sequence = request.slot_sequence();
    session.slots[request.slot()].reply = reply;
    session.slots[request.slot()].reply.clear_layout();  // grants are made anew
  }
  Answer(session, request, std::move(reply));
  if (returned != 0) RunParked(returned);
  if (request.has_goodbye()) {
    session.evicted = true;
    DropSession(session);
  }
  return true;
}

}  // namespace reel::client
