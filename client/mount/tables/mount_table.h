// What the system's table of mounts tells: proc(5), /proc/PID/mountinfo.
//
// Threads: pure functions, but for those that read /proc.
#pragma once

#include <string>
#include <string_view>

namespace reel::client {

struct Mounted {
  std::string device;  // as "0:42"; empty where nothing is mounted
  std::string type;    // as "fuse.reelfs"
  std::string source;  // of ours: the volume
};

// What is mounted on a directory, on top, by the table of this process's mount namespace.
Mounted MountedAt(const std::string& mount_point);
bool IsOurs(const Mounted& mounted);

// The device ("0:42") of what is mounted on a directory, by the table of this process's mount
// namespace; empty where nothing is. Asks nothing of the file system itself.
std::string DeviceOfMount(const std::string& mount_point);

// Whether something is mounted on a directory or file of the file system with that device, or an
// overlay has one for a layer, in the mount namespace of any process (of those that this one may
// look at).
bool IsMountedUpon(const std::string& device);

// Whether the file system with that device is mounted anywhere, in any of these namespaces.
bool IsMounted(const std::string& device);

// Writes down for mount(8) and systemd that what is mounted there is reached over the network
// (/run/mount/utab: _netdev), so that a shutdown unmounts it before the network goes. For a mount
// whose options do not say so, and of which fstab says nothing.
void NoteNetworkMount(const std::string& source, const std::string& mount_point);

// ---- the same, of one table ----

// Whether utab has it.
bool IsNotedIn(std::string_view utab, std::string_view mount_point);

Mounted MountedIn(std::string_view table, std::string_view mount_point);
bool IsMountedUponIn(std::string_view table, std::string_view device);

}  // namespace reel::client
