// ADD of a URL in a Dockerfile: downloads a file to this machine. The build's own egress (host/egress/) makes
// the GET request, held to the build's grants. A redirect is followed if its target is granted.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "computers/file_copy.h"
#include "host/egress/http_egress.h"
#include "linux/sandbox/live_computer.h"
#include "policy/policy.h"
#include "sandbox/report.h"

namespace membrane::computers {

struct UrlSource {
  std::string url;
  std::string name;         // its file name in a directory; "" if the path does not contain one
  std::string digest = {};  // SHA-256 in hex: the required one, or the actual one
  bool is_pinned = false;   // `digest` is required
};

bool is_url(std::string_view source);
// Removes and returns the URLs among the sources of an ADD. `to`: the destination; with a trailing '/', a
// directory. `checksum`: allowed with a single URL. Errors: kInvalidInput; kUnsupported for git repositories.
Result<std::vector<UrlSource>> take_url_sources(std::vector<std::string>& sources, const std::string& to,
                                                const std::optional<std::string>& checksum);
// Its file name in a directory: the last part of its path. Errors: kInvalidInput.
Result<std::string> file_name_of(const std::string& url);

struct UrlFetch {
  std::string url;
  std::vector<policy::HttpGrant> grants;
  policy::Limits limits;  // host_calls, bytes_in, bytes_out, wall_ms, memory_bytes
  uint64_t most_bytes = 0;
  host::Secrets secrets = nullptr;          // null: the environment's
  host::Resolver* resolver = nullptr;       // borrowed; null: the system's
  std::function<bool()> is_cancelled = {};  // polled for each piece; may be null
};
struct FetchedUrl {
  std::string digest;  // SHA-256 in hex
  uint64_t bytes = 0;
  std::vector<sandbox::HostCallRecord> calls;
};
// `file` is empty and open for writing. Errors: kDenied for what is not granted, with the flag that would
// allow it; kExhausted past a limit; kUnavailable for a server that does not return the file; kCancelled.
Result<FetchedUrl> fetch_url(const UrlFetch& fetch, int file);
// Puts the file into a sandbox as Docker does: only its owner may read it, unless the copy has a mode, and
// nothing is unpacked.
Status put_fetched(linux::LiveComputer& computer, int file, const std::string& name, const FileCopy& copy);

}  // namespace membrane::computers
