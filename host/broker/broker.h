// The broker: everything that a capability needs from the outside world.
//
// Capabilities (host/capabilities/*.cc) never access network, disk, clock or model themselves; they ask a Broker. So
// the same capability runs in the owner's process, in a worker, and from a journal:
//
//   program ─▶ capability ─▶ Broker ┬─ LocalBroker: holds the policy, decides, acts
//                                   ├─ RemoteWorld (worker/): asks the supervisor, which holds one
//                                   └─ a replay of a journal (acts on nothing)
//
// The broker decides. An implementation checks each request against the policy and the budget before anything
// happens, and answers kAccess with the grant that would have allowed it. Sizes and times are bounded by the grant.
//
// Ownership: requests are borrowed for the call; answers are owned by the caller. Threads: a Broker serves one
// sandbox and is called by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/guest/errno.h"
#include "host/limits/work.h"

namespace membrane::host {

using Headers = std::vector<std::pair<std::string, std::string>>;

// One of the requests that a program's request becomes through redirects.
struct HttpHop {
  std::string method;
  std::string url;  // with asterisks in place of secrets

  friend bool operator==(const HttpHop&, const HttpHop&) = default;
};
inline constexpr size_t kMaxHttpHops =
    1 + 20;  // the largest number of redirects in a policy, plus the request itself

struct HttpResponse {
  int status = 0;
  Headers headers;  // names in lower case; hop-by-hop and Set-Cookie removed
  std::string body;
  std::string final_url;
  // The requests that redirects made of it, as a report shows them: "GET, https://…". Set by the gate.
  std::vector<std::string> redirects = {};
};
struct HttpRequest {
  std::string method;  // "GET"; upper case
  std::string url;
  Headers headers;  // the program's; secrets are added at the egress, and are never here
  std::string body;
  // Set by the gate, not the program. Called for each hop whose server was reached, before its response is used, on
  // the calling thread unless there are several requests; a hop that fails afterwards is reported, too. If it returns false, a redirect is not followed:
  // the program gets the 3xx response. Null: redirects are followed.
  std::function<bool(const HttpHop&)> hear = nullptr;
  // Receives a response's body in pieces, on the calling thread; the response then has no body. False ends the
  // exchange. The grant's timeout then applies to the response's head, and to each silence in its body. Not called
  // for a response without a body, nor when a response is needed as a whole: when redirects are followed, or secrets
  // are hidden.
  std::function<bool(const HttpResponse& head, std::string_view piece)> take_piece = nullptr;
};

enum class FileMode : uint8_t { kCreateOrReplace, kAppend };
struct FileInfo {
  std::string name;           // the last component
  bool is_directory = false;  // for a link: whether it leads to a directory
  uint64_t size_bytes = 0;
  bool is_link = false;  // only below a grant with links, like file_id
  uint64_t file_id = 0;  // the same for all names of a file; 0: the path identifies it
};

// A file that stays open, identified by the broker's number.
using FileHandle = uint64_t;
struct FileOpening {
  bool write = false;  // in addition to reading
  bool create = false;
  bool exclusive = false;  // with create: it must not exist
  bool truncate = false;
};
struct FileStatus {
  bool is_directory = false;
  uint64_t size_bytes = 0;
  int64_t accessed_ns = 0, modified_ns = 0, changed_ns = 0;  // since 1970
  bool is_link = false;                                      // these three only below a grant with links
  uint64_t link_count = 1;                                   // number of names (hard links) of the file
  uint64_t file_id = 0;                                      // as in FileInfo
};
// The first symbolic link in a path, including its last component. Both members are empty when there is none.
struct LinkOnPath {
  std::string path;  // a guest path
  std::string target;
};
struct OpenedFile {
  FileHandle handle = 0;
  FileStatus status;
};
struct FileTimes {  // absent times stay unchanged
  std::optional<int64_t> accessed_ns, modified_ns;
};

struct ChatRequest {
  std::string system;  // may be empty
  std::string prompt;
  uint32_t max_tokens = 0;  // 0: the grant's own limit
};
struct ChatAnswer {
  std::string text;
  uint64_t tokens_in = 0;
  uint64_t tokens_out = 0;
};

// Bound on concurrent requests, whose responses are in the host's memory together.
inline constexpr size_t kMaxHttpAtOnce = 8;

class Broker {
 public:
  virtual ~Broker() = default;

