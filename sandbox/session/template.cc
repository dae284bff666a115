#include "sandbox/session/template.h"

#define XXH_INLINE_ALL
#include <sys/stat.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/build_id.h"
#include "base/file_mapping.h"
#include "base/hex.h"
#include "base/number_reader.h"
#include "base/private_file.h"
#include "base/sealed_file.h"
#include "base/sha256.h"
#include "engine/code/fuel.h"
#include "engine/execution/module.h"
#include "engine/freeze/image_file.h"
#include "host/world/local_broker.h"
#include "lang/guest_files.h"
#include "sandbox/interpreters/interpreters.h"
#include "sandbox/session/body.h"
#include "sandbox/session/language_limits.h"
#include "sandbox/session/session.h"
#include "wasm/binary.h"

namespace membrane::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInstallAgain = "Install the language again: see docs/languages.md.";
// What CPython reports as sys.executable. There are no processes, so the file is empty; but libraries look at it.
constexpr const char* kPythonExecutable = "/usr/local/bin/python.wasm";

// Where a language finds Membrane's own files for it.
constexpr std::string_view kGuestDirectory = "/usr/local/lib/membrane/";

Result<std::shared_ptr<const FileMapping>> map_file(const std::string& path) {
  const OpenedFile file(path);
  if (!file.usable())
    return fail(ErrorCode::kUnavailable, "cannot open " + path + ": " + std::strerror(errno), kInstallAgain);
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
                kInstallAgain);
  return {};
}

// The directory of warm images, created if it does not exist. Images hold machine code, so anyone who can write to
// the directory can run code as this user.
Status use_directory(const std::string& directory) {
  struct stat status{};
  if (stat(directory.c_str(), &status) != 0 && !make_directory(directory))
    return refused_by_system("make", directory);
  return check_private_directory(directory, "a warm image");
}

// Identifies the files by what is known without reading them: a file that was written to, or replaced, has another
// time of change.
Result<std::string> key_of(lang::Package package, const std::vector<std::string>& modules) {
  package.warm.clear();  // other images are in other files
  std::string text = lang::to_json(package);
  for (const std::string& module : modules) text += module + "\n";
  const auto add = [&text](const std::string& path) -> Status {
    struct stat status{};
    if (stat(path.c_str(), &status) != 0)
      return fail(ErrorCode::kNotFound, "cannot find " + path, kInstallAgain);
    text += path + " " + std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
            std::to_string(status.st_mtim.tv_nsec) + " " + std::to_string(status.st_ctim.tv_sec) + "." +
            std::to_string(status.st_ctim.tv_nsec) + " " + std::to_string(status.st_ino) + "\n";
    return {};
  };
  MEMBRANE_TRY(add(package.module.path));
  for (const lang::PackageFile& file : package.files) MEMBRANE_TRY(add(file.path));
  text += kBuildId;
  XXH128_canonical_t hash;  // the directory is private: no forgeries
  XXH128_canonicalFromHash(&hash, XXH3_128bits(text.data(), text.size()));
  return hex_of(hash.digest);
}

constexpr uint64_t kLargeModuleBytes = 8u << 20;

void say(const TemplateOptions& options, const std::string& step) {
  if (options.on_progress) options.on_progress(step);
}

constexpr size_t kKeyDigits = 2 * sizeof(XXH128_canonical_t);
constexpr std::string_view kImageEnding = ".image";
// A program that is started for each turn, and has not read its input after this much fuel, starts from the
// beginning in each turn.
constexpr uint64_t kMostFuelToFirstRead = 2'000'000'000;
constexpr uint64_t kMostImageBytes = 3ull << 30;  // for all images in the directory

}  // namespace

Result<std::string> Template::image_file(const lang::Package& package, const std::string& cache_directory,
                                         const std::vector<std::string>& modules) {
  MEMBRANE_ASSIGN(const std::string key, key_of(package, modules));
  return cache_directory + "/" + package.name + "-" + key + std::string(kImageEnding);
}

size_t Template::forget_images(std::string_view name, const std::string& cache_directory) {
  size_t removed = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(cache_directory, error)) {
    const std::string file = entry.path().filename().string();
    if (file.size() == name.size() + 1 + kKeyDigits + kImageEnding.size() && file.starts_with(name) &&
        file[name.size()] == '-' && file.ends_with(kImageEnding) && fs::remove(entry.path(), error)) {
      ++removed;
      fs::remove(seal_path_of(entry.path()), error);
    }
  }
  return removed;
}

