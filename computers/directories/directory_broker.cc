#include "computers/directories/directory_broker.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <utility>

#include "linux/granted/messages.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::computers {
namespace {

using host::Errno;
using host::HostResult;
using linux::GrantedAct;
using linux::GrantedAnswer;
using linux::GrantedEntry;
using linux::GrantedRequest;
using linux::HostFile;

constexpr size_t kMostListed = 100'000;  // entries of one directory, in memory while they are listed

int errno_of(Errno code) {
  switch (code) {
    case Errno::kOk: return 0;
    case Errno::kAccess: return EACCES;
    case Errno::kNotFound: return ENOENT;
    case Errno::kQuota: return EDQUOT;
    case Errno::kInvalid: return EINVAL;
    case Errno::kBudget: return ENOSPC;
    case Errno::kNoMemory: return ENOMEM;
    case Errno::kTooBig: return EFBIG;
    case Errno::kExists: return EEXIST;
    case Errno::kIsDir: return EISDIR;
    case Errno::kNotDir: return ENOTDIR;
    case Errno::kUnsupported: return EOPNOTSUPP;
    case Errno::kNotEmpty: return ENOTEMPTY;
    default: return EIO;
  }
}

}  // namespace

// One directory, with a broker of its own.
class DirectoryBroker::Served {
 public:
  enum Bound : uint8_t { kMaxFile, kMaxTotal, kMaxFiles, kBytesIn, kBytesOut, kBounds };
  static constexpr std::array<const char*, kBounds> kNames = {"max_file", "max_total", "max_files",
                                                              "bytes_in", "bytes_out"};
  // How many requests reached it. Any thread.
  [[nodiscard]] uint64_t reached(size_t bound) const { return reached_[bound]; }

  Served(const policy::FsGrant& grant, policy::Budget& budget)
      : policy_(policy_of(grant)), broker_(policy_, budget, nullptr, nullptr) {}

  bool is_readable() { return broker_.path_status(policy_.fs.front().guest).has_value(); }
  bool make_sockets() { return linux::make_socket_pair(ours_, theirs_); }
  [[nodiscard]] linux::MountedDirectory mount() const {
    const policy::FsGrant& grant = policy_.fs.front();
    return {
        .path = grant.guest, .socket = theirs_.number(), .is_writable = grant.mode == policy::FsMode::kWrite};
  }
  void report_uses(sandbox::Report& report) {
    const std::lock_guard lock(mutex_);
    for (auto& [name, use] : {std::pair<const char*, Use&>{"directory.read", read_},
                              std::pair<const char*, Use&>{"directory.write", written_}}) {
      const Use was = std::exchange(use, {});
      if (!was.any) continue;
      sandbox::HostCallRecord& line = report.host_calls.emplace_back();
      line.name = name;
      line.arguments = policy_.fs.front().guest;
      line.bytes_in = was.bytes_in;
      line.bytes_out = was.bytes_out;
      line.decided_by = {line.arguments};
    }
  }
  void begin(const Stop& stop) {
    theirs_.close();
    thread_ = std::jthread([this, &stop] { serve(stop); });
  }

 private:
  static policy::Policy policy_of(const policy::FsGrant& grant) {
    policy::Policy policy;
    policy.fs = {grant};
    policy.fs.front().links = true;  // the kernel process follows them itself, in the sandbox's own files
    return policy;
  }
  // A parsed request.
  struct Request {
    GrantedRequest head;
    std::string path, other;  // in the form of the grant
    std::string_view bytes;
  };
  struct Answer {
    GrantedAnswer head;
    std::string bytes;
  };

