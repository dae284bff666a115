#include "wasi/program_testing.h"

#include <algorithm>
#include <ostream>

namespace membrane::wasi {

void PrintTo(Errno code, std::ostream* out) { *out << name_of(code); }

Program::Program(Config config) {
  auto made = System::create(std::move(config));
  if (!made) ADD_FAILURE() << made.error().to_string();
  else system = std::move(*made);
}

Errno Program::call_of(std::string_view module, std::string_view name,
                       std::initializer_list<uint64_t> arguments) {
  const Function* function = find_function(module, name);
  if (function == nullptr || function->type.params.size() != arguments.size()) {
    ADD_FAILURE() << "no such function, or another number of parameters: " << name;
    return Errno::kNosys;
  }
  std::vector<uint64_t> results(function->type.results.size(), 0xDEAD);
  outcome = system->call(*function, guest, std::vector<uint64_t>(arguments), results);
  return results.empty() ? Errno::kSuccess : static_cast<Errno>(results[0]);
}

uint32_t Program::room(uint32_t size) {
  const uint32_t at = next_;
  next_ += (size + 7) / 8 * 8;
  if (next_ > guest.memory().size()) ADD_FAILURE() << "the test's memory is too small";
  return at;
}

uint32_t Program::place(std::string_view bytes) {
  const uint32_t at = room(static_cast<uint32_t>(bytes.size()));
  std::ranges::copy(bytes, guest.memory().begin() + at);
  return at;
}

std::string Program::bytes(uint32_t at, uint32_t size) {
  return {reinterpret_cast<const char*>(guest.memory().data()) + at, size};
}

int64_t Program::open(std::string_view path, uint32_t flags, Rights rights, uint32_t fd_flags,
                      uint32_t directory, uint32_t lookup) {
  free_memory();
  const uint32_t at = place(path), number = room(4);
  // A descriptor opened below a directory gets all rights that the directory passes on.
  error =
      call("path_open", {directory, lookup, at, path.size(), flags, rights, kAllRights, fd_flags, number});
  return error == Errno::kSuccess ? int64_t{load<uint32_t>(number)} : -1;
}

std::string Program::read(uint32_t descriptor, uint32_t size) {
  free_memory();
  const uint32_t vector = room(8), count = room(4), to = room(size);
  guest.poke(vector, to);
  guest.poke(vector + 4, size);
  error = call("fd_read", {descriptor, vector, 1, count});
  return error == Errno::kSuccess && outcome.end == End::kReturn ? bytes(to, load<uint32_t>(count)) : "";
}

int64_t Program::write(uint32_t descriptor, std::string_view text) {
  free_memory();
  const uint32_t vector = room(8), count = room(4), from = place(text);
  guest.poke(vector, from);
  guest.poke(vector + 4, static_cast<uint32_t>(text.size()));
  error = call("fd_write", {descriptor, vector, 1, count});
  return error == Errno::kSuccess ? int64_t{load<uint32_t>(count)} : -1;
}

Errno Program::seek(uint32_t descriptor, int64_t by, Whence whence, uint64_t* target) {
  free_memory();
  const uint32_t at = room(8);
  error = call("fd_seek", {descriptor, static_cast<uint64_t>(by), static_cast<uint64_t>(whence), at});
  if (target != nullptr) *target = load<uint64_t>(at);
  return error;
}

std::vector<std::string> Program::names(std::string_view path) {
  const int64_t directory = open(path, oflag::kDirectory);
  std::vector<std::string> found;
  if (directory < 0) return found;
  constexpr uint32_t kRoom = 256;
  uint64_t cookie = 0;
  for (bool more = true; more;) {
    free_memory();
    const uint32_t to = room(kRoom + 24), used = room(4);
    error = call("fd_readdir", {static_cast<uint64_t>(directory), to, kRoom, cookie, used});
    const uint32_t end = to + load<uint32_t>(used);
    more = error == Errno::kSuccess && end - to == kRoom;
    for (uint32_t at = to; at + kDirentBytes <= end;) {
      const uint32_t size = load<uint32_t>(at + 16);
      if (at + kDirentBytes + size > end) break;
      cookie = load<uint64_t>(at);
      std::string name = bytes(at + kDirentBytes, size);
      const bool is_directory = load<uint8_t>(at + 20) == static_cast<uint8_t>(FileType::kDirectory);
      if (name != "." && name != "..") found.push_back(name + (is_directory ? "/" : ""));
      at += kDirentBytes + size;
    }
  }
  const Errno listed = error;
  close(static_cast<uint32_t>(directory));
  error = listed;
  return found;
}

Stat Program::stat(std::string_view path, uint32_t lookup) {
  free_memory();
  const uint32_t at = place(path), to = room(FileStat::kBytes);
  error = call("path_filestat_get", {kRoot, lookup, at, path.size(), to});
  if (error != Errno::kSuccess) return {};
  return {load<uint64_t>(to),      load<uint64_t>(to + 8),  static_cast<FileType>(load<uint8_t>(to + 16)),
          load<uint64_t>(to + 24), load<uint64_t>(to + 32), load<uint64_t>(to + 40),
          load<uint64_t>(to + 48), load<uint64_t>(to + 56)};
}

Errno Program::path(std::string_view function, std::string_view path, uint32_t directory) {
  free_memory();
  return error = call(function, {directory, place(path), path.size()});
}

Errno Program::rename(std::string_view from, std::string_view to) {
  free_memory();
  return error = call("path_rename", {kRoot, place(from), from.size(), kRoot, place(to), to.size()});
}

Errno Program::link(std::string_view from, std::string_view to) {
  free_memory();
  return error = call("path_link", {kRoot, 0, place(from), from.size(), kRoot, place(to), to.size()});
}

Errno Program::symlink(std::string_view target, std::string_view name) {
  free_memory();
  return error = call("path_symlink", {place(target), target.size(), kRoot, place(name), name.size()});
}

std::string Program::readlink(std::string_view name) {
  free_memory();
  const uint32_t at = place(name), to = room(256), used = room(4);
  error = call("path_readlink", {kRoot, at, name.size(), to, 256, used});
  return error == Errno::kSuccess ? bytes(to, load<uint32_t>(used)) : "";
}

Errno Program::put(std::string_view path, std::string_view bytes) {
  const int64_t file = open(path, oflag::kCreat | oflag::kTrunc, kReadWrite);
  if (file < 0) return error;
  const int64_t written = write(static_cast<uint32_t>(file), bytes);
  const Errno done = written == static_cast<int64_t>(bytes.size()) ? Errno::kSuccess : error;
  close(static_cast<uint32_t>(file));
  return error = done;
}

std::string Program::get(std::string_view path) {
  const int64_t file = open(path);
  if (file < 0) return "";
  std::string all;
  for (std::string part = read(static_cast<uint32_t>(file)); !part.empty();
       part = read(static_cast<uint32_t>(file)))
    all += part;
  const Errno done = error;
  close(static_cast<uint32_t>(file));
  error = done;
  return all;
}

}  // namespace membrane::wasi
