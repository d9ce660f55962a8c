#include "client/mount/mount_options.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "proto/address.h"
#include "volume/base/size.h"
#include "volume/base/toml_reader.h"

namespace reel::client {
namespace {

constexpr std::uint32_t kMaxThreads = 256;
constexpr std::uint32_t kMaxRetryMinutes = 1'000'000;
constexpr std::size_t kMaxConfigStrings = 1024;

// Words of mount(8) and fstab(5) that are for others, or that say what is so anyway.
// `default_permissions` comes from the table of mounts, by a remount.
constexpr std::array<std::string_view, 16> kIgnored = {
    "defaults", "auto",     "noauto",     "nofail",
    "user",     "users",    "owner",      "nouser",
    "group",    "async",    "silent",     "loud",
    "acl",      "lazytime", "nolazytime", "default_permissions"};

// Words that go to mount(2) as they are, by libfuse.
constexpr std::array<std::string_view, 8> kKernel = {"suid", "nosuid", "dev",  "nodev",
                                                     "exec", "noexec", "sync", "dirsync"};

// Words on access times, which the client keeps, not the kernel. False: it is another word.
bool ApplyAtime(std::string_view word, MountOptions& options) {
  if (word == "relatime" || word == "atime" || word == "nostrictatime") {
    options.atime = AtimePolicy::kRelative;
  } else if (word == "strictatime" || word == "norelatime") {
    options.atime = AtimePolicy::kStrict;
  } else if (word == "noatime") {
    options.atime = AtimePolicy::kNone;
  } else if (word == "diratime" || word == "nodiratime") {
    options.directory_atime = word == "diratime";
  } else {
    return false;
  }
  return true;
}

template <typename Words>
bool Contains(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

absl::StatusOr<std::uint32_t> Number(absl::string_view option, std::string_view text,
                                     std::uint32_t least, std::uint32_t most) {
  std::uint32_t value = 0;
  if (!absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &value) || value < least ||
      value > most) {
    return Wrong(absl::StrCat("option ", option, "=", absl::string_view(text.data(), text.size()),
                              ": wants a number from ", least, " to ", most));
  }
  return value;
}

template <typename Choice>
absl::Status Choose(absl::string_view option, std::string_view word,
                    std::initializer_list<std::pair<const char*, Choice>> choices, Choice& chosen) {
  std::vector<absl::string_view> words;
  for (const auto& [name, choice] : choices) {
    words.push_back(name);
    if (name != word) continue;
    chosen = choice;
    return absl::OkStatus();
  }
  const absl::string_view last = words.back();
  words.pop_back();
  return Wrong(absl::StrCat("option ", option, "=", absl::string_view(word.data(), word.size()),
                            ": wants ", absl::StrJoin(words, ", "), " or ", last));
}

absl::Status AddMdcs(absl::string_view list, MountOptions& options) {
  for (absl::string_view host : absl::StrSplit(list, absl::ByAnyChar(";,"))) {
    absl::StatusOr<std::string> address = MdcAddress({host.data(), host.size()});
    if (!address.ok()) return Wrong(absl::StrCat("mdc=", address.status().message()));
    options.mdcs.push_back(*std::move(address));
  }
  return absl::OkStatus();
}

absl::Status ApplyFlag(std::string_view word, MountOptions& options) {
  const bool flag = options.flags.Apply(word);
  const bool access_time = ApplyAtime(word, options);
  if (Contains(kKernel, word)) {
    options.kernel_options.emplace_back(word);
    options.durable_names = options.durable_names || word == "sync" || word == "dirsync";
  } else if (access_time) {
    return absl::OkStatus();
  } else if (word == "ro") {
    options.read_only = true;
  } else if (word == "rw") {
    options.read_only = false;
  } else if (word == "soft") {
    if (options.soft_timeout_ms == 0) options.soft_timeout_ms = kDefaultSoftTimeoutMs;
  } else if (word == "hard") {
    options.soft_timeout_ms = 0;
  } else if (word == "allow_other") {
    options.allow_other = true;
  } else if (word == "noallow_other") {
    options.allow_other = false;
  } else if (word == "flush_on_close") {
    options.flush_on_close = true;
  } else if (word == "noflush_on_close") {
    options.flush_on_close = false;
  } else if (word == "nommap") {
    options.direct_io_mmap = false;
  } else if (word == "nokeepnames") {
    options.keep_names = false;
  } else if (word == "_netdev") {
    options.netdev = true;
  } else if (word == "remount") {
    options.remount = true;
  } else if (!flag && !Contains(kIgnored, word)) {
    return absl::NotFoundError("no flag of ours");
  }
  return absl::OkStatus();
}

absl::Status ApplyValue(absl::string_view key, const std::string& value, MountOptions& options) {
  if (key == "mdc") return AddMdcs(value, options);
  if (value.empty()) return Wrong(absl::StrCat("option ", key, "= has no value"));
  if (key == "luns") {
    options.luns.push_back(value);
  } else if (key == "tls_ca") {
    options.tls.ca = value;
  } else if (key == "tls_cert") {
    options.tls.cert = value;
  } else if (key == "tls_key") {
    options.tls.key = value;
  } else if (key == "config") {
    options.config_file = value;
  } else if (key == "log") {
    options.log_file = value;
  } else if (key == "cache") {
    return Choose(key, value,
                  {{"auto", CacheChoice::kAuto},
                   {"direct", CacheChoice::kDirect},
                   {"page", CacheChoice::kPageCache}},
                  options.cache);
  } else if (key == "uring") {
    return Choose(
        key, value,
        {{"auto", UringChoice::kAuto}, {"on", UringChoice::kOn}, {"off", UringChoice::kOff}},
        options.uring);
  } else if (key == "awake") {
    return Choose(
        key, value,
        {{"auto", AwakeChoice::kAuto}, {"on", AwakeChoice::kOn}, {"off", AwakeChoice::kOff}},
        options.awake);
  } else if (key == "web_listen") {
    options.web_listen = value;
  } else if (key == "readahead") {
    absl::StatusOr<std::uint64_t> size = ParseSize(value);
    if (!size.ok()) return Wrong(absl::StrCat("option readahead: ", size.status().message()));
    options.read_ahead_bytes = *size;
  } else if (key == "sequence_ahead") {
    absl::StatusOr<std::uint64_t> size = ParseSize(value);
    if (!size.ok()) return Wrong(absl::StrCat("option sequence_ahead: ", size.status().message()));
    options.sequence_ahead_bytes = *size;
  } else if (key == "writebehind") {
    absl::StatusOr<std::uint64_t> size = ParseSize(value);
    if (!size.ok()) return Wrong(absl::StrCat("option writebehind: ", size.status().message()));
    options.write_behind_bytes = *size;
  } else if (key == "threads") {
    absl::StatusOr<std::uint32_t> number = Number("threads", value, 1, kMaxThreads);
    if (!number.ok()) return number.status();
    options.threads = *number;
  } else if (key == "timeout") {
    absl::StatusOr<std::uint32_t> number = Number("timeout", value, 100, 86'400'000);
    if (!number.ok()) return number.status();
    options.soft_timeout_ms = *number;
  } else if (key == "retry") {
    absl::StatusOr<std::uint32_t> number = Number("retry", value, 0, kMaxRetryMinutes);
    if (!number.ok()) return number.status();
    options.retry_minutes = *number;
  } else if (!absl::StartsWith(key, "x-") && key != "comment" && key != "user" &&
             key != "user_id" &&
             key != "group_id") {  // the last two, too, come from the table of mounts
    return Wrong(absl::StrCat("unknown option ", key, "="));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyOptionList(absl::string_view list, MountOptions& options) {
  bool hosts_may_follow = false;
  for (absl::string_view word : absl::StrSplit(list, ',', absl::SkipEmpty())) {
    const std::size_t equals = word.find('=');
    if (equals != word.npos) {
      const absl::string_view key = word.substr(0, equals);
      absl::Status status = ApplyValue(key, std::string(word.substr(equals + 1)), options);
      if (!status.ok()) return status;
      hosts_may_follow = key == "mdc";
      continue;
    }
    if (absl::StartsWith(word, "x-")) continue;
    const absl::Status status = ApplyFlag({word.data(), word.size()}, options);
    if (status.ok()) {
      hosts_may_follow = false;
    } else if (!hosts_may_follow) {
      return Wrong(absl::StrCat("unknown option ", word));
    } else if (absl::Status added = AddMdcs(word, options); !added.ok()) {
      return added;
    }
  }
  return absl::OkStatus();
}

namespace {

std::vector<std::string> Strings(TomlTable& table, std::string_view key) {
  std::vector<std::string> strings;
  for (TomlText& text : table.Texts(key, kMaxConfigStrings)) {
    strings.push_back(std::move(text.text));
  }
  return strings;
}

absl::Status ApplyDocument(const TomlNode& root, const std::string& file, MountOptions& options) {
  TomlTable table(root, file);
  std::vector<std::string> mdcs = Strings(table, "mdc");
  std::vector<std::string> luns = Strings(table, "luns");
  TlsFiles tls;
  tls.ca = table.Text("tls_ca").value_or("");
  tls.cert = table.Text("tls_cert").value_or("");
  tls.key = table.Text("tls_key").value_or("");
  if (absl::Status status = table.Finish(); !status.ok()) return status;
  if (options.tls.ca.empty()) options.tls.ca = std::move(tls.ca);
  if (options.tls.cert.empty()) options.tls.cert = std::move(tls.cert);
  if (options.tls.key.empty()) options.tls.key = std::move(tls.key);
  if (options.luns.empty()) options.luns = std::move(luns);
  if (!options.mdcs.empty()) return absl::OkStatus();
  for (const std::string& mdc : mdcs) {
    if (absl::Status status = AddMdcs(mdc, options); !status.ok()) {
      return Wrong(absl::StrCat(table.Where("mdc"), status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MountOptions> ParseMountOptions(std::span<const std::string> arguments,
                                               bool as_root) {
  MountOptions options;
  options.allow_other = as_root;
  std::vector<std::string> places;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "-h" || word == "--help") {
      options.action = MountOptions::Action::kHelp;
      return options;
    }
    if (word == "-V" || word == "--version") {
      options.action = MountOptions::Action::kVersion;
      return options;
    }
    if (word.size() < 2 || word.front() != '-') {
      places.push_back(word);
    } else if (absl::StartsWith(word, "-o") || absl::StartsWith(word, "-t") ||
               absl::StartsWith(word, "-N")) {
      const bool attached = word.size() > 2;
      if (!attached && i + 1 == arguments.size())
        return Wrong(absl::StrCat(word, " wants a value"));
      const std::string& value = attached ? word.substr(2) : arguments[++i];
      if (word[1] != 'o') continue;  // mount(8)'s type and namespace
      if (absl::Status status = ApplyOptionList(value, options); !status.ok()) return status;
      options.given.push_back(value);
    } else {
      for (const char letter : word.substr(1)) {
        if (letter == 'f') {
          options.foreground = true;
        } else if (letter == 'v') {
          options.verbose = true;
        } else if (letter == 'r' || letter == 'w') {
          options.given.emplace_back(letter == 'r' ? "ro" : "rw");
          if (absl::Status status = ApplyFlag(options.given.back(), options); !status.ok()) {
            return status;
          }
        } else if (letter != 'n' && letter != 's') {
          return Wrong(absl::StrCat("unknown option ", word));
        }
      }
    }
  }
  if (places.size() != 2) return Wrong("wants a volume and a directory: mount.reelfs VOLUME DIR");
  options.volume = places[0];
  options.mount_point = places[1];
  // As other file systems: root's mounts honour set-id bits and devices unless told otherwise.
  for (const std::string word : {"suid", "dev"}) {
    const bool said = Contains(options.kernel_options, word) ||
                      Contains(options.kernel_options, absl::StrCat("no", word));
    if (as_root && !said) options.root_options.push_back(word);
  }
  if (options.read_only) options.kernel_options.emplace_back("ro");
  if (options.atime == AtimePolicy::kNone) options.kernel_options.emplace_back("noatime");
  if (options.allow_other) options.kernel_options.emplace_back("allow_other");
  return options;
}

std::vector<std::string> MountOptions::KernelOptions(bool squashed, bool exported_read_only) const {
  std::vector<std::string> words = kernel_options;
  for (const std::string& word : root_options) {
    words.push_back(squashed ? absl::StrCat("no", word) : word);
  }
  if (exported_read_only && !read_only) words.emplace_back("ro");
  return words;
}

absl::Status ApplyClientConfig(std::string_view text, const std::string& file,
                               MountOptions& options) {
  const auto root = ParseToml(text, file);
  return root.ok() ? ApplyDocument(*root, file, options) : root.status();
}

absl::Status ApplySharedConfig(const SharedConfig& shared, MountOptions& options) {
  // A client without a certificate goes without TLS, whatever other programs believe.
  if (options.tls.ca.empty() && options.tls.any() && shared.tls_ca) {
    options.tls.ca = shared.tls_ca->text;
  }
  if (options.luns.empty()) options.luns = shared.lun_patterns();
  if (!options.mdcs.empty()) return absl::OkStatus();
  for (const TomlText& mdc : shared.mdcs) {
    if (absl::Status status = AddMdcs(mdc.text, options); !status.ok()) {
      return Wrong(absl::StrCat(mdc.where, status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadClientConfig(MountOptions& options) {
  const bool named = !options.config_file.empty();
  const std::string path = named ? options.config_file : kDefaultConfigFile;
  const auto root = ReadToml(path);
  if (root.ok()) {
    if (absl::Status status = ApplyDocument(*root, path, options); !status.ok()) return status;
  } else if (named || !absl::IsNotFound(root.status())) {
    return root.status();
  }
  const std::string shared_path = SharedConfigBeside(path);
  const auto shared = ReadSharedConfig(shared_path);
  if (!shared.ok()) return shared.status();
  if (absl::Status status = ApplySharedConfig(*shared, options); !status.ok()) return status;
  if (options.mdcs.empty()) {
    return Wrong(
        absl::StrCat("no metadata controller named: give -o mdc=HOST, or mdc = [\"HOST\"] in ",
                     path, " or ", shared_path));
  }
  if (options.luns.empty()) {
    return Wrong(absl::StrCat("no LUNs named: give -o luns=PATTERN, or luns = [\"PATTERN\"] in ",
                              path, " or ", shared_path));
  }
  if (options.web_listen.empty()) return absl::OkStatus();
  return ValidateListenAddress("web_listen", options.web_listen, options.tls.any());
}

std::string MountUsage() {
  constexpr std::string_view kText =
      R"(usage: mount.reelfs VOLUME DIR [-fnrsvw] [-o OPTION[,OPTION...]]
       mount -t reelfs VOLUME DIR -o OPTION[,OPTION...]

Mounts a ReelFS volume, and stays behind as its client.

  -f            stay in the foreground, log to standard error
  -v            log more
  -r, -w        as ro, rw
  -n, -s        accepted from mount(8)
  -h, --help    this text
  -V, --version

Options:
  mdc=HOST[:PORT][,HOST...]   metadata controllers (port $PORT); may be repeated
  luns=PATTERN                where to look for the volume's LUNs; may be repeated
  tls_ca=FILE, tls_cert=FILE, tls_key=FILE
                              TLS: the authority, this host's certificate (role client), its key
  config=FILE                 mdc, luns and tls_…, when not given here (/etc/reelfs/client.toml);
                              else reelfs.toml in its directory
  ro                          read only
  cache=auto|direct|page      past the kernel's page cache where that is possible (auto), always, or
                              only for files opened with O_DIRECT (page)
  readahead=SIZE              memory for what streams will want next (256M); 0: none
  sequence_ahead=SIZE         memory for the next frames of sequences (256M); 0: none is fetched
  writebehind=SIZE            memory for small writes on their way to the LUNs (64M); 0: none
  flush_on_close              close(2) waits until what was written is durable
  nommap                      with cache=auto: behave as on kernels before 6.6
  uring=auto|on|off           FUSE over io_uring: where the kernel offers it (auto), or the mount
                              fails (on), or never (auto)
  awake=auto|on|off           idle CPUs do not sleep while requests come close together: in virtual
                              machines that can (auto), anywhere, or nowhere (auto)
  nokeepnames                 the kernel asks for every name of a path, each time
  soft                        calls fail with ETIMEDOUT after 30 s without a controller
  timeout=MS                  soft, after that many milliseconds
  retry=MINUTES               for how long to wait for controllers and LUNs that are not there yet
                              (2; in a unit of systemd as long as its timeout lets it); 0: one try
  threads=N                   idle worker threads kept (16)
  allow_other, noallow_other  whether other users may enter (root's mounts: yes)
  web_listen=HOST:PORT        serve metrics there over HTTPS
  log=FILE                    log there rather than to the system's log
  remount                     changes ro, rw, soft, timeout, flush_on_close and the last three lines
                              but sync and dirsync; hard and noflush_on_close take those back
  relatime, strictatime, noatime, nodiratime      as in mount(8); relatime is the default
  dirsync                     names are durable when the call returns, whatever the controller
  sync, nosuid, nodev, noexec, nosymfollow        as in mount(8)

Exit status, as mount(8): 0 mounted, 1 wrong usage, 2 system error, 32 mount failed.
)";
  return absl::StrReplaceAll({kText.data(), kText.size()},
                             {{"$PORT", absl::StrCat(kDefaultMdcPort)}});
}

}  // namespace reel::client
