// What an administrator chooses between: names that are durable when a call returns, and sooner.
#pragma once

namespace reel::mdc {

// When sessions that know of it are told of their changes of names and attributes.
enum class NamesTold {
  kDurable,  // when they are durable
  kAhead,  // … but a session makes and removes names by itself in directories that it holds alone
  kEarly,  // as kAhead; of the others at once
};

}  // namespace reel::mdc
