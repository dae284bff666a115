// Runs the same random operations on a program's own files, on a granted directory of the host, and on a model that
// is only a map from names to texts, and expects the same results from all three.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "wasi/host_world_testing.h"
#include "wasi/state.h"

namespace membrane::wasi {
namespace {

// Paths of at most three names; "" is the root.
class Model {
 public:
  Errno put(const std::string& path, const std::string& text) {
    if (const Errno wrong = parent_of(path); wrong != Errno::kSuccess) return wrong;
    if (directories_.contains(path)) return Errno::kIsdir;
    files_[path] = text;
    return Errno::kSuccess;
  }
  Errno append(const std::string& path, const std::string& text) {
    const Errno found = find(path);
    if (found != Errno::kSuccess) return found;
    if (directories_.contains(path)) return Errno::kIsdir;
    files_[path] += text;
    return Errno::kSuccess;
  }
  Errno write_at(const std::string& path, size_t offset, const std::string& text) {
    const Errno found = find(path);
    if (found != Errno::kSuccess) return found;
    if (directories_.contains(path)) return Errno::kIsdir;
    if (text.empty()) return Errno::kSuccess;  // an empty write does not extend a file
    std::string& file = files_[path];
    if (file.size() < offset + text.size()) file.resize(offset + text.size(), '\0');
    file.replace(offset, text.size(), text);
    return Errno::kSuccess;
  }
  Errno resize(const std::string& path, size_t size) {
    const Errno found = find(path);
    if (found != Errno::kSuccess) return found;
    if (directories_.contains(path)) return Errno::kIsdir;
    files_[path].resize(size, '\0');
    return Errno::kSuccess;
  }
  Errno get(const std::string& path, std::string& text) const {
    const Errno found = find(path);
    if (found != Errno::kSuccess) return found;
    if (directories_.contains(path)) return Errno::kIsdir;
    text = files_.at(path);
    return Errno::kSuccess;
  }
  Errno mkdir(const std::string& path) {
    if (const Errno wrong = parent_of(path); wrong != Errno::kSuccess) return wrong;
    if (directories_.contains(path) || files_.contains(path)) return Errno::kExist;
    directories_.insert(path);
    return Errno::kSuccess;
  }
  Errno rmdir(const std::string& path) {
    const Errno found = find(path);
    if (found != Errno::kSuccess) return found;
    if (files_.contains(path)) return Errno::kNotdir;
    if (!names(path).empty()) return Errno::kNotempty;
    directories_.erase(path);
    return Errno::kSuccess;
  }
  Errno unlink(const std::string& path) {
    const Errno found = find(path);
    if (found != Errno::kSuccess) return found;
    if (directories_.contains(path)) return Errno::kIsdir;
    files_.erase(path);
    return Errno::kSuccess;
  }
  Errno rename(const std::string& from, const std::string& to);
  // The same format as Program::names().
  [[nodiscard]] std::vector<std::string> names(const std::string& path) const {
    std::set<std::string> found;
    const std::string above = path + "/";
    for (const auto& [name, text] : files_)
      if (name.starts_with(above) && name.find('/', above.size()) == std::string_view::npos)
        found.insert(name.substr(above.size()));
    for (const std::string& name : directories_)
      if (name.starts_with(above) && name.find('/', above.size()) == std::string_view::npos &&
          name.size() > above.size())
        found.insert(name.substr(above.size()) + "/");
    return {found.begin(), found.end()};
  }
  [[nodiscard]] bool is_directory(const std::string& path) const { return directories_.contains(path); }

 private:
  [[nodiscard]] Errno parent_of(const std::string& path) const {
    for (size_t slash = path.find('/', 1); slash != std::string_view::npos;
         slash = path.find('/', slash + 1)) {
      if (files_.contains(path.substr(0, slash))) return Errno::kNotdir;
      if (!directories_.contains(path.substr(0, slash))) return Errno::kNoent;
    }
    return Errno::kSuccess;
  }
  [[nodiscard]] Errno find(const std::string& path) const {
    const Errno wrong = parent_of(path);
    if (wrong != Errno::kSuccess) return wrong;
    return directories_.contains(path) || files_.contains(path) ? Errno::kSuccess : Errno::kNoent;
  }

