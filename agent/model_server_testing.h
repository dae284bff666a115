// The scripted model server (model_server_main.cc) for tests: started with a script, ended with the object.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace membrane::agent {

class ModelServer {
 public:
  // `answers` are the script's.
  explicit ModelServer(const std::vector<nlohmann::json>& answers);
  ~ModelServer();
  ModelServer(const ModelServer&) = delete;
  ModelServer& operator=(const ModelServer&) = delete;

  [[nodiscard]] std::string base_url() const { return "http://127.0.0.1:" + port_ + "/v1"; }
  // The nth line that the server wrote about requests; waits for it.
  nlohmann::json line(size_t n);
  // Ends the server; returns how many lines it wrote. A request's line is written before its answer.
  size_t end();

 private:
  pid_t pid_ = -1;
  std::string port_;
  int output_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<nlohmann::json> lines_;
  bool ended_ = false;
  std::thread reader_;
};

// An answer that streams `deltas` as its content, with usage and an end.
nlohmann::json streamed(const std::vector<std::string>& deltas);
// An answer that calls a tool.
nlohmann::json streamed_call(const std::string& name, const nlohmann::json& arguments,
                             const std::string& id = "call_a");
// One event of a stream: {"choices":[{"delta":delta,"finish_reason":finish}]}.
nlohmann::json event(const nlohmann::json& delta, const nlohmann::json& finish = nullptr);
nlohmann::json usage_event(int tokens_in, int tokens_out);

}  // namespace membrane::agent
