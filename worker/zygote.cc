// The process from which workers are forked.
#include "worker/command.h"
#include "worker/program.h"

namespace membrane::worker {

Result<std::shared_ptr<Zygote>> Zygote::start() {
  MEMBRANE_ASSIGN(auto worker, Worker::start_in({.is_zygote = true}));
  return std::shared_ptr<Zygote>(new Zygote(std::move(worker)));
}

Result<std::shared_ptr<Zygote>> Zygote::start_program(const std::string& path) {
  MEMBRANE_ASSIGN(auto started, worker::start_program(path));
  started.channel.set_most_bytes(kMostBytesOfSetUp);
  return std::shared_ptr<Zygote>(new Zygote(std::shared_ptr<Worker>(
      new Worker(std::move(started.channel), std::move(started.process), 0, nullptr))));
}

Status Zygote::open(const sandbox::TemplateSpec& spec) {
  const std::lock_guard lock(mutex_);
  return worker_->open(spec);
}

Result<std::shared_ptr<Worker>> Zygote::spawn() {
  const std::lock_guard lock(mutex_);
  Worker::Command what{.kind = Kind::kSpawn};
  MEMBRANE_ASSIGN(const std::string bytes, worker_->command(what));
  Reader in(bytes);
  const auto number = in.get<Result<int32_t>>();
  if (!number) return std::unexpected(number.error());
  if (!in.is_done() || what.came_along.size() != 2)
    return std::unexpected(worker_->lose("the zygote's answer is malformed"));
  return std::shared_ptr<Worker>(new Worker(Channel(std::move(what.came_along[0]), kMostBytesOfSetUp),
                                            std::move(what.came_along[1]), *number, shared_from_this()));
}

int Zygote::end_of(int number) {
  const std::lock_guard lock(mutex_);
  Worker::Command what{.kind = Kind::kEndOf, .payload = bytes_of(int32_t{number})};
  const auto bytes = worker_->command(what);
  return bytes ? Reader(*bytes).get<int32_t>() : -1;
}

}  // namespace membrane::worker
