// What an administrator chooses between: names that are durable when a call returns, and sooner.
#pragma once

namespace reel::mdc {

// When sessions that know of it are told of their changes of names and attributes.
enum class NameReplies {
  kDurable,    // when they are durable
  kDelegated,  // … but those in a directory that is delegated to the session: it makes most of them
               // by itself, and is told of the others at once
  kEarly,  // of all of them at once
};

}  // namespace reel::mdc
