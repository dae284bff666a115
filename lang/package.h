// An installed language: a WebAssembly module that is an interpreter, the files that it needs, and how programs are
// passed to it. Read from a directory with a file language.json:
//
//   {"language":1, "name":"python", "version":"3.15.0", "driver":"python",
//    "module":{"path":"python.wasm","sha256":"…"},
//    "files":[{"guest":"/usr/local/lib/python315.zip","path":"python-stdlib.zip","sha256":"…"}],
//    "environment":{"TMPDIR":"/tmp"}, "arguments":["python"], "extensions":[".py"],
//    "warm":[["numpy","pandas"]]}
//
// Hashes are checked when a warm image is built from the package, not at every start.
//
// Threads: a value.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace membrane::lang {

// The interface of the module.
enum class Driver : uint8_t {
  kPython,   // the exports `_initialize` and `turn` of a CPython reactor, and Membrane's own Python package
  kQuickJs,  // the C interface of QuickJS-ng as quickjs-wasi exports it
  kStdin,    // any WASI command: gets code on its standard input, and waits for more
};
std::string_view name_of(Driver driver);

// How a turn is written to the standard input of kStdin.
enum class Frame : uint8_t {
  kText,    // its code, followed by a terminator
  kLength,  // a line with the number of bytes, then the code
  kDoor,    // an empty line: the program requests the turn from /dev/membrane, and may answer it there
  kEof,     // the complete input: each turn starts the program, which reads to the end and exits
};
std::string_view name_of(Frame frame);
// As Python writes it: "scipy.stats".
bool is_module_name(std::string_view name);
inline constexpr size_t kMostWarmLists = 8, kMostWarmModules = 64;
// By its name. Errors: kInvalidArgument, with the known names.
Result<Driver> driver_of(std::string_view name);
Result<Frame> frame_of(std::string_view name);

struct PackageFile {
  std::string guest;   // absolute path in the program
  std::string path;    // path on this machine
  std::string sha256;  // lower-case hexadecimal; empty: not checked
};

struct Package {
  std::string name;
  std::string version;
  std::string directory;
  Driver driver = Driver::kStdin;
  PackageFile module;
  std::vector<PackageFile> files;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> arguments;   // the first is the program's name
  std::vector<std::string> extensions;  // of program names
  std::string init;                     // code that runs once, before the image is captured
  // For kPython: lists of module names. For each list there is a warm image, besides the plain one, in which these
  // modules are imported: a program starts from the one that has most of what it imports.
  std::vector<std::vector<std::string>> warm;
  Frame frame = Frame::kText;  // for kStdin
  std::string end;             // for kText and kEof: written after the code; by default a newline for kText
};

// From a directory. Errors: kNotFound without language.json; kInvalidInput for a malformed one, or one with unknown
// values; kDenied when any user can write to it, or to the directory.
Result<Package> read_package(const std::string& directory);
std::string to_json(const Package& package);

// Where packages are searched, in order: $MEMBRANE_LANGUAGES, the user's own, those beside the program.
std::vector<std::string> package_directories();
// By its name. Errors: kNotFound, with how to install it.
Result<Package> find_package(std::string_view name);
std::vector<Package> installed_packages();

}  // namespace membrane::lang
