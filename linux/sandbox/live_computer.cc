#include "linux/sandbox/live_computer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "linux/image/config.h"
#include "linux/image/layer_writer.h"
#include "linux/image/store.h"
#include "linux/kept/kept_file.h"
#include "linux/platform/choice.h"
#include "linux/sandbox/connection.h"
#include "linux/sandbox/start_computer.h"

namespace membrane::linux {

namespace {

Status nothing_of(const Result<std::string>& answer) {
  if (!answer) return std::unexpected(answer.error());
  return {};
}

// If an answer is incomplete, the kernel process is at fault.
template <typename T>
Result<T> sound(Result<T> unpacked) {
  if (!unpacked) unpacked.error().code = ErrorCode::kUnavailable;
  return unpacked;
}

// The kernel process has had it open for writing. If it still has writable mappings, the file cannot be
// sealed and is not trusted.
Status seal_kept(int file) {
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SEAL) != 0) return {};  // a file on disk, or one that cannot be sealed
  if (fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0) return {};
  return fail(ErrorCode::kUnavailable,
              "the kernel process of the sandbox still has the saved sandbox open for writing");
}

class OwnedCommand final : public Command {
 public:
  OwnedCommand(std::shared_ptr<Connection> connection, uint64_t number, int process,
               std::shared_ptr<CommandEar> ear)
      : connection_(std::move(connection)), number_(number), process_(process), ear_(std::move(ear)) {}
  ~OwnedCommand() override {
    ear_->stop();
    connection_->remove(number_);
    connection_->tell(FrameKind::kLeave, number_);
  }
  OwnedCommand(const OwnedCommand&) = delete;
  OwnedCommand& operator=(const OwnedCommand&) = delete;

  [[nodiscard]] int process_id() const override { return process_; }

  Status write_input(std::string_view bytes) override {
    const std::scoped_lock lock(writing_);
    while (!bytes.empty()) {
      const size_t room = ear_->take_input_room(bytes.size());
      if (room == 0) return fail(ErrorCode::kUnavailable, "the command has ended");
      connection_->tell(FrameKind::kInput, number_, bytes.substr(0, room));
      bytes.remove_prefix(room);
    }
    return {};
  }
  void end_input() override { connection_->tell(FrameKind::kEndInput, number_); }
  void resize(TerminalSize size) override {
    connection_->tell(FrameKind::kResize, number_, Packer().number(size.columns).number(size.rows).bytes());
  }
  void signal(int number) override {
    connection_->tell(FrameKind::kSignal, number_, Packer().number(static_cast<uint64_t>(number)).bytes());
  }
  std::optional<CommandEnd> wait(std::optional<std::chrono::steady_clock::time_point> until) override {
    return ear_->wait(until);
  }

 private:
  const std::shared_ptr<Connection> connection_;
  const uint64_t number_;
  const int process_;
  const std::shared_ptr<CommandEar> ear_;
  std::mutex writing_;  // serialises input that waits for room
};

class OwnedComputer final : public LiveComputer {
 public:
  OwnedComputer(std::shared_ptr<Connection> connection, BeginAnswer begun, OwnedProcess process)
      : connection_(std::move(connection)), begun_(std::move(begun)), process_(std::move(process)) {}
  ~OwnedComputer() override { OwnedComputer::end(); }
  OwnedComputer(const OwnedComputer&) = delete;
  OwnedComputer& operator=(const OwnedComputer&) = delete;

  void end() override {
    connection_->end();
    process_.end();
  }
  [[nodiscard]] const std::string& platform() const override { return begun_.platform; }
  [[nodiscard]] const std::vector<std::string>& missing_walls() const override {
    return begun_.missing_walls;
  }

  Result<std::unique_ptr<Command>> start(const CommandSpec& spec, CommandEvents events) override {
    if (spec.arguments.empty()) return fail(ErrorCode::kInvalidArgument, "no command was given");
    const auto ear = std::make_shared<CommandEar>(std::move(events));
    return begin(FrameKind::kStart, pack(spec, ear->wants_output(), ear->wants_errors()), ear);
  }
  Result<std::unique_ptr<Command>> attach(int process_id, CommandEvents events) override {
    const auto ear = std::make_shared<CommandEar>(std::move(events));
    return begin(FrameKind::kAttach,
                 Packer()
                     .number(static_cast<uint64_t>(process_id))
                     .number(ear->wants_output())
                     .number(ear->wants_errors())
                     .bytes(),
                 ear);
  }

