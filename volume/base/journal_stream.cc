#include "volume/base/journal_stream.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace reel {

bool WritesToJournal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat facts {};
  unsigned long long device = 0;
  unsigned long long inode = 0;
  return stream != nullptr && fstat(STDERR_FILENO, &facts) == 0 &&
         std::sscanf(stream, "%llu:%llu", &device, &inode) == 2 && facts.st_dev == device &&
         facts.st_ino == inode;
}

}  // namespace reel
