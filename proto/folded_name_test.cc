#include "proto/folded_name.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "absl/strings/escaping.h"
#include "proto/status.h"

namespace reel {
namespace {

std::string Folded(std::string_view name) {
  const absl::StatusOr<std::string> folded = FoldName(name);
  EXPECT_TRUE(folded.ok()) << name << ": " << folded.status();
  return folded.value_or("");
}

TEST(FoldNameTest, SpellingsOfOneNameAreOne) {
  const struct {
    std::string_view a, b;
  } kSame[] = {
      {"Reel 01.MOV", "REEL 01.mov"},
      {"Caf\u00e9", "CAFE\u0301"},  // one character, and two
      {"\u00c5ngstr\u00f6m", "a\u030angstro\u0308m"},
      {"\u212bngstrom", "\u00e5ngstrom"},  // the sign of the unit is the letter
      {"STRASSE", "stra\u00dfe"},
      {"\u03a3\u0391\u03a3", "\u03c3\u03b1\u03c2"},  // a sigma at the end of a word
      {"\uac01", "\u1100\u1161\u11a8"},              // Hangul
      {"\u03b1\u0345\u0301", "\u03b1\u0301\u0345"},  // marks in another order
      {"\u0391\u0345", "\u03b1\u03b9"},              // one that folds to a letter
      {"A\u0323\u0307", "a\u0307\u0323"},
  };
  for (const auto& [a, b] : kSame) EXPECT_EQ(Folded(a), Folded(b)) << a << " and " << b;
}

TEST(FoldNameTest, OtherNamesStayOthers) {
  EXPECT_NE(Folded("resume"), Folded("r\u00e9sum\u00e9"));
  EXPECT_NE(Folded("\ufb01le"), Folded("f\u00efle"));
  EXPECT_NE(Folded("clip_1"), Folded("clip 1"));
  EXPECT_NE(Folded("\uff21"), Folded("a")) << "a wide letter is another one, as on a Mac";
}

TEST(FoldNameTest, WhatIsFoldedStaysSo) {
  for (const std::string_view name :
       {"plain", "MiXeD", "\u0390", "\u1fb7", "\u0345", "\u0149", "\u1e9e", "\u01f0\u0345",
        "\U0001f3ac take", "\u0130stanbul"}) {
    EXPECT_EQ(Folded(Folded(name)), Folded(name)) << name;
  }
}

TEST(FoldNameTest, WhatIsNoTextIsRefused) {
  for (const std::string_view name : {"\xff.mov", "a\xc3", "\xed\xa0\x80", "\u0378", "\uffff"}) {
    const absl::StatusOr<std::string> folded = FoldName(name);
    EXPECT_EQ(ErrnoOf(folded.status()), EILSEQ) << absl::CHexEscape(std::string(name));
  }
}

}  // namespace
}  // namespace reel