  Result<FileFacts> stat(const std::string& path, bool follows_links) override {
    MEMBRANE_ASSIGN(const std::string answer,
                    connection_->ask(FrameKind::kStat, Packer().text(path).number(follows_links).bytes()));
    MEMBRANE_ASSIGN(auto facts, sound(unpack_facts(answer)));
    if (facts.size() != 1) return fail(ErrorCode::kUnavailable, "the kernel process reported another file");
    return std::move(facts.front());
  }
  Result<std::vector<FileFacts>> list(const std::string& path) override {
    MEMBRANE_ASSIGN(const std::string answer,
                    connection_->ask(FrameKind::kList, Packer().text(path).bytes()));
    return sound(unpack_facts(answer));
  }
  Result<std::string> read_file(const std::string& path, uint64_t offset, uint64_t most_bytes) override;
  Status write_file(const std::string& path, std::string_view bytes, uint32_t mode) override;
  Status write_pieces(const std::string& path, const Pieces& next, uint32_t mode) override;
  Status make_directory(const std::string& path, uint32_t mode) override {
    return nothing_of(connection_->ask(FrameKind::kMakeDirectory, Packer().text(path).number(mode).bytes()));
  }
  Status make_link(const std::string& path, const std::string& target) override {
    return nothing_of(connection_->ask(FrameKind::kMakeLink, Packer().text(path).text(target).bytes()));
  }
  Status set_owner(const std::string& path, uint32_t user, uint32_t group) override {
    return nothing_of(
        connection_->ask(FrameKind::kSetOwner, Packer().text(path).number(user).number(group).bytes()));
  }
  Status set_mode(const std::string& path, uint32_t mode) override {
    return nothing_of(connection_->ask(FrameKind::kSetMode, Packer().text(path).number(mode).bytes()));
  }
  Status move(const std::string& from, const std::string& to) override {
    return nothing_of(connection_->ask(FrameKind::kMove, Packer().text(from).text(to).bytes()));
  }
  Status remove(const std::string& path, bool with_contents) override {
    return nothing_of(
        connection_->ask(FrameKind::kRemove, Packer().text(path).number(with_contents).bytes()));
  }
  Result<std::vector<ChangedPath>> changes() override {
    MEMBRANE_ASSIGN(const std::string answer, connection_->ask(FrameKind::kChanges));
    return sound(unpack_changes(answer));
  }
  Status save_image(int file, const std::string& config) override {
    MEMBRANE_TRY(read_image_config(config));
    MEMBRANE_TRY(connection_->ask(FrameKind::kSaveImage, config, std::span(&file, 1)));
    MEMBRANE_TRY(sound(seal_image(file)));
    return {};
  }
  Status clamp_times(int64_t latest_ms) override {
    return nothing_of(
        connection_->ask(FrameKind::kClampTimes, Packer().number(static_cast<uint64_t>(latest_ms)).bytes()));
  }
  Status freeze() override { return nothing_of(connection_->ask(FrameKind::kFreeze)); }
  Status thaw() override { return nothing_of(connection_->ask(FrameKind::kThaw)); }
  Status keep(int file, Keep what) override {
    MEMBRANE_TRY(connection_->ask(FrameKind::kKeep, Packer().number(static_cast<uint64_t>(what)).bytes(),
                                  std::span(&file, 1)));
    return seal_kept(file);
  }
  Result<ComputerUsage> usage() override {
    MEMBRANE_ASSIGN(const std::string answer, connection_->ask_soon(FrameKind::kUsage));
    return sound(unpack_usage(answer));
  }

 private:
  Status write_piece(uint64_t number, std::string_view bytes);
  Result<std::unique_ptr<Command>> begin(FrameKind how, const std::string& order,
                                         const std::shared_ptr<CommandEar>& ear);

  const std::shared_ptr<Connection> connection_;
  const BeginAnswer begun_;
  OwnedProcess process_;
};

