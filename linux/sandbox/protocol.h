// The protocol between the owner of a sandbox and its kernel process, over one stream socket.
//
//   frame: header (bytes u32, kind u16, descriptors u16, number u64), then that many bytes
//
// The owner gives orders, each with a number of its own. Most are answered: pieces of the answer, if it is
// long, then kAnswer, all with the order's number. A command is identified by the number of the order that
// started it, which its input, output and end carry.
//
// Bytes of streams are sent only where the receiver has made room. Both sides begin with a window for each
// stream of a command (kInputWindow, kOutputWindow), and the receiver returns room as the bytes are consumed.
// So a stream that nobody reads stops its writer, and no other.
//
// Both sides treat what arrives as foreign bytes: every length is bounded, and memory is allocated as bytes
// arrive, not as they are announced. The kernel process sends no descriptors, and the owner accepts none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::linux {

enum class FrameKind : uint16_t {
  // -- orders
  kBegin = 1,  // BeginOrder; the first order, once
  kStart,      // CommandSpec
  kAttach,     // to a running command: its process id
  kInput,      // bytes for a command; this and the next five orders are not answered
  kEndInput,
  kOutputRoom,  // bytes of output that were consumed
  kErrorRoom,
  kResize,
  kSignal,
  kLeave,  // detaches from the command, or abandons the file being written; no answer
  kStat,
  kList,
  kRead,
  kWriteBegin,  // a file; its bytes follow in pieces with this order's number
  kWritePiece,
  kWriteEnd,
  kMakeDirectory,
  kMakeLink,
  kSetOwner,
  kSetMode,
  kMove,
  kRemove,
  kChanges,
  kSaveImage,  // its configuration, with a file open for writing, which the owner seals
  kFreeze,
  kThaw,
  kKeep,  // with a file open for reading and writing
  kUsage,
  kClampTimes,  // milliseconds since 1970
  kLastOrder = kClampTimes,
  // -- what the kernel process says
  kAnswer = 256,
  kPiece,   // of an answer
  kOutput,  // of a command
  kError,
  kInputRoom,  // bytes of input that were consumed
  kEnd,        // CommandEnd
  kLastTold = kEnd,
};

constexpr size_t kMostFrameBytes = 4u << 20;
constexpr size_t kMostFrameFiles = 64;
constexpr size_t kMostAnswerBytes = 256u << 20;  // of all pieces
constexpr size_t kPieceBytes = 128u << 10;
constexpr size_t kInputWindow = 64u << 10, kOutputWindow = 256u << 10;
constexpr size_t kMostDirectories = 32;

struct Frame {
  FrameKind kind = FrameKind::kAnswer;
  uint64_t number = 0;
  std::string bytes;
  std::vector<HostFile> files;
};

// Assembles frames from bytes as they arrive. Errors: kInvalidInput for anything but a frame of the other
// side; then nothing more is read.
class FrameReader {
 public:
  enum class From : uint8_t { kOwner, kKernelProcess };
  explicit FrameReader(From from) : from_(from) {}
  void add(std::span<const std::byte> bytes);
  void add_file(HostFile file) { files_.push_back(std::move(file)); }
  Result<std::optional<Frame>> next();

 private:
  const From from_;
  std::vector<std::byte> bytes_;
  size_t begin_ = 0;  // of the unread bytes
  std::deque<HostFile> files_;
};

// One end of the socket. Threads: any may send, one receives.
class FrameSocket {
 public:
  FrameSocket(HostFile socket, FrameReader::From other)
      : socket_(std::move(socket)), reader_(other), other_(other) {}
  // Waits until the other side has taken it. Errors: kUnavailable when the other side is gone.
  Status send(FrameKind kind, uint64_t number, std::string_view bytes = {}, std::span<const int> files = {});
  // Waits. Errors: kUnavailable at the end; kInvalidInput.
  Result<Frame> receive();
  // From any thread: ends sending and receiving.
  void shut();

 private:
  Result<size_t> read_some();
  const HostFile socket_;
  FrameReader reader_;
  const FrameReader::From other_;
  std::mutex mutex_;  // of sending
};

// -- what is in the frames

class Packer {
 public:
  Packer& number(uint64_t value);
  Packer& text(std::string_view text);
  Packer& texts(const std::vector<std::string>& all);
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Missing or invalid fields read as 0 or empty, and make is_whole() false.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}
  uint64_t number(uint64_t most = UINT64_MAX);
  std::string text();
  std::vector<std::string> texts();
  bool flag() { return number(1) != 0; }
  // The number of items that follow, each of at least `bytes`.
  size_t count(size_t bytes);
  // Whether everything that was read was present, and nothing is left over.
  [[nodiscard]] bool is_whole() const { return is_sound_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool is_sound_ = true;
};

// LiveSpec as it is sent: with files instead of paths and borrowed descriptors.
struct BeginOrder {
  std::string host_name, platform;
  std::string image_name;  // the image's path, recorded when the sandbox is kept
  ComputerLimits limits;
  std::optional<Determinism> deterministic;
  bool stands_still = false;
  bool has_image = false, has_kept = false, has_network = false;
  bool kept_files_only = false;
  struct Directory {
    std::string path;
    bool is_writable = false;
  };
  std::vector<Directory> directories;
  // Their files come in this order: image, kept, network, one for each directory.
  [[nodiscard]] size_t files() const {
    return size_t{has_image} + has_kept + has_network + directories.size();
  }
};

struct BeginAnswer {
  std::string platform;
  std::vector<std::string> missing_walls;
};

std::string pack(const BeginOrder& order);
std::string pack(const BeginAnswer& answer);
std::string pack(const CommandSpec& spec, bool wants_output, bool wants_errors);
std::string pack(const CommandEnd& end);
std::string pack(const std::vector<FileFacts>& facts);
std::string pack(const std::vector<ChangedPath>& changes);
std::string pack(const ComputerUsage& usage);

struct StartOrder {
  CommandSpec spec;
  bool wants_output = false, wants_errors = false;
};
// Errors: kInvalidInput.
Result<BeginOrder> unpack_begin(std::string_view bytes);
Result<BeginAnswer> unpack_begun(std::string_view bytes);
Result<StartOrder> unpack_start(std::string_view bytes);
Result<CommandEnd> unpack_end(std::string_view bytes);
Result<std::vector<FileFacts>> unpack_facts(std::string_view bytes);
Result<std::vector<ChangedPath>> unpack_changes(std::string_view bytes);
Result<ComputerUsage> unpack_usage(std::string_view bytes);

// The contents of an answer's last frame: the bytes or the error.
std::string pack_answer(const Result<std::string>& answer);
Result<std::string> unpack_answer(std::string_view bytes);

}  // namespace membrane::linux