  void serve(const Stop& stop) {
    std::string message(
        sizeof(GrantedRequest) + 2 * GrantedRequest::kMostPathBytes + GrantedRequest::kMostBytes + 1, '\0');
    while (!stop.is_set()) {
      std::array<pollfd, 2> looked = {{{ours_.number(), POLLIN, 0}, {stop.descriptor(), POLLIN, 0}}};
      if (::poll(looked.data(), looked.size(), -1) < 0 && errno != EINTR) return;
      if (looked[0].revents == 0) continue;
      const ssize_t got = ::recv(ours_.number(), message.data(), message.size(), MSG_DONTWAIT);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0 || !answer({message.data(), static_cast<size_t>(got)})) return;
    }
  }
  bool answer(std::string_view message) {
    const auto request = request_in(message);
    if (!request) return false;
    Answer answer;
    if (const auto done = obey(*request, answer); !done) {
      note(request->head.act, done.error());
      answer = {.head = {.error = errno_of(done.error().code)}, .bytes = {}};
    } else {
      note_use(*request, answer);
    }
    answer.head.bytes = static_cast<uint32_t>(answer.bytes.size());
    std::string reply(reinterpret_cast<const char*>(&answer.head), sizeof answer.head);
    reply += answer.bytes;
    // The kernel process is waiting for the answer, so there is room, or the socket is not ours.
    return ::send(ours_.number(), reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(reply.size());
  }
  [[nodiscard]] std::optional<Request> request_in(std::string_view message) const {
    Request request;
    if (message.size() < sizeof request.head) return {};
    std::memcpy(&request.head, message.data(), sizeof request.head);
    message.remove_prefix(sizeof request.head);
    const GrantedRequest& head = request.head;
    if (head.act < GrantedAct::kStatus || head.act > GrantedAct::kLast ||
        head.path_bytes > GrantedRequest::kMostPathBytes ||
        head.other_bytes > GrantedRequest::kMostPathBytes || head.bytes > GrantedRequest::kMostBytes ||
        head.count > GrantedRequest::kMostBytes ||
        message.size() != size_t{head.path_bytes} + head.other_bytes + head.bytes)
      return {};
    request.path = below(message.substr(0, head.path_bytes));
    const std::string_view other = message.substr(head.path_bytes, head.other_bytes);
    request.other = head.act == GrantedAct::kMakeLink ? std::string(other) : below(other);
    request.bytes = message.substr(size_t{head.path_bytes} + head.other_bytes);
    return request;
  }
  // The broker refuses ".." and anything else that is not a path.
  [[nodiscard]] std::string below(std::string_view path) const {
    const std::string& guest = policy_.fs.front().guest;
    if (path.empty()) return guest;
    return (guest.ends_with('/') ? guest : guest + "/") + std::string(path);
  }

  // Reports an operation as a use of the directory, except for looking at the directory itself.
  void note_use(const Request& request, const Answer& answer) {
    const GrantedAct act = request.head.act;
    if (act == GrantedAct::kClose || act == GrantedAct::kSync || act == GrantedAct::kRoom) return;
    if (act == GrantedAct::kStatus && request.path == policy_.fs.front().guest) return;
    const bool opens_to_write =
        act == GrantedAct::kOpen && (request.head.flags & GrantedRequest::kForWriting) != 0;
    const bool reads = act <= GrantedAct::kRead && !opens_to_write;
    const std::lock_guard lock(mutex_);
    Use& use = reads ? read_ : written_;
    use.any = true;
    if (act == GrantedAct::kRead) use.bytes_in += answer.bytes.size();
    if (act == GrantedAct::kWrite) use.bytes_out += request.bytes.size();
  }
  void note(GrantedAct act, const host::HostError& error) {
    const auto is_of = [&error](const char* limit) { return error.reason.contains(limit); };
    if (error.code == Errno::kTooBig && act != GrantedAct::kList) ++reached_[kMaxFile];
    else if (error.code == Errno::kBudget) ++reached_[act == GrantedAct::kRead ? kBytesIn : kBytesOut];
    else if (error.code == Errno::kQuota && is_of("(max_total)")) ++reached_[kMaxTotal];
    else if (error.code == Errno::kQuota && is_of("(max_files)")) ++reached_[kMaxFiles];
  }

  HostResult<void> obey(const Request& request, Answer& answer);
  HostResult<void> look(const Request& request, Answer& answer);
  HostResult<void> list(const Request& request, Answer& answer);
  static void tell(const host::FileStatus& status, GrantedAnswer& answer) {
    answer.flags = (status.is_directory ? GrantedAnswer::kIsDirectory : 0u) |
                   (status.is_link ? GrantedAnswer::kIsLink : 0u);
    answer.size = status.size_bytes;
    answer.links = status.link_count;
    answer.number = status.file_id;
    answer.accessed_ns = status.accessed_ns;
    answer.modified_ns = status.modified_ns;
    answer.changed_ns = status.changed_ns;
  }

  const policy::Policy policy_;
  host::LocalBroker broker_;
  std::array<std::atomic<uint64_t>, kBounds> reached_ = {};
  HostFile ours_, theirs_;
  std::string listed_path_;
  std::vector<host::FileInfo> listed_;  // of a list that is sent in parts
  struct Use {
    bool any = false;
    uint64_t bytes_in = 0, bytes_out = 0;
  };
  std::mutex mutex_;  // guards what follows
  Use read_, written_;
  std::jthread thread_;  // the last
};

