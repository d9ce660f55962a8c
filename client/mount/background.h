// Running on in the background, with the start's outcome told to whoever called.
//
// The process that was started waits for its child to report; it then prints the child's error, if
// any, and exits with its code. So `mount` returns when the mount is usable, and says why when it
// is not. Threads: Fork before any other thread starts.
#pragma once

#include <string>

namespace reel::client {

class Background {
 public:
  // Returns in the child only; in place when `foreground`. `program` begins the lines printed.
  static Background Fork(const std::string& program, bool foreground);

  // Once: ends the wait of the calling process with this exit code; a message goes to standard
  // error. With code 0 the child lets go of the terminal and of its working directory.
  void Report(int exit_code, const std::string& message = {});

  // Whether the process that waits for the report is gone: nobody wants the mount any more.
  bool IsAbandoned() const;

 private:
  std::string program_;
  int pipe_ = -1;  // to the process that waits; -1 in the foreground
};

}  // namespace reel::client
