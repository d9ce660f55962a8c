// What moves data while the volume is in use, and the jobs that this has become.
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/space/jobs.h"
#include "tools/commands/view.h"
#include "volume/base/size.h"

namespace reel::tools {
namespace {

absl::StatusOr<Json> Jobs(AdminContext& context, const Words& words) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  if (words.size() == 1) {
    const auto reply = context.api.AskOf<v1::JobsReply, v1::JobsRequest>(*volume);
    if (!reply.ok()) return reply.status();
    return JobsOf(*volume, *reply);
  }
  v1::ChangeJobRequest request;
  std::uint64_t job = 0;
  if (!absl::SimpleAtoi(words[2], &job) || job == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("use: jobs ", words[1], " JOB, with a number that \"jobs\" shows"));
  }
  request.set_volume(*volume);
  request.set_job(job);
  request.set_state(words[1] == "pause"    ? v1::JOB_PAUSED
                    : words[1] == "resume" ? v1::JOB_RUNNING
                                           : v1::JOB_CANCELLED);
  const auto reply = context.api.Ask<v1::JobsReply>(request, AdminApi::Repeat::kNo);
  if (!reply.ok()) return reply.status();
  return JobsOf(*volume, *reply);
}

// The number by which the controller knows a file: what stat(2) shows of it.
absl::StatusOr<std::uint64_t> InodeAt(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  if (!S_ISREG(file.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": not a regular file"));
  }
  if (getxattr(path.c_str(), "reelfs.affinity", nullptr, 0) < 0 && errno == EOPNOTSUPP) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": no file or directory of a mounted ReelFS volume"));
  }
  return file.st_ino;
}

// One file, or all.
absl::StatusOr<Json> StartOnFiles(AdminContext& context, const Words& given, v1::JobKind kind) {
  v1::StartJobRequest request;
  request.set_kind(kind);
  const auto words = WithoutRate(given, request);
  if (!words.ok()) return words.status();
  if (words->size() == 2) {
    const auto inode = InodeAt((*words)[1]);
    if (!inode.ok()) return inode.status();
    request.set_inode(*inode);
  }
  return StartJob(context, std::move(request));
}

absl::StatusOr<Json> Defragment(AdminContext& context, const Words& given) {
  return StartOnFiles(context, given, v1::JOB_DEFRAGMENT);
}

absl::StatusOr<Json> Place(AdminContext& context, const Words& given) {
  return StartOnFiles(context, given, v1::JOB_PLACE);
}

// One pool, or all.
absl::StatusOr<Json> StartOnPools(AdminContext& context, const Words& given, v1::JobKind kind) {
  v1::StartJobRequest request;
  request.set_kind(kind);
  const auto words = WithoutRate(given, request);
  if (!words.ok()) return words.status();
  if (words->size() == 2) request.set_pool((*words)[1]);
  return StartJob(context, std::move(request));
}

absl::StatusOr<Json> Drain(AdminContext& context, const Words& given) {
  v1::StartJobRequest request;
  request.set_kind(v1::JOB_DRAIN);
  const auto words = WithoutRate(given, request);
  if (!words.ok()) return words.status();
  if (words->size() == 2) {
    request.set_pool((*words)[1]);
  } else if (words->size() == 3 && (*words)[1] == "lun") {
    request.set_lun((*words)[2]);
  } else {
    return absl::InvalidArgumentError("use: drain POOL, or drain lun LUN");
  }
  return StartJob(context, std::move(request));
}

absl::StatusOr<Json> Rebalance(AdminContext& context, const Words& given) {
  return StartOnPools(context, given, v1::JOB_REBALANCE);
}

absl::StatusOr<Json> Compact(AdminContext& context, const Words& given) {
  return StartOnPools(context, given, v1::JOB_COMPACT);
}

absl::StatusOr<Json> Restripe(AdminContext& context, const Words& given) {
  v1::StartJobRequest request;
  const auto words = WithoutRate(given, request);
  if (!words.ok()) return words.status();
  const std::string what = words->size() == 4 ? (*words)[2] : "";
  const auto size = what == "breadth" || what == "block" ? ParseSize((*words)[3])
                                                         : absl::InvalidArgumentError("");
  if (!size.ok()) {
    return absl::InvalidArgumentError(
        "use: restripe POOL breadth SIZE, or restripe POOL block SIZE, e.g. breadth 1M");
  }
  request.set_pool((*words)[1]);
  if (what == "breadth") {
    request.set_kind(v1::JOB_RESTRIPE);
    request.set_breadth_bytes(*size);
  } else {
    request.set_kind(v1::JOB_ALIGN);
    request.set_block_bytes(*size);
  }
  return StartJob(context, std::move(request));
}

}  // namespace

AdminCommands JobCommands() {
  return {
      {.name = "defrag",
       .usage = "[PATH] [rate SIZE]",
       .help = "lay files that are in many pieces into few, as a job; without PATH, all",
       .run = Defragment,
       .text = JobsText,
       .examples = {"defrag", "defrag /mnt/reel/A001.mov rate 200M"}},
      {.name = "drain",
       .usage = "POOL | lun LUN [rate SIZE]",
       .help = "allocate nothing in a pool, or on the stripe sets of a LUN, and move what lies "
               "there elsewhere, as a job",
       .run = Drain,
       .text = JobsText,
       .examples = {"drain old", "drain lun raid7 rate 100M"}},
      {.name = "rebalance",
       .usage = "[POOL] [rate SIZE]",
       .help = "make the stripe sets of pools equally full, as a job: after LUNs were added",
       .run = Rebalance,
       .text = JobsText,
       .examples = {"rebalance", "rebalance video rate 200M"}},
      {.name = "restripe",
       .usage = "POOL breadth SIZE | POOL block SIZE [rate SIZE]",
       .help = "give a pool another stripe breadth on the LUNs that it has, or lay its files in "
               "blocks of another size, as a job: data are moved while they are in use",
       .run = Restripe,
       .text = JobsText,
       .examples = {"restripe video breadth 1M", "restripe video block 64K rate 200M"}},
      {.name = "compact",
       .usage = "[POOL] [rate SIZE]",
       .help = "gather what is free in each stripe set into large pieces, as a job",
       .run = Compact,
       .text = JobsText,
       .examples = {"compact", "compact video rate 200M"}},
      {.name = "place",
       .usage = "[PATH] [rate SIZE]",
       .help = "move files to the pools of their affinities, as a job; without PATH, all",
       .run = Place,
       .text = JobsText,
       .examples = {"place", "place /mnt/reel/sound/A001.wav"}},
      {.name = "jobs",
       .usage = "[pause JOB | resume JOB | cancel JOB]",
       .help = "the jobs that move data or check metadata, and how far they are",
       .run = Jobs,
       .text = JobsText,
       .examples = {"jobs --watch", "jobs pause 3"},
       .watched = true}};
}

}  // namespace reel::tools
