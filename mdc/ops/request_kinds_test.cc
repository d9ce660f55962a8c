#include "mdc/ops/request_kinds.h"

#include <gtest/gtest.h>

namespace reel::mdc {
namespace {

TEST(RequestKindsTest, WhatChangesAVolume) {
  v1::Request request;
  request.mutable_lookup();
  EXPECT_FALSE(ChangesVolume(request));
  request.mutable_open()->set_token(v1::TOKEN_SHARED);
  EXPECT_FALSE(ChangesVolume(request));
  request.mutable_open()->set_write(true);
  EXPECT_TRUE(ChangesVolume(request));
  request.mutable_layout_get()->set_mode(v1::TOKEN_SHARED);
  EXPECT_FALSE(ChangesVolume(request));
  request.mutable_layout_get()->set_mode(v1::TOKEN_EXCLUSIVE);
  EXPECT_TRUE(ChangesVolume(request));
  request.mutable_layout_return();
  EXPECT_FALSE(ChangesVolume(request));
  request.mutable_layout_return()->mutable_commit();
  EXPECT_TRUE(ChangesVolume(request));
  request.mutable_unlink();
  EXPECT_TRUE(ChangesVolume(request));
  v1::FileLock& lock = *request.mutable_set_lock()->mutable_lock();
  lock.set_type(v1::LOCK_SHARED);
  EXPECT_FALSE(ChangesVolume(request));
  lock.set_type(v1::LOCK_EXCLUSIVE);  // fcntl(2) wants a descriptor to write by
  EXPECT_TRUE(ChangesVolume(request));
  lock.set_kind(v1::LOCK_WHOLE);
  EXPECT_FALSE(ChangesVolume(request));
  lock.set_kind(v1::LOCK_WRITER);
  EXPECT_TRUE(ChangesVolume(request));
}

}  // namespace
}  // namespace reel::mdc
