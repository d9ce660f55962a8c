#include "tools/bench/frames/frames_run.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/bench/progress.h"
#include "volume/base/size.h"
#include "volume/base/types.h"
#include "volume/lun/fd_lun.h"

namespace reel::bench {
namespace {

struct Stream {
  std::string name;
  const Side* side;
  std::string directory;       // where it is written
  std::string read_directory;  // and where it is read
  bool write = false;
  std::string files;  // the name of its files: a growing one is written and read
};

class Runner {
 public:
  Runner(const std::vector<Side>& sides, const FramesOptions& options)
      : sides_(sides), options_(options) {}

  absl::StatusOr<FramesRun> Run(const std::function<absl::Status()>& begin) {
    if (absl::Status s = MakeStreams(); !s.ok()) return s;
    if (absl::Status s = LayOut(); !s.ok()) return s;
    if (absl::Status s = Open(); !s.ok()) return s;
    if (absl::Status s = begin(); !s.ok()) return s;
    return PlayAll();
  }

 private:
  bool growing() const { return options_.pattern == FramePattern::kGrowing; }

  absl::Status MakeStreams() {
    for (const Side& side : sides_) {
      auto scratch = ScratchDirectory::Make(side);
      if (!scratch.ok()) return scratch.status();
      scratch_.push_back(*std::move(scratch));
      const std::string written = scratch_.back().path();
      const std::string name = std::filesystem::path(written).filename();
      const std::string read =
          options_.read_through.empty() ? written : absl::StrCat(options_.read_through, "/", name);
      const std::uint32_t count = options_.streams + (growing() ? 0 : options_.also_write);
      for (std::uint32_t i = 0; i < count; ++i) {
        const bool write = options_.write || i >= options_.streams;
        const std::string files = absl::StrCat("stream", i + 1);
        // A growing file is written, and read behind that.
        if (write || growing()) AddStream(side, {written, read}, files, true);
        if (!write) AddStream(side, {written, read}, files, false);
      }
    }
    sequence_ = options_.FramesOfSequence(streams_.size());
    return absl::OkStatus();
  }

  void AddStream(const Side& side, const std::pair<std::string, std::string>& directories,
                 const std::string& files, bool write) {
    streams_.push_back(
        {.name = absl::StrCat(side.name, " ", files.substr(6), write ? " writes" : " reads"),
         .side = &side,
         .directory = directories.first,
         .read_directory = directories.second,
         .write = write,
         .files = files});
  }

  FrameFileOptions FilesOf(const Stream& stream) const {
    return {.directory = stream.write ? stream.directory : stream.read_directory,
            .name = stream.files,
            .extension = options_.format.extension,
            .frame_bytes = options_.format.bytes,
            .io_bytes = options_.io_bytes,
            .direct = options_.direct,
            .sync = options_.sync};
  }

  absl::Status CheckSpace(const Side& side, std::uint64_t streams) const {
    struct statvfs space {};
    if (statvfs(side.directory.c_str(), &space) != 0) {
      return absl::ErrnoToStatus(errno, side.directory);
    }
    const std::uint64_t free = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    const std::uint64_t needed = sequence_ * streams * RoundUp(options_.format.bytes, kIoAlignment);
    if (needed <= free) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(side.directory, ": ", FormatSize(needed), " are needed for ", sequence_,
                     " frames of each stream, and ", FormatSize(free),
                     " are free; give less --space, or fewer --seconds"));
  }

  absl::Status LayOut() {
    for (const Side& side : sides_) {
      std::uint64_t count = 0;
      for (const Stream& stream : streams_) {
        const bool own_files = stream.write || !growing();
        count += stream.side == &side && own_files ? 1 : 0;
      }
      if (absl::Status s = CheckSpace(side, count); !s.ok()) return s;
    }
    if (growing()) return absl::OkStatus();
    const auto readers = static_cast<std::uint64_t>(
        std::count_if(streams_.begin(), streams_.end(), [](const Stream& s) { return !s.write; }));
    Progress progress(sequence_ * readers, !options_.progress);
    for (const Stream& stream : streams_) {
      if (stream.write) continue;
      FrameFileOptions files = FilesOf(stream);
      files.directory = stream.directory;
      files.sync = true;  // and not while it is measured
      const auto sequence = MakeFrameSequence(files);
      AlignedBuffer buffer = sequence->MakeBuffer();
      for (std::uint64_t i = 0; i < sequence_; ++i) {
        progress.Step(absl::StrCat("laying out ", stream.name));
        if (auto times = sequence->Write(i, buffer); !times.ok()) return times.status();
      }
      if (!options_.direct) DropFromCache(stream.directory);
    }
    return absl::OkStatus();
  }

