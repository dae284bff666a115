#include "linux/kernel/task.h"

#include <algorithm>

#include "linux/kernel/kernel.h"
#include "linux/kernel/signals.h"

namespace membrane::linux {

const Credentials& Task::credentials() const { return process->credentials; }
int Task::process_id() const { return process->id; }
int Task::process_group() const { return process->group; }
int Task::session() const { return process->session; }

Done Task::read_memory(uint64_t address, std::span<std::byte> bytes) {
  if (bytes.empty()) return {};
  if (kernel->ends_call(bytes.size())) return err(EFAULT);
  if (thread->space()->read(address, bytes) != bytes.size()) return err(EFAULT);
  return {};
}

Done Task::write_memory(uint64_t address, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (kernel->ends_call(bytes.size())) return err(EFAULT);
  if (thread->space()->write(address, bytes) != bytes.size()) return err(EFAULT);
  return {};
}

void Task::signal_group(int group, int signal) { kernel->signal_group(group, signal); }

void Task::signal_self(int signal) {
  PendingSignal own = signal_from(signal, SI_USER, process);
  send_signal_to_task(*kernel, *this, own);
}

bool Task::ignores(int signal) {
  return (blocked & bit_of(signal)) != 0 || process->actions[signal].handler == 1;  // SIG_IGN
}

// No process of the group has a parent in another group of its session.
bool Task::is_orphaned() {
  return std::ranges::none_of(kernel->processes(), [this](const auto& each) {
    const Process& other = *each.second;
    return other.group == process->group && other.parent != nullptr && other.parent->group != other.group &&
           other.parent->session == other.session;
  });
}

int Task::session_of_group(int group) {
  for (const auto& each : kernel->processes())
    if (each.second->group == group) return each.second->session;
  return 0;
}

FileRef Task::terminal() { return process->terminal; }

void Task::set_terminal(const FileRef& file) {
  process->terminal = file;
  if (process->id != process->session) return;
  for (const auto& each : kernel->processes())
    if (each.second->session == process->session) each.second->terminal = file;
}

uint64_t Task::file_size_limit() { return process->limits[RLIMIT_FSIZE].rlim_cur; }

void Task::on_wake() { kernel->make_ready(*this); }

}  // namespace membrane::linux
