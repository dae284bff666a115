// Images from Dockerfiles. Stages that the one that is built does not take from are left out. Each RUN, COPY, ADD and WORKDIR happens in a sandbox of its own over what the instructions before it made, and
// what then differs is a layer of the cache (layer_cache.h). Its key is the digest of all that makes it: the image at the bottom, the
// instruction with its variables, what is copied.
//
// A RUN that uses the network is cached by its text and its grants (build_run.h).
//
// The other sandboxes are deterministic: the clock begins at the newest file of the image at the bottom, an hour later for each layer, and random
// numbers come from the key. So the same input gives the same image, byte for byte, as far as its programs do not wait for each
// other without a system call (docs/linux.md).
//
// Threads: one at a time. build_image() forks, so its caller has one thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "computers/build_network.h"
#include "linux/image/store.h"
#include "linux/sandbox/live_computer.h"
#include "policy/policy.h"

namespace membrane::computers {

// What a limit is when nothing names it.
policy::Limits usual_build_limits();

struct ImageBuild {
  std::string dockerfile;                             // its text
  std::string context;                                // the directory that COPY takes from
  std::string ignored = {};                           // the text of its .dockerignore
  std::string name;                                   // of the image
  std::map<std::string, std::string> arguments = {};  // --build-arg
  std::string target = {};                            // a stage; "" for the last
  bool uses_cache = true;                             // otherwise every instruction is carried out
  std::string platform = {};                          // as LiveSpec::platform
  // Of each RUN; `disk_bytes` of all that the instructions of a stage add to the image at its bottom.
  policy::Limits limits = usual_build_limits();
  std::vector<policy::HttpGrant> grants = {};       // of RUN, and of ADD of a URL
  std::map<std::string, std::string> secrets = {};  // of RUN --mount=type=secret, by id
  // Null: not told.
  std::function<void(const std::string&)> on_step = {};  // "step 2/5: RUN make", "… (cached)"
  std::function<void(std::string_view)> on_output = {};  // of RUN
  std::function<void(const std::string&)> on_warning = {};
  std::function<bool()> is_cancelled = {};
};

// An instruction that used the network, now or when its layer was made.
struct NetworkStep {
  size_t line = 0;          // of the Dockerfile
  std::string instruction;  // "RUN pip install six", as on_step tells it
  bool is_cached = false;
  bool is_pinned = false;                 // the same bytes each time, or none: an ADD with a checksum
  std::vector<ContactedHost> hosts = {};  // in this build
  uint64_t unlisted_calls = 0;            // more of them, of which no more is known
};

struct BuiltImage {
  linux::StoredImage image;
  std::string digest;
  int carried_out = 0, cached = 0;  // instructions that change files
  // In the order of the stages; also of steps of stages that the image takes nothing but files from.
  std::vector<NetworkStep> network = {};
};

// Errors: kInvalidInput with the line of the Dockerfile, for what it says and for a RUN that fails; kUnsupported for what is not done here;
// kNotFound for an image or a file; kTooLong; kUnavailable.
Result<BuiltImage> build_image(const ImageBuild& build);
// The same with sandboxes of a source.
Result<BuiltImage> build_image(const ImageBuild& build, linux::ComputerSource& source);

}  // namespace membrane::computers
