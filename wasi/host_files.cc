#include "wasi/host_files.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "host/files/file_handles.h"
#include "host/files/guest_path.h"

namespace membrane::wasi::host_files {
namespace {

using host::HostError;
using std::chrono::steady_clock;

// FNV-1a: any number derived from the path alone will do.
uint64_t inode_of(std::string_view path) {
  uint64_t hash = 0xCBF2'9CE4'8422'2325;
  for (const char c : path) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100'0000'01B3;
  return hash | 1;
}

// Whether a grant covers the path: "/data" covers "/data" and "/data/a".
bool has(const std::string& grant, std::string_view path) {
  return path.starts_with(grant) && (path.size() == grant.size() || path[grant.size()] == '/');
}

// A grant's guest path in the form compared here: without a trailing slash or repeated slashes.
std::string plain(const std::string& guest) {
  std::string out;
  if (const auto components = components_of(guest))
    for (const std::string& component : *components) out += "/" + component;
  return out;
}

// The grant that applies: the one with the longest path. Null when there is none.
const policy::FsGrant* grant_of(const State& state, std::string_view path) {
  const policy::FsGrant* found = nullptr;
  for (const policy::FsGrant& grant : state.grants.fs)
    if (has(plain(grant.guest), path) && (found == nullptr || grant.guest.size() > found->guest.size()))
      found = &grant;
  return found;
}

bool is_read_only(const State& state, std::string_view path) {
  const policy::FsGrant* grant = grant_of(state, path);
  return grant != nullptr && grant->mode == policy::FsMode::kRead;
}

Errno errno_of(host::Errno code) {
  switch (code) {
    case host::Errno::kOk: return Errno::kSuccess;
    case host::Errno::kAccess: return Errno::kAcces;
    case host::Errno::kNotFound: return Errno::kNoent;
    case host::Errno::kQuota: return Errno::kDquot;
    case host::Errno::kInvalid: return Errno::kInval;
    case host::Errno::kBudget: return Errno::kDquot;
    case host::Errno::kTimedOut: return Errno::kTimedout;
    case host::Errno::kFault: return Errno::kFault;
    case host::Errno::kNoMemory: return Errno::kNomem;
    case host::Errno::kTooBig: return Errno::kFbig;
    case host::Errno::kExists: return Errno::kExist;
    case host::Errno::kIsDir: return Errno::kIsdir;
    case host::Errno::kNotDir: return Errno::kNotdir;
    case host::Errno::kUnsupported: return Errno::kNotsup;
    case host::Errno::kProtocol: return Errno::kProto;
    case host::Errno::kCancelled: return Errno::kCanceled;
    case host::Errno::kNotEmpty: return Errno::kNotempty;
    case host::Errno::kHost:
    case host::Errno::kConnection: return Errno::kIo;
  }
  return Errno::kIo;
}

// The message is kept for the owner of the run; the program gets the number.
std::unexpected<Errno> reported(State& state, const HostError& error, std::string_view path, bool to_write) {
  switch (error.code) {
    case host::Errno::kAccess:
    case host::Errno::kQuota:
    case host::Errno::kBudget:
    case host::Errno::kTooBig: state.last_denial = error; break;
    default: break;
  }
  if (to_write && error.code == host::Errno::kAccess && is_read_only(state, path)) return fail(Errno::kRofs);
  return fail(errno_of(error.code));
}

enum class Purpose : uint8_t { kRead, kWrite };

// `error`: null for a success.
host::CallRecord record_of(std::string_view name, const std::string& path, const host::HostError* error) {
  host::CallRecord record{.name = std::string(name), .arguments = path};
  if (error == nullptr) return record;
  record.code = error->code;
  record.reason = host::bounded_reason(error->reason);
  record.grant = host::bounded_reason(error->grant);
  return record;
}

// One request by path: paid, made, and recorded in the report.
template <typename Act>
auto ask(Call& call, std::string_view name, const std::string& path, Purpose purpose, Act act)
    -> Answer<typename decltype(act(std::declval<host::Broker&>()))::value_type> {
  State& state = call.state;
  if (state.world.broker == nullptr) return fail(Errno::kNotsup);
  call.guest.owe(kWorldFuel);
  const auto start = steady_clock::now();
  auto answer = act(*state.world.broker);
  host::CallRecord record = record_of(name, path, answer ? nullptr : &answer.error());
  record.latency_us = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - start).count());
  state.note(std::move(record));
  if (!answer) return reported(state, answer.error(), path, purpose == Purpose::kWrite);
  if constexpr (std::is_void_v<typename decltype(answer)::value_type>) return {};
  else return std::move(*answer);
}