std::unique_ptr<Interpreter> Interpreter::of(const lang::Package& package) {
  switch (package.driver) {
    case lang::Driver::kPython: return make_python();
    case lang::Driver::kQuickJs: return make_quickjs();
    case lang::Driver::kStdin: return make_stdin(package);
  }
  return nullptr;
}

Status Template::make_files() {
  std::vector<wasi::Layer> layers;
  if (package_.driver == lang::Driver::kPython) layers.push_back({.path = kPythonExecutable});
  for (const lang::PackageFile& file : package_.files) {
    MEMBRANE_ASSIGN(const auto mapped, map_file(file.path));
    layers.push_back({.path = file.guest, .bytes = mapped->bytes(), .keep = mapped});
  }
  // JavaScript has its own part in the memory image, and not in files.
  for (const lang::GuestFile& file : lang::guest_files())
    if (package_.driver == lang::Driver::kPython && file.language == "python")
      layers.push_back({.path = std::string(kGuestDirectory) + std::string(file.path), .bytes = file.bytes});
  layers.push_back({.path = "/home", .kind = wasi::Layer::Kind::kDirectory});
  if (package_.driver == lang::Driver::kQuickJs)
    layers.push_back(
        {.path = "/tmp", .kind = wasi::Layer::Kind::kDirectory});  // the path that os.tmpdir() returns
  layers.insert(layers.end(), made_files_.begin(), made_files_.end());
  MEMBRANE_ASSIGN(files_, wasi::Image::make(layers));
  if (!files_digest_.empty()) files_->know_digest(files_digest_);
  return {};
}

// A small module is ready at once, without waiting.
void Template::announce(const TemplateOptions& options) const {
  std::error_code error;
  const uint64_t bytes = fs::file_size(package_.module.path, error);
  if (options.on_wait && !error && bytes >= kLargeModuleBytes)
    options.on_wait("making " + package_.name + " ready" +
                    (modules_.empty() ? "" : " with " + modules_.front() + " and the other code to preload") +
                    ", once; this takes some seconds");
}

Template::Template(lang::Package package, std::vector<std::string> modules)
    : package_(std::move(package)), modules_(std::move(modules)), interpreter_(Interpreter::of(package_)) {}

Result<std::shared_ptr<const Template>> Template::open(lang::Package package, const TemplateOptions& options,
                                                       std::vector<std::string> modules) {
  const std::shared_ptr<Template> made(new Template(std::move(package), std::move(modules)));
  MEMBRANE_ASSIGN(const std::string path,
                  image_file(made->package_, options.cache_directory, made->modules_));
  MEMBRANE_TRY(use_directory(options.cache_directory));
  made->spec_ = {made->package_.directory, made->modules_, options.cache_directory, options.tier, {}, {}, {}};
  auto loaded = made->load(path, options.tier);
  if (!loaded && options.only_finds)
    return fail(ErrorCode::kNotFound, "there is no warm image of " + made->package_.name);
  if (!loaded) {
    if (loaded.error().code == ErrorCode::kInvalidInput && options.on_problem)
      options.on_problem("the warm image " + path + " is damaged; Membrane builds a new one");
    made->announce(options);
    made->files_digest_.clear();  // from a file that was refused
    MEMBRANE_TRY(made->warm(options));
    MEMBRANE_TRY(made->make_files());
    rehearse(made);
    say(options, "saving the warm image");
    made->files_digest_ = made->files_->digest().value_or("");
    const auto written =
        engine::write_image_file(path, *made->image_, made->kept(), made->kept_bytes_of_files());
    if (!written) return made;  // it is still warm, in this process
    make_room(options.cache_directory, kImageEnding, kMostImageBytes, path);
    made->image_.reset();
    made->waiting_.reset();
    loaded = made->load(path, options.tier);
    if (!loaded) return std::unexpected(std::move(loaded).error());
  }
  MEMBRANE_TRY(made->make_files());
  touch_seal(path);
  return made;
}

