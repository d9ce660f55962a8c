#include "proto/request_kind.h"

#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <linux/fs.h>

namespace reel {
namespace {

TEST(RequestKindTest, MutationsAreMarked) {
  v1::Request request;
  request.mutable_lookup();
  EXPECT_FALSE(Is(request, kChangesVolume));
  request.mutable_open()->set_token(v1::TOKEN_SHARED);
  EXPECT_FALSE(Is(request, kChangesVolume));
  request.mutable_open()->set_write(true);
  EXPECT_TRUE(Is(request, kChangesVolume));
  request.mutable_layout_get()->set_mode(v1::TOKEN_SHARED);
  EXPECT_FALSE(Is(request, kChangesVolume));
  request.mutable_layout_get()->set_mode(v1::TOKEN_EXCLUSIVE);
  EXPECT_TRUE(Is(request, kChangesVolume));
  request.mutable_layout_return();
  EXPECT_FALSE(Is(request, kChangesVolume));
  request.mutable_unlink();
  EXPECT_TRUE(Is(request, kChangesVolume));
  v1::FileLock& lock = *request.mutable_set_lock()->mutable_lock();
  lock.set_type(v1::LOCK_SHARED);
  EXPECT_FALSE(Is(request, kChangesVolume));
  lock.set_type(v1::LOCK_EXCLUSIVE);  // fcntl(2) wants a descriptor to write by
  EXPECT_TRUE(Is(request, kChangesVolume));
  lock.set_kind(v1::LOCK_WHOLE);
  EXPECT_FALSE(Is(request, kChangesVolume));
  lock.set_kind(v1::LOCK_WRITER);
  EXPECT_TRUE(Is(request, kChangesVolume));
}

TEST(RequestKindTest, WhatMayBringATokenKeepsItsPlace) {
  v1::Request request;
  request.mutable_lookup();
  EXPECT_TRUE(Is(request, kRead));
  request.mutable_lookup()->set_ahead(true);
  EXPECT_FALSE(Is(request, kRead)) << "it would pass a return of the token";
  EXPECT_TRUE(Is(request, kOfSession));
  request.mutable_layout_get()->set_mode(v1::TOKEN_SHARED);
  EXPECT_FALSE(Is(request, kRead));
}

// Of each kind that there is, as an empty request.
TEST(RequestKindTest, TheColumnsOfAKindAgree) {
  const auto* kinds = v1::Request::descriptor()->FindOneofByName("op");
  ASSERT_NE(kinds, nullptr);
  for (int i = 0; i < kinds->field_count(); ++i) {
    v1::Request request;
    request.GetReflection()->MutableMessage(&request, kinds->field(i));
    const std::string name = NameOf(request.op_case());
    EXPECT_EQ(name, kinds->field(i)->name());
    const bool mutation = Is(request, kMutation);
    EXPECT_FALSE(mutation && Is(request, kRead)) << name;
    EXPECT_FALSE(mutation && Is(request, kBrief)) << name;
    EXPECT_FALSE(Is(request, kEarly) && !mutation) << name;
    EXPECT_FALSE(Is(request, kChangesSpace) && !Is(request, kChangesVolume)) << name;
    EXPECT_FALSE(KindOf(request).store != StoreUse::kNone && !mutation) << name;
    EXPECT_FALSE(KindOf(request).store == StoreUse::kCommits && !KindOf(request).token_inode)
        << name << ": what waits for the store has an inode";
  }
  EXPECT_STREQ(NameOf(v1::Request::OP_NOT_SET), "");
}

TEST(RequestKindTest, GrowthIsMarked) {
  v1::Request request;
  request.mutable_allocate();
  EXPECT_EQ(KindOf(request).store, StoreUse::kGrows);
  request.mutable_allocate()->set_mode(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
  EXPECT_EQ(KindOf(request).store, StoreUse::kStretches);
  request.mutable_rename()->set_name("long");
  request.mutable_rename()->set_new_name("new");
  EXPECT_EQ(KindOf(request).store, StoreUse::kNone);
  request.mutable_rename()->set_new_name("longer");
  EXPECT_EQ(KindOf(request).store, StoreUse::kStretches);
  request.mutable_rename()->set_flags(RENAME_WHITEOUT);
  EXPECT_EQ(KindOf(request).store, StoreUse::kGrows);
}

}  // namespace
}  // namespace reel