  static void DropFromCache(const std::string& directory) {
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      const UniqueFd fd(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
      if (fd.valid()) posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
  }

  // Writers first: what grows must be there before it is read.
  absl::Status Open() {
    files_.resize(streams_.size());
    for (const bool write : {true, false}) {
      for (std::size_t i = 0; i < streams_.size(); ++i) {
        if (streams_[i].write != write) continue;
        if (!growing()) {
          files_[i] = MakeFrameSequence(FilesOf(streams_[i]));
          continue;
        }
        auto opened = OpenGrowingFile(FilesOf(streams_[i]), write);
        if (!opened.ok()) return opened.status();
        files_[i] = *std::move(opened);
      }
    }
    return absl::OkStatus();
  }

  PlayOptions OptionsOf(std::size_t i) const {
    const bool write = streams_[i].write;
    PlayOptions play{.schedule = {options_.fps, options_.buffers, write},
                     .pattern = write ? FramePattern::kForward : options_.pattern,
                     .numbers = sequence_,
                     .frames = options_.FramesOfStream(),
                     .seconds = options_.seconds,
                     .threads = options_.threads,
                     .seed = i + 1};
    // A growing file has an end, and no frame before the one that is written.
    if (growing() && play.frames == 0) play.frames = sequence_;
    if (growing()) play.numbers = play.frames;
    return play;
  }

  absl::StatusOr<FramesRun> PlayAll() {
    Progress progress(1, !options_.progress);
    progress.Step(absl::StrCat("playing ", streams_.size(), " streams for about ",
                               DurationText(options_.seconds)));
    std::atomic<bool> stop{false};
    std::vector<absl::StatusOr<StreamRun>> runs(streams_.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      threads.emplace_back([&, i] { runs[i] = Play(*files_[i], OptionsOf(i), stop); });
    }
    for (std::thread& thread : threads) thread.join();
    FramesRun result{.options = options_, .sequence_frames = sequence_};
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (!runs[i].ok()) return runs[i].status();
      result.streams.push_back(*std::move(runs[i]));
      result.streams.back().name = streams_[i].name;
      result.streams.back().directory = !streams_[i].write && !options_.read_through.empty()
                                            ? options_.read_through
                                            : streams_[i].side->directory;
    }
    return result;
  }

  const std::vector<Side>& sides_;
  const FramesOptions& options_;
  std::vector<ScratchDirectory> scratch_;
  std::vector<Stream> streams_;
  std::vector<std::unique_ptr<FrameFiles>> files_;
  std::uint64_t sequence_ = 0;
};

}  // namespace

std::uint64_t FramesOptions::FramesOfStream() const {
  return fps > 0 ? std::max<std::uint64_t>(1, std::llround(fps * seconds)) : 0;
}

std::uint64_t FramesOptions::FramesOfSequence(std::uint64_t streams_of_all) const {
  const std::uint64_t frame = RoundUp(format.bytes, kIoAlignment);
  const std::uint64_t fit = space_bytes / std::max<std::uint64_t>(1, streams_of_all) / frame;
  const std::uint64_t played = FramesOfStream();
  if (pattern == FramePattern::kGrowing && played > 0) return played;
  const std::uint64_t wanted = played == 0 ? fit : std::min(fit, played);
  return std::max<std::uint64_t>(wanted, buffers + 2);
}

absl::StatusOr<FramesRun> RunFrames(const std::vector<Side>& directories,
                                    const FramesOptions& options,
                                    const std::function<absl::Status()>& begin) {
  return Runner(directories, options).Run(begin);
}

}  // namespace reel::bench