FileType type_of(bool is_directory, bool is_link) {
  if (is_link) return FileType::kSymbolicLink;
  return is_directory ? FileType::kDirectory : FileType::kRegularFile;
}

FileStat stat_of(const std::string& path, const host::FileStatus& status) {
  const auto ns = [](int64_t value) { return static_cast<uint64_t>(std::max<int64_t>(value, 0)); };
  return {.device = kDevice,
          .inode = status.file_id != 0 ? status.file_id : inode_of(path),
          .type = type_of(status.is_directory, status.is_link),
          .links = status.link_count,
          .size = status.size_bytes,
          .accessed_ns = ns(status.accessed_ns),
          .modified_ns = ns(status.modified_ns),
          .changed_ns = ns(status.changed_ns)};
}

// -- open files -----------------------------------------------------------------------------

// In a fork or after thawing, files are open by name only. The program did not request this reopening: it costs no
// fuel, and is reported only if it is refused.
Answer<host::FileHandle> handle_of(Call& call, OpenHostFile& file) {
  if (file.handle) return *file.handle;
  State& state = call.state;
  if (state.world.broker == nullptr) return fail(Errno::kNotsup);
  const auto opened = state.world.broker->file_open(file.path, {.write = file.writes});
  if (!opened) {
    state.note(record_of("fs.open", file.path, &opened.error()));
    return reported(state, opened.error(), file.path, file.writes);
  }
  file.handle = opened->handle;
  return opened->handle;
}

// An operation on an open file: not recorded in the report, unless it is refused.
template <typename Act>
auto on(Call& call, OpenHostFile& file, Purpose purpose, Act act)
    -> Answer<typename decltype(act(std::declval<host::Broker&>(), host::FileHandle{}))::value_type> {
  const auto handle = handle_of(call, file);
  if (!handle) return fail(handle.error());
  call.guest.owe(kWorldFuel);
  auto answer = act(*call.state.world.broker, *handle);
  if (!answer) {
    file.last_error = answer.error();
    return reported(call.state, answer.error(), file.path, purpose == Purpose::kWrite);
  }
  if constexpr (std::is_void_v<typename decltype(answer)::value_type>) return {};
  else return std::move(*answer);
}

size_t open_handles(const State& state) {
  return static_cast<size_t>(std::ranges::count_if(state.descriptors.all(), [](const auto& entry) {
    const auto* file = std::get_if<OpenHostFile>(&entry.second.is);
    return file != nullptr && file->handle.has_value();
  }));
}

}  // namespace

Answer<size_t> read(Call& call, OpenHostFile& file, uint64_t offset, std::span<uint8_t> to) {
  if (to.empty()) return size_t{0};
  const auto count = static_cast<uint32_t>(std::min<size_t>(to.size(), host::FileHandles::kMostBytes));
  const auto bytes = on(call, file, Purpose::kRead, [&](host::Broker& broker, host::FileHandle handle) {
    return broker.file_read_at(handle, offset, count);
  });
  if (!bytes) return fail(bytes.error());
  // A journal may contain any length.
  const size_t got = std::min(bytes->size(), to.size());
  if (got > 0) std::memcpy(to.data(), bytes->data(), got);
  file.bytes_in += got;
  return got;
}

Done write(Call& call, OpenHostFile& file, uint64_t offset, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return {};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Done done = on(call, file, Purpose::kWrite, [&](host::Broker& broker, host::FileHandle handle) {
    return broker.file_write_at(handle, offset, text);
  });
  if (done) file.bytes_out += bytes.size();
  return done;
}

Done resize(Call& call, OpenHostFile& file, uint64_t size) {
  return on(call, file, Purpose::kWrite,
            [&](host::Broker& broker, host::FileHandle handle) { return broker.file_resize(handle, size); });
}

Done sync(Call& call, OpenHostFile& file) {
  return on(call, file, Purpose::kWrite,
            [&](host::Broker& broker, host::FileHandle handle) { return broker.file_sync(handle); });
}

