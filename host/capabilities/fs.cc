// fs: files beneath the directories that the policy grants.
#include <limits>
#include "base/json.h"
#include "host/call.h"
#include "host/capabilities/all.h"

namespace membrane::host {
namespace {

using nlohmann::ordered_json;

HostResult<Value> read(Call& call) {
  return call.broker.file_read(call.text(0), call.guest.host_memory().left_for_call());
}
HostResult<Value> write(Call& call) {
  return nothing(call.broker.file_write(call.text(0), call.text(1), FileMode::kCreateOrReplace));
}
HostResult<Value> append(Call& call) {
  return nothing(call.broker.file_write(call.text(0), call.text(1), FileMode::kAppend));
}
HostResult<Value> remove(Call& call) { return nothing(call.broker.file_remove(call.text(0))); }

HostResult<Value> list(Call& call) {
  MEMBRANE_ASSIGN(const std::vector<FileInfo> entries, call.broker.file_list(call.text(0)));
  constexpr uint64_t kForms = 2, kEntryBytes = 64;  // as values and as text; in addition to its name
  uint64_t bytes = 0;
  for (const FileInfo& entry : entries) bytes += json_text_bytes(entry.name) + kEntryBytes;
  MEMBRANE_TRY(call.check_size(kForms * bytes));
  ordered_json array = ordered_json::array();
  for (const FileInfo& entry : entries)
    array.push_back(
        ordered_json{{"name", entry.name}, {"directory", entry.is_directory}, {"size", entry.size_bytes}});
  return array.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

HostResult<Value> size(Call& call) {
  MEMBRANE_ASSIGN(const FileInfo info, call.broker.file_stat(call.text(0)));
  return static_cast<int64_t>(std::min<uint64_t>(info.size_bytes, std::numeric_limits<int64_t>::max()));
}

HostResult<Value> exists(Call& call) {
  const auto info = call.broker.file_stat(call.text(0));
  if (!info && info.error().code != Errno::kNotFound && info.error().code != Errno::kNotDir)
    return std::unexpected(info.error());
  return int32_t{!info ? 0 : info->is_directory ? 2 : 1};
}

constexpr Param kPath{"path", Type::kText};
constexpr Param kBytes{"bytes", Type::kBytes};
constexpr Failure kNoGrant{Errno::kAccess, "no grant covers the path"};
constexpr Failure kNoWrite{Errno::kAccess, "no grant covers the path for writing"};
constexpr Failure kNone{Errno::kNotFound, "there is no such file"};
constexpr Failure kDirectory{Errno::kIsDir, "the path names a directory"};
constexpr Failure kBadPath{Errno::kInvalid, "the path is not absolute, or is malformed"};
constexpr Failure kTooMuch{Errno::kQuota, "the file or the run's files would be larger or more than granted"};
constexpr std::string_view kPaths =
    "A path is absolute and of the program's own name space: the one that the grant gives "
    "(`fs:read:./data:/data` shows "
    "`./data` as `/data`).";

constexpr FunctionSpec kFunctions[] = {
    {.module = "fs",
     .name = "read",
     .params = {kPath},
     .result = Type::kBytes,
     .result_name = "bytes",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 200, .per_byte = 1},
     .summary = "The whole file; ENOENT when there is none.",
     .details = kPaths,
     .failures = {kNone, kNoGrant, kDirectory, kBadPath, {Errno::kTooBig, "the file is larger than granted"}},
     .example = R"((call $io.print (call $fs.read! (string "/data/notes.txt"))))",
     .handler = read},
    {.module = "fs",
     .name = "write",
     .params = {kPath, kBytes},
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 400, .per_byte = 1},
     .summary = "Makes the file, or replaces what is in it.",
     .details = kPaths,
     .failures = {kNoWrite,
                  {Errno::kNotFound, "the directory of the file does not exist"},
                  kDirectory,
                  kTooMuch,
                  kBadPath},
     .example = R"((call $fs.write! (string "/out/answer.txt") (string "42\n")))",
     .handler = write},
    {.module = "fs",
     .name = "append",
     .params = {kPath, kBytes},
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 400, .per_byte = 1},
     .summary = "Adds the bytes at the end of the file; makes it when there is none.",
     .details = kPaths,
     .failures = {kNoWrite,
                  {Errno::kNotFound, "the directory of the file does not exist"},
                  kDirectory,
                  kTooMuch,
                  kBadPath},
     .example = R"((call $fs.append! (string "/out/log.txt") (string "one more line\n")))",
     .handler = append},
    {.module = "fs",
     .name = "list",
     .params = {kPath},
     .result = Type::kText,
     .result_name = "json",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 400, .per_byte = 1},
     .summary =
         R"(What is in the directory, sorted by name: [{"name":"a.txt","directory":false,"size":12}].)",
     .details = kPaths,
     .failures = {{Errno::kNotFound, "there is no such directory"},
                  {Errno::kNotDir, "the path names a file"},
                  kNoGrant,
                  kBadPath},
     .example = R"((call $io.print (call $fs.list! (string "/data"))))",
     .handler = list},
    {.module = "fs",
     .name = "size",
     .params = {kPath},
     .result = Type::kI64,
     .result_name = "bytes",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 200, .per_byte = 1},
     .summary = "How many bytes the file has; ENOENT when there is none.",
     .details = kPaths,
     .failures = {kNone, kNoGrant, kBadPath},
     .example = R"((call $io.print_i64 (call $fs.size! (string "/data/notes.txt"))))",
     .handler = size,
     .is_rare = true},
    {.module = "fs",
     .name = "exists",
     .params = {kPath},
     .result = Type::kI32,
     .result_name = "kind",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 200, .per_byte = 1},
     .summary = "1 for a file, 2 for a directory, 0 when there is nothing.",
     .details = kPaths,
     .failures = {kNoGrant, kBadPath},
     .example = R"((call $io.print_i32 (call $fs.exists! (string "/data/notes.txt"))))",
     .handler = exists},
    {.module = "fs",
     .name = "remove",
     .params = {kPath},
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 400, .per_byte = 1},
     .summary = "Removes the file; ENOENT when there is none. Directories stay.",
     .details = kPaths,
     .failures = {kNone, kNoWrite, kDirectory, kBadPath},
     .example = R"((call $fs.remove! (string "/out/log.txt")))",
     .handler = remove},
};

}  // namespace

std::span<const FunctionSpec> fs_functions() { return kFunctions; }

}  // namespace membrane::host
