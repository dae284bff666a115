// builder: builds a long text, or a list, piece by piece. Joining strings copies everything each time, and nothing
// is freed; a builder moves its content only when its size has doubled.
//
// A builder is in the program's linear memory, so it is frozen, copied and paid for like everything there:
//
//   header  magic, size, capacity, bytes      (four u32)
//   bytes   at the address `bytes`: `capacity` of them, of which the first `size` are the text
//
// The program may overwrite any of it: each number is checked before it is used, so a broken builder costs its
// program a trap, and the host nothing.
#include <algorithm>
#include <cstring>

#include "host/call.h"
#include "host/capabilities/all.h"

namespace membrane::host {
namespace {

constexpr uint32_t kMagic = 0x646C'4275;  // "uBld"
constexpr uint64_t kHeaderBytes = 16;
constexpr uint64_t kFirstCapacity = 64;
constexpr uint64_t kMaxBytes = kMaxResultBytes;  // more could not become a string
constexpr uint64_t kLengthBytes = 4;

// Bytes moved per unit of fuel when a builder grows.
constexpr uint64_t kMovedBytes = 16;

// A builder during a call.
class Builder {
 public:
  static HostResult<Builder> open(Call& call) {
    Builder builder(call, static_cast<uint32_t>(call.i32(0)));
    MEMBRANE_TRY(builder.read_header());
    return builder;
  }
  static HostResult<uint32_t> make(Call& call) {
    MEMBRANE_ASSIGN(const uint32_t at, call.guest.allocate(kHeaderBytes));
    Builder builder(call, at);
    builder.write_header();
    return at;
  }

  [[nodiscard]] uint32_t size() const { return size_; }
  [[nodiscard]] std::string_view text() const {
    return {reinterpret_cast<const char*>(call_.guest.memory().data() + bytes_), size_};
  }

  // Appends the call's second argument, preceded by its length if `is_item`. Everything that may fail is paid for
  // before anything is written, since the call is then repeated.
  HostResult<void> append(bool is_item) {
    const uint64_t length = call_.text(1).size();
    if (length == 0 && !is_item) return {};
    const uint64_t size = size_ + (is_item ? kLengthBytes : 0) + length;
    if (size > kMaxBytes)
      return refuse(Errno::kNoMemory, "a builder has at most " + std::to_string(kMaxBytes) + " bytes");
    const uint64_t text = static_cast<uint64_t>(reinterpret_cast<const uint8_t*>(call_.text(1).data()) -
                                                call_.guest.memory().data());
    if (size > capacity_) MEMBRANE_TRY(grow_to(size));
    uint8_t* const memory = call_.guest.memory().data();
    const uint64_t to = bytes_ + size - length;
    if (length != 0) std::memmove(memory + to, memory + text, length);
    if (is_item) write(to - kLengthBytes, static_cast<uint32_t>(length));
    size_ = static_cast<uint32_t>(size);
    write_header();
    return {};
  }

 private:
  Builder(Call& call, uint32_t at) : call_(call), builder_(at) {}

  [[nodiscard]] bool holds(uint64_t at, uint64_t bytes) const {
    return at + bytes <= call_.guest.memory().size();
  }
  [[nodiscard]] uint32_t read(uint64_t at) const {
    uint32_t value = 0;
    std::memcpy(&value, call_.guest.memory().data() + at, sizeof(value));
    return value;
  }
  void write(uint64_t at, uint32_t value) {
    std::memcpy(call_.guest.memory().data() + at, &value, sizeof(value));
  }

  HostResult<void> read_header() {
    const bool is_there = holds(builder_, kHeaderBytes) && read(builder_) == kMagic;
    if (is_there) {
      size_ = read(builder_ + 4);
      capacity_ = read(builder_ + 8);
      bytes_ = read(builder_ + 12);
    }
    if (!is_there || size_ > capacity_ || !holds(bytes_, capacity_))
      return refuse(Errno::kInvalid, "the address is that of no builder, or its memory was written over");
    return {};
  }
  void write_header() {
    write(builder_, kMagic);
    write(builder_ + 4, size_);
    write(builder_ + 8, capacity_);
    write(builder_ + 12, bytes_);
  }

