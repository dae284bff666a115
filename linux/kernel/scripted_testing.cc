#include "linux/kernel/scripted_testing.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "linux/files/devices.h"
#include "linux/fs/tree.h"
#include "linux/proc/mounts.h"

namespace membrane::linux {

// -- memory

void ScriptedSpace::split_at(uint64_t address) {
  auto at = areas_.upper_bound(address);
  if (at == areas_.begin()) return;
  --at;
  auto& [start, area] = *at;
  if (start == address || area.end <= address) return;
  Area rest = {.end = area.end,
               .protection = area.protection,
               .fd = area.fd,
               .offset = area.offset + (address - start),
               .is_shared = area.is_shared,
               .pages = {}};
  for (auto page = area.pages.lower_bound(address); page != area.pages.end();)
    rest.pages.insert(area.pages.extract(page++));
  area.end = address;
  areas_.emplace(address, std::move(rest));
}

ScriptedSpace::Area* ScriptedSpace::area_at(uint64_t address, uint64_t& start) {
  auto at = areas_.upper_bound(address);
  if (at == areas_.begin()) return nullptr;
  --at;
  start = at->first;
  return at->second.end > address ? &at->second : nullptr;
}

void ScriptedSpace::map(uint64_t address, uint64_t length, int protection, const Backing& backing) {
  unmap(address, length);
  Area area = {.end = address + length,
               .protection = protection,
               .fd = nullptr,
               .offset = backing.offset,
               .is_shared = backing.is_shared,
               .pages = {}};
  if (backing.fd >= 0)
    area.fd = std::shared_ptr<int>(new int(fcntl(backing.fd, F_DUPFD_CLOEXEC, 0)), [](const int* fd) {
      close(*fd);
      delete fd;
    });
  areas_.emplace(address, std::move(area));
}

void ScriptedSpace::unmap(uint64_t address, uint64_t length) {
  split_at(address);
  split_at(address + length);
  areas_.erase(areas_.lower_bound(address), areas_.lower_bound(address + length));
}

void ScriptedSpace::protect(uint64_t address, uint64_t length, int protection) {
  split_at(address);
  split_at(address + length);
  for (auto at = areas_.lower_bound(address); at != areas_.end() && at->first < address + length; ++at)
    at->second.protection = protection;
}

void ScriptedSpace::move(uint64_t from, uint64_t length, uint64_t to, uint64_t new_length) {
  split_at(from);
  split_at(from + length);
  auto moved = areas_.extract(from);
  if (moved.empty()) return;
  Area area = std::move(moved.mapped());
  area.end = to + new_length;
  std::map<uint64_t, Page> pages;
  for (auto& [at, page] : area.pages)
    if (at - from < new_length) pages.emplace(at - from + to, page);
  area.pages = std::move(pages);
  unmap(to, new_length);
  areas_.emplace(to, std::move(area));
}

void ScriptedSpace::discard(uint64_t address, uint64_t length) {
  for (auto& [start, area] : areas_)
    area.pages.erase(area.pages.lower_bound(address), area.pages.lower_bound(address + length));
}

template <typename Act>
size_t ScriptedSpace::each_piece(uint64_t address, size_t size, int protection, const Act& act) {
  size_t done = 0;
  size = std::min<uint64_t>(size, moves_at_most);
  moves_at_most -= size;
  while (done < size) {
    const uint64_t at = address + done;
    uint64_t start = 0;
    Area* const area = area_at(at, start);
    if (area == nullptr || (area->protection & protection) != protection) break;
    const size_t piece = std::min<uint64_t>(size - done, kPage - at % kPage);
    if (area->fd != nullptr && area->is_shared) {
      if (!act(nullptr, area, area->offset + (at - start), done, piece)) break;
    } else {
      const auto [page, is_new] = area->pages.try_emplace(page_down(at));
      if (is_new && area->fd != nullptr) {
        const auto from = static_cast<off_t>(area->offset + (page_down(at) - start));
        (void)!pread(*area->fd, page->second.data(), kPage, from);
      }
      if (!act(page->second.data() + at % kPage, area, 0, done, piece)) break;
    }
    done += piece;
  }
  return done;
}

size_t ScriptedSpace::read(uint64_t address, std::span<std::byte> bytes) {
  return each_piece(address, bytes.size(), PROT_READ,
                    [&](std::byte* page, Area* area, uint64_t offset, size_t done, size_t piece) {
                      if (page == nullptr)
                        return pread(*area->fd, &bytes[done], piece, static_cast<off_t>(offset)) ==
                               static_cast<ssize_t>(piece);
                      std::memcpy(&bytes[done], page, piece);
                      return true;
                    });
}

size_t ScriptedSpace::put(uint64_t address, std::span<const std::byte> bytes, int protection) {
  return each_piece(address, bytes.size(), protection,
                    [&](std::byte* page, Area* area, uint64_t offset, size_t done, size_t piece) {
                      if (page == nullptr)
                        return pwrite(*area->fd, &bytes[done], piece, static_cast<off_t>(offset)) ==
                               static_cast<ssize_t>(piece);
                      std::memcpy(page, &bytes[done], piece);
                      return true;
                    });
}

size_t ScriptedSpace::write(uint64_t address, std::span<const std::byte> bytes) {
  return put(address, bytes, PROT_WRITE);
}
size_t ScriptedSpace::poke(uint64_t address, std::span<const std::byte> bytes) {
  return put(address, bytes, 0);
}

std::vector<PageRun> ScriptedSpace::own_pages(uint64_t address, uint64_t length) {
  std::vector<PageRun> runs;
  for (const auto& [start, area] : areas_)
    for (const auto& [at, page] : area.pages)
      if (!area.is_shared && at >= address && at < address + length) runs.push_back({at, kPage});
  return runs;
}

uint64_t ScriptedSpace::resident_bytes() {
  uint64_t pages = 0;
  for (const auto& [start, area] : areas_) pages += area.pages.size();
  return pages * kPage;
}

// -- threads

ScriptedThread::~ScriptedThread() { std::erase(platform_.running_, this); }

void ScriptedThread::resume() { platform_.running_.push_back(this); }

void ScriptedThread::call(uint64_t number, std::initializer_list<uint64_t> arguments) {
  std::array<uint64_t*, 6> places = {&registers.rdi, &registers.rsi, &registers.rdx,
                                     &registers.r10, &registers.r8,  &registers.r9};
  for (uint64_t* const place : places) *place = 0;
  std::ranges::for_each(arguments, [next = places.begin()](uint64_t value) mutable { **next++ = value; });
  registers.rax = number;
}

Try<std::unique_ptr<Thread>> ScriptedThread::clone_thread() {
  auto made = std::make_unique<ScriptedThread>(platform_, space_);
  made->registers = registers;
  return made;
}

Try<std::unique_ptr<Thread>> ScriptedThread::fork() {
  auto made = std::make_unique<ScriptedThread>(platform_, static_cast<const ScriptedSpace&>(*space_).copy());
  made->registers = registers;
  return made;
}

Thread* ScriptedPlatform::wait(std::optional<std::chrono::steady_clock::time_point>) {
  if (running_.empty()) return nullptr;
  ScriptedThread* const next = running_.front();
  running_.pop_front();
  next->stop = {};
  script(*next);
  next->registers.rip += 2;
  return next;
}

// -- the kernel

namespace {

// One segment without code: the script is the program.
std::string empty_program() {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_entry = 0x400000;
  header.e_phoff = sizeof header;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  Elf64_Phdr part = {};
  part.p_type = PT_LOAD;
  part.p_flags = PF_R | PF_X;
  part.p_vaddr = part.p_paddr = 0x400000;
  part.p_filesz = part.p_memsz = sizeof header + sizeof part;
  part.p_align = kPage;
  std::string bytes(sizeof header + sizeof part, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, &part, sizeof part);
  return bytes;
}

void make_program(Node& root, std::string_view name) {
  const auto made = root.create(name, {.mode = S_IFREG | 0755});
  const std::string bytes = empty_program();
  if (made) (void)(*made)->write(0, std::as_bytes(std::span(bytes)));
}

}  // namespace

ScriptedKernel::ScriptedKernel(KernelLimits limits) {
  auto made = std::make_unique<ScriptedPlatform>();
  platform = made.get();
  const auto devices = std::make_shared<Devices>(std::make_shared<Entropy>(1));
  const NodeRef root = make_tree({.devices = devices});
  for (const char* name : {"program", "other"}) make_program(*root, name);
  for (const char* name : {"tmp", "proc", "dev", "sys"}) (void)root->create(name, {.mode = S_IFDIR | 0777});
  kernel = std::make_unique<Kernel>(KernelOptions{.platform = std::move(made),
                                                  .root = root,
                                                  .limits = limits,
                                                  .clock = std::make_shared<GuestClock>(1000),
                                                  .entropy = std::make_shared<Entropy>(1)});
  (void)mount_system_directories(*kernel, devices);
}

int ScriptedKernel::run(std::function<void(ScriptedThread&)> script, Credentials who, uint64_t most_turns) {
  platform->script = [&, is_first = true](ScriptedThread& thread) mutable {
    if (std::exchange(is_first, false))
      return thread.call(SYS_mmap, {kScratch, kScratchBytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, UINT64_MAX, 0});
    script(thread);
  };
  const auto process = kernel->start({.arguments = {"/program"},
                                      .environment = {},
                                      .credentials = who,
                                      .input = nullptr,
                                      .output = nullptr,
                                      .errors = nullptr});
  if (!process) return -process.error();
  if (most_turns == UINT64_MAX) return kernel->run(*process);
  const auto is_alive = [&] {
    const Process* const first = kernel->process_of(*process);
    return first != nullptr && !first->is_zombie;
  };
  kernel->run_while([&] { return most_turns-- > 0 && is_alive(); });
  const Process* const first = kernel->process_of(*process);
  return is_alive() || first == nullptr ? SIGKILL : first->status;
}

std::function<void(ScriptedThread&)> steps(std::vector<std::function<void(ScriptedThread&)>> all) {
  return [all = std::move(all), next = size_t{0}](ScriptedThread& thread) mutable {
    if (next == all.size()) return thread.call(SYS_exit_group, {0});
    all[next++](thread);
  };
}

}  // namespace membrane::linux