Result<std::shared_ptr<const Template>> Template::over(std::shared_ptr<const Template> below,
                                                       const std::vector<wasi::Layer>& layers,
                                                       std::string imports, std::string layers_are,
                                                       std::string layer_path) {
  if (below->waiting_ != nullptr)
    return fail(ErrorCode::kUnsupported,
                below->package_.name + " takes no more files: it holds its own where it waits",
                "Give it the files when it is added: membrane languages add --file.");
  std::shared_ptr<Template> made(new Template(*below));
  MEMBRANE_ASSIGN(made->files_, below->files_->with(layers));
  made->imports_ = imports;
  made->spec_.layer_path = std::move(layer_path);
  made->spec_.layer_key = std::move(layers_are);
  made->spec_.imports = std::move(imports);
  return made;
}

void Template::hold_image(std::shared_ptr<const engine::InstanceImage> image) {
  image_ = std::move(image);
  known_places_ = std::make_shared<engine::KnownPlaces>(image_->module());
}

// Errors: those of InstanceImage::capture().
Status Template::capture(engine::Instance& instance) {
  MEMBRANE_ASSIGN(auto image, engine::InstanceImage::capture(instance));
  hold_image(std::move(image));
  return {};
}

// Takes the contents of the file. Errors: those of engine::load_image_file().
Status Template::load(const std::string& path, engine::Tier tier) {
  MEMBRANE_ASSIGN(auto loaded, engine::load_image_file(path, tier));
  hold_image(std::move(loaded.image));
  return take_kept(loaded.embedder, loaded.attachment);
}

// Runs a trial session: afterwards the pages that a turn changes are known, and stored with the image.
void Template::rehearse(const std::shared_ptr<const Template>& made) {
  if (!made->interpreter_->asks() || made->interpreter_->reads())
    return;  // an empty turn may not be possible there
  const auto session = Session::create(made, {});
  if (session) static_cast<void>((*session)->exec({.code = "0"}));
}

// The data stored with the image: the interpreter's state, the digest of all files, which takes some time to
// compute, the files that were created, then the state of the waiting program.
std::vector<uint8_t> Template::kept() const {
  std::vector<uint8_t> out;
  const auto number = [&out](uint64_t n) {
    for (size_t i = 0; i < sizeof n; ++i) out.push_back(static_cast<uint8_t>(n >> (8 * i)));
  };
  const auto bytes = [&](std::span<const uint8_t> all) {
    number(all.size());
    out.insert(out.end(), all.begin(), all.end());
  };
  bytes(interpreter_->state());
  bytes({reinterpret_cast<const uint8_t*>(files_digest_.data()), files_digest_.size()});
  number(made_files_.size());
  for (const wasi::Layer& file : made_files_) {
    bytes({reinterpret_cast<const uint8_t*>(file.path.data()), file.path.size()});
    number(file.kind == wasi::Layer::Kind::kDirectory);
    number(file.bytes.size());
  }
  number(waiting_ != nullptr);
  if (waiting_ == nullptr) return out;
  bytes(waiting_->frames);
  number(waiting_->heap_next);
  bytes(system_);
  return out;
}

Result<engine::ImageIdentity> Template::identity() const {
  MEMBRANE_ASSIGN(const engine::ImageIdentity image, image_->identity());
  std::vector<uint8_t> all = kept();
  for (const std::string& text : {package_.name, imports_}) {
    all.insert(all.end(), text.begin(), text.end());
    all.push_back(0);
  }
  const auto* const at = reinterpret_cast<const uint8_t*>(&image);
  all.insert(all.end(), at, at + sizeof image);
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  return engine::ImageIdentity{hash.low64, hash.high64};
}

// Concatenated, in the order of kept().
std::vector<uint8_t> Template::kept_bytes_of_files() const {
  std::vector<uint8_t> out;
  for (const wasi::Layer& file : made_files_) out.insert(out.end(), file.bytes.begin(), file.bytes.end());
  return out;
}