  virtual HostResult<HttpResponse> http(const HttpRequest& request) = 0;
  // Several requests, each decided, paid for and answered as in http(); the answers are in the order of the
  // requests. An implementation may make them concurrently.
  virtual std::vector<HostResult<HttpResponse>> http_many(std::span<const HttpRequest> requests);

  // Guest paths: absolute, "/"-separated, in the grant's guest name space. ENOMEM for a file of more than
  // `most_bytes`.
  virtual HostResult<std::string> file_read(std::string_view path, uint64_t most_bytes) = 0;
  virtual HostResult<void> file_write(std::string_view path, std::string_view bytes, FileMode mode) = 0;
  virtual HostResult<std::vector<FileInfo>> file_list(std::string_view path) = 0;
  virtual HostResult<FileInfo> file_stat(std::string_view path) = 0;
  virtual HostResult<void> file_remove(std::string_view path) = 0;

  // Files that stay open, and names as in POSIX: host/files/file_handles.h. A world without them answers ENOTSUP. An
  // operation by path is a host call; operations on a handle take bytes of the budget, and one host call per 256 of
  // them.
  virtual HostResult<OpenedFile> file_open(std::string_view path, const FileOpening& how);
  virtual HostResult<std::string> file_read_at(FileHandle file, uint64_t offset, uint32_t count);
  virtual HostResult<void> file_write_at(FileHandle file, uint64_t offset, std::string_view bytes);
  virtual HostResult<void> file_resize(FileHandle file, uint64_t size);
  virtual HostResult<FileStatus> file_status(FileHandle file);
  virtual HostResult<void> file_sync(FileHandle file);
  virtual HostResult<void> file_close(FileHandle file);
  // Below a grant with links, of a link itself; otherwise of its target.
  virtual HostResult<FileStatus> path_status(std::string_view path);
  // Finds nothing below a grant without links.
  virtual HostResult<LinkOnPath> path_find_link(std::string_view path);
  virtual HostResult<void> path_set_times(std::string_view path, const FileTimes& times);
  virtual HostResult<void> path_unlink(std::string_view path);
  virtual HostResult<void> path_rename(std::string_view from, std::string_view to);
  virtual HostResult<void> link_make_symbolic(std::string_view target, std::string_view path);
  virtual HostResult<void> link_make_hard(std::string_view from, std::string_view to);
  virtual HostResult<void> directory_make(std::string_view path);
  virtual HostResult<void> directory_remove(std::string_view path);

  virtual HostResult<std::string> kv_get(std::string_view key) = 0;
  virtual HostResult<void> kv_set(std::string_view key, std::string_view value) = 0;
  virtual HostResult<void> kv_remove(std::string_view key) = 0;
  virtual HostResult<std::vector<std::string>> kv_keys(std::string_view prefix) = 0;  // sorted

  // Rows as a JSON array of objects, keys in column order; blobs as base64. Read-only. `parameters_json` is an array
  // bound to ?1, ?2, …; "" for none. `work` records the database's work, and ends the query when it exceeds its
  // limit: the answer is then an error of any kind.
  virtual HostResult<std::string> sql_query(std::string_view database, std::string_view sql,
                                            std::string_view parameters_json, Work& work) = 0;

  virtual HostResult<ChatAnswer> ai_complete(const ChatRequest& request) = 0;
  virtual HostResult<std::vector<float>> ai_embed(std::string_view text) = 0;

  // Unix time in ms. Virtual unless the policy grants the real clock.
  virtual HostResult<int64_t> clock_ms() = 0;
  // The same in ns. Programs may read it often: 256 readings are one host call. A world without a finer clock
  // answers in whole ms.
  virtual HostResult<int64_t> clock_ns();
  // Random bytes. Seeded from the policy unless it grants real entropy.
  virtual HostResult<std::string> random_bytes(uint32_t count) = 0;

  // Asks the person who runs the agent; kUnsupported when no one is there to answer.
  virtual HostResult<std::string> ask(std::string_view question) = 0;
};

// A model, which a higher layer gives to the broker (agent/ has the client).
class Model {
 public:
  virtual ~Model() = default;
  virtual HostResult<ChatAnswer> complete(const ChatRequest& request, uint64_t timeout_ms) = 0;
  virtual HostResult<std::vector<float>> embed(std::string_view text, uint64_t timeout_ms) = 0;
};

// A person, likewise.
class Person {
 public:
  virtual ~Person() = default;
  virtual HostResult<std::string> ask(std::string_view question, uint64_t timeout_ms) = 0;
};

}  // namespace membrane::host