HostResult<void> DirectoryBroker::Served::obey(const Request& request, Answer& answer) {
  const GrantedRequest& head = request.head;
  switch (head.act) {
    case GrantedAct::kWrite: return broker_.file_write_at(head.file, head.offset, request.bytes);
    case GrantedAct::kResize: return broker_.file_resize(head.file, head.offset);
    case GrantedAct::kSync: return broker_.file_sync(head.file);
    case GrantedAct::kClose: return broker_.file_close(head.file);
    case GrantedAct::kSetTimes: {
      host::FileTimes times;
      if (head.accessed_ns != GrantedRequest::kKeepTime) times.accessed_ns = head.accessed_ns;
      if (head.modified_ns != GrantedRequest::kKeepTime) times.modified_ns = head.modified_ns;
      return broker_.path_set_times(request.path, times);
    }
    case GrantedAct::kSetMode: return broker_.path_set_permissions(request.path, head.mode);
    case GrantedAct::kUnlink: return broker_.path_unlink(request.path);
    case GrantedAct::kRemoveDirectory: return broker_.directory_remove(request.path);
    case GrantedAct::kMakeDirectory: return broker_.directory_make(request.path);
    case GrantedAct::kMakeLink: return broker_.link_make_symbolic(request.other, request.path);
    case GrantedAct::kMakeHardLink: return broker_.link_make_hard(request.path, request.other);
    case GrantedAct::kRename: return broker_.path_rename(request.path, request.other);
    default: return look(request, answer);
  }
}

HostResult<void> DirectoryBroker::Served::look(const Request& request, Answer& answer) {
  const GrantedRequest& head = request.head;
  switch (head.act) {
    case GrantedAct::kStatus: {
      const auto status = head.file != 0 ? broker_.file_status(head.file) : broker_.path_status(request.path);
      if (!status) return std::unexpected(status.error());
      tell(*status, answer.head);
      if (head.file != 0 && head.path_bytes == 0) return {};  // unknown for an open file without a name
      const auto mode = broker_.path_permissions(request.path);
      if (!mode) return std::unexpected(mode.error());
      answer.head.mode = *mode;
      return {};
    }
    case GrantedAct::kTarget: {
      auto link = broker_.path_find_link(request.path);
      if (!link) return std::unexpected(link.error());
      answer.bytes = std::move(link->target);
      return {};
    }
    case GrantedAct::kRoom: {
      const auto room = broker_.path_room(request.path);
      if (!room) return std::unexpected(room.error());
      const linux::GrantedRoom reply = {room->most_bytes, room->free_bytes, room->most_files,
                                        room->free_files};
      answer.bytes.assign(reinterpret_cast<const char*>(&reply), sizeof reply);
      return {};
    }
    case GrantedAct::kOpen: {
      const auto opened =
          broker_.file_open(request.path, {.write = (head.flags & GrantedRequest::kForWriting) != 0,
                                           .create = (head.flags & GrantedRequest::kCreate) != 0,
                                           .exclusive = (head.flags & GrantedRequest::kExclusive) != 0,
                                           .truncate = false});
      if (!opened) return std::unexpected(opened.error());
      tell(opened->status, answer.head);
      answer.head.file = opened->handle;
      return {};
    }
    case GrantedAct::kRead: {
      auto bytes = broker_.file_read_at(head.file, head.offset, head.count);
      if (!bytes) return std::unexpected(bytes.error());
      answer.bytes = *std::move(bytes);
      return {};
    }
    default: return list(request, answer);
  }
}

