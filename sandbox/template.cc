#include "sandbox/template.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/file_mapping.h"
#include "base/private_file.h"
#include "base/sha256.h"
#include "engine/fuel.h"
#include "engine/image_file.h"
#include "host/local_broker.h"
#include "lang/guest_files.h"
#include "sandbox/body.h"
#include "sandbox/interpreters.h"
#include "sandbox/language_limits.h"
#include "wasm/binary.h"

namespace membrane::sandbox {
namespace {

namespace fs = std::filesystem;

// Where a language finds Membrane's own part of it.
constexpr std::string_view kGuestDirectory = "/usr/local/lib/membrane/";
std::string_view guest_language(lang::Driver driver) {
  switch (driver) {
    case lang::Driver::kPython: return "python";
    case lang::Driver::kQuickJs: return "javascript";
    case lang::Driver::kStdin: return "";
  }
  return "";
}

Result<std::shared_ptr<const FileMapping>> map_file(const std::string& path) {
  const OpenedFile file(path);
  if (!file.usable())
    return fail(ErrorCode::kUnavailable, "cannot open " + path + ": " + std::strerror(errno),
                "Install the language again: tools/get-languages");
  return std::make_shared<const FileMapping>(file.number(), 0, file.bytes());
}

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Status check_hash(const lang::PackageFile& file) {
  if (file.sha256.empty()) return {};
  MEMBRANE_ASSIGN(const auto mapped, map_file(file.path));
  MEMBRANE_ASSIGN(const std::string found, sha256_hex({text_of(mapped->bytes())}));
  if (found != file.sha256)
    return fail(ErrorCode::kInvalidInput,
                file.path + " is not the file that the language needs: its SHA-256 is " + found,
                "Install the language again: tools/get-languages");
  return {};
}

// What is beyond kMostBytes, of all images in the directory, goes: what was not used for longest.
void make_room(const std::string& directory, const std::string& for_file) {
  constexpr uint64_t kMostBytes = 3ull << 30;
  struct Kept {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Kept> files;
  uint64_t bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() != ".image") continue;
    const uint64_t size = entry.file_size(error);
    if (error) continue;
    bytes += size;
    if (entry.path() != for_file) files.push_back({entry.last_write_time(error), size, entry.path()});
  }
  std::ranges::sort(files, {}, &Kept::used);
  for (const Kept& file : files) {
    if (bytes <= kMostBytes) return;
    if (fs::remove(file.path, error)) bytes -= file.bytes;
  }
}

Status make_private_directory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(fs::path(directory).parent_path(), error);
  struct stat status{};
  if ((mkdir(directory.c_str(), S_IRWXU) != 0 && errno != EEXIST) || stat(directory.c_str(), &status) != 0)
    return fail(ErrorCode::kUnavailable, "cannot make " + directory + ": " + std::strerror(errno),
                "Give a directory of your own, on a disk with room.");
  if (!is_private(status))
    return fail(ErrorCode::kInvalidArgument, directory + " is somebody else's, or others may write to it",
                "Give a directory of your own, and: chmod go-w " + directory);
  return {};
}

}  // namespace

std::unique_ptr<Interpreter> Interpreter::of(lang::Driver driver) {
  switch (driver) {
    case lang::Driver::kPython: return make_python();
    case lang::Driver::kQuickJs: return make_quickjs();
    case lang::Driver::kStdin: return nullptr;
  }
  return nullptr;
}

// By what its files are said to be and by what of them can be seen without reading them: a file that was replaced
// by another has another size or time.
Result<std::string> Template::key() const {
  std::string text = lang::to_json(package_);
  const auto add = [&text](const std::string& path) -> Status {
    struct stat status{};
    if (stat(path.c_str(), &status) != 0)
      return fail(ErrorCode::kNotFound, "cannot find " + path,
                  "Install the language again: tools/get-languages");
    text += path + " " + std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
            std::to_string(status.st_mtim.tv_nsec) + " " + std::to_string(status.st_ino) + "\n";
    return {};
  };
  MEMBRANE_TRY(add(package_.module.path));
  for (const lang::PackageFile& file : package_.files) MEMBRANE_TRY(add(file.path));
  text += build_id();
  const XXH128_hash_t hash =
      XXH3_128bits(text.data(), text.size());  // the directory is private: nobody forges it
  char name[33];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return std::string(name);
}

