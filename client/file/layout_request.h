// What this client asks the controller for of a file's data.
#pragma once

#include <cstdint>

#include "proto/convert.h"
#include "proto/layout.pb.h"
#include "proto/mdc.pb.h"
#include "proto/token_ranges.h"

namespace reel::client {

// The token of some blocks, and the extents of a range of bytes.
struct FetchRange {
  TokenSpan token{};
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  bool allocate = false;  // blocks where there are none
};

inline v1::Request LayoutGetOf(std::uint64_t inode, v1::TokenMode mode, const FetchRange& range) {
  v1::Request request;
  v1::LayoutGet& get = *request.mutable_layout_get();
  get.set_inode(inode);
  get.set_mode(mode);
  get.set_offset_bytes(range.offset_bytes);
  get.set_length_bytes(range.length_bytes);
  get.set_allocate(range.allocate);
  get.set_token_first_block(range.token.first.value());
  get.set_token_length_blocks(LengthForMessage(range.token));
  return request;
}

}  // namespace reel::client