Answer<FileStat> stat(Call& call, OpenHostFile& file) {
  const auto status = on(call, file, Purpose::kRead, [&](host::Broker& broker, host::FileHandle handle) {
    return broker.file_status(handle);
  });
  return status ? Answer<FileStat>(stat_of(file.path, *status)) : fail(status.error());
}

void close(State& state, OpenHostFile& file) {
  // A file that was used before a freeze, but not since, has no handle.
  if (!file.handle && file.bytes_in == 0 && file.bytes_out == 0) return;
  if (file.handle && state.world.broker != nullptr) (void)state.world.broker->file_close(*file.handle);
  file.handle.reset();
  const auto error = std::exchange(file.last_error, std::nullopt);
  host::CallRecord record =
      record_of(file.writes ? "fs.file_written" : "fs.file_read", file.path, error ? &*error : nullptr);
  record.bytes_in = std::exchange(file.bytes_in, 0);  // reported once
  record.bytes_out = std::exchange(file.bytes_out, 0);
  state.note(std::move(record));
}

// -- by path ---------------------------------------------------------------------------------

Answer<FileStat> stat(Call& call, const std::string& path) {
  const auto status = ask(call, "fs.status", path, Purpose::kRead,
                          [&](host::Broker& broker) { return broker.path_status(path); });
  return status ? Answer<FileStat>(stat_of(path, *status)) : fail(status.error());
}

Answer<Descriptor> open(Call& call, const std::string& path, const Opening& how) {
  const bool writes = how.write || how.create || how.truncate;
  const auto directory = [&] { return Descriptor{.is = OpenDirectory{{0, path}, nullptr}}; };
  if (how.only_directory) {
    const auto found = stat(call, path);
    if (!found) return fail(found.error());
    return found->type == FileType::kDirectory ? Answer<Descriptor>(directory()) : fail(Errno::kNotdir);
  }
  if (open_handles(call.state) >= host::FileHandles::kMostOpen) return fail(Errno::kNfile);
  const auto opened =
      ask(call, "fs.open", path, writes ? Purpose::kWrite : Purpose::kRead, [&](host::Broker& broker) {
        return broker.file_open(path, {how.write, how.create, how.exclusive, how.truncate});
      });
  if (!opened && opened.error() == Errno::kIsdir && !writes) return directory();
  if (!opened) return fail(opened.error());
  return Descriptor{.is = OpenHostFile{.path = path, .writes = writes, .handle = opened->handle}};
}

namespace {

// As stat() reports it; below a grant with links only the host knows.
Answer<uint64_t> inode_of_directory(Call& call, const std::string& path) {
  const policy::FsGrant* grant = grant_of(call.state, path);
  if (grant == nullptr || !grant->links) return inode_of(path);
  const auto found = stat(call, path);
  return found ? Answer<uint64_t>(found->inode) : fail(found.error());
}

}  // namespace

Answer<std::shared_ptr<const Listing>> list(Call& call, const std::string& path) {
  const auto entries = ask(call, "fs.list", path, Purpose::kRead,
                           [&](host::Broker& broker) { return broker.file_list(path); });
  if (!entries) return fail(entries.error());
  auto listing = std::make_shared<Listing>();
  const auto itself = inode_of_directory(call, path);
  if (!itself) return fail(itself.error());
  const std::string above = path.substr(0, path.rfind('/'));
  const auto parent = above.empty() ? Answer<uint64_t>(inode_of(above)) : inode_of_directory(call, above);
  if (!parent) return fail(parent.error());
  listing->reserve(entries->size() + 2);
  listing->push_back({".", *itself, FileType::kDirectory});
  listing->push_back({"..", *parent, FileType::kDirectory});
  for (const host::FileInfo& entry : *entries)
    listing->push_back(
        {entry.name,
         entry.file_id != 0 ? entry.file_id : inode_of((path == "/" ? "" : path) + "/" + entry.name),
         type_of(entry.is_directory, entry.is_link)});
  return std::shared_ptr<const Listing>(std::move(listing));
}

Done set_times(Call& call, const std::string& path, const NewTimes& times) {
  const auto ns = [](const std::optional<uint64_t>& value) -> std::optional<int64_t> {
    if (!value) return std::nullopt;
    return static_cast<int64_t>(std::min<uint64_t>(*value, INT64_MAX));
  };
  const host::FileTimes both{ns(times.accessed_ns), ns(times.modified_ns)};
  return ask(call, "fs.set_times", path, Purpose::kWrite,
             [&](host::Broker& broker) { return broker.path_set_times(path, both); });
}

