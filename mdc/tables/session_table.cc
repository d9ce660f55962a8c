#include "mdc/tables/session_table.h"

#include <utility>

namespace reel::mdc {

Session* SessionTable::Find(SessionId id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

Session* SessionTable::FindByStream(StreamId stream) {
  const auto found = by_stream_.find(stream);
  return found == by_stream_.end() ? nullptr : found->second;
}

Session* SessionTable::FindByClient(const Uuid& client) {
  const auto found = by_client_.find(client);
  return found == by_client_.end() ? nullptr : found->second;
}

Session& SessionTable::Add(Session session) {
  const SessionId id = session.id;
  auto owned = std::make_unique<Session>(std::move(session));
  Session& added = *owned;
  by_client_[added.client] = &added;
  sessions_[id] = std::move(owned);
  return added;
}

void SessionTable::Remove(SessionId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Session& session = *found->second;
  Detach(session);
  const auto client = by_client_.find(session.client);
  if (client != by_client_.end() && client->second == &session) by_client_.erase(client);
  sessions_.erase(found);
}

StreamId SessionTable::Attach(Session& session, StreamId stream) {
  const StreamId before = session.stream;
  Detach(session);
  session.stream = stream;
  session.ended_in_silence_ms.reset();
  by_stream_[stream] = &session;
  return before;
}

void SessionTable::Detach(Session& session) {
  if (session.stream == kNoStream) return;
  by_stream_.erase(session.stream);
  session.stream = kNoStream;
}

}  // namespace reel::mdc
