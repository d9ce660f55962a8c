#include "client/base/attributes.h"

#include <type_traits>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace reel::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::util::MessageDifferencer;

// Every field, also one that is added to the message later, has a value of its own.
void Fill(google::protobuf::Message& message, std::uint64_t& next) {
  const google::protobuf::Descriptor* const type = message.GetDescriptor();
  const google::protobuf::Reflection* const fields = message.GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* const field = type->field(i);
    ++next;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT64:
        fields->SetUInt64(&message, field, next);
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        fields->SetInt64(&message, field, static_cast<std::int64_t>(next));
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        fields->SetUInt32(&message, field, static_cast<std::uint32_t>(next));
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        fields->SetBool(&message, field, true);
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Fill(*fields->MutableMessage(&message, field), next);
        break;
      default:
        FAIL() << "a field of another type: " << field->name();
    }
  }
}

TEST(AttributesTest, NothingOfTheMessageIsLost) {
  std::uint64_t next = 100;
  v1::Attr attr;
  Fill(attr, next);
  EXPECT_TRUE(MessageDifferencer::Equals(Attributes(attr).ToProto(), attr));
}

TEST(AttributesTest, ACopyReplacesWhatWasThere) {
  std::uint64_t next = 100;
  v1::Attr attr;
  Fill(attr, next);
  Attributes().CopyTo(attr);
  EXPECT_TRUE(MessageDifferencer::Equivalent(Attributes(attr).ToProto(), Attributes().ToProto()));
  EXPECT_EQ(attr.ctime().seconds(), 0);
}

TEST(AttributesTest, ACopyAllocatesNothing) {
  EXPECT_TRUE(std::is_trivially_copyable_v<Attributes>);
}

}  // namespace
}  // namespace reel::client
