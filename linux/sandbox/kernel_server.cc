#include "linux/sandbox/kernel_server.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "linux/fs/tree.h"
#include "linux/kept/kept.h"
#include "linux/kernel/cpu_time.h"
#include "linux/proc/mounts.h"
#include "linux/sandbox/changes.h"

namespace membrane::linux {

namespace {

std::unexpected<Error> malformed() {
  return fail(ErrorCode::kInvalidInput, "the order is not one that the kernel process knows");
}

Result<std::string> nothing_of(const Status& status) {
  if (!status) return std::unexpected(status.error());
  return std::string();
}

uint64_t us_of(std::chrono::nanoseconds time) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

}  // namespace

KernelServer::KernelServer(FrameSocket& socket, Orders& orders, Kernel& kernel, OutsideNetwork* network,
                           std::string image_name)
    : socket_(socket),
      orders_(orders),
      kernel_(kernel),
      network_(network),
      image_name_(std::move(image_name)),
      files_(kernel) {}

void KernelServer::wake() {
  has_news_ = true;
  kernel_.platform().wake();
}

// Numbers of orders begin at 1, and never come that far.
void KernelServer::adopt(std::vector<KeptCommand> commands) {
  uint64_t number = UINT64_MAX;
  for (KeptCommand& each : commands) {
    auto command = std::make_unique<ServedCommand>(kernel_, socket_, number, [this] { wake(); });
    command->go_on(std::move(each));
    commands_[number--] = std::move(command);
  }
}

void KernelServer::run() {
  kernel_.on_outside = [this] { look(); };
  kernel_.on_end = [this](Process& process) { take_end(process); };
  kernel_.expects_outside = [this] {
    if (network_ != nullptr && network_->has_connections()) return true;
    return std::ranges::any_of(commands_, [](const auto& each) { return each.second->expects_input(); });
  };
  has_news_ = true;
  if (!is_frozen_by_owner_) kernel_.thaw();  // a restored sandbox
  kernel_.run_while([this] { return !is_over_; });
  // Nobody receives what processes do at their end.
  kernel_.on_outside = {};
  kernel_.on_end = {};
  kernel_.expects_outside = {};
}

void KernelServer::look() {
  if (!has_news_.exchange(false)) return;
  if (network_ != nullptr) network_->after_wake();
  int left = kMostAtOnce;
  while (left > 0 && !is_over_) {
    auto order = orders_.take();
    if (!order) break;
    obey(*order);
    --left;
  }
  if (left == 0) wake();
  else if (orders_.has_ended()) stop();
  for (auto each = commands_.begin(); each != commands_.end();) {
    each->second->look();
    const bool is_over = each->second->is_left() && each->second->has_ended();
    each = is_over ? commands_.erase(each) : std::next(each);
  }
}

void KernelServer::answer(uint64_t number, const Result<std::string>& with) {
  std::string_view rest = with ? std::string_view(*with) : std::string_view();
  while (rest.size() > kPieceBytes) {
    if (!socket_.send(FrameKind::kPiece, number, rest.substr(0, kPieceBytes))) return stop();
    rest.remove_prefix(kPieceBytes);
  }
  const std::string last = pack_answer(with ? Result<std::string>(std::string(rest)) : with);
  if (!socket_.send(FrameKind::kAnswer, number, last)) stop();
}

void KernelServer::obey(Frame& frame) {
  if (frame.kind >= FrameKind::kInput && frame.kind <= FrameKind::kLeave) {
    if (!obey_for_command(frame)) stop();
    return;
  }
  answer(frame.number, obey_and_answer(frame));
}

// -- commands ---------------------------------------------------------------------------------------------------------

// A command that has ended, or was never started, is not an error: the owner may not know yet.
bool KernelServer::obey_for_command(const Frame& frame) {
  const auto found = commands_.find(frame.number);
  if (found == commands_.end()) {
    if (frame.kind == FrameKind::kLeave) files_.leave_write(frame.number);
    return true;
  }
  ServedCommand& command = *found->second;
  if (frame.kind == FrameKind::kInput) return command.feed(frame.bytes);
  Unpacker from(frame.bytes);
  switch (frame.kind) {
    case FrameKind::kEndInput: command.end_input(); break;
    case FrameKind::kOutputRoom:
    case FrameKind::kErrorRoom: command.add_room(frame.kind, from.number()); break;
    case FrameKind::kResize: {
      const auto columns = static_cast<uint16_t>(from.number(UINT16_MAX));
      command.resize({.columns = columns, .rows = static_cast<uint16_t>(from.number(UINT16_MAX))});
      break;
    }
    case FrameKind::kSignal: {
      const auto number = static_cast<int>(from.number(64));
      if (number > 0) command.signal(number);
      break;
    }
    default: command.leave(); has_news_ = true;  // it is checked once more
  }
  return from.is_whole();
}

Result<std::string> KernelServer::start(const Frame& frame) {
  MEMBRANE_ASSIGN(const StartOrder order, unpack_start(frame.bytes));
  if (commands_.contains(frame.number)) return malformed();
  if (kernel_.limits_reached().cpu > 0)
    return fail(ErrorCode::kExhausted, "the sandbox has used up its CPU time",
                "Make another, or raise its limit \"cpu\".");
  auto command = std::make_unique<ServedCommand>(kernel_, socket_, frame.number, [this] { wake(); });
  MEMBRANE_TRY(command->start(order));
  Packer packer;
  packer.number(static_cast<uint64_t>(command->process_id())).number(command->input_room());
  commands_[frame.number] = std::move(command);
  return packer.bytes();
}

Result<std::string> KernelServer::attach(const Frame& frame) {
  Unpacker from(frame.bytes);
  const auto process = static_cast<int>(from.number(INT32_MAX));
  const bool wants_output = from.flag(), wants_errors = from.flag();
  if (!from.is_whole() || commands_.contains(frame.number)) return malformed();
  const auto found = std::ranges::find_if(commands_, [process](const auto& each) {
    return each.second->process_id() == process && each.second->is_left() && !each.second->has_ended();
  });
  if (found == commands_.end())
    return fail(ErrorCode::kNotFound,
                "no command with the process id " + std::to_string(process) + " waits for its owner");
  auto node = commands_.extract(found);
  node.key() = frame.number;
  node.mapped()->attach(frame.number, wants_output, wants_errors);
  Packer packer;
  packer.number(static_cast<uint64_t>(process)).number(node.mapped()->input_room());
  commands_.insert(std::move(node));
  return packer.bytes();
}

void KernelServer::take_end(Process& process) {
  const auto found = std::ranges::find_if(commands_, [&process](const auto& each) {
    return each.second->process_id() == process.id && !each.second->has_ended();
  });
  if (found == commands_.end()) return;
  const int status = process.status;
  CpuTime used = used_by(kernel_, process);
  used += process.of_children;
  found->second->end({.was_signalled = WIFSIGNALED(status),
                      .status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                      .was_out_of_memory = process.was_out_of_memory,
                      .reached = kernel_.limits_reached() - found->second->reached_before(),
                      .user_us = us_of(used.user),
                      .system_us = us_of(used.system)});
  has_news_ = true;
}

// -- as a whole -------------------------------------------------------------------------------------------------------

Status KernelServer::keep(const Frame& frame) {
  Unpacker from(frame.bytes);
  const auto what = from.number(static_cast<uint64_t>(LiveComputer::Keep::kFiles));
  if (!from.is_whole() || frame.files.size() != 1) return malformed();
  const int file = frame.files.front().number();
  const bool is_files = what == static_cast<uint64_t>(LiveComputer::Keep::kFiles);
  return is_files ? keep_files(kernel_.root->node, image_name_, file) : keep_all(file);
}

Status KernelServer::keep_all(int file) {
  kernel_.freeze();
  std::vector<KeptCommand> commands;
  for (const auto& [number, command] : commands_)
    if (!command->has_ended()) commands.push_back(command->kept());
  const Status kept = keep_sandbox(kernel_, commands, image_name_, file);
  if (!is_frozen_by_owner_) kernel_.thaw();
  return kept;
}

Status KernelServer::freeze(bool stands_still) {
  is_frozen_by_owner_ = stands_still;
  if (stands_still) kernel_.freeze();
  else kernel_.thaw();
  return {};
}

Result<std::string> KernelServer::changes() const {
  MEMBRANE_ASSIGN(const auto changes, changes_of(kernel_.root->node, kernel_.system->covered));
  return pack(changes);
}

// The owner seals it: there is no library for digests here.
Status KernelServer::save_image(const Frame& frame) const {
  if (frame.files.size() != 1) return malformed();
  MEMBRANE_ASSIGN(const LayerTree tree, layer_tree_of(kernel_.root->node, kernel_.system->covered));
  return tree.write_unsealed(frame.files.front().number(), frame.bytes);
}

Status KernelServer::clamp_times(const Frame& frame) const {
  Unpacker from(frame.bytes);
  const auto latest_ms = static_cast<int64_t>(from.number(INT64_MAX));
  if (!from.is_whole()) return malformed();
  linux::clamp_times(*kernel_.root->node, {latest_ms / 1000, latest_ms % 1000 * 1'000'000});
  return {};
}

// -- what is answered -------------------------------------------------------------------------------------------------

ComputerUsage KernelServer::usage() const {
  ComputerUsage usage = {.memory_bytes = kernel_.processes().empty() ? 0 : kernel_.memory_bytes(),
                         .memory_peak_bytes = kernel_.memory_peak_bytes(),
                         .disk_bytes = 0,
                         .tasks = kernel_.tasks(),
                         .preemptions = kernel_.preemptions(),
                         .absent_calls = kernel_.absent_calls};
  if (const auto tree = usage_of(*kernel_.root->node)) usage.disk_bytes = tree->used_bytes;
  return usage;
}

Result<std::string> KernelServer::obey_and_answer(Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kStart: return start(frame);
    case FrameKind::kAttach: return attach(frame);
    case FrameKind::kUsage: return pack(usage());
    case FrameKind::kChanges: return changes();
    case FrameKind::kSaveImage: return nothing_of(save_image(frame));
    case FrameKind::kClampTimes: return nothing_of(clamp_times(frame));
    case FrameKind::kFreeze:
    case FrameKind::kThaw: return nothing_of(freeze(frame.kind == FrameKind::kFreeze));
    case FrameKind::kKeep: return nothing_of(keep(frame));
    case FrameKind::kBegin: return malformed();
    default: return obey_for_file(frame);
  }
}