  HostResult<void> grow_to(uint64_t size) {
    const uint64_t capacity = std::min(kMaxBytes, std::max({size, 2 * uint64_t{capacity_}, kFirstCapacity}));
    call_.work.add((size_ + kMovedBytes - 1) / kMovedBytes);
    if (call_.work.is_too_much()) return refuse(Errno::kBudget, "there is no fuel left for the builder");
    MEMBRANE_ASSIGN(const uint32_t at, call_.guest.allocate(capacity));
    uint8_t* const memory = call_.guest.memory().data();
    std::memmove(memory + at, memory + bytes_, size_);
    bytes_ = at;
    capacity_ = static_cast<uint32_t>(capacity);
    return {};
  }

  Call& call_;
  uint64_t builder_ = 0;
  uint32_t size_ = 0;
  uint32_t capacity_ = 0;
  uint32_t bytes_ = 0;
};

HostResult<Value> make(Call& call) {
  MEMBRANE_ASSIGN(const uint32_t builder, Builder::make(call));
  return static_cast<int32_t>(builder);
}

HostResult<Value> append(Call& call, bool is_item) {
  MEMBRANE_ASSIGN(Builder builder, Builder::open(call));
  return nothing(builder.append(is_item));
}
HostResult<Value> add(Call& call) { return append(call, false); }
HostResult<Value> item(Call& call) { return append(call, true); }

HostResult<Value> size(Call& call) {
  MEMBRANE_ASSIGN(const Builder builder, Builder::open(call));
  return static_cast<int32_t>(builder.size());
}

HostResult<Value> text(Call& call) {
  MEMBRANE_ASSIGN(const Builder builder, Builder::open(call));
  return call.copy_of(builder.text());
}

constexpr Param kBuilder{"builder", Type::kI32};
constexpr Param kText{"text", Type::kBytes};
constexpr Cost kAddCost{.base = 20, .per_byte = 1, .works = true};

// The body of an example: (set $b (call $builder.new)) … `body`.
#define BUILDER_EXAMPLE(body) "(set $b (call $builder.new)) " body

constexpr FunctionSpec kFunctions[] = {
    {.module = "builder",
     .name = "new",
     .result = Type::kI32,
     .result_name = "builder",
     .cost = {.base = 100, .per_byte = 0},
     .summary = "An empty builder. Its address stands for it.",
     .example = BUILDER_EXAMPLE(R"((call $io.print_i32 (call $builder.size $b)))"),
     .prints = "0",
     .handler = make},
    {.module = "builder",
     .name = "add",
     .params = {kBuilder, kText},
     .cost = kAddCost,
     .summary = "Appends the text; a thousand times costs a thousand times as much as once.",
     .details = "Where (set $s (concat $s …)) in a loop copies all of the text each time. A builder has at "
                "most 64 MiB.",
     .example = BUILDER_EXAMPLE(
         R"((for $i 0 3 (call $builder.add $b "ab")) (call $io.print (call $builder.text $b)))"),
     .prints = "ababab",
     .handler = add},
    {.module = "builder",
     .name = "item",
     .params = {kBuilder, kText},
     .cost = kAddCost,
     .summary = "Appends the text as an item of a list, which builder.text then gives.",
     .details = "Items for (each …) and list.*: a builder with items takes no other text.",
     .example = BUILDER_EXAMPLE(
         R"((call $builder.item $b "b") (call $builder.item $b "a") (call $io.print (call $list.join (call $list.sort (call $builder.text $b)) ", ")))"),
     .prints = "a, b",
     .handler = item},
    {.module = "builder",
     .name = "size",
     .params = {kBuilder},
     .result = Type::kI32,
     .result_name = "bytes",
     .cost = {.base = 20, .per_byte = 0},
     .summary = "How many bytes there are by now; an item has 4 more than its text.",
     .example =
         BUILDER_EXAMPLE(R"((call $builder.add $b "abc") (call $io.print_i32 (call $builder.size $b)))"),
     .prints = "3",
     .handler = size},
    {.module = "builder",
     .name = "text",
     .params = {kBuilder},
     .result = Type::kBytes,
     .result_name = "text",
     .summary =
         "What was added so far, as a string, or as a list when it was items. The builder stays as it is.",
     .example = BUILDER_EXAMPLE(
         R"((call $builder.add $b "a") (call $builder.add $b "b") (call $io.print (call $builder.text $b)))"),
     .prints = "ab",
     .handler = text},
};

#undef BUILDER_EXAMPLE

}  // namespace

std::span<const FunctionSpec> builder_functions() { return kFunctions; }

}  // namespace membrane::host
