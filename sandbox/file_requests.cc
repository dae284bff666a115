#include "sandbox/file_requests.h"

#include <algorithm>
#include <charconv>

#include "base/base64.h"
#include "host/read_json.h"
#include "wasi/file_calls.h"
#include "wasi/state.h"

namespace membrane::sandbox {
namespace {

using Json = nlohmann::json;
using wasi::Answer;
using wasi::Done;
using wasi::Errno;

// Memory needed per byte: as read, as base64, and in growing JSON.
constexpr uint64_t kForms = 8;

std::string_view name_of(wasi::FileType type) {
  switch (type) {
    case wasi::FileType::kRegularFile: return "file";
    case wasi::FileType::kDirectory: return "directory";
    case wasi::FileType::kSymbolicLink: return "link";
    case wasi::FileType::kBlockDevice:
    case wasi::FileType::kCharacterDevice: return "device";
    case wasi::FileType::kSocketDgram:
    case wasi::FileType::kSocketStream: return "stream";
    case wasi::FileType::kUnknown: return "unknown";
  }
  return "unknown";
}

// Above 2^53, JSON numbers differ between languages: those are written as strings.
Json json_of(const wasi::FileStat& stat) {
  return {{"type", name_of(stat.type)},
          {"size", stat.size},
          {"links", stat.links},
          {"device", stat.device},
          {"inode", std::to_string(stat.inode)},
          {"accessed_ns", std::to_string(stat.accessed_ns)},
          {"modified_ns", std::to_string(stat.modified_ns)},
          {"changed_ns", std::to_string(stat.changed_ns)}};
}

template <typename T>
Answer<Json> to_json(const Answer<T>& answer) {
  if (!answer) return wasi::fail(answer.error());
  if constexpr (std::is_void_v<T>) return Json(nullptr);
  else if constexpr (std::is_same_v<T, wasi::FileStat>) return json_of(*answer);
  else return Json(*answer);
}

class Request {
 public:
  Request(const Json& fields, wasi::FileCalls& files, host::Guest& guest)
      : fields_(fields), files_(files), guest_(guest) {}

  // EINVAL for an unknown word or field.
  Answer<Json> perform() {
    const std::string what = text("files");
    if (what == "open") return open();
    if (what == "close") return to_json(files_.close(number("descriptor")));
    if (what == "read") return read();
    if (what == "write") return write();
    if (what == "stat") return stat();
    if (what == "list") return list();
    if (what == "make_directory") return to_json(files_.make_directory(text("path")));
    if (what == "remove_directory") return to_json(files_.remove_directory(text("path")));
    if (what == "unlink") return to_json(files_.unlink(text("path")));
    if (what == "rename") return to_json(files_.rename(text("path"), text("to")));
    if (what == "link") return to_json(files_.link(text("path"), text("to")));
    if (what == "symlink") return to_json(files_.symlink(text("target"), text("path")));
    if (what == "read_link") return to_json(files_.read_link(text("path")));
    if (what == "resize") return to_json(files_.resize(number("descriptor"), size("size").value_or(0)));
    if (what == "set_times")
      return to_json(files_.set_times(text("path"), nanoseconds("accessed_ns"), nanoseconds("modified_ns")));
    return wasi::fail(Errno::kInval);
  }

