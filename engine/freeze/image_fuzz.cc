// A good image file, changed in places that the input chooses: as it is, which must be refused, and with its checksums
// made right, which reaches the checks of offsets, tables and references. What is accepted is instantiated, but not run:
// nothing but the checksum protects its code. No crash, no hang, no leak.
//
// The input: edits of six bytes each, an offset (4 bytes, modulo the file's size), how it is counted (from the file's
// beginning, or among its first 4 KiB, where the header and the state are), and the byte to be written.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "engine/execution/execution.h"
#include "engine/execution/module.h"
#include "engine/freeze/image_file.h"
#include "engine/freeze/instance_image.h"
#include "engine/testing/host_testing.h"
#include "wasm/binary.h"
#include "wasm/text/parser.h"

namespace {

using namespace membrane;
using namespace membrane::engine;

constexpr std::string_view kModule = R"((module
  (import "host" "number" (func $number (result i32)))
  (memory (export "memory") 2 4)
  (data (i32.const 66000) "warm")
  (table $t (export "table") 4 10 funcref)
  (elem (i32.const 0) $one $number)
  (elem $passive funcref (ref.func $two) (ref.func $number))
  (global $count (mut i32) (i32.const 7))
  (global $held (mut funcref) (ref.func $two))
  (func $one (param i32) (result i32) (local i64 i64 f32) i32.const 1)
  (func $two (result i32) i32.const 2)
  (func (export "call") (param i32) (result i32) (call_indirect $t (result i32) (local.get 0)))))";

Resolver host_in(Store& store) {
  return importing(store, [](HostCall&) { return HostAction::kContinue; });
}

void need(bool holds) {
  if (!holds) std::abort();
}

// The file, and its bytes as they were written.
struct Good {
  std::string directory = "/tmp/image-fuzz-XXXXXX", path;
  std::vector<uint8_t> bytes;
  int file = -1;

  Good() {
    need(mkdtemp(directory.data()) != nullptr);
    path = directory + "/image";
    auto parsed = wasm::parse_text(kModule);
    need(parsed.has_value());
    auto decoded = wasm::decode(wasm::encode(*parsed));
    need(decoded.has_value());
    auto compiled = compile_module(std::move(*decoded), {}, Tier::kCompiler);
    need(compiled.has_value());
    Store store;
    auto made = store.instantiate(*compiled, host_in(store), {}, {.is_alone = true});
    need(made.has_value());
    const auto image = InstanceImage::capture(**made);
    need(image &&
         write_image_file(path, **image, std::array<uint8_t, 3>{1, 2, 3}, std::array<uint8_t, 2>{8, 9}));
    file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct stat status{};
    need(file >= 0 && fstat(file, &status) == 0);
    bytes.resize(static_cast<size_t>(status.st_size));
    need(pread(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  ~Good() {
    close(file);
    unlink(path.c_str());
    unlink(seal_path_of(path).c_str());
    rmdir(directory.c_str());
  }
  void write(size_t at, uint8_t byte) const { need(pwrite(file, &byte, 1, static_cast<off_t>(at)) == 1); }
};

void instantiate(const LoadedImage& loaded) {
  Store store;
  InstanceLimits limits;
  limits.memory_bytes = 16u << 20;
  static_cast<void>(loaded.image->instantiate(store, host_in(store), limits));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Good good;
  constexpr size_t kEditBytes = 6, kMostEdits = 64, kFrontBytes = 4096;
  std::vector<size_t> changed;
  bool differs = false;
  for (; size >= kEditBytes && changed.size() < kMostEdits; data += kEditBytes, size -= kEditBytes) {
    uint32_t offset = 0;
    std::memcpy(&offset, data, sizeof offset);
    const size_t at = offset % (data[4] % 2 == 0 ? good.bytes.size() : kFrontBytes);
    good.write(at, data[5]);
    changed.push_back(at);
  }
  for (const size_t at : changed) {
    uint8_t now = 0;
    need(pread(good.file, &now, 1, static_cast<off_t>(at)) == 1);
    differs = differs || now != good.bytes[at];
  }
  // A time before the file was written: nothing is sealed.
  const auto as_it_is = load_image_file(good.path, Tier::kInterpreter, 0);
  need(as_it_is.has_value() != differs);
  if (repair_image_checksums(good.file)) {
    for (const Tier tier : {Tier::kInterpreter, Tier::kCompiler})
      if (const auto loaded = load_image_file(good.path, tier, 0)) instantiate(*loaded);
  }
  for (const size_t at : changed) good.write(at, good.bytes[at]);
  for (size_t at = 0; at < 128; ++at) good.write(at, good.bytes[at]);  // the checksums
  return 0;
}
