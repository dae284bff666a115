#include "agent/model/model_server_testing.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace membrane::agent {

using nlohmann::json;

namespace {

void check(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::abort();
}

bool read_line(int file, std::string& line) {
  line.clear();
  for (char c = 0; read(file, &c, 1) == 1;) {
    if (c == '\n') return true;
    line += c;
  }
  return false;
}

}  // namespace

ModelServer::ModelServer(const std::vector<json>& answers) {
  int in[2], out[2];
  check(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, "pipe2");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  char program[] = MEMBRANE_MODEL_SERVER;
  char* const arguments[] = {program, nullptr};
  check(posix_spawn(&pid_, program, &actions, nullptr, arguments, environ) == 0, "posix_spawn");
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  output_ = out[0];
  json script_json;
  script_json["answers"] = answers;
  const std::string script = script_json.dump();
  check(write(in[1], script.data(), script.size()) == static_cast<ssize_t>(script.size()), "write");
  close(in[1]);
  check(read_line(output_, port_), "the model server's port");
  reader_ = std::thread([this] {
    for (std::string text; read_line(output_, text);) {
      const std::scoped_lock lock(mutex_);
      lines_.push_back(json::parse(text, nullptr, false));
      changed_.notify_all();
    }
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  });
}

ModelServer::~ModelServer() { end(); }

size_t ModelServer::end() {
  if (reader_.joinable()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    reader_.join();
    close(output_);
  }
  return lines_.size();
}

json ModelServer::line(size_t n) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return lines_.size() > n || ended_; });
  return n < lines_.size() ? lines_[n] : json();
}

json event(const json& delta, const json& finish) {
  return {{"choices", {{{"index", 0}, {"delta", delta}, {"finish_reason", finish}}}}};
}

json usage_event(int tokens_in, int tokens_out) {
  return {{"choices", json::array()},
          {"usage", {{"prompt_tokens", tokens_in}, {"completion_tokens", tokens_out}}}};
}

json streamed(const std::vector<std::string>& deltas) {
  json events = json::array({event({{"role", "assistant"}, {"content", ""}})});
  for (const std::string& delta : deltas) events.push_back(event({{"content", delta}}));
  events.push_back(event(json::object(), "stop"));
  events.push_back(usage_event(11, 7));
  events.push_back("[DONE]");
  return {{"events", events}};
}

json streamed_call(const std::string& name, const json& arguments, const std::string& id) {
  const std::string text = arguments.dump();
  const auto part = [](const std::string& piece) {
    return json{{"tool_calls", {{{"index", 0}, {"function", {{"arguments", piece}}}}}}};
  };
  json events = json::array();
  events.push_back(event({{"role", "assistant"},
                          {"content", nullptr},
                          {"tool_calls",
                           {{{"index", 0},
                             {"id", id},
                             {"type", "function"},
                             {"function", {{"name", name}, {"arguments", ""}}}}}}}));
  events.push_back(event(part(text.substr(0, text.size() / 2))));
  events.push_back(event(part(text.substr(text.size() / 2))));
  events.push_back(event(json::object(), "tool_calls"));
  events.push_back(usage_event(11, 7));
  events.push_back("[DONE]");
  return {{"events", events}};
}

}  // namespace membrane::agent
