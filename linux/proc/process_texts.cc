#include "linux/proc/process_texts.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>

#include "linux/kernel/cpu_time.h"
#include "linux/kernel/memory.h"
#include "linux/proc/text.h"

namespace membrane::linux {
namespace {

constexpr size_t kNameColumn = 73;  // of maps
constexpr size_t kNameBytes = 15;   // of comm
constexpr int64_t kTicksPerSecond = 100;

char state_of(const ProcessView& of) {
  if (of.process.is_zombie) return 'Z';
  if (of.process.is_stopped) return 'T';
  return of.task != nullptr && of.task->state == TaskState::kWaiting ? 'S' : 'R';
}

std::string_view name_of_state(char state) {
  switch (state) {
    case 'Z': return "zombie";
    case 'T': return "stopped";
    case 'S': return "sleeping";
    default: return "running";
  }
}

std::string name_of(const ProcessView& of) {
  if (of.task != nullptr) return of.task->name;
  const std::string& path = of.process.executable;
  return path.substr(path.rfind('/') + 1).substr(0, kNameBytes);
}

// Guest memory between two addresses, as far as it can be read.
Try<std::string> memory_text(const ProcessView& of, uint64_t begin, uint64_t end) {
  constexpr uint64_t kMost = 4u << 20;
  std::string text(std::min(end > begin ? end - begin : 0, kMost), '\0');
  const size_t got = of.process.memory->space().read(begin, std::as_writable_bytes(std::span(text)));
  text.resize(got);
  return text;
}

uint64_t resident_of(const ProcessView& of) {
  return of.process.memory == nullptr ? 0 : of.process.memory->space().resident_bytes();
}

std::string escaped(std::string_view path) {
  std::string text;
  for (const char c : path) {
    if (c == '\n') text += "\\012";
    else text += c;
  }
  return text;
}

void add_area(std::string& text, uint64_t start, const Area& area) {
  Attributes attributes = {};
  attributes.device = 0;
  std::string name(area.name);
  if (area.file != nullptr) {
    attributes = area.file->node()->attributes();
    name = escaped(area.file->description());
  }
  std::string line =
      text_of("%08lx-%08lx %c%c%c%c %08lx %02x:%02x %lu ", start, area.end,
              (area.protection & PROT_READ) != 0 ? 'r' : '-', (area.protection & PROT_WRITE) != 0 ? 'w' : '-',
              (area.protection & PROT_EXEC) != 0 ? 'x' : '-', area.is_shared ? 's' : 'p',
              area.file != nullptr ? area.offset : 0, gnu_dev_major(attributes.device),
              gnu_dev_minor(attributes.device), attributes.number);
  if (!name.empty()) {
    line.resize(std::max(line.size(), kNameColumn), ' ');
    line += name;
  }
  text += line + '\n';
}

SignalSet signals_with(const Process& process, bool (*is_so)(const SignalAction&)) {
  SignalSet set = 0;
  for (int number = 1; number <= 64; ++number)
    if (is_so(process.actions[static_cast<size_t>(number)])) set |= bit_of(number);
  return set;
}
SignalSet ignored_of(const Process& process) {
  return signals_with(process, [](const SignalAction& action) { return action.handler == 1; });
}
SignalSet caught_of(const Process& process) {
  return signals_with(process, [](const SignalAction& action) { return action.handler > 1; });
}

int parent_of(const Process& process) { return process.parent == nullptr ? 0 : process.parent->id; }
int id_of(const ProcessView& of) { return of.task != nullptr ? of.task->id : of.process.id; }

std::string memory_status(const ProcessView& of) {
  if (of.process.memory == nullptr) return "";
  const uint64_t mapped = of.process.memory->mapped_bytes() / 1024, resident = resident_of(of) / 1024;
  const Memory& memory = *of.process.memory;
  return text_of(
      "VmPeak:\t%8lu kB\nVmSize:\t%8lu kB\nVmLck:\t%8u kB\nVmPin:\t%8u kB\nVmHWM:\t%8lu kB\nVmRSS:\t%8lu kB\n"
      "RssAnon:\t%8lu kB\nRssFile:\t%8u kB\nRssShmem:\t%8u kB\nVmData:\t%8lu kB\nVmStk:\t%8u "
      "kB\nVmExe:\t%8lu kB\n"
      "VmLib:\t%8u kB\nVmPTE:\t%8u kB\nVmSwap:\t%8u kB\n",
      mapped, mapped, 0, 0, resident, resident, resident, 0, 0, mapped, 0,
      (memory.end_code - memory.start_code) / 1024, 0, 0, 0);
}

std::string limit_text(rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : std::to_string(value); }

}  // namespace

std::string text_of(const char* format, ...) {
  std::array<char, 4096> line;
  va_list arguments;
  va_start(arguments, format);
  const int count = vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  return {line.data(), std::min(static_cast<size_t>(std::max(count, 0)), line.size() - 1)};
}

Try<std::string> cmdline_text(const ProcessView& of) {
  if (of.process.memory == nullptr) return std::string();
  return memory_text(of, of.process.memory->arguments_start, of.process.memory->arguments_end);
}

Try<std::string> environ_text(const ProcessView& of) {
  if (of.process.memory == nullptr) return std::string();
  return memory_text(of, of.process.memory->environment_start, of.process.memory->environment_end);
}

Try<std::string> comm_text(const ProcessView& of) { return name_of(of) + '\n'; }

Done set_comm(const ProcessView& of, std::string_view name) {
  const Task* const current = of.kernel.current();
  if (of.task == nullptr || current == nullptr || current->process != &of.process) return err(EINVAL);
  if (name.ends_with('\n')) name.remove_suffix(1);
  of.task->name = name.substr(0, kNameBytes);
  return {};
}

Try<std::string> maps_text(const ProcessView& of) {
  std::string text;
  if (of.process.memory == nullptr) return text;
  for (const auto& [start, area] : of.process.memory->areas()) add_area(text, start, area);
  return text;
}

Try<std::string> stat_text(const ProcessView& of) {
  const Process& process = of.process;
  const int64_t started =
      std::chrono::duration_cast<std::chrono::milliseconds>(process.started.time_since_epoch()).count() *
      kTicksPerSecond / 1000;
  const Memory* const memory = process.memory.get();
  const bool is_of_task = of.task != nullptr && of.task->id != process.id;
  const CpuTime used = is_of_task ? used_by(*of.task) : used_by(of.kernel, process);
  std::string text = text_of(
      "%d (%s) %c %d %d %d %d %d 0 0 0 0 0 %ld %ld %ld %ld %d %d %zu 0 %ld", id_of(of), name_of(of).c_str(),
      state_of(of), parent_of(process), process.group, process.session,
      process.terminal != nullptr ? static_cast<int>(process.terminal->node()->attributes().special) : 0, -1,
      ticks_of(used.user), ticks_of(used.system), ticks_of(process.of_children.user),
      ticks_of(process.of_children.system), 20 + process.nice, process.nice, process.tasks.size(), started);
  text += text_of(" %lu %lu %lu %lu %lu %lu 0 0", memory == nullptr ? 0 : memory->mapped_bytes(),
                  resident_of(of) / kPage, process.limits[RLIMIT_RSS].rlim_cur,
                  memory == nullptr ? 0 : memory->start_code, memory == nullptr ? 0 : memory->end_code,
                  memory == nullptr ? 0 : memory->start_stack);
  const SignalSet pending = process.pending.set() | (of.task != nullptr ? of.task->pending.set() : 0);
  text += text_of(" %lu %lu %lu %lu 0 0 0 %d 0 0 0 0 0 0", pending, of.task != nullptr ? of.task->blocked : 0,
                  ignored_of(process), caught_of(process), process.exit_signal);
  text +=
      text_of(" 0 0 %lu %lu %lu %lu %lu %d\n", memory == nullptr ? 0 : memory->heap_start(),
              memory == nullptr ? 0 : memory->arguments_start, memory == nullptr ? 0 : memory->arguments_end,
              memory == nullptr ? 0 : memory->environment_start,
              memory == nullptr ? 0 : memory->environment_end, process.is_zombie ? process.status : 0);
  return text;
}

Try<std::string> statm_text(const ProcessView& of) {
  const Memory* const memory = of.process.memory.get();
  if (memory == nullptr) return "0 0 0 0 0 0 0\n";
  const uint64_t mapped = memory->mapped_bytes() / kPage,
                 code = (memory->end_code - memory->start_code) / kPage;
  return text_of("%lu %lu 0 %lu 0 %lu 0\n", mapped, resident_of(of) / kPage, code, mapped);
}

Try<std::string> status_text(const ProcessView& of) {
  const Process& process = of.process;
  const Credentials& who = process.credentials;
  const char state = state_of(of);
  std::string text = text_of("Name:\t%s\n", name_of(of).c_str());
  if (process.place != nullptr) text += text_of("Umask:\t%04o\n", process.place->umask);
  text += text_of("State:\t%c (%s)\nTgid:\t%d\nNgid:\t0\nPid:\t%d\nPPid:\t%d\nTracerPid:\t0\n", state,
                  name_of_state(state).data(), process.id, id_of(of), parent_of(process));
  text += text_of("Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\n", who.uid, who.euid, who.suid, who.fsuid,
                  who.gid, who.egid, who.sgid, who.fsgid);
  text += text_of("FDSize:\t%zu\nGroups:\t",
                  process.descriptors == nullptr ? 0 : process.descriptors->numbers().size());
  for (const uint32_t group : who.groups) text += std::to_string(group) + ' ';
  text += text_of("\nNStgid:\t%d\nNSpid:\t%d\nNSpgid:\t%d\nNSsid:\t%d\n", process.id, id_of(of),
                  process.group, process.session);
  text += memory_status(of);
  text += text_of("Threads:\t%zu\nSigQ:\t%zu/65536\n", process.tasks.size(), process.pending.queue.size());
  const Capabilities& can = process.capabilities;
  text += text_of("SigPnd:\t%016lx\nShdPnd:\t%016lx\nSigBlk:\t%016lx\nSigIgn:\t%016lx\nSigCgt:\t%016lx\n",
                  of.task != nullptr ? of.task->pending.set() : 0, process.pending.set(),
                  of.task != nullptr ? of.task->blocked : 0, ignored_of(process), caught_of(process));
  text += text_of("CapInh:\t%016lx\nCapPrm:\t%016lx\nCapEff:\t%016lx\nCapBnd:\t%016lx\nCapAmb:\t%016lx\n",
                  can.inheritable, can.permitted, can.effective, can.bounding, can.ambient);
  const uint64_t processors = of.task != nullptr ? of.task->processors : 3;
  text += text_of(
      "NoNewPrivs:\t%d\nSeccomp:\t0\nSeccomp_filters:\t0\nCpus_allowed:\t%lx\nCpus_allowed_list:\t%s\n",
      process.has_no_new_privileges ? 1 : 0, processors,
      processors == 3 ? "0-1" : (processors == 1 ? "0" : "1"));
  text +=
      "Mems_allowed:\t1\nMems_allowed_list:\t0\nvoluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:"
      "\t0\n";
  return text;
}

Try<std::string> limits_text(const ProcessView& of) {
  struct Row {
    int which;
    const char* name;
    const char* unit;
  };
  constexpr std::array<Row, 16> kRows = {{{RLIMIT_CPU, "Max cpu time", "seconds"},
                                          {RLIMIT_FSIZE, "Max file size", "bytes"},
                                          {RLIMIT_DATA, "Max data size", "bytes"},
                                          {RLIMIT_STACK, "Max stack size", "bytes"},
                                          {RLIMIT_CORE, "Max core file size", "bytes"},
                                          {RLIMIT_RSS, "Max resident set", "bytes"},
                                          {RLIMIT_NPROC, "Max processes", "processes"},
                                          {RLIMIT_NOFILE, "Max open files", "files"},
                                          {RLIMIT_MEMLOCK, "Max locked memory", "bytes"},
                                          {RLIMIT_AS, "Max address space", "bytes"},
                                          {RLIMIT_LOCKS, "Max file locks", "locks"},
                                          {RLIMIT_SIGPENDING, "Max pending signals", "signals"},
                                          {RLIMIT_MSGQUEUE, "Max msgqueue size", "bytes"},
                                          {RLIMIT_NICE, "Max nice priority", ""},
                                          {RLIMIT_RTPRIO, "Max realtime priority", ""},
                                          {RLIMIT_RTTIME, "Max realtime timeout", "us"}}};
  std::string text = "Limit                     Soft Limit           Hard Limit           Units     \n";
  for (const Row& row : kRows) {
    const rlimit& limit = of.process.limits[static_cast<size_t>(row.which)];
    text += text_of("%-25s %-20s %-20s %-10s\n", row.name, limit_text(limit.rlim_cur).c_str(),
                    limit_text(limit.rlim_max).c_str(), row.unit);
  }
  return text;
}

Try<std::string> fdinfo_text(File& file, bool closes_on_exec) {
  const auto position = file.seek(0, SEEK_CUR);
  return text_of("pos:\t%lu\nflags:\t0%o\nmnt_id:\t21\nino:\t%lu\n", position.value_or(0),
                 static_cast<unsigned>(file.flags | (closes_on_exec ? O_CLOEXEC : 0)),
                 file.node()->attributes().number);
}

std::string mounts_text() {
  return "membrane / overlay rw,relatime 0 0\n"
         "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n"
         "sysfs /sys sysfs ro,nosuid,nodev,noexec,relatime 0 0\n"
         "tmpfs /dev tmpfs rw,nosuid,mode=755 0 0\n"
         "devpts /dev/pts devpts rw,nosuid,noexec,relatime,gid=5,mode=620,ptmxmode=666 0 0\n"
         "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n";
}

std::string mountinfo_text() {
  return "21 1 0:1 / / rw,relatime - overlay membrane rw\n"
         "22 21 0:22 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n"
         "23 21 0:23 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro\n"
         "24 21 0:25 / /dev rw,nosuid - tmpfs tmpfs rw,mode=755\n"
         "25 24 0:24 / /dev/pts rw,nosuid,noexec,relatime - devpts devpts rw,gid=5,mode=620,ptmxmode=666\n"
         "26 24 0:26 / /dev/shm rw,nosuid,nodev - tmpfs tmpfs rw\n";
}

}  // namespace membrane::linux