HostResult<void> DirectoryBroker::Served::list(const Request& request, Answer& answer) {
  if (request.head.offset == 0 || request.path != listed_path_) {
    auto all = broker_.path_list(request.path, kMostListed);
    if (!all) return std::unexpected(all.error());
    listed_ = *std::move(all);
    listed_path_ = request.path;
  }
  answer.head.entries = static_cast<uint32_t>(std::min<size_t>(listed_.size(), UINT32_MAX));
  bool is_listed_to_end = listed_.empty();
  for (size_t at = std::min<uint64_t>(request.head.offset, listed_.size()); at < listed_.size(); ++at) {
    const host::FileInfo& each = listed_[at];
    GrantedEntry entry = {
        .number = each.file_id, .flags = 0, .name_bytes = static_cast<uint16_t>(each.name.size())};
    entry.flags = static_cast<uint16_t>((each.is_link ? GrantedAnswer::kIsLink : 0u) |
                                        (each.is_directory ? GrantedAnswer::kIsDirectory : 0u));
    if (answer.bytes.size() + sizeof entry + each.name.size() > GrantedRequest::kMostBytes) break;
    answer.bytes.append(reinterpret_cast<const char*>(&entry), sizeof entry).append(each.name);
    if (at + 1 == listed_.size()) is_listed_to_end = true;
  }
  if (is_listed_to_end) {
    listed_.clear();
    listed_.shrink_to_fit();
    listed_path_.clear();
  }
  return {};
}

DirectoryBroker::DirectoryBroker(std::unique_ptr<Stop> stop, policy::Budget& budget)
    : stop_(std::move(stop)), budget_(budget) {}

Result<std::unique_ptr<DirectoryBroker>> DirectoryBroker::create(const std::vector<policy::FsGrant>& grants,
                                                                 policy::Budget& budget) {
  MEMBRANE_ASSIGN(auto stop, Stop::create());
  std::unique_ptr<DirectoryBroker> made(new DirectoryBroker(std::move(stop), budget));
  for (const policy::FsGrant& grant : grants) {
    std::error_code error;
    if (!std::filesystem::is_directory(grant.host, error))
      return fail(ErrorCode::kNotFound, grant.host + " is not a directory",
                  "A Linux sandbox is granted directories: name an existing one.");
    auto served = std::make_unique<Served>(grant, budget);
    if (!served->is_readable())
      return fail(ErrorCode::kUnavailable, grant.host + " cannot be opened",
                  "Grant a directory that can be read.");
    if (!served->make_sockets())
      return fail(ErrorCode::kUnavailable, "the system has no room for a sandbox's directories");
    made->all_.push_back(std::move(served));
  }
  return made;
}

DirectoryBroker::~DirectoryBroker() { end(); }

std::vector<linux::MountedDirectory> DirectoryBroker::mounts() const {
  std::vector<linux::MountedDirectory> all;
  for (const auto& each : all_) all.push_back(each->mount());
  return all;
}

void DirectoryBroker::begin() {
  for (const auto& each : all_) each->begin(*stop_);
}

void DirectoryBroker::report_uses(sandbox::Report& report) {
  for (const auto& each : all_) each->report_uses(report);
}

void DirectoryBroker::tell(sandbox::Report& report) const {
  for (size_t bound = 0; bound < Served::kBounds; ++bound) {
    uint64_t times = 0;
    for (const auto& each : all_) times += each->reached(bound);
    if (times > 0) report.limits_reached.push_back({Served::kNames[bound], times});
  }
}

void DirectoryBroker::end() {
  stop_->set();
  all_.clear();
}

}  // namespace membrane::computers
