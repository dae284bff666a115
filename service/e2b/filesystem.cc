// Directories and what is in them, as filesystem.Filesystem of E2B's sandboxes has them. Everything belongs to one user;
// nothing has permissions.

#include <algorithm>

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

OrderedJson entry_of(const wasi::FileFact& fact) {
  constexpr uint32_t kFileMode = 0644, kDirectoryMode = 0755;
  const bool is_directory = fact.type == wasi::FileType::kDirectory;
  return {{"name", fact.path.substr(fact.path.rfind('/') + 1)},
          {"type", type_of(fact)},
          {"path", fact.path},
          {"size", std::to_string(is_directory ? 0 : fact.size_bytes)},
          {"mode", is_directory ? kDirectoryMode : kFileMode},
          {"permissions", is_directory ? "drwxr-xr-x" : "-rw-r--r--"},
          {"owner", "user"},
          {"group", "user"},
          {"modifiedTime", iso_time(static_cast<int64_t>(fact.modified_ns / kNsInMs))}};
}

void answer(const SharedCall& call, const OrderedJson& json) { call->reply(rpc_response(json_text(json))); }
void refuse(const SharedCall& call, const ApiError& error) { call->reply(rpc_response(rpc_error(error))); }

// The path of a message's member. Nothing: the call was refused.
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

using Facts = std::vector<wasi::FileFact>;

// {"entry": …} of the first fact.
void answer_entry(const SharedCall& call, const Answer<Facts>& facts) {
  if (!facts) return refuse(call, facts.error());
  if (facts->empty()) return refuse(call, {ApiCode::kNotFound, "there is no such file"});
  answer(call, {{"entry", entry_of(facts->front())}});
}

void stat(const Service& service, const SharedCall& call, const Json& message) {
  const auto path = path_in(call, message, "path");
  if (!path) return;
  service.sandboxes.act_on_files(call->known->tenant, call->known->id, "",
                                 {.act = wasi::FileAct::kStat, .path = *path},
                                 [call](const Answer<Facts>& facts) { answer_entry(call, facts); });
}

void list(const Service& service, const SharedCall& call, const Json& message) {
  const auto path = path_in(call, message, "path");
  if (!path) return;
  Fields fields(message);
  const uint64_t depth = std::max<uint64_t>(fields.number("depth").value_or(1), 1);
  if (const auto checked = fields.checked(); !checked) return refuse(call, checked.error());
  service.sandboxes.act_on_files(
      call->known->tenant, call->known->id, "",
      {.act = wasi::FileAct::kList, .path = *path, .is_deep = depth > 1},
      [call, depth, below = path->size()](const Answer<Facts>& facts) {
        if (!facts) return refuse(call, facts.error());
        OrderedJson entries = OrderedJson::array();
        for (const wasi::FileFact& fact : *facts) {
          const auto slashes =
              std::count(fact.path.begin() + static_cast<ptrdiff_t>(std::min(below, fact.path.size())),
                         fact.path.end(), '/');
          if (static_cast<uint64_t>(std::max<ptrdiff_t>(slashes, 1)) <= depth)
            entries.push_back(entry_of(fact));
        }
        answer(call, {{"entries", entries}});
      });
}

// There before: the clients are told so.
void make_directory(const Service& service, const SharedCall& call, const Json& message) {
  const auto path = path_in(call, message, "path");
  if (!path) return;
  service.sandboxes.act_on_files(
      call->known->tenant, call->known->id, "", {.act = wasi::FileAct::kStat, .path = *path},
      [service, call, path](const Answer<Facts>& before) {
        if (before)
          return call->reply(rpc_response(RpcError{RpcCode::kAlreadyExists, *path + " is there already"}));
        if (before.error().code != ApiCode::kNotFound) return refuse(call, before.error());
        service.sandboxes.act_on_files(call->known->tenant, call->known->id, "",
                                       {.act = wasi::FileAct::kMakeDirectory, .path = *path},
                                       [call](const Answer<Facts>& facts) { answer_entry(call, facts); });
      });
}

void move(const Service& service, const SharedCall& call, const Json& message) {
  const auto from = path_in(call, message, "source");
  if (!from) return;
  const auto to = path_in(call, message, "destination");
  if (!to) return;
  service.sandboxes.act_on_files(call->known->tenant, call->known->id, "",
                                 {.act = wasi::FileAct::kMove, .path = *from, .to = *to},
                                 [call](const Answer<Facts>& facts) { answer_entry(call, facts); });
}

// What is not there is removed already, as with E2B.
void remove(const Service& service, const SharedCall& call, const Json& message) {
  const auto path = path_in(call, message, "path");
  if (!path) return;
  service.sandboxes.act_on_files(call->known->tenant, call->known->id, "",
                                 {.act = wasi::FileAct::kRemove, .path = *path, .is_deep = true},
                                 [call](const Answer<Facts>& facts) {
                                   if (facts || facts.error().code == ApiCode::kNotFound)
                                     answer(call, OrderedJson::object());
                                   else refuse(call, facts.error());
                                 });
}

// -- watching -------------------------------------------------------------------------------------------------------

struct WatchWish {
  std::string path;
  bool is_deep = false;
};

// Errors: of what the message says.
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
      call->known->tenant, call->known->id, "", wish->path,
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
      call->known->tenant, call->known->id, "", wish->path,
      [call, wish](Answer<std::shared_ptr<BodySource>> source) {
        if (!source) return refuse(call, source.error());
        answer(call, {{"watcherId", call->known->watchers.add(
                                        WatchEvents(*std::move(source), wish->path, wish->is_deep))}});
      });
}

void get_watcher_events(const Service&, const SharedCall& call, const Json& message) {
  Fields fields(message);
  const auto events = call->known->watchers.take(fields.text("watcherId"));
  if (!events) return call->reply(rpc_response(RpcError{RpcCode::kNotFound, "there is no such watcher"}));
  OrderedJson list = OrderedJson::array();
  for (const WatchEvent& event : *events) list.push_back({{"name", event.name}, {"type", event.type}});
  answer(call, {{"events", list}});
}

void remove_watcher(const Service&, const SharedCall& call, const Json& message) {
  Fields fields(message);
  if (call->known->watchers.remove(fields.text("watcherId"))) return answer(call, OrderedJson::object());
  call->reply(rpc_response(RpcError{RpcCode::kNotFound, "there is no such watcher"}));
}

constexpr RpcMethod kMethods[] = {
    {"Stat", "files:read", false, stat},
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
