// What one session may cost the controller, in bytes.
#include "mdc/core_world.h"

namespace reel::mdc {
namespace {

class CoreBoundsTest : public testing::Test {
 protected:
  CoreBoundsTest() {
    a_.Register();
    b_.Register();
  }
  // b_ holds up grace; a_ has claimed nothing yet.
  void BeginGrace() {
    world_.Restart();
    ASSERT_EQ(a_.Resume(), 0);
  }

  World world_;
  Client a_{world_, 1}, b_{world_, 2};
};

TEST_F(CoreBoundsTest, RequestsThatWaitAreBoundedByTheirMemory) {
  BeginGrace();
  ASSERT_EQ(a_.Reclaim(), 0);
  const v1::Request large = Client::LookupOf(std::string(std::size_t{1} << 20, 'x'));
  int sent = 0;
  for (; sent < 1'000 && !a_.ended_; ++sent) {
    a_.Send(large);
    world_.Run();
  }
  EXPECT_GT(sent, 100);
  EXPECT_LT(sent, 150);
  EXPECT_EQ(a_.Answer(a_.last_id_).error(), EPROTO);
  // It is that stream's alone, and gone with it.
  ASSERT_EQ(a_.Resume(), 0);
  for (int i = 0; i < 50; ++i) a_.Send(large);
  world_.Run();
  EXPECT_FALSE(a_.ended_);
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  EXPECT_EQ(a_.Answer(a_.last_id_).error(), ENAMETOOLONG);
  // What was answered is forgotten.
  for (int i = 0; i < 300; ++i) EXPECT_EQ(a_.Do(large), ENAMETOOLONG);
}

TEST_F(CoreBoundsTest, MessagesOfManyPartsCountWithWhatTheyTakeInMemory) {
  BeginGrace();
  ASSERT_EQ(a_.Reclaim(), 0);
  v1::Request large;
  for (int i = 0; i < 100'000; ++i) large.mutable_layout_return()->mutable_commit()->add_written();
  ASSERT_LT(large.ByteSizeLong(), 300'000u);
  std::uint32_t slot = 0;
  while (slot < 60 && !a_.ended_) {
    a_.SendIn(++slot, large);
    world_.Run();
  }
  EXPECT_TRUE(a_.ended_);
}

}  // namespace
}  // namespace reel::mdc
