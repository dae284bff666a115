// The broker: everything that a capability needs from the world outside.
//
// Capabilities (host/capabilities/*.cc) never touch network, disk, clock or model
// themselves; they ask a Broker. So the same capability runs in the owner's process, in
// a worker, and from a journal:
//
//   program ─▶ capability ─▶ Broker ┬─ LocalBroker: holds the policy, decides, acts
//                                   ├─ RemoteWorld (worker/): asks the supervisor, which holds one
//                                   └─ a replay of a journal (acts on nothing)
//
// The broker decides. Whoever implements it checks each request against the policy
// and the budget before anything happens, and answers kAccess with the grant that
// would have allowed it. Sizes and times are bounded by the grant.
//
// Ownership: requests are borrowed for the call; answers are owned by the caller.
// Threads: a Broker serves one sandbox and is called by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/errno.h"
#include "host/work.h"

namespace membrane::host {

using Headers = std::vector<std::pair<std::string, std::string>>;

// One request of those that redirects make of a program's.
struct HttpHop {
  std::string method;
  std::string url;  // with asterisks where it held a secret

  friend bool operator==(const HttpHop&, const HttpHop&) = default;
};
inline constexpr size_t kMaxHttpHops = 1 + 20;  // a policy has no more redirects

struct HttpResponse {
  int status = 0;
  Headers headers;  // names in lower case; hop-by-hop and Set-Cookie removed
  std::string body;
  std::string final_url;
};
struct HttpRequest {
  std::string method;  // "GET"; upper case
  std::string url;
  Headers headers;  // of the program; secrets are added at the egress, never seen here
  std::string body;
  // The gate's, not the program's. Called for each hop whose server was reached, before its answer is used, on the calling
  // thread; a hop that fails afterwards is reported, too. When it says false, a redirect is not followed: the program gets the
  // answer 3xx. Null: redirects are followed.
  std::function<bool(const HttpHop&)> hear = nullptr;
  // Takes an answer's body as it comes, on the calling thread, and not as a whole; the answer has none then. False ends the
  // exchange. The grant's timeout is then for the answer's head, and for each silence in its body. Not called for an answer
  // without a body, nor where an answer must be there as a whole: where redirects are followed, or secrets are hidden.
  std::function<bool(const HttpResponse& head, std::string_view piece)> take_piece = nullptr;
};

enum class FileMode : uint8_t { kCreateOrReplace, kAppend };
struct FileInfo {
  std::string name;           // the last component
  bool is_directory = false;  // of a link: whether it leads to one
  uint64_t size_bytes = 0;
  bool is_link = false;  // only below a grant with links, as the identity
  uint64_t file_id = 0;  // the same for all names of a file; 0: the path is its identity
};

// A file that stays open, by the broker's number for it.
using FileHandle = uint64_t;
struct FileOpening {
  bool write = false;  // and read
  bool create = false;
  bool exclusive = false;  // with create: it must not be there
  bool truncate = false;
};
struct FileStatus {
  bool is_directory = false;
  uint64_t size_bytes = 0;
  int64_t accessed_ns = 0, modified_ns = 0, changed_ns = 0;  // since 1970
  bool is_link = false;                                      // these three only below a grant with links
  uint64_t link_count = 1;                                   // names of the file, hard links
  uint64_t file_id = 0;                                      // as in FileInfo
};
// The first symbolic link that a path leads through, or ends in. Both are empty when there is none.
struct LinkOnPath {
  std::string path;  // a guest path
  std::string target;
};
struct OpenedFile {
  FileHandle handle = 0;
  FileStatus status;
};
struct FileTimes {  // what is nothing stays
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

// So many requests are made at a time: their answers are in the host's memory together.
inline constexpr size_t kMaxHttpAtOnce = 8;

class Broker {
 public:
  virtual ~Broker() = default;

  virtual HostResult<HttpResponse> http(const HttpRequest& request) = 0;
  // Several requests, each decided, paid for and answered as http() does it alone; the answers are in the order of the
  // requests. A world that can makes them at the same time.
  virtual std::vector<HostResult<HttpResponse>> http_many(std::span<const HttpRequest> requests);

  // Guest paths: absolute, "/"-separated, of the grant's guest name space.
  // ENOMEM for a file of more than `most_bytes`.
  virtual HostResult<std::string> file_read(std::string_view path, uint64_t most_bytes) = 0;
  virtual HostResult<void> file_write(std::string_view path, std::string_view bytes, FileMode mode) = 0;
  virtual HostResult<std::vector<FileInfo>> file_list(std::string_view path) = 0;
  virtual HostResult<FileInfo> file_stat(std::string_view path) = 0;
  virtual HostResult<void> file_remove(std::string_view path) = 0;

  // Files that stay open, and names as POSIX has them: host/files/file_handles.h. A world without them answers
  // ENOTSUP. What is done by path is a host call each; what is done on a handle takes bytes of the budget, and
  // one host call for each 256 of them.
  virtual HostResult<OpenedFile> file_open(std::string_view path, const FileOpening& how);
  virtual HostResult<std::string> file_read_at(FileHandle file, uint64_t offset, uint32_t count);
  virtual HostResult<void> file_write_at(FileHandle file, uint64_t offset, std::string_view bytes);
  virtual HostResult<void> file_resize(FileHandle file, uint64_t size);
  virtual HostResult<FileStatus> file_status(FileHandle file);
  virtual HostResult<void> file_sync(FileHandle file);
  virtual HostResult<void> file_close(FileHandle file);
  // Below a grant with links, a link's own; else of what it leads to.
  virtual HostResult<FileStatus> path_status(std::string_view path);
  // Nothing is found below a grant without links.
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

  // Rows as a JSON array of objects, keys in column order; blobs as base64. Read-only.
  // `parameters_json` is an array bound to ?1, ?2, …; "" for none. `work` notes what the database does, and ends the query
  // when it is too much: the answer is an error then, of any kind.
  virtual HostResult<std::string> sql_query(std::string_view database, std::string_view sql,
                                            std::string_view parameters_json, Work& work) = 0;

  virtual HostResult<ChatAnswer> ai_complete(const ChatRequest& request) = 0;
  virtual HostResult<std::vector<float>> ai_embed(std::string_view text) = 0;

  // Unix time in ms. Virtual unless the policy grants the real clock.
  virtual HostResult<int64_t> clock_ms() = 0;
  // The same in ns. A program may look at it often: 256 readings are one host call. A world that has no finer
  // clock answers in whole ms.
  virtual HostResult<int64_t> clock_ns();
  // Random bytes. Seeded from the policy unless it grants real entropy.
  virtual HostResult<std::string> random_bytes(uint32_t count) = 0;

  // Ask the person who runs the agent; kUnsupported when nobody is there to answer.
  virtual HostResult<std::string> ask(std::string_view question) = 0;
};

// A model, given to the broker by the floor above (agent/ has the client).
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