Result<std::unique_ptr<Command>> OwnedComputer::begin(FrameKind how, const std::string& order,
                                                      const std::shared_ptr<CommandEar>& ear) {
  const uint64_t number = connection_->take_number();
  connection_->add(number, ear);  // output may arrive before the answer
  const auto answer = connection_->ask(number, how, order);
  if (!answer) {
    connection_->remove(number);
    return std::unexpected(answer.error());
  }
  Unpacker from(*answer);
  const auto process = static_cast<int>(from.number(INT32_MAX));
  const size_t room = from.number(kInputWindow);
  if (!from.is_whole()) {
    connection_->remove(number);
    return fail(ErrorCode::kUnavailable, "the kernel process did not report which process it has started");
  }
  ear->begin(*connection_, number, room);
  return std::make_unique<OwnedCommand>(connection_, number, process, ear);
}

Result<std::string> OwnedComputer::read_file(const std::string& path, uint64_t offset, uint64_t most_bytes) {
  std::string bytes;
  while (bytes.size() < most_bytes) {
    const uint64_t wanted = std::min<uint64_t>(kPieceBytes, most_bytes - bytes.size());
    MEMBRANE_ASSIGN(
        const std::string piece,
        connection_->ask(FrameKind::kRead,
                         Packer().text(path).number(offset + bytes.size()).number(wanted).bytes()));
    if (piece.size() > wanted)
      return fail(ErrorCode::kUnavailable, "the kernel process returned more than was requested");
    bytes += piece;
    if (piece.size() < wanted) break;
  }
  return bytes;
}

Status OwnedComputer::write_file(const std::string& path, std::string_view bytes, uint32_t mode) {
  const uint64_t number = connection_->take_number();
  MEMBRANE_TRY(connection_->ask(number, FrameKind::kWriteBegin, Packer().text(path).number(mode).bytes()));
  MEMBRANE_TRY(write_piece(number, bytes));
  return nothing_of(connection_->ask(number, FrameKind::kWriteEnd));
}

Status OwnedComputer::write_pieces(const std::string& path, const Pieces& next, uint32_t mode) {
  const uint64_t number = connection_->take_number();
  MEMBRANE_TRY(connection_->ask(number, FrameKind::kWriteBegin, Packer().text(path).number(mode).bytes()));
  while (true) {
    const auto bytes = next();
    if (!bytes) {
      connection_->tell(FrameKind::kLeave, number);
      return std::unexpected(bytes.error());
    }
    if (bytes->empty()) return nothing_of(connection_->ask(number, FrameKind::kWriteEnd));
    MEMBRANE_TRY(write_piece(number, *bytes));
  }
}

Status OwnedComputer::write_piece(uint64_t number, std::string_view bytes) {
  while (!bytes.empty()) {
    MEMBRANE_TRY(connection_->ask(number, FrameKind::kWritePiece, bytes.substr(0, kPieceBytes)));
    bytes.remove_prefix(std::min(bytes.size(), kPieceBytes));
  }
  return {};
}

}  // namespace

Result<HostFile> open_image(const std::string& path) {
  HostFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file) return file;
  if (errno != ENOENT && errno != ENOTDIR)
    return fail(ErrorCode::kUnavailable, "the image " + path + " cannot be opened: " + std::strerror(errno));
  return fail(ErrorCode::kNotFound, "there is no image " + path + ": " + std::strerror(errno),
              "`membrane image ls` lists the images; `membrane image import FILE.tar -t NAME` makes one.");
}

HostFile handle_of(pid_t child) { return HostFile(static_cast<int>(syscall(SYS_pidfd_open, child, 0))); }

void end_child(pid_t child) {
  constexpr int kPatienceMs = 3000;
  if (child <= 0) return;
  const HostFile handle = handle_of(child);
  pollfd waited = {handle.number(), POLLIN, 0};
  int found = -1;
  if (handle) do
      found = poll(&waited, 1, kPatienceMs);
    while (found < 0 && errno == EINTR);
  if (found <= 0) kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
}

OwnedProcess OwnedProcess::of_child(pid_t child) { return {handle_of(child), child}; }

OwnedProcess::~OwnedProcess() {
  end();
  if (child_ > 0) end_child(child_);
}

// The objects before it die with it.
void OwnedProcess::end() {
  if (handle_) syscall(SYS_pidfd_send_signal, handle_.number(), SIGKILL, nullptr, 0);
}