Status Template::take_kept(std::span<const uint8_t> all, const std::shared_ptr<const FileMapping>& files) {
  NumberReader in(all);
  NumberReader contents(files == nullptr ? std::span<const uint8_t>() : files->bytes());
  const auto bytes = [&in] { return in.take(in.number<uint64_t>()); };
  interpreter_->set_state(bytes());
  files_digest_ = text_of(bytes());
  made_files_.clear();
  for (auto left = in.number<uint64_t>(); left != 0 && in.ok(); --left) {
    const std::span<const uint8_t> path = bytes();
    const bool is_directory = in.number<uint64_t>() != 0;
    const auto kind = is_directory ? wasi::Layer::Kind::kDirectory : wasi::Layer::Kind::kFile;
    made_files_.push_back({.path = std::string(text_of(path)),
                           .kind = kind,
                           .bytes = contents.take(in.number<uint64_t>()),
                           .keep = files});
  }
  if (in.number<uint64_t>() != 0) {
    const auto frames = bytes();
    const auto heap_next = in.number<uint64_t>();
    const auto system = bytes();
    waiting_ =
        std::make_shared<const Waiting>(Waiting{{frames.begin(), frames.end()}, heap_next, known_places_});
    system_.assign(system.begin(), system.end());
  }
  if (!in.ok() || !in.left().empty() || !contents.ok() ||
      (!interpreter_->restarts() && (waiting_ != nullptr) != interpreter_->reads()))
    return fail(ErrorCode::kInvalidInput, "the warm image of " + package_.name + " is damaged",
                "Remove it: it is rebuilt when it is needed.");
  return {};
}

Result<std::unique_ptr<wasi::System>> Template::new_system(const policy::Policy& policy, wasi::World world,
                                                           std::optional<RandomStream::Key> key) const {
  wasi::Config config = wasi_config(*this, policy);
  config.random_key = key;
  if (waiting_ == nullptr || interpreter_->restarts()) {
    config.world = std::move(world);
    return wasi::System::create(std::move(config));
  }
  config.policy = nullptr;  // nothing was granted during warming
  MEMBRANE_ASSIGN(const auto warm, wasi::System::thaw(system_, std::move(config)));
  if (key) warm->reseed(*key);
  return warm->fork(
      {.fork_number = policy.random.seed, .stdin_waits = true, .policy = &policy, .world = std::move(world)});
}

namespace {

// An interpreter that runs before there are sessions, without grants.
class WarmRun {
 public:
  static Result<std::unique_ptr<WarmRun>> make(const Template& of, bool stdin_waits) {
    std::unique_ptr<WarmRun> run(new WarmRun);
    wasi::Config config = wasi_config(of, run->nothing_);
    config.stdin_waits = stdin_waits;
    config.world = {.broker = &run->gate_, .device = [run = run.get()](std::string_view request) {
                      return run->body_->answer(request);
                    }};
    MEMBRANE_ASSIGN(auto system, wasi::System::create(std::move(config)));
    run->body_.emplace(Body::Surroundings{.output = &run->output_,
                                          .broker = &run->gate_,
                                          .session = nullptr,
                                          .interpreter = &of.interpreter(),
                                          .must_stop = {},
                                          .give_input = {}},
                       std::move(system));
    return run;
  }

  Body& body() { return *body_; }
  // Why it did not finish: the first known of the host's reason, the trap, and the output.
  [[nodiscard]] std::string reason() const {
    const Stop& stop = body_->stop();
    return !stop.message.empty()         ? stop.message
           : !stop.trap.message.empty()  ? stop.trap.message
           : output_.stderr_text.empty() ? "it ended"
                                         : output_.stderr_text;
  }

 private:
  WarmRun() { output_.output_limit_bytes = 1u << 20; }

  const policy::Policy nothing_;
  policy::Budget budget_;
  host::LocalBroker world_{nothing_, budget_, nullptr, nullptr};
  host::BrokerGate gate_ = host::BrokerGate::to_world(world_, nullptr, nullptr);
  Conversation output_;
  std::optional<Body> body_;
};

constexpr uint64_t kEndlessFuel = UINT64_MAX / 4;

}  // namespace

Result<std::shared_ptr<engine::CompiledModule>> Template::compile(const TemplateOptions& options) const {
  say(options, "checking " + package_.name);
  MEMBRANE_TRY(check_hash(package_.module));
  for (const lang::PackageFile& file : package_.files) MEMBRANE_TRY(check_hash(file));
  MEMBRANE_ASSIGN(const auto binary, map_file(package_.module.path));
  say(options, "compiling " + package_.name + " (" + std::to_string(binary->bytes().size() >> 20) + " MiB)");
  auto module = wasm::decode(binary->bytes());
  if (!module)
    return fail(ErrorCode::kInvalidInput, package_.module.path + ": " + module.error().message, "");
  const engine::Tier tier = options.tier == engine::Tier::kAuto ? engine::Tier::kCompiler : options.tier;
  auto compiled = engine::compile_module(std::move(*module), {}, tier);
  if (!compiled)
    return fail(ErrorCode::kInvalidInput, package_.module.path + ": " + compiled.error().message, "");
  return std::move(*compiled);
}