Done make_directory(Call& call, const std::string& path) {
  return ask(call, "fs.make_directory", path, Purpose::kWrite,
             [&](host::Broker& broker) { return broker.directory_make(path); });
}
Done remove_directory(Call& call, const std::string& path) {
  return ask(call, "fs.remove_directory", path, Purpose::kWrite,
             [&](host::Broker& broker) { return broker.directory_remove(path); });
}
Done unlink(Call& call, const std::string& path) {
  return ask(call, "fs.unlink", path, Purpose::kWrite,
             [&](host::Broker& broker) { return broker.path_unlink(path); });
}

Done rename(Call& call, const std::string& from, const std::string& to) {
  if (grant_of(call.state, from) != grant_of(call.state, to)) return fail(Errno::kXdev);
  return ask(call, "fs.rename", from, Purpose::kWrite,
             [&](host::Broker& broker) { return broker.path_rename(from, to); });
}

namespace {

// EROFS, or EPERM when the grant has no links.
Done may_make_link(const State& state, const std::string& path) {
  const policy::FsGrant* grant = grant_of(state, path);
  if (grant != nullptr && grant->mode == policy::FsMode::kRead) return fail(Errno::kRofs);
  return grant != nullptr && grant->links ? Done() : fail(Errno::kPerm);
}

}  // namespace

Answer<host::LinkOnPath> find_link(Call& call, const std::string& path) {
  const policy::FsGrant* grant = grant_of(call.state, path);
  if (grant == nullptr || !grant->links) return host::LinkOnPath{};
  return ask(call, "fs.find_link", path, Purpose::kRead,
             [&](host::Broker& broker) { return broker.path_find_link(path); });
}

std::string grant_root(const State& state, const std::string& path) {
  const policy::FsGrant* grant = grant_of(state, path);
  return grant == nullptr ? "" : plain(grant->guest);
}

Done make_symlink(Call& call, const std::string& target, const std::string& path) {
  MEMBRANE_TRY(may_make_link(call.state, path));
  if (target.starts_with('/')) return fail(Errno::kPerm);
  const Done made = ask(call, "fs.symlink", path, Purpose::kWrite,
                        [&](host::Broker& broker) { return broker.link_make_symbolic(target, path); });
  return !made && made.error() == Errno::kAcces ? fail(Errno::kPerm) : made;
}

Done make_link(Call& call, const std::string& from, const std::string& to) {
  if (grant_of(call.state, from) != grant_of(call.state, to)) return fail(Errno::kXdev);
  MEMBRANE_TRY(may_make_link(call.state, to));
  return ask(call, "fs.link", to, Purpose::kWrite,
             [&](host::Broker& broker) { return broker.link_make_hard(from, to); });
}

// -- grants -----------------------------------------------------------------------------------

Status mount_grants(State& state) {
  state.files->unmount_all();
  if (!state.grants.fs.empty() && state.world.broker == nullptr)
    return membrane::fail(ErrorCode::kInvalidArgument,
                          "There are grants of directories, but no broker to open them.",
                          "give the System a World with a broker");
  for (const policy::FsGrant& grant : state.grants.fs) {
    const std::string path = plain(grant.guest);
    // Grants below another one are found through it.
    const bool is_below = std::ranges::any_of(state.grants.fs, [&](const policy::FsGrant& other) {
      const std::string above = plain(other.guest);
      return &other != &grant && !above.empty() && above != path && has(above, path);
    });
    if (is_below) continue;
    const auto components = components_of(grant.guest);
    const Done mounted = components ? state.files->mount(*components, path) : fail(Errno::kInval);
    if (mounted) continue;
    return membrane::fail(
        ErrorCode::kUnsupported,
        "The grant of " + grant.guest + " is at a path where the program's image has files.",
        "grant it under another guest path, such as /data");
  }
  return {};
}

void note_ungranted(State& state, std::string_view path, bool to_write) {
  const std::string word = to_write ? "write" : "read";
  const std::string whole = "/" + std::string(path);
  state.last_denial =
      HostError{host::Errno::kAccess, "No grant allows the program to " + word + " " + whole + ".",
                policy::allow_flag("fs:" + word + ":HOST_DIRECTORY:" + host::directory_to_grant(whole))};
}

}  // namespace membrane::wasi::host_files