  std::map<std::string, std::string> files_;
  std::set<std::string> directories_ = {""};
};

Errno Model::rename(const std::string& from, const std::string& to) {
  if (const Errno wrong = parent_of(from); wrong != Errno::kSuccess) return wrong;
  if (const Errno wrong = parent_of(to); wrong != Errno::kSuccess) return wrong;
  if (const Errno found = find(from); found != Errno::kSuccess) return found;
  if (from.starts_with(to + "/")) return Errno::kNotempty;
  if (files_.contains(from)) {
    if (directories_.contains(to)) return Errno::kIsdir;
    if (from == to) return Errno::kSuccess;
    files_[to] = files_[from];
    files_.erase(from);
    return Errno::kSuccess;
  }
  if (to.starts_with(from + "/")) return Errno::kInval;
  if (files_.contains(to)) return Errno::kNotdir;
  if (from == to) return Errno::kSuccess;
  if (directories_.contains(to) && !names(to).empty()) return Errno::kNotempty;
  const auto moved = [&](const std::string& path) { return to + path.substr(from.size()); };
  const auto is_in = [&](const std::string& path) { return path == from || path.starts_with(from + "/"); };
  std::map<std::string, std::string> files;
  for (const auto& [path, text] : files_) files[is_in(path) ? moved(path) : path] = text;
  std::set<std::string> directories;
  for (const std::string& path : directories_) directories.insert(is_in(path) ? moved(path) : path);
  files_ = std::move(files);
  directories_ = std::move(directories);
  return Errno::kSuccess;
}

// The result of an operation, in one line.
struct Step {
  int operation;
  std::string path, other, text;
  size_t number;
};

std::string outcome(Errno code, const std::string& more = {}) {
  if (code != Errno::kSuccess) return std::string(name_of(code));
  if (more.size() < 200) return "ESUCCESS " + more;
  return "ESUCCESS " + std::to_string(more.size()) + " bytes, hash " +
         std::to_string(std::hash<std::string>()(more));
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += name + ",";
  return out;
}

std::string on_model(Model& model, const Step& step) {
  std::string text;
  switch (step.operation) {
    case 0: return outcome(model.put(step.path, step.text));
    case 1: return outcome(model.append(step.path, step.text));
    case 2: return outcome(model.write_at(step.path, step.number, step.text));
    case 3: return outcome(model.resize(step.path, step.number));
    case 4: {
      const Errno code = model.get(step.path, text);
      return outcome(code, text);
    }
    case 5: return outcome(model.mkdir(step.path));
    case 6: return outcome(model.rmdir(step.path));
    case 7: return outcome(model.unlink(step.path));
    case 8: return outcome(model.rename(step.path, step.other));
    default: return model.is_directory(step.path) ? joined(model.names(step.path)) : "no directory";
  }
}

std::string on_program(Program& program, const std::string& root, const Step& step) {
  const std::string path = root + step.path;
  const auto with = [&](uint32_t flags, uint32_t fd_flags, auto act) {
    const int64_t file = program.open(path, flags, Program::kReadWrite, fd_flags);
    if (file < 0) return outcome(program.error);
    const Errno code = act(static_cast<uint32_t>(file));
    program.close(static_cast<uint32_t>(file));
    return outcome(code);
  };
  const auto write = [&](uint32_t file) {
    return program.write(file, step.text) < 0 ? program.error : Errno::kSuccess;
  };
  switch (step.operation) {
    case 0: return outcome(program.put(path, step.text));
    case 1: return with(0, fdflag::kAppend, write);
    case 2:
      return with(0, 0, [&](uint32_t file) {
        program.seek(file, static_cast<int64_t>(step.number), Whence::kSet);
        return write(file);
      });
    case 3:
      return with(0, 0,
                  [&](uint32_t file) { return program.call("fd_filestat_set_size", {file, step.number}); });
    case 4: {
      const std::string text = program.get(path);
      return outcome(program.error, text);
    }
    case 5: return outcome(program.mkdir(path));
    case 6: return outcome(program.rmdir(path));
    case 7: return outcome(program.unlink(path));
    case 8: return outcome(program.rename(path, root + step.other));
    default: {
      const auto names = program.names(path);
      return program.error == Errno::kSuccess ? joined(names) : "no directory";
    }
  }
}

std::string broken_invariant(Program& program) { return program.system->state().files->broken_invariant({}); }

Step random_step(std::mt19937& random) {
  const auto pick = [&](size_t count) { return static_cast<size_t>(random() % count); };
  const auto path = [&] {
    std::string out;
    for (size_t depth = 1 + pick(3); depth > 0; --depth) out += std::string("/") + "abc"[pick(3)];
    return out;
  };
  Step step{static_cast<int>(pick(10)), path(), path(),
            std::string(pick(40), static_cast<char>('a' + pick(26))), pick(200)};
  // Occasionally across the boundary between two pieces.
  if (pick(20) == 0) step.number = (64 << 10) - 10 + pick(20);
  return step;
}

TEST(WasiAgreement, OfMemoryHostAndModelOnRandomOperations) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    std::mt19937 random(seed);
    HostWorld world;
    policy::FsGrant& grant = world.allow("/host", "inside", policy::FsMode::kWrite);
    grant.max_files = grant.max_total_bytes = 1ull << 30;
    world.budget.set(policy::Resource::kBytesIn, policy::Budget::kUnlimited);
    Config config = world.config();
    world.gate.emplace(host::BrokerGate::to_world(*world.local, nullptr, nullptr));
    config.world.broker = &*world.gate;
    Program program(std::move(config));
    program.mkdir("own");
    Model model;
    for (int i = 0; i < 2'000; ++i) {
      const Step step = random_step(random);
      program.guest.fuel = 1'000'000'000;
      const std::string expected = on_model(model, step);
      const auto where = [&] {
        return "seed " + std::to_string(seed) + ", step " + std::to_string(i) + ", operation " +
               std::to_string(step.operation) + " " + step.path + " " + step.other;
      };
      ASSERT_EQ(on_program(program, "own", step), expected) << where();
      ASSERT_EQ(on_program(program, "host", step), expected) << where();
      if (i % 200 == 0) {
        ASSERT_EQ(broken_invariant(program), "") << where();
      }
    }
  }
}

}  // namespace
}  // namespace membrane::wasi
