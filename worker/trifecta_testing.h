// The fixture for tests of the trifecta rule in workers.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/run/sandbox.h"

namespace membrane::worker {

class Echo final : public host::Model {
 public:
  host::HostResult<host::ChatAnswer> complete(const host::ChatRequest& request, uint64_t) override {
    heard += request.prompt + ";";
    return host::ChatAnswer{request.prompt, 1, 1};
  }
  host::HostResult<std::vector<float>> embed(std::string_view, uint64_t) override {
    return std::vector<float>{1};
  }
  std::string heard;
};

// A private directory, a store with untrusted contents, and a model as the way out.
class TrifectaRule : public testing::Test {
 protected:
  TrifectaRule() {
    std::ofstream(folder + "/secret") << "the secret";
    options.policy.fs.push_back(
        {.guest = "/inbox", .host = folder, .marks = {.is_private = true, .is_untrusted = {}}});
    options.policy.kv.emplace().marks.is_untrusted = true;
    options.policy.ai.emplace();
    options.policy.trifecta.emplace();
    options.model = &model;
  }
  // Reads both, and then runs `then`.
  static std::string leaks(const std::string& then) {
    return R"((func (export "run") (local $i i32)
      (call $ai.complete! (string "before")) (drop)
      (call $kv.set! (string "k") (string "v"))
      (drop (call $kv.get! (string "k")))
      (drop (call $fs.read! (string "/inbox/secret"))))" +
           then + R"((call $ai.complete! (call $fs.read! (string "/inbox/secret"))) (drop)))";
  }

  const std::string folder = testing::TempDir() + "trifecta_" + std::to_string(getpid());
  const bool is_made = std::filesystem::create_directories(folder);
  Echo model;
  sandbox::RunOptions options;
};

}  // namespace membrane::worker
