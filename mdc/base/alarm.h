// How an alarm is put into an answer to administrators: its line and its kind belong together.
#pragma once

#include <string>
#include <utility>

#include "proto/admin.pb.h"

namespace reel::mdc {

inline void AddAlarm(v1::ShowReply& reply, v1::AlarmKind kind, std::string text) {
  reply.add_alarms(std::move(text));
  reply.add_alarm_kinds(kind);
}

}  // namespace reel::mdc
