// Calls of any function with any arguments, on files of the program's own and a granted directory of the host that
// is full of ways out: no crash, nothing outside is read or changed, and the tree stays consistent, also when the
// System is forked, or frozen and thawed, in between.
//
// Input: a byte per call that selects the function, then a byte per argument. Arguments that are paths or lists of
// buffers mostly point to prepared ones in the memory.
#include <stdlib.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "host/broker_gate.h"
#include "host/local_broker.h"
#include "wasi/state.h"

namespace fs = std::filesystem;
using namespace membrane;
using namespace membrane::wasi;

namespace {

constexpr std::string_view kSecret = "what is outside stays outside";
constexpr uint32_t kPathsAt = 1'024, kPathBytes = 32, kVectorsAt = 512, kBuffersAt = 8'192;
constexpr std::string_view kPaths[] = {"tmp",      "tmp/a",    "tmp/b",        "tmp/d",
                                       "tmp/d/a",  "tmp/d/",   "lib/a",        "lib",
                                       "w",        "w/a",      "w/b",          "w/d",
                                       "w/d/a",    "w/up",     "w/up/secret",  "w/absolute",
                                       "w/fine",   "w/../tmp", "w/up/../a",    "../outside",
                                       "..",       ".",        "tmp/../w/a",   "/tmp/a",
                                       "dev/zero", "dev/null", "dev/membrane", "dev/urandom",
                                       "w/fifo",   "tmp/l",    "../d",         "tmp/d/../../w/d"};

struct Directories {
  Directories() {
    std::string name =
        (fs::is_directory("/dev/shm") ? "/dev/shm" : "/tmp") + std::string("/membrane_fuzz_XXXXXX");
    root = mkdtemp(name.data());
    fs::create_directory(root / "outside");
    std::ofstream(root / "outside/secret") << kSecret;
  }
  ~Directories() { fs::remove_all(root); }
  void renew() const {
    fs::remove_all(root / "inside");
    fs::create_directory(root / "inside");
    std::ofstream(root / "inside/a") << "hello";
    fs::create_symlink("../outside", root / "inside/up");
    fs::create_symlink(root / "outside/secret", root / "inside/absolute");
    fs::create_symlink("a", root / "inside/fine");
  }
  [[nodiscard]] bool is_outside_untouched() const {
    std::ostringstream text;
    text << std::ifstream(root / "outside/secret").rdbuf();
    return text.str() == kSecret &&
           std::distance(fs::directory_iterator(root / "outside"), fs::directory_iterator()) == 1 &&
           std::distance(fs::directory_iterator(root), fs::directory_iterator()) == 2;
  }
  fs::path root;
};

class FuzzGuest : public host::Guest {
 public:
  FuzzGuest() : bytes_(65'536) {
    for (size_t i = 0; i < std::size(kPaths); ++i)
      std::memcpy(&bytes_[kPathsAt + i * kPathBytes], kPaths[i].data(), kPaths[i].size());
    const uint32_t vectors[] = {kBuffersAt, 100, kBuffersAt + 100, 5'000};
    std::memcpy(&bytes_[kVectorsAt], vectors, sizeof vectors);
  }
  std::span<uint8_t> memory() override { return bytes_; }
  host::HostResult<uint32_t> allocate(uint64_t) override { return host::refuse(host::Errno::kNoMemory, ""); }
  bool charge(uint64_t) override { return true; }
  void owe(uint64_t) override {}
  uint64_t fuel_left() const override { return UINT64_MAX; }
  void fall_short(uint64_t) override {}
  bool print(host::Stream, std::string_view) override { return true; }
  bool set_result(std::string_view) override { return true; }
  bool submit(std::string_view) override { return true; }
  std::string_view input() const override { return ""; }
  std::span<const std::string> arguments() const override { return {}; }

 private:
  std::vector<uint8_t> bytes_;
};

// Which arguments point to a path and are followed by its length.
std::vector<size_t> paths_of(FunctionId id) {
  switch (id) {
    case FunctionId::path_create_directory:
    case FunctionId::path_readlink:
    case FunctionId::path_remove_directory:
    case FunctionId::path_unlink_file: return {1};
    case FunctionId::path_filestat_get:
    case FunctionId::path_filestat_set_times:
    case FunctionId::path_open: return {2};
    case FunctionId::path_link: return {2, 5};
    case FunctionId::path_rename: return {1, 4};
    case FunctionId::path_symlink: return {0, 3};
    default: return {};
  }
}

bool has_vectors(FunctionId id) {
  return id == FunctionId::fd_read || id == FunctionId::fd_write || id == FunctionId::fd_pread ||
         id == FunctionId::fd_pwrite;
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  [[nodiscard]] bool is_empty() const { return at_ >= size_; }
  uint8_t next() { return at_ < size_ ? data_[at_++] : 0; }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

std::vector<uint64_t> arguments_of(const Function& function, Input& input) {
  std::vector<uint64_t> arguments;
  for (size_t i = 0; i < function.type.params.size(); ++i) {
    const uint8_t byte = input.next();
    // Small numbers are descriptors and flags; high bytes give large values.
    uint64_t value = byte < 0xF0 ? byte : ~uint64_t{0} >> (byte & 15);
    const bool is_rights = function.id == FunctionId::path_open && (i == 5 || i == 6);
    if (is_rights && byte < 0xE0) value = byte % 2 == 0 ? kAllRights : kAllRights & ~right::kFdWrite;
    if (function.type.params[i] == wasm::ValType::kI32) value &= UINT32_MAX;
    arguments.push_back(value);
  }
  for (const size_t at : paths_of(function.id)) {
    if (arguments[at] >= 0xF0) continue;
    const size_t path = arguments[at] % std::size(kPaths);
    arguments[at] = kPathsAt + path * kPathBytes;
    arguments[at + 1] = kPaths[path].size();
  }
  if (has_vectors(function.id) && arguments[1] < 0xF0) {
    arguments[1] = kVectorsAt;
    arguments[2] %= 3;
  }
  return arguments;
}

void check(bool holds) {
  if (!holds) std::abort();
}

void check_files(System& system) {
  std::vector<Inode> open;
  for (const auto& [number, descriptor] : system.state().descriptors.all())
    open.push_back(descriptor.inode());
  check(system.state().files->broken_invariant(open).empty());
}

Config config_for(const policy::Policy& policy, host::Broker& broker) {
  static constexpr uint8_t kBytes[] = {'t', 'e', 'x', 't'};
  static const std::shared_ptr<const Image> image =
      Image::make({{.path = "/lib/a", .bytes = kBytes}}).value();
  Config config;
  config.policy = &policy;
  config.image = image;
  config.quota = {.bytes = 100'000, .files = 20};
  config.stdin_text = "input";
  config.world = {.broker = &broker, .device = [](std::string_view request) { return std::string(request); }};
  return config;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Directories directories;
  directories.renew();
  policy::Policy policy;
  policy.fs.push_back(
      {.guest = "/w", .host = (directories.root / "inside").string(), .mode = policy::FsMode::kWrite});
  policy.fs[0].max_total_bytes = 1 << 20;
  policy::Budget budget;
  host::LocalBroker local(policy, budget, nullptr, nullptr);
  FuzzGuest guest;
  auto system = System::create(config_for(policy, local)).value();

  Input input(data, size);
  for (int calls = 0; calls < 64 && !input.is_empty(); ++calls) {
    const uint8_t what = input.next();
    if (what == 0xFF) {
      system = System::thaw(system->freeze().value(), config_for(policy, local)).value();
      continue;
    }
    if (what == 0xFE) {
      system = system->fork({.policy = &policy, .world = {.broker = &local}}).value();
      continue;
    }
    const Function& function = functions()[what % functions().size()];
    std::vector<uint64_t> results(function.type.results.size());
    system->call(function, guest, arguments_of(function, input), results);
    const auto memory = guest.memory();
    const std::string_view seen(reinterpret_cast<const char*>(memory.data()), memory.size());
    check(seen.find(kSecret) == std::string_view::npos);
  }
  check_files(*system);
  check(directories.is_outside_untouched());
  return 0;
}