Status Template::warm(const TemplateOptions& options) {
  if (!modules_.empty()) return warm_from_plain(options);
  MEMBRANE_ASSIGN(auto compiled, compile(options));
  say(options, "starting " + package_.name);
  MEMBRANE_TRY(make_files());
  const bool reads = interpreter_->reads(), restarts = interpreter_->restarts();
  MEMBRANE_ASSIGN(const auto run, WarmRun::make(*this, reads || restarts));
  Body& body = run->body();
  MEMBRANE_TRY(body.begin(std::move(compiled), {}));
  body.start_run(language_execution_limits(policy::language_limits()),
                 restarts ? kMostFuelToFirstRead : kEndlessFuel);
  MEMBRANE_ASSIGN(const bool is_warm, interpreter_->warm(body, package_));
  if (restarts) return keep_start(body, is_warm);
  if (!is_warm)
    return fail(
        ErrorCode::kUnsupported, package_.name + " could not be started: " + run->reason(),
        reads && body.has_ended()
            ? "It did not wait for more input. A program that reads its input to the end, or none, is added "
              "with --frame eof."
            : "Is the module one that the driver \"" + std::string(lang::name_of(package_.driver)) +
                  "\" is for?");
  MEMBRANE_TRY(capture(body.instance()));
  waiting_ = body.waiting();
  if (waiting_ == nullptr) return keep_files(body.system());
  MEMBRANE_ASSIGN(system_, body.system().freeze());  // with its files
  return {};
}

// Starts from the plain image: its module is compiled already, and its interpreter started.
Status Template::warm_from_plain(const TemplateOptions& options) {
  MEMBRANE_ASSIGN(const auto plain, open(package_, options));
  say(options, "importing " + modules_.front() + (modules_.size() == 1 ? "" : " and others"));
  interpreter_->set_state(plain->interpreter().state());
  made_files_ = plain->made_files_;
  MEMBRANE_TRY(make_files());
  MEMBRANE_ASSIGN(const auto run, WarmRun::make(*this, false));
  Body& body = run->body();
  MEMBRANE_TRY(body.begin(plain->image(), {}, nullptr));
  body.start_run(language_execution_limits(policy::language_limits()), kEndlessFuel);
  MEMBRANE_ASSIGN(const bool is_warm, interpreter_->import_modules(body, modules_));
  if (!is_warm)
    return fail(ErrorCode::kUnsupported,
                "a warm image of " + package_.name + " could not be made: " + run->reason(),
                "Leave the module out: membrane languages add " + package_.name + " --warm LIST.");
  MEMBRANE_TRY(capture(body.instance()));
  return keep_files(body.system());
}

// Files created during warming are available to each session.
Status Template::keep_files(const wasi::System& system) {
  for (const wasi::FileEntry& entry : system.written_files()) {
    if (entry.type == wasi::FileType::kDirectory) {
      made_files_.push_back({.path = entry.path, .kind = wasi::Layer::Kind::kDirectory});
      continue;
    }
    auto read = entry.type == wasi::FileType::kRegularFile
                    ? system.read_file(entry.path)
                    : host::refuse(host::Errno::kUnsupported, "it is not a regular file");
    if (!read)
      return fail(ErrorCode::kUnsupported,
                  package_.name + " made " + entry.path +
                      ", which cannot be stored with its warm image: " + read.error().reason,
                  "Leave out the code that creates it.");
    const auto bytes = std::make_shared<const std::string>(*std::move(read));
    made_files_.push_back({.path = entry.path,
                           .bytes = {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()},
                           .keep = bytes});
  }
  return {};
}

// For a program that is started for each turn: the state at its first read of input, if nothing that it did before
// could differ in a turn; else its module, before it runs.
Status Template::keep_start(Body& body, bool is_waiting) {
  if (is_waiting && !body.met_the_world()) {
    waiting_ = body.waiting();
    MEMBRANE_TRY(capture(body.instance()));
    return {};
  }
  MEMBRANE_ASSIGN(const auto fresh, WarmRun::make(*this, false));
  MEMBRANE_TRY(fresh->body().begin(body.instance().share_compiled(), {}));
  MEMBRANE_TRY(capture(fresh->body().instance()));
  return {};
}

}  // namespace membrane::sandbox
