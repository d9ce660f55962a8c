// The slots of a session: how many mutations may be on their way at once, and each one's place.
//
// A slot carries one mutation at a time; its sequence grows by one with each new mutation, so that
// the controller recognises a repetition. Threads: externally synchronised.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace reel::client {

class SlotTable {
 public:
  struct Slot {
    std::uint32_t number = 0;  // 1 … count
    std::uint64_t sequence = 0;
  };

  // A new session's slots: all free, nothing sent yet.
  void Reset(std::uint32_t count);
  // No new mutation takes a slot above that, as long as this session lasts: the controller has been
  // started anew, and gives fewer.
  void Limit(std::uint32_t most);
  std::size_t count() const { return most_; }
  std::size_t free() const { return free_.size(); }
  // A free slot with its next sequence; nullopt when all are in use.
  std::optional<Slot> Take();
  // The slot's mutation was answered. REQUIRES: taken.
  void Release(std::uint32_t number);
  // The slot's mutation was never sent: its sequence is used by the next one. REQUIRES: taken.
  void ReleaseUnused(std::uint32_t number);

 private:
  std::uint32_t most_ = 0;                // slots that may be given out, the first ones
  std::vector<std::uint64_t> sequences_;  // last one given out, by number - 1
  std::vector<std::uint32_t> free_;       // the last is taken first
};

}  // namespace reel::client
