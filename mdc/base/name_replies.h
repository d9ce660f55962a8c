// What an administrator chooses between: names that are durable when a call returns, and sooner.
#pragma once

namespace reel::mdc {

// When sessions that know of it are told of their changes of names and attributes.
enum class NameReplies {
  kDurable,    // when they are durable
  kDelegated,  // … but a session changes names by itself in directories delegated to it, and is told
               // at once of those there that it could not change by itself
  kEarly,      // of all of them at once
};

}  // namespace reel::mdc