Status Template::make_files() {
  std::vector<wasi::Layer> layers;
  for (const lang::PackageFile& file : package_.files) {
    MEMBRANE_ASSIGN(const auto mapped, map_file(file.path));
    layers.push_back({.path = file.guest, .bytes = mapped->bytes(), .keep = mapped});
  }
  for (const lang::GuestFile& file : lang::guest_files())
    if (file.language == guest_language(package_.driver))
      layers.push_back({.path = std::string(kGuestDirectory) + std::string(file.path), .bytes = file.bytes});
  layers.push_back({.path = "/home", .kind = wasi::Layer::Kind::kDirectory});
  MEMBRANE_ASSIGN(files_, wasi::Image::make(layers));
  return {};
}

Result<std::shared_ptr<const Template>> Template::open(lang::Package package,
                                                       const TemplateOptions& options) {
  const std::shared_ptr<Template> made(new Template);
  made->package_ = std::move(package);
  made->interpreter_ = Interpreter::of(made->package_.driver);
  if (made->interpreter_ == nullptr)
    return fail(ErrorCode::kUnsupported, "the driver of " + made->package_.name + " has no sessions", "");
  MEMBRANE_TRY(made->make_files());
  MEMBRANE_ASSIGN(const std::string key, made->key());
  const std::string path = options.cache_directory + "/" + made->package_.name + "-" + key + ".image";
  auto loaded = engine::load_image_file(path, options.tier);
  if (!loaded) {
    MEMBRANE_TRY(make_private_directory(options.cache_directory));
    MEMBRANE_TRY(made->warm(options));
    if (options.on_progress) options.on_progress("keeping the warm image");
    const auto written = engine::write_image_file(path, *made->image_, made->interpreter_->state());
    if (!written) return made;  // warm all the same, in this process
    make_room(options.cache_directory, path);
    made->image_.reset();
    loaded = engine::load_image_file(path, options.tier);
    if (!loaded) return std::unexpected(std::move(loaded).error());
  }
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // used now
  made->image_ = std::move(loaded->image);
  made->interpreter_->set_state(loaded->embedder);
  return made;
}

Status Template::warm(const TemplateOptions& options) {
  const auto say = [&](const std::string& step) {
    if (options.on_progress) options.on_progress(step);
  };
  say("checking " + package_.name);
  MEMBRANE_TRY(check_hash(package_.module));
  for (const lang::PackageFile& file : package_.files) MEMBRANE_TRY(check_hash(file));
  MEMBRANE_ASSIGN(const auto binary, map_file(package_.module.path));
  say("compiling " + package_.name + " (" + std::to_string(binary->bytes().size() >> 20) + " MiB)");
  auto module = wasm::decode(binary->bytes());
  if (!module)
    return fail(ErrorCode::kInvalidInput, package_.module.path + ": " + module.error().message, "");
  const engine::Tier tier = options.tier == engine::Tier::kAuto ? engine::Tier::kCompiler : options.tier;
  auto compiled = engine::CompiledModule::compile(std::move(*module), {}, tier);
  if (!compiled)
    return fail(ErrorCode::kInvalidInput, package_.module.path + ": " + compiled.error().message, "");

  say("starting " + package_.name);
  const policy::Policy nothing;  // granted
  policy::Budget budget;
  host::LocalBroker world(nothing, budget, nullptr, nullptr);
  host::BrokerGate gate = host::BrokerGate::to_world(world, nullptr, nullptr);
  Conversation said;
  said.output_limit_bytes = 1u << 20;
  Body* body_of_device = nullptr;
  wasi::Config config = wasi_config(*this, nothing);
  config.world = {.broker = &gate,
                  .device = [&](std::string_view request) { return body_of_device->answer(request); }};
  MEMBRANE_ASSIGN(auto system, wasi::System::create(std::move(config)));
  Body body(
      {.said = &said, .gate = &gate, .session = nullptr, .interpreter = interpreter_.get(), .must_stop = {}},
      std::move(system));
  body_of_device = &body;
  MEMBRANE_TRY(body.begin(std::move(*compiled), {}));
  body.start_run(language_execution_limits({}), UINT64_MAX / 4);
  MEMBRANE_ASSIGN(const bool is_warm, interpreter_->warm(body, package_));
  if (!is_warm || !body.system().written_files().empty())
    return fail(
        ErrorCode::kUnsupported,
        package_.name + " could not be started: " +
            (!body.stop().message.empty()        ? body.stop().message
             : !body.stop().trap.message.empty() ? body.stop().trap.message
             : said.stderr_text.empty()          ? "it ended"
                                                 : said.stderr_text),
        "Is the module one that the driver \"" + std::string(lang::name_of(package_.driver)) + "\" is for?");
  MEMBRANE_ASSIGN(image_, engine::InstanceImage::capture(body.instance()));
  return {};
}

}  // namespace membrane::sandbox
