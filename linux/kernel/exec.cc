#include "linux/kernel/exec.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "linux/files/regular_file.h"
#include "linux/kernel/elf.h"
#include "linux/kernel/memory.h"
#include "linux/kernel/signals.h"
#include "linux/kernel/vdso.h"

namespace membrane::linux {

namespace {

constexpr int kMostScripts = 4;  // nested interpreters
constexpr size_t kMostScriptLine = 255;
constexpr uint64_t kProgramBase = 0x555555554000;

// The files to load, determined before anything changes.
struct Found {
  LocationRef location;
  ElfProgram elf;
  LocationRef interpreter_location;
  std::optional<ElfProgram> interpreter;
};

Try<LocationRef> find_executable(Kernel& kernel, const Process& process, const LocationRef& from,
                                 std::string_view path) {
  MEMBRANE_ASSIGN(const LocationRef found,
                  walk(kernel.mounts, *process.place, from, path, process.credentials));
  const Attributes attributes = found->node->attributes();
  if ((attributes.mode & S_IFMT) != S_IFREG) return err(EACCES);
  MEMBRANE_TRY(may(process.credentials, attributes, X_OK));
  return found;
}

// The first line of a script, without "#!"; nothing for other files.
std::optional<std::string> script_line(Node& node) {
  std::array<char, kMostScriptLine + 1> head;
  const auto got = node.read(0, std::as_writable_bytes(std::span(head)));
  if (!got || *got < 3 || head[0] != '#' || head[1] != '!') return std::nullopt;
  const std::string_view text(head.data() + 2, *got - 2);
  return std::string(text.substr(0, text.find('\n')));
}

// "#! /bin/sh -e" puts its words before the script's path.
Done apply_script(const std::string& line, Execution& wanted) {
  constexpr std::string_view kBlank = " \t";
  const size_t begin = line.find_first_not_of(kBlank);
  if (begin == std::string::npos) return err(ENOEXEC);
  const size_t end = line.find_first_of(kBlank, begin);
  std::vector<std::string> arguments = {line.substr(begin, end == std::string::npos ? end : end - begin)};
  if (end != std::string::npos) {
    const size_t more = line.find_first_not_of(kBlank, end);
    if (more != std::string::npos) {
      const size_t last = line.find_last_not_of(" \t\r");
      arguments.push_back(line.substr(more, last - more + 1));
    }
  }
  arguments.push_back(std::exchange(wanted.path, arguments[0]));
  if (wanted.arguments.size() > 1)
    arguments.insert(arguments.end(), wanted.arguments.begin() + 1, wanted.arguments.end());
  wanted.arguments = std::move(arguments);
  wanted.program = nullptr;
  return {};
}

Try<Found> find(Kernel& kernel, const Process& process, Execution& wanted) {
  for (int scripts = 0; scripts <= kMostScripts; ++scripts) {
    LocationRef location = wanted.program;
    if (location == nullptr) {
      const LocationRef from = wanted.from != nullptr ? wanted.from : process.place->directory;
      MEMBRANE_ASSIGN(location, find_executable(kernel, process, from, wanted.path));
    }
    if (const auto line = script_line(*location->node)) {
      MEMBRANE_TRY(apply_script(*line, wanted));
      continue;
    }
    Found found = {
        .location = location, .elf = {}, .interpreter_location = nullptr, .interpreter = std::nullopt};
    MEMBRANE_ASSIGN(found.elf, read_elf(*location->node));
    if (found.elf.interpreter.empty()) return found;
    MEMBRANE_ASSIGN(found.interpreter_location,
                    find_executable(kernel, process, process.place->root, found.elf.interpreter));
    auto interpreter = read_elf(*found.interpreter_location->node);
    if (!interpreter) return err(ELIBBAD);
    found.interpreter = std::move(*interpreter);
    return found;
  }
  return err(ELOOP);
}

uint64_t size_of(const std::vector<std::string>& words) {
  uint64_t bytes = 0;
  for (const std::string& word : words) bytes += word.size() + 1 + 8;
  return bytes;
}

// Maps the segments; returns the offset by which the addresses moved.
Try<uint64_t> map_program(Memory& memory, const FileRef& file, const ElfProgram& elf, uint64_t wanted_base) {
  uint64_t shift = 0;
  if (elf.moves) {
    uint64_t base = wanted_base;
    if (base == 0) {
      MEMBRANE_ASSIGN(base, memory.map({.length = elf.end - elf.lowest, .file = nullptr, .backing = {}}));
      MEMBRANE_TRY(memory.unmap(base, elf.end - elf.lowest));
    }
    shift = base - elf.lowest;
  }
  for (const ElfSegment& each : elf.segments) {
    const uint64_t begin = page_down(each.address + shift), file_end = each.address + shift + each.file_size;
    const uint64_t end = page_up(each.address + shift + each.memory_size);
    uint64_t zeros = begin;
    if (each.file_size > 0) {
      const uint64_t offset = page_down(each.offset);
      zeros = page_up(file_end);
      MEMBRANE_ASSIGN(const Backing backing, file->node()->mapping(offset, zeros - begin, false));
      MEMBRANE_TRY(memory.map({.address = begin,
                               .length = zeros - begin,
                               .protection = each.protection,
                               .is_fixed = true,
                               .file = file,
                               .offset = offset,
                               .backing = backing}));
    }
    if (end > zeros)
      MEMBRANE_TRY(memory.map({.address = zeros,
                               .length = end - zeros,
                               .protection = each.protection,
                               .is_fixed = true,
                               .file = nullptr,
                               .backing = {}}));
    if (each.memory_size > each.file_size && file_end % kPage != 0 && (each.protection & PROT_WRITE) != 0) {
      const std::vector<std::byte> nothing(page_up(file_end) - file_end);
      if (memory.space().poke(file_end, nothing) != nothing.size()) return err(EFAULT);
    }
  }
  return shift;
}

// Writes strings from the top down, then the vectors that a new program finds at its stack pointer.
class StackImage {
 public:
  explicit StackImage(uint64_t top) : top_(top) {}
  uint64_t add(std::string_view text) {
    strings_.insert(0, std::string(text) + '\0');
    return top_ - strings_.size();
  }
  uint64_t add_words(const std::vector<uint64_t>& words) {
    strings_.insert(0, (top_ - strings_.size()) % 16, '\0');
    if (words.size() % 2 != 0) strings_.insert(0, 8, '\0');
    strings_.insert(0, reinterpret_cast<const char*>(words.data()), words.size() * 8);
    return top_ - strings_.size();
  }
  [[nodiscard]] const std::string& bytes() const { return strings_; }