 private:
  // "" for an invalid string, which is never a file name.
  [[nodiscard]] std::string text(const char* name) const {
    const auto found = fields_.find(name);
    return found != fields_.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
  [[nodiscard]] bool flag(const char* name) const {
    const auto found = fields_.find(name);
    return found != fields_.end() && found->is_boolean() && found->get<bool>();
  }
  [[nodiscard]] std::optional<uint64_t> size(const char* name) const {
    const auto found = fields_.find(name);
    if (found == fields_.end() || !found->is_number_unsigned()) return std::nullopt;
    return found->get<uint64_t>();
  }
  // An invalid number matches no open descriptor.
  [[nodiscard]] uint32_t number(const char* name) const {
    return static_cast<uint32_t>(std::min<uint64_t>(size(name).value_or(UINT32_MAX), UINT32_MAX));
  }
  [[nodiscard]] uint64_t nanoseconds(const char* name) const {
    const std::string digits = text(name);
    uint64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  }

  Answer<Json> open() {
    return to_json(files_.open(text("path"), {.write = flag("write"),
                                              .create = flag("create"),
                                              .exclusive = flag("exclusive"),
                                              .truncate = flag("truncate"),
                                              .append = flag("append")}));
  }
  Answer<Json> read() {
    const uint64_t most = guest_.host_memory().left_for_call() / kForms;
    const auto count =
        static_cast<uint32_t>(std::min<uint64_t>({size("count").value_or(0), most, UINT32_MAX}));
    const auto bytes = files_.read(number("descriptor"), count, size("offset"));
    if (!bytes) return wasi::fail(bytes.error());
    return Json{{"base64", base64_encode(*bytes)}};
  }
  Answer<Json> write() {
    const auto given = fields_.find("bytes");
    if (given == fields_.end() || !given->is_object() || !given->contains("base64") ||
        !(*given)["base64"].is_string())
      return wasi::fail(Errno::kInval);
    const auto bytes = base64_decode((*given)["base64"].get_ref<const std::string&>());
    if (!bytes) return wasi::fail(Errno::kInval);
    return to_json(files_.write(number("descriptor"), *bytes, size("offset")));
  }
  Answer<Json> stat() {
    if (fields_.contains("descriptor")) return to_json(files_.stat(number("descriptor")));
    return to_json(files_.stat(text("path"), flag("follow")));
  }
  Answer<Json> list() {
    const auto entries = files_.list(text("path"), guest_.host_memory().left_for_call() / kForms);
    if (!entries) return wasi::fail(entries.error());
    Json names = Json::array();
    for (const wasi::FileCalls::Entry& entry : *entries) names.push_back({entry.name, name_of(entry.type)});
    return names;
  }

  const Json& fields_;
  wasi::FileCalls& files_;
  host::Guest& guest_;
};

std::string error_text(Errno code, const host::HostError* denial) {
  return json_text(Json{{"error",
                         {{"errno", wasi::name_of(code)},
                          {"message", denial == nullptr ? "" : denial->reason},
                          {"grant", denial == nullptr ? "" : denial->grant}}}});
}

host::CallEnd door_end(wasi::End end) {
  switch (end) {
    case wasi::End::kOutOfFuel: return host::CallEnd::kOutOfFuel;
    case wasi::End::kOutOfOutput: return host::CallEnd::kOutOfOutput;
    default: return host::CallEnd::kReturn;
  }
}

}  // namespace

host::DoorSession::JsonAnswer answer_files(wasi::System& system, host::Guest& guest,
                                           std::string_view request) {
  const auto fields = host::read_json_for_guest(request, "the request",
                                                {.bytes = host::Door::kMaxRequestBytes,
                                                 .depth = 3,
                                                 .values = 32,
                                                 .memory_bytes = guest.host_memory().left_for_call()});
  if (!fields || !fields->is_object()) {
    const host::HostError error{
        host::Errno::kInvalid, fields ? "the request is not an object" : fields.error().reason, {}};
    return {.json = error_text(Errno::kInval, &error)};
  }
  const host::HostMemory::Use use(guest.host_memory(), request.size());
  wasi::State& state = system.state();
  auto denied_before = std::exchange(state.last_denial, std::nullopt);
  wasi::FileCalls files(system, guest);
  const Answer<Json> answer = Request(*fields, files, guest).perform();
  host::DoorSession::JsonAnswer made{.json = {}, .end = door_end(files.end())};
  if (made.end == host::CallEnd::kReturn)
    made.json = answer ? json_text(Json{{"value", *answer}})
                       : error_text(answer.error(), state.last_denial ? &*state.last_denial : nullptr);
  if (!state.last_denial || answer) state.last_denial = std::move(denied_before);
  return made;
}

}  // namespace membrane::sandbox
