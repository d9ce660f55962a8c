// Where this process's messages go. Threads: any.
#pragma once

namespace reel {

// Whether standard error leads to the journal, and not to a terminal of a session that has one
// (systemd.exec(5), JOURNAL_STREAM).
bool WritesToJournal();

}  // namespace reel
