#include "wasi/system.h"

#include <algorithm>

#include "host/random_fork.h"
#include "wasi/frozen.h"
#include "wasi/host_files.h"
#include "wasi/state.h"

namespace membrane::wasi {
namespace {

void open_standard(Descriptors& descriptors) {
  constexpr Rights kIn =
      right::kFdRead | right::kFdFdstatSetFlags | right::kFdFilestatGet | right::kPollFdReadwrite;
  constexpr Rights kOut =
      right::kFdWrite | right::kFdFdstatSetFlags | right::kFdFilestatGet | right::kPollFdReadwrite;
  descriptors.put(0, {.is = Standard::kIn, .rights = kIn});
  descriptors.put(1, {.is = Standard::kOut, .rights = kOut});
  descriptors.put(2, {.is = Standard::kErr, .rights = kOut});
  descriptors.put(3, {.is = OpenDirectory{{FileTree::kRoot, {}}, nullptr},
                      .rights = kDirectoryRights,
                      .inheriting = kAllRights,
                      .is_preopened = true});
}

std::unexpected<Error> bad_text(std::string what) {
  return membrane::fail(ErrorCode::kInvalidArgument, std::move(what) + " contains a NUL character.",
                        "remove it: programs read strings up to the first NUL");
}

bool has_nul(const std::string& text) { return text.find('\0') != std::string_view::npos; }

Status set_texts(State& state, const Config& config) {
  for (const std::string& argument : config.arguments)
    if (has_nul(argument)) return bad_text("An argument");
  for (const auto& [name, value] : config.environment) {
    if (has_nul(name) || has_nul(value)) return bad_text("The environment variable");
    if (name.empty() || name.find('=') != std::string_view::npos)
      return membrane::fail(ErrorCode::kInvalidArgument,
                            "An environment variable has no name, or one with \"=\".");
    state.environment.push_back(name + "=" + value);
  }
  state.arguments = config.arguments;
  return {};
}

void set_grants(State& state, const policy::Policy* policy) {
  state.grants = {};
  if (policy == nullptr) return;
  state.grants.fs = policy->fs;
  state.grants.time = policy->time;
  state.grants.random = policy->random;
}

void close_host_files(State& state) {
  for (auto& [number, descriptor] : state.descriptors.all())
    if (auto* file = std::get_if<OpenHostFile>(&descriptor.is)) host_files::close(state, *file);
}

}  // namespace

uint64_t State::start_ns() const {
  constexpr uint64_t kNsPerMs = 1'000'000, kMostMs = UINT64_MAX / 2 / kNsPerMs;
  const int64_t start_ms = std::max<int64_t>(grants.time.start_ms, 0);
  return std::min(static_cast<uint64_t>(start_ms), kMostMs) * kNsPerMs;
}

void State::note(host::CallRecord record) {
  if (records.size() == host::Dispatcher::kMaxRecords ||
      record_bytes + record.text_bytes() > host::Dispatcher::kMaxRecordBytes)
    return;
  record_bytes += record.text_bytes();
  records.push_back(std::move(record));
}

uint64_t State::file_time_ns() const {
  return grants.time.real && real_now_ns != 0 ? real_now_ns : start_ns() + clock.passed_ns();
}

std::optional<uint64_t> State::read_real_clock() {
  if (world.broker == nullptr) return std::nullopt;
  const auto now = world.broker->clock_ns();
  if (!now || *now < 0) return std::nullopt;
  real_now_ns = static_cast<uint64_t>(*now) + skipped_ns;
  // A monotonic clock that was virtual before the session was saved continues from there.
  if (real_start_ns == 0)
    real_start_ns = std::max<uint64_t>(real_now_ns - std::min(real_now_ns, clock.passed_ns()), 1);
  // The system's clock may be set back; a program's monotonic clock never goes back.
  real_monotonic_ns = std::max(real_monotonic_ns, real_now_ns - std::min(real_now_ns, real_start_ns));
  return real_now_ns;
}

System::System(std::unique_ptr<State> state) : state_(std::move(state)) {}
System::~System() {
  if (state_ != nullptr) close_host_files(*state_);
}

Result<std::unique_ptr<System>> System::create(Config config) {
  if (config.image == nullptr) config.image = Image::empty();
  const uint64_t seed = config.policy == nullptr ? 0 : config.policy->random.seed;
  const RandomStream::Key key = config.random_key.value_or(RandomStream::key_of(seed));
  auto state =
      std::make_unique<State>(std::make_unique<FileTree>(config.image, config.quota), RandomStream(key));
  MEMBRANE_TRY(set_texts(*state, config));
  set_grants(*state, config.policy);
  state->stdin_text = std::move(config.stdin_text);
  state->stdin_waits = config.stdin_waits;
  state->world = std::move(config.world);
  MEMBRANE_TRY(host_files::mount_grants(*state));
  open_standard(state->descriptors);
  return std::unique_ptr<System>(new System(std::move(state)));
}

uint64_t System::skipped_ns() const { return state_->skipped_ns; }

void System::skip(uint64_t ns) {
  state_->skipped_ns = std::min(ns, State::kMostSkippedNs);
  if (state_->real_start_ns != 0) state_->real_start_ns += state_->skipped_ns;
}

void System::reseed(const RandomStream::Key& seed) {
  state_->random = RandomStream(host::key_of_both(state_->random, seed));
}

Result<std::unique_ptr<System>> System::fork(const ForkConfig& config) const {
  const RandomStream stream(host::key_of_fork(state_->random.key(), config.fork_number));
  auto fork = std::make_unique<State>(state_->files->fork(), stream);
  fork->arguments = state_->arguments;
  fork->environment = state_->environment;
  set_grants(*fork, config.policy);
  fork->world = config.world;
  MEMBRANE_TRY(host_files::mount_grants(*fork));
  fork->stdin_waits = config.stdin_waits;
  fork->clock = state_->clock;
  fork->real_start_ns = state_->real_start_ns;
  fork->real_monotonic_ns = state_->real_monotonic_ns;
  fork->real_now_ns = state_->real_now_ns;
  fork->skipped_ns = state_->skipped_ns;
  if (config.starts_program) {
    if (std::ranges::any_of(config.arguments, has_nul)) return bad_text("An argument");
    fork->arguments = config.arguments;
    fork->stdin_text = config.stdin_text.value_or("");
    open_standard(fork->descriptors);
    for (const auto& [number, descriptor] :
         state_->descriptors.all())  // files that only the previous run had open
      release_if_unused(*fork, descriptor.inode());
    return std::unique_ptr<System>(new System(std::move(fork)));
  }
  fork->descriptors = state_->descriptors.by_name();
  fork->stdin_text = config.stdin_text ? *config.stdin_text : state_->stdin_text.substr(state_->stdin_at);
  fork->out = state_->out;
  fork->err = state_->err;
  fork->exit_code = state_->exit_code;
  return std::unique_ptr<System>(new System(std::move(fork)));
}

Result<std::vector<uint8_t>> System::freeze() const { return write_frozen(*state_); }

Result<std::unique_ptr<System>> System::thaw(std::span<const uint8_t> bytes, Config config) {
  if (config.image == nullptr) config.image = Image::empty();
  MEMBRANE_ASSIGN(auto state, read_frozen(bytes, config.image, config.quota));
  set_grants(*state, config.policy);
  state->world = std::move(config.world);
  MEMBRANE_TRY(host_files::mount_grants(*state));
  return std::unique_ptr<System>(new System(std::move(state)));
}

// -- stdio ------------------------------------------------------------------------------

void System::give_stdin(std::string_view bytes) {
  state_->stdin_text.erase(0, state_->stdin_at);
  state_->stdin_at = 0;
  state_->stdin_text += bytes;
}

void System::open_stdin() { state_->stdin_waits = true; }

void System::drop_stdin() {
  state_->stdin_text.clear();
  state_->stdin_at = 0;
  state_->stdin_waits = false;
}

void System::close_stdin() { state_->stdin_waits = false; }

bool System::stdin_is_waiting() const {
  return state_->stdin_waits && state_->stdin_at == state_->stdin_text.size();
}

void System::finish(host::Guest& guest) {
  // Text that does not fit is cut, like all output.
  (void)write_text(*state_, guest, host::Stream::kStdout, {}, state_->out.finish());
  (void)write_text(*state_, guest, host::Stream::kStderr, {}, state_->err.finish());
  close_host_files(*state_);
}

// -- inspection ----------------------------------------------------------------------------

bool System::is_output(uint32_t descriptor) const {
  const Descriptor* const found = state_->descriptors.find(descriptor);
  const Standard* const standard = found == nullptr ? nullptr : std::get_if<Standard>(&found->is);
  return standard != nullptr && *standard != Standard::kIn;
}

std::optional<uint32_t> System::exit_code() const { return state_->exit_code; }

const host::HostError* System::last_denial() const {
  return state_->last_denial ? &*state_->last_denial : nullptr;
}

void System::set_last_denial(host::HostError denial) { state_->last_denial = std::move(denial); }

std::vector<host::CallRecord> System::take_records() {
  state_->record_bytes = 0;
  return std::exchange(state_->records, {});
}

std::vector<FileEntry> System::written_files() const {
  std::vector<FileEntry> entries;
  uint64_t path_bytes = 0;
  state_->files->visit_names([&](const std::string& path, Inode inode) {
    const Node& node = *state_->files->find(inode);
    const bool is_own = node.is_written && (node.is_counted || node.type() == FileType::kRegularFile);
    if (!is_own || path_bytes + path.size() > kMaxListedPathBytes) return;
    path_bytes += path.size();
    entries.push_back({path, node.type(), node.size()});
  });
  std::ranges::sort(entries, {}, &FileEntry::path);
  return entries;
}

host::HostResult<std::string> System::read_file(std::string_view path) const {
  const auto refused = [given = path](host::Errno code, const char* what) {
    return host::refuse(code, std::string(given) + " " + what);
  };
  if (!path.starts_with('/')) return refused(host::Errno::kInvalid, "is not absolute.");
  while (path.starts_with('/')) path.remove_prefix(1);
  uint64_t steps = 0;
  const auto walked =
      walk(*state_->files, {FileTree::kRoot, {}}, path, LastLink::kFollow,
           HostPaths{.has_directory = [](const std::string&) { return Done(); },
                     .find_link = [](const std::string&) { return Answer<host::LinkOnPath>(); },
                     .grant_root = [](const std::string&) { return std::string(); }},
           steps);
  if (!walked || !walked->found) return refused(host::Errno::kNotFound, "does not exist.");
  if (walked->found->is_host()) return refused(host::Errno::kUnsupported, "is a file of the host.");
  const FileStat stat = state_->files->stat(walked->found->inode);
  if (stat.type == FileType::kDirectory) return refused(host::Errno::kIsDir, "is a directory.");
  if (stat.type != FileType::kRegularFile)
    return refused(host::Errno::kUnsupported, "is not a regular file.");
  std::string bytes(stat.size, '\0');
  state_->files->read(stat.inode, 0, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

namespace {

Answer<std::string> load(Call& call, std::string_view path, uint64_t most_bytes) {
  while (path.starts_with('/')) path.remove_prefix(1);
  const Call::At at{nullptr, {FileTree::kRoot, {}}, std::string(path)};
  const auto walked = call.walk_to(at, LastLink::kFollow);
  if (!walked) return fail(walked.error());
  if (!walked->found) return fail(Errno::kNoent);
  std::string bytes;
  if (!walked->found->is_host()) {
    const FileStat stat = call.state.files->stat(walked->found->inode);
    if (stat.type == FileType::kDirectory) return fail(Errno::kIsdir);
    if (stat.type != FileType::kRegularFile) return fail(Errno::kAcces);
    if (stat.size > most_bytes) return fail(Errno::kFbig);
    bytes.resize(stat.size);
    call.state.files->read(stat.inode, 0, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
    return bytes;
  }
  auto opened = host_files::open(call, walked->found->host, {});
  if (!opened) return fail(opened.error());
  auto* const file = std::get_if<OpenHostFile>(&opened->is);
  if (file == nullptr) return fail(Errno::kIsdir);
  constexpr size_t kPiece = 256u << 10;
  Answer<size_t> got = size_t{0};
  do {
    const size_t had = bytes.size();
    bytes.resize(had + kPiece);
    got = host_files::read(call, *file, had, {reinterpret_cast<uint8_t*>(bytes.data()) + had, kPiece});
    bytes.resize(had + got.value_or(0));
  } while (got && *got > 0 && bytes.size() <= most_bytes);
  host_files::close(call.state, *file);
  if (!got) return fail(got.error());
  if (bytes.size() > most_bytes) return fail(Errno::kFbig);
  return bytes;
}

host::Errno told_to_hosts(Errno code) {
  switch (code) {
    case Errno::kNoent: return host::Errno::kNotFound;
    case Errno::kIsdir: return host::Errno::kIsDir;
    case Errno::kNotdir: return host::Errno::kNotDir;
    case Errno::kFbig: return host::Errno::kTooBig;
    case Errno::kAcces:
    case Errno::kNotcapable: return host::Errno::kAccess;
    default: return host::Errno::kHost;
  }
}

}  // namespace

host::HostResult<std::string> System::load_file(host::Guest& guest, std::string_view path,
                                                uint64_t most_bytes) {
  auto denied_before = std::exchange(state_->last_denial, std::nullopt);
  Call call{*state_, guest, Memory(guest.memory()), {}};
  Answer<std::string> bytes = fail(Errno::kIo);
  try {
    bytes = load(call, path, most_bytes);
  } catch (const std::exception&) {  // the World's own failure
  }
  if (bytes) guest.owe(bytes->size() / kBytesPerFuel);
  if (!bytes && state_->last_denial) return std::unexpected(*state_->last_denial);
  if (!state_->last_denial) state_->last_denial = std::move(denied_before);
  if (bytes) return *std::move(bytes);
  return host::refuse(told_to_hosts(bytes.error()),
                      std::string(path) + ": " + std::string(name_of(bytes.error())));
}

host::HostResult<void> System::put_file(std::string_view path, std::string_view bytes) {
  const auto refused = [&](host::Errno code, const char* what) {
    return host::refuse(code, std::string(path) + " " + what);
  };
  const auto components = components_of(path);
  if (!components || components->empty()) return refused(host::Errno::kInvalid, "is not a file path.");
  FileTree& files = *state_->files;
  uint64_t now = state_->file_time_ns();
  Inode at = FileTree::kRoot;
  for (size_t i = 0; i < components->size(); ++i) {
    const bool is_last = i + 1 == components->size();
    Inode next = files.child(at, (*components)[i]);
    // A rewritten file is newer than before, even if the program's clock has not advanced.
    if (next != 0 && is_last) now = std::max(now, files.stat(next).modified_ns + 1);
    if (next == 0) {
      const auto made = is_last ? files.make_file(at, (*components)[i], now)
                                : files.make_directory(at, (*components)[i], now);
      if (!made) return refused(host::Errno::kQuota, "does not fit: the program has too many files.");
      next = *made;
    }
    const FileType wanted = is_last ? FileType::kRegularFile : FileType::kDirectory;
    if (files.stat(next).type != wanted)
      return refused(host::Errno::kNotDir, "is, or leads through, something of another kind.");
    at = next;
  }
  if (!files.write(at, 0, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, now) ||
      !files.resize(at, bytes.size(), now))
    return refused(host::Errno::kQuota, "does not fit: the program's files are too large.");
  return {};
}

}  // namespace membrane::wasi
