// filesystem.Filesystem of E2B's sandboxes: directories and their contents. In a sandbox in WebAssembly
// everything belongs to one user, and nothing has permissions.

#include <sys/stat.h>

#include <algorithm>
#include <functional>

#include "base/json.h"
#include "service/e2b/handlers.h"
#include "service/e2b/rpc.h"
#include "service/e2b/watches.h"
#include "service/times.h"

namespace membrane::service::e2b {
namespace {

constexpr uint64_t kNsInMs = 1'000'000;
constexpr size_t kMostPathBytes = 4096;

std::string_view type_of(const wasi::FileFact& fact) {
  switch (fact.type) {
    case wasi::FileType::kDirectory: return "FILE_TYPE_DIRECTORY";
    case wasi::FileType::kSymbolicLink: return "FILE_TYPE_SYMLINK";
    default: return "FILE_TYPE_FILE";
  }
}

// Permissions in the format of `ls -l`.
std::string permissions_of(std::string_view type, uint32_t mode) {
  const char kind = type == "FILE_TYPE_DIRECTORY" ? 'd' : type == "FILE_TYPE_SYMLINK" ? 'l' : '-';
  std::string text(1, kind);
  constexpr std::string_view kLetters = "rwxrwxrwx";
  for (size_t i = 0; i < kLetters.size(); ++i)
    text += (mode >> (kLetters.size() - 1 - i) & 1) != 0 ? kLetters[i] : '-';
  const auto mark = [&](uint32_t bit, size_t at, char with, char without) {
    if ((mode & bit) != 0) text[at] = text[at] == 'x' ? with : without;
  };
  mark(S_ISUID, 3, 's', 'S');
  mark(S_ISGID, 6, 's', 'S');
  mark(S_ISVTX, 9, 't', 'T');
  return text;
}

std::string name_of_user(uint32_t number) { return number == 0 ? "root" : std::to_string(number); }

struct Entry {
  wasi::FileFact fact;
  std::optional<linux::FileFacts> more = {};  // of a Linux sandbox
};
using Entries = std::vector<Entry>;

OrderedJson to_json(const Entry& of) {
  constexpr uint32_t kFileMode = 0644, kDirectoryMode = 0755, kModeBits = 07777;
  const auto& [fact, more] = of;
  const bool is_directory = fact.type == wasi::FileType::kDirectory;
  const uint32_t mode = more ? more->mode & kModeBits : is_directory ? kDirectoryMode : kFileMode;
  OrderedJson entry = {{"name", fact.path.substr(fact.path.rfind('/') + 1)},
                       {"type", type_of(fact)},
                       {"path", fact.path},
                       {"size", std::to_string(is_directory ? 0 : fact.size_bytes)},
                       {"mode", mode},
                       {"permissions", permissions_of(type_of(fact), mode)},
                       {"owner", more ? name_of_user(more->user) : "user"},
                       {"group", more ? name_of_user(more->group) : "user"},
                       {"modifiedTime", iso_time(static_cast<int64_t>(fact.modified_ns / kNsInMs))}};
  if (more && !more->target.empty()) entry["symlinkTarget"] = more->target;
  return entry;
}

void answer(const SharedCall& call, const OrderedJson& json) { call->reply(rpc_response(json_text(json))); }
void refuse(const SharedCall& call, const ApiError& error) { call->reply(rpc_response(rpc_error(error))); }

// The path in a message's member. Nothing: the call was refused.
std::optional<std::string> path_in(const SharedCall& call, const Json& message, const char* name) {
  Fields fields(message);
  const std::string path = fields.text(name);
  if (const auto checked = fields.checked(); !checked) {
    refuse(call, checked.error());
    return std::nullopt;
  }
  if (path.size() <= kMostPathBytes) return absolute_path(path);
  refuse(call, {ApiCode::kInvalidValue, "\"" + std::string(name) + "\" is longer than a path can be"});
  return std::nullopt;
}

// The depth of a path below a directory: 1 for its entries.
uint64_t depth_below(const std::string& directory, const std::string& path) {
  const auto from = path.begin() + static_cast<ptrdiff_t>(std::min(directory.size(), path.size()));
  return static_cast<uint64_t>(std::max<ptrdiff_t>(std::count(from, path.end(), '/'), 1));
}

// Runs an act and returns the entries, down to that many directories below its path.
Answer<void> act_in(Guest& guest, const wasi::FileRequest& request, uint64_t depth, Entries& entries) {
  auto facts = guest.act_on_files("", request);
  if (!facts) return std::unexpected(facts.error());
  for (wasi::FileFact& fact : *facts) {
    if (depth_below(request.path, fact.path) > depth) continue;
    Entry& entry = entries.emplace_back(std::move(fact));
    if (guest.kind() != Kind::kLinux) continue;
    if (auto more = guest.stat_file(entry.fact.path, request.act != wasi::FileAct::kList))
      entry.more = *std::move(more);
  }
  return {};
}

void act(const Service& service, const SharedCall& call, wasi::FileRequest request,
         std::function<void(const Answer<Entries>&)> then, uint64_t depth = UINT64_MAX) {
  const auto entries = std::make_shared<Entries>();
  auto change = FileChange::of(request);
  service.sandboxes.with_files(
      call->actor(), call->known->id,
      [request = std::move(request), depth, entries](Guest& guest) -> Answer<std::string> {
        if (const auto done = act_in(guest, request, depth, *entries); !done)
          return std::unexpected(done.error());
        return "";
      },
      [entries, then = std::move(then)](const Answer<std::string>& done) {
        if (done) then(std::move(*entries));
        else then(std::unexpected(done.error()));
      },
      std::move(change));
}

// {"entry": …} of the first.
void answer_entry(const SharedCall& call, const Answer<Entries>& entries) {
  if (!entries) return refuse(call, entries.error());
  if (entries->empty()) return refuse(call, {ApiCode::kNotFound, "there is no such file"});
  answer(call, {{"entry", to_json(entries->front())}});
}

void stat_path(const Service& service, const SharedCall& call, const Json& message) {
  const auto path = path_in(call, message, "path");
  if (!path) return;
  act(service, call, {.act = wasi::FileAct::kStat, .path = *path},
      [call](const Answer<Entries>& entries) { answer_entry(call, entries); });
}

void list(const Service& service, const SharedCall& call, const Json& message) {
  const auto path = path_in(call, message, "path");
  if (!path) return;
  Fields fields(message);
  const uint64_t depth = std::max<uint64_t>(fields.number("depth").value_or(1), 1);
  if (const auto checked = fields.checked(); !checked) return refuse(call, checked.error());
  act(
      service, call, {.act = wasi::FileAct::kList, .path = *path, .is_deep = depth > 1},
      [call](const Answer<Entries>& entries) {
        if (!entries) return refuse(call, entries.error());
        OrderedJson list = OrderedJson::array();
        for (const Entry& each : *entries) list.push_back(to_json(each));
        answer(call, {{"entries", list}});
      },
      depth);
}

// The answer says whether it existed before.
void make_directory(const Service& service, const SharedCall& call, const Json& message) {
  const auto path = path_in(call, message, "path");
  if (!path) return;
  act(service, call, {.act = wasi::FileAct::kStat, .path = *path},
      [service, call, path](const Answer<Entries>& before) {
        if (before)
          return call->reply(rpc_response(RpcError{RpcCode::kAlreadyExists, *path + " already exists"}));
        if (before.error().code != ApiCode::kNotFound) return refuse(call, before.error());
        act(service, call, {.act = wasi::FileAct::kMakeDirectory, .path = *path},
            [call](const Answer<Entries>& entries) { answer_entry(call, entries); });
      });
}

void move(const Service& service, const SharedCall& call, const Json& message) {
  const auto from = path_in(call, message, "source");
  if (!from) return;
  const auto to = path_in(call, message, "destination");
  if (!to) return;
  act(service, call, {.act = wasi::FileAct::kMove, .path = *from, .to = *to},
      [call](const Answer<Entries>& entries) { answer_entry(call, entries); });
}

// Removing a missing file succeeds, as in E2B.
void remove(const Service& service, const SharedCall& call, const Json& message) {
  const auto path = path_in(call, message, "path");
  if (!path) return;
  act(service, call, {.act = wasi::FileAct::kRemove, .path = *path, .is_deep = true},
      [call](const Answer<Entries>& entries) {
        if (entries || entries.error().code == ApiCode::kNotFound) answer(call, OrderedJson::object());
        else refuse(call, entries.error());
      });
}

// -- watching -------------------------------------------------------------------------------------------------------

struct WatchWish {
  std::string path;
  bool is_deep = false;
};

// Returns the errors of an invalid message.
Answer<WatchWish> wish_in(const Json& message) {
  Fields fields(message);
  const WatchWish wish{absolute_path(fields.text("path")), fields.flag("recursive")};
  if (const auto checked = fields.checked(); !checked) return std::unexpected(checked.error());
  return wish;
}

void watch(const Service& service, const SharedCall& call, const Json& message) {
  const auto wish = wish_in(message);
  if (!wish) return call->reply(stream_response(rpc_error(wish.error())));
  service.sandboxes.watch_files(
      call->actor(), call->known->id, "", wish->path,
      [call, wish](Answer<std::shared_ptr<BodySource>> source) {
        if (!source) return call->reply(stream_response(rpc_error(source.error())));
        call->reply({.status = 200,
                     .headers = {{"Content-Type", std::string(kStreamType)}, {"Cache-Control", "no-store"}},
                     .source = std::make_shared<WatchStream>(
                         WatchEvents(*std::move(source), wish->path, wish->is_deep))});
      });
}

void create_watcher(const Service& service, const SharedCall& call, const Json& message) {
  const auto wish = wish_in(message);
  if (!wish) return refuse(call, wish.error());
  service.sandboxes.watch_files(
      call->actor(), call->known->id, "", wish->path,
      [call, wish](Answer<std::shared_ptr<BodySource>> source) {
        if (!source) return refuse(call, source.error());
        answer(call, {{"watcherId", call->known->watchers.add(
                                        WatchEvents(*std::move(source), wish->path, wish->is_deep))}});
      });
}

void answer_events(const SharedCall& call, const std::string& watcher) {
  const auto events = call->known->watchers.take(watcher);
  if (!events) return call->reply(rpc_response(RpcError{RpcCode::kNotFound, "there is no such watcher"}));
  OrderedJson list = OrderedJson::array();
  for (const WatchEvent& event : *events) list.push_back({{"name", event.name}, {"type", event.type}});
  answer(call, {{"events", list}});
}

// Watches are updated after operations on the sandbox; processes of a Linux sandbox change files without any.
void get_watcher_events(const Service& service, const SharedCall& call, const Json& message) {
  Fields fields(message);
  const std::string watcher = fields.text("watcherId");
  const auto info = service.sandboxes.get(call->known->tenant, call->known->id);
  if (!info || info->kind != Kind::kLinux) return answer_events(call, watcher);
  service.sandboxes.with_files(
      call->actor(), call->known->id, [](Guest&) -> Answer<std::string> { return ""; },
      [call, watcher](const Answer<std::string>&) { answer_events(call, watcher); });
}

void remove_watcher(const Service&, const SharedCall& call, const Json& message) {
  Fields fields(message);
  if (call->known->watchers.remove(fields.text("watcherId"))) return answer(call, OrderedJson::object());
  call->reply(rpc_response(RpcError{RpcCode::kNotFound, "there is no such watcher"}));
}

constexpr RpcMethod kMethods[] = {
    {"Stat", "files:read", false, stat_path},
    {"ListDir", "files:read", false, list},
    {"MakeDir", "files:write", false, make_directory},
    {"Move", "files:write", false, move},
    {"Remove", "files:write", false, remove},
    {"WatchDir", "files:read", true, watch},
    {"CreateWatcher", "files:read", false, create_watcher},
    {"GetWatcherEvents", "files:read", false, get_watcher_events},
    {"RemoveWatcher", "files:read", false, remove_watcher},
};

}  // namespace

void handle_filesystem(const Service& service, const SharedCall& call) {
  handle_rpc(service, call, kMethods);
}

}  // namespace membrane::service::e2b
