// What an administrator chooses between: names that are durable when a call returns, and sooner.
#pragma once

namespace reel::mdc {

// When sessions that know of it are told of their changes of names and attributes.
enum class NameReplies {
  kDurable,    // when they are durable
  kDelegated,  // … but a session makes and removes names by itself in directories delegated to it
  kEarly,      // as kDelegated; of the others at once
};

}  // namespace reel::mdc