namespace {

// What a sandbox is created over.
struct Ground {
  std::string image_name;
  HostFile image, kept;
};

// The kernel process passes a kept file on to guests, so it gets a read-only descriptor.
Result<Ground> open_ground(const LiveSpec& spec) {
  Ground ground = {.image_name = spec.image, .image = {}, .kept = {}};
  if (spec.kept >= 0) {
    ground.kept =
        HostFile(open(("/proc/self/fd/" + std::to_string(spec.kept)).c_str(), O_RDONLY | O_CLOEXEC));
    if (!ground.kept)
      return fail(ErrorCode::kUnavailable,
                  std::string("the saved sandbox cannot be read: ") + std::strerror(errno));
    MEMBRANE_ASSIGN(const KeptFacts kept, read_kept_facts(ground.kept.number()));
    if (ground.image_name.empty() && !kept.image_digest.empty()) ground.image_name = kept.image_name;
    if (spec.image_file < 0 && spec.image.empty() && !kept.image_digest.empty()) {
      MEMBRANE_ASSIGN(ground.image, open_image(path_of_image(kept.image_name, kept.image_digest)));
      return ground;
    }
  }
  if (spec.image_file >= 0) {
    ground.image = HostFile(fcntl(spec.image_file, F_DUPFD_CLOEXEC, 0));
    if (ground.image) return ground;
    return fail(ErrorCode::kUnavailable, std::string("the image cannot be opened: ") + std::strerror(errno));
  }
  if (ground.image_name.empty()) return ground;
  MEMBRANE_ASSIGN(ground.image, open_image(ground.image_name));
  return ground;
}

}  // namespace

Result<std::unique_ptr<LiveComputer>> begin_computer(HostFile socket, OwnedProcess process,
                                                     const LiveSpec& spec) {
  const auto ground = open_ground(spec);
  if (!ground) return std::unexpected(ground.error());
  BeginOrder order = {.host_name = spec.host_name,
                      .platform = spec.platform,
                      .image_name = ground->image_name,
                      .limits = spec.limits,
                      .deterministic = spec.deterministic,
                      .stands_still = spec.stands_still,
                      .kept_files_only = spec.kept_files_only,
                      .directories = {}};
  std::vector<int> files;
  const auto add = [&files](bool& has, int file) {
    has = file >= 0;
    if (has) files.push_back(file);
  };
  add(order.has_image, ground->image.number());
  add(order.has_kept, ground->kept.number());
  add(order.has_network, spec.network);
  for (const MountedDirectory& each : spec.directories) {
    order.directories.push_back({each.path, each.is_writable});
    files.push_back(each.socket);
  }
  auto connection = std::make_shared<Connection>(std::move(socket));
  const auto answer = connection->ask(FrameKind::kBegin, pack(order), files);
  auto begun = answer ? sound(unpack_begun(*answer)) : std::unexpected(answer.error());
  if (!begun) {
    connection->end();
    return std::unexpected(begun.error());
  }
  return std::make_unique<OwnedComputer>(std::move(connection), std::move(*begun), std::move(process));
}

bool wants_virtual_clock(const LiveSpec& spec) {
  if (spec.kept < 0 || spec.kept_files_only) return spec.deterministic.has_value();
  const auto kept = read_kept_facts(spec.kept);  // begin_computer() reports errors
  if (!kept || !kept->has_processes) return spec.deterministic.has_value();
  return kept->clock_start_ms.has_value();
}

bool wants_kvm(const LiveSpec& spec) {
  return (spec.platform.empty() ? fastest_platform() : spec.platform) == "kvm";
}

Result<HostFile> memory_to_keep_in() {
  HostFile file(memfd_create("membrane-kept", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file) return file;
  return fail(ErrorCode::kExhausted,
              std::string("there is not enough memory to save a sandbox: ") + std::strerror(errno));
}

Result<std::unique_ptr<LiveComputer>> start_computer(const LiveSpec& spec) {
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail(ErrorCode::kUnavailable,
                std::string("the system has no room for a sandbox: ") + std::strerror(errno));
  HostFile ours(ends[0]), theirs(ends[1]);
  const pid_t child = fork();
  if (child < 0)
    return fail(ErrorCode::kUnavailable,
                std::string("the system has no room for a sandbox: ") + std::strerror(errno));
  if (child == 0)
    run_kernel_process(std::move(theirs),
                       {.traps_time_stamps = wants_virtual_clock(spec), .is_kvm = wants_kvm(spec)});
  theirs.close();
  OwnedProcess process = OwnedProcess::of_child(child);
  if (spec.on_forked) MEMBRANE_TRY(spec.on_forked());
  return begin_computer(std::move(ours), std::move(process), spec);
}

}  // namespace membrane::linux
