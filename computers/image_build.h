// Builds images from Dockerfiles. Stages that the target does not depend on are skipped. Each RUN, COPY, ADD
// and WORKDIR happens in a sandbox of its own over the result of the previous instructions, and the
// difference that it makes is a layer of the cache (layer_cache.h). A layer's key is the digest of everything
// that determines it: the base image, the instruction with its variables, what is copied.
//
// A RUN that uses the network is cached by its text and its grants (build_run.h).
//
// The other sandboxes are deterministic: the clock begins at the newest file of the base image, an hour later
// for each layer, and random numbers are derived from the key. So the same input gives the same image, byte
// for byte, unless its programs wait for each other without a system call (docs/linux.md).
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

// The default limits.
policy::Limits usual_build_limits();

struct ImageBuild {
  std::string dockerfile;                             // its text
  std::string context;                                // the directory from which COPY copies
  std::string ignored = {};                           // the text of its .dockerignore
  std::string name;                                   // of the image
  std::map<std::string, std::string> arguments = {};  // --build-arg
  std::string target = {};                            // a stage; "" for the last
  bool uses_cache = true;                             // if false, every instruction is carried out
  std::string platform = {};                          // as LiveSpec::platform
  // The limits of each RUN; `disk_bytes` limits everything that the instructions of a stage add to its base
  // image.
  policy::Limits limits = usual_build_limits();
  std::vector<policy::HttpGrant> grants = {};       // for RUN, and for ADD of a URL
  std::map<std::string, std::string> secrets = {};  // for RUN --mount=type=secret, by id
  // Null: not reported.
  std::function<void(const std::string&)> on_step = {};  // "step 2/5: RUN make", "… (cached)"
  std::function<void(std::string_view)> on_output = {};  // of RUN
  std::function<void(const std::string&)> on_warning = {};
  std::function<bool()> is_cancelled = {};
};

// An instruction that used the network, now or when its layer was made.
struct NetworkStep {
  size_t line = 0;          // of the Dockerfile
  std::string instruction;  // "RUN pip install six", as in on_step
  bool is_cached = false;
  bool is_pinned = false;                 // the same bytes each time, or a failure: an ADD with a checksum
  std::vector<ContactedHost> hosts = {};  // in this build
  uint64_t unlisted_calls = 0;            // further calls, without details
};

struct BuiltImage {
  linux::StoredImage image;
  std::string digest;
  int carried_out = 0, cached = 0;  // instructions that change files
  // In the order of the stages; includes steps of stages from which the image only copies files.
  std::vector<NetworkStep> network = {};
};

// Errors: kInvalidInput with the line of the Dockerfile, for invalid instructions and for a RUN that fails;
// kUnsupported for features that are not supported; kNotFound for an image or a file; kTooLong; kUnavailable.
Result<BuiltImage> build_image(const ImageBuild& build);
// The same with sandboxes from a source.
Result<BuiltImage> build_image(const ImageBuild& build, linux::ComputerSource& source);

}  // namespace membrane::computers