Result<std::string> KernelServer::obey_for_file(const Frame& frame) {
  if (frame.kind == FrameKind::kWritePiece) return nothing_of(files_.write_piece(frame.number, frame.bytes));
  Unpacker from(frame.bytes);
  switch (frame.kind) {
    case FrameKind::kStat: {
      const std::string path = from.text();
      const bool follows_links = from.flag();
      if (!from.is_whole()) return malformed();
      MEMBRANE_ASSIGN(FileFacts facts, files_.stat(path, follows_links));
      return pack(std::vector<FileFacts>{std::move(facts)});
    }
    case FrameKind::kList: {
      const std::string path = from.text();
      if (!from.is_whole()) return malformed();
      MEMBRANE_ASSIGN(const auto all, files_.list(path));
      return pack(all);
    }
    case FrameKind::kRead: {
      const std::string path = from.text();
      const uint64_t offset = from.number(INT64_MAX), most = from.number();
      if (!from.is_whole()) return malformed();
      return files_.read(path, offset, most);
    }
    default: return change_file(frame);
  }
}

Result<std::string> KernelServer::change_file(const Frame& frame) {
  Unpacker from(frame.bytes);
  const std::string path = frame.kind == FrameKind::kWriteEnd ? "" : from.text();
  switch (frame.kind) {
    case FrameKind::kWriteEnd:
      return from.is_whole() ? nothing_of(files_.end_write(frame.number)) : malformed();
    case FrameKind::kMakeLink:
    case FrameKind::kMove: {
      const std::string other = from.text();
      if (!from.is_whole()) return malformed();
      return nothing_of(frame.kind == FrameKind::kMove ? files_.move(path, other)
                                                       : files_.make_link(path, other));
    }
    case FrameKind::kSetOwner: {
      const auto user = static_cast<uint32_t>(from.number(UINT32_MAX));
      const auto group = static_cast<uint32_t>(from.number(UINT32_MAX));
      if (!from.is_whole()) return malformed();
      return nothing_of(files_.set_owner(path, user, group));
    }
    default: break;
  }
  const auto value = static_cast<uint32_t>(from.number(UINT32_MAX));  // a mode, or a flag
  if (!from.is_whole()) return malformed();
  switch (frame.kind) {
    case FrameKind::kWriteBegin: return nothing_of(files_.begin_write(frame.number, path, value));
    case FrameKind::kMakeDirectory: return nothing_of(files_.make_directory(path, value));
    case FrameKind::kSetMode: return nothing_of(files_.set_mode(path, value));
    case FrameKind::kRemove: return nothing_of(files_.remove(path, value != 0));
    default: return malformed();
  }
}

}  // namespace membrane::linux