 private:
  uint64_t top_;
  std::string strings_;
};

std::vector<uint64_t> add_all(StackImage& stack, const std::vector<std::string>& words, uint64_t& begin,
                              uint64_t& end) {
  std::string all;
  std::vector<size_t> offsets;
  for (const std::string& word : words) {
    offsets.push_back(all.size());
    all += word + '\0';
  }
  if (!all.empty()) all.pop_back();
  begin = stack.add(all);
  end = begin + all.size() + (words.empty() ? 0 : 1);
  std::vector<uint64_t> addresses;
  for (const size_t offset : offsets) addresses.push_back(begin + offset);
  return addresses;
}

struct Loaded {
  uint64_t entry = 0, start = 0, headers = 0, base = 0, vdso = 0;
};

Try<uint64_t> make_stack(Entropy& entropy, Memory& memory, const Process& process, const Execution& wanted,
                         const Found& found, const Loaded& loaded) {
  const uint64_t top = memory.highest() - kPage;
  const uint64_t length =
      page_up(std::min<uint64_t>(process.limits[RLIMIT_STACK].rlim_cur, 64u << 20)) + kMostArgumentBytes;
  MEMBRANE_TRY(
      memory.map({.address = top - length,
                  .length = length,
                  .protection = PROT_READ | PROT_WRITE | (found.elf.has_executable_stack ? PROT_EXEC : 0),
                  .is_fixed = true,
                  .file = nullptr,
                  .backing = {},
                  .name = "[stack]"}));
  StackImage stack(top);
  const uint64_t name = stack.add(wanted.path);
  std::array<char, 16> random;
  if (!entropy.fill(std::as_writable_bytes(std::span(random)))) return err(EIO);
  const uint64_t random_at = stack.add({random.data(), random.size()});
  const uint64_t platform = stack.add("x86_64");
  const auto environment =
      add_all(stack, wanted.environment, memory.environment_start, memory.environment_end);
  const auto arguments = add_all(stack, wanted.arguments, memory.arguments_start, memory.arguments_end);
  std::vector<uint64_t> words = {arguments.size()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.push_back(0);
  words.insert(words.end(), environment.begin(), environment.end());
  words.push_back(0);
  const Credentials& who = process.credentials;
  for (const auto& [key, value] :
       std::initializer_list<std::pair<uint64_t, uint64_t>>{{AT_PHDR, loaded.headers},
                                                            {AT_PHENT, sizeof(Elf64_Phdr)},
                                                            {AT_PHNUM, found.elf.headers},
                                                            {AT_PAGESZ, kPage},
                                                            {AT_BASE, loaded.base},
                                                            {AT_FLAGS, 0},
                                                            {AT_ENTRY, loaded.entry},
                                                            {AT_UID, who.uid},
                                                            {AT_EUID, who.euid},
                                                            {AT_GID, who.gid},
                                                            {AT_EGID, who.egid},
                                                            {AT_SECURE, process.is_secure ? 1 : 0},
                                                            {AT_RANDOM, random_at},
                                                            {AT_HWCAP, getauxval(AT_HWCAP)},
                                                            {AT_HWCAP2, getauxval(AT_HWCAP2)},
                                                            {AT_CLKTCK, 100},
                                                            {AT_MINSIGSTKSZ, getauxval(AT_MINSIGSTKSZ)},
                                                            {AT_PLATFORM, platform},
                                                            {AT_EXECFN, name},
                                                            {AT_SYSINFO_EHDR, loaded.vdso},
                                                            {AT_NULL, 0}}) {
    if (key == AT_SYSINFO_EHDR && value == 0) continue;
    words.push_back(key);
    words.push_back(value);
  }
  const uint64_t sp = stack.add_words(words);
  if (memory.space().poke(sp, std::as_bytes(std::span(stack.bytes()))) != stack.bytes().size())
    return err(EFAULT);
  memory.start_stack = sp;
  return sp;
}

// The file of a program's mappings.
Try<FileRef> file_of(Task& task, const LocationRef& location) {
  MEMBRANE_ASSIGN(FileRef file, open_node(task, location->node, O_RDONLY));
  file->location = location;
  return file;
}

// A virtual clock is the kernel's to read.
Try<uint64_t> map_vdso(Kernel& kernel, Memory& memory) {
  if (kernel.vdso == nullptr)
    kernel.vdso =
        std::make_shared<Vdso>(kernel.options().clock->is_virtual() ? 0 : kernel.platform().clock_function(),
                               kernel.options().clock->ahead());
  return kernel.vdso->map(memory);
}

Done load(Task& task, const Execution& wanted, const Found& found) {
  Memory& memory = *task.process->memory;
  MEMBRANE_ASSIGN(const FileRef file, file_of(task, found.location));
  MEMBRANE_ASSIGN(const uint64_t shift, map_program(memory, file, found.elf, kProgramBase));
  Loaded loaded = {.entry = found.elf.entry + shift,
                   .start = found.elf.entry + shift,
                   .headers = found.elf.headers_address + shift};
  if (found.interpreter) {
    MEMBRANE_ASSIGN(const FileRef its_file, file_of(task, found.interpreter_location));
    MEMBRANE_ASSIGN(const uint64_t its_shift, map_program(memory, its_file, *found.interpreter, 0));
    loaded.base = its_shift + found.interpreter->lowest;
    loaded.start = found.interpreter->entry + its_shift;
  }
  MEMBRANE_ASSIGN(loaded.vdso, map_vdso(*task.kernel, memory));
  memory.start_code = found.elf.lowest + shift;
  memory.end_code = found.elf.end + shift;
  memory.set_heap(found.elf.end + shift + (1u << 20));
  MEMBRANE_ASSIGN(const uint64_t sp,
                  make_stack(task.kernel->entropy(), memory, *task.process, wanted, found, loaded));
  task.thread->registers = {};
  task.thread->registers.rip = loaded.start;
  task.thread->registers.rsp = sp;
  return task.thread->set_vector_state({});
}

// The credentials of the process under the new program: those of the file's owner for a set-user-ID program.
Credentials credentials_after(const Process& process, const Found& found) {
  Credentials who = process.credentials;
  const Attributes attributes = found.location->node->attributes();
  if (!process.has_no_new_privileges) {
    if ((attributes.mode & S_ISUID) != 0) who.euid = attributes.uid;
    if ((attributes.mode & S_ISGID) != 0 && (attributes.mode & S_IXGRP) != 0) who.egid = attributes.gid;
  }
  who.suid = who.fsuid = who.euid;
  who.sgid = who.fsgid = who.egid;
  return who;
}

// Whether the new program must be protected from its user (AT_SECURE).
bool gains_rights(const Process& process, const Credentials& after) {
  return after.euid != process.credentials.euid || after.egid != process.credentials.egid;
}

void reset_for_program(Task& task, const Execution& wanted, const Found& found) {
  Process& process = *task.process;
  for (SignalAction& action : process.actions)
    if (action.handler != 1) action = {};
  task.signal_stack = {};
  task.clear_child_tid = task.robust_list = 0;
  const std::string& path = wanted.path;
  task.name = path.substr(path.rfind('/') + 1).substr(0, 15);
  process.executable = path_of(*process.place, *found.location);
  process.executable_at = found.location;
  process.arguments = wanted.arguments;
  process.has_executed = true;
  process.timers.clear();
  const Credentials who = credentials_after(process, found);
  process.is_secure = gains_rights(process, who);
  process.is_dumpable = !process.is_secure;
  if (process.is_secure) process.death_signal = 0;
  process.capabilities.begin_program(who, process.is_secure);
  process.credentials = who;
  if (process.descriptors.use_count() > 1) process.descriptors = process.descriptors->copy();
  for (const FileRef& file : process.descriptors->remove_for_exec()) file->on_close(task);
}

// Gives the process an empty memory of its own and ends its other tasks. Memory that others share stays
// theirs; and a program that gains rights does not start in the space of one that may have prepared it in
// ways that the kernel does not know of.
Done leave_old_program(Kernel& kernel, Task& task, bool gains_rights) {
  Process& process = *task.process;
  const bool wants_space = gains_rights || process.memory.use_count() > 1;
  std::unique_ptr<Thread> thread;
  if (wants_space) {
    MEMBRANE_ASSIGN(thread, kernel.platform().start());
  }
  while (process.tasks.size() > 1) {
    Task& other = process.tasks.front().get() == &task ? *process.tasks.back() : *process.tasks.front();
    kernel.end_task(other, 0);
  }
  leave_threads(task);
  if (wants_space) {
    thread->owner = &task;
    task.used_before.user += task.thread->cpu_time();
    task.thread = std::move(thread);
    process.memory = std::make_shared<Memory>(task.thread->space(), kernel.platform().lowest(),
                                              kernel.platform().highest());
  } else {
    process.memory->clear();
  }
  kernel.rename(task, process.id);
  kernel.let_go_of_parent(task);
  return {};
}

}  // namespace

Done execute(Kernel& kernel, Task& task, Execution wanted) {
  if (wanted.arguments.empty()) wanted.arguments.emplace_back();
  if (size_of(wanted.arguments) + size_of(wanted.environment) > kMostArgumentBytes) return err(E2BIG);
  MEMBRANE_ASSIGN(const Found found, find(kernel, *task.process, wanted));
  const bool gains = gains_rights(*task.process, credentials_after(*task.process, found));
  MEMBRANE_TRY(leave_old_program(kernel, task, gains));
  reset_for_program(task, wanted, found);
  if (!load(task, wanted, found)) {
    kernel.end_process(*task.process, SIGSEGV);
    return err(ENOMEM);
  }
  return {};
}

Try<std::string> find_program(Kernel& kernel, const Process& process, const Kernel::Start& start) {
  if (start.arguments.empty()) return err(EINVAL);
  const std::string& name = start.arguments[0];
  if (name.find('/') != std::string::npos) return name;
  std::string_view path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  for (const std::string& each : start.environment)
    if (each.starts_with("PATH=")) path = std::string_view(each).substr(5);
  int error = ENOENT;
  while (!path.empty()) {
    const std::string candidate = std::string(path.substr(0, path.find(':'))) + '/' + name;
    const auto found = find_executable(kernel, process, process.place->directory, candidate);
    if (found) return candidate;
    if (found.error() == EACCES) error = EACCES;
    path = path.find(':') == std::string_view::npos ? "" : path.substr(path.find(':') + 1);
  }
  return err(error);
}

}  // namespace membrane::linux
