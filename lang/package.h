// A language as it is installed: a WebAssembly module that is an interpreter, the files that it needs, and how a
// program is given to it. Read from a directory with a file language.json:
//
//   {"language":1, "name":"python", "version":"3.15.0", "driver":"python",
//    "module":{"path":"python.wasm","sha256":"…"},
//    "files":[{"guest":"/usr/local/lib/python315.zip","path":"python-stdlib.zip","sha256":"…"}],
//    "environment":{"TMPDIR":"/tmp"}, "arguments":["python"], "extensions":[".py"],
//    "warm":[["numpy","pandas"]]}
//
// Hashes are checked when a warm image is made of it, and not at every start.
//
// Threads: a value.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace membrane::lang {

// How the module is spoken to.
enum class Driver : uint8_t {
  kPython,   // the exports `_initialize` and `turn` of a CPython reactor, and Membrane's own Python package
  kQuickJs,  // the C interface of QuickJS-ng as quickjs-wasi exports it
  kStdin,    // any WASI command: code is given to its standard input, and it waits for more
};
std::string_view name_of(Driver driver);

// How a turn is written to the standard input of kStdin.
enum class Frame : uint8_t {
  kText,    // its code, and what ends it
  kLength,  // a line with the number of its bytes, then the code
  kDoor,    // an empty line: the program asks /dev/membrane for the turn, and may answer it there
  kEof,     // all of its input: each turn starts the program, which reads to the end and ends itself
};
std::string_view name_of(Frame frame);
// As Python spells them: "scipy.stats".
bool is_module_name(std::string_view name);
inline constexpr size_t kMostWarmLists = 8, kMostWarmModules = 64;
// By their names. Errors: kInvalidArgument, with the names that there are.
Result<Driver> driver_of(std::string_view name);
Result<Frame> frame_of(std::string_view name);

struct PackageFile {
  std::string guest;   // absolute, for the program
  std::string path;    // on this machine
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
  std::vector<std::string> extensions;  // of its programs' names
  std::string init;                     // code that is run once, before the image is made
  // Of kPython: names of modules. For each list there is a warm image, besides the plain one, in which they are
  // imported: a program begins from the one that has most of what it imports.
  std::vector<std::vector<std::string>> warm;
  Frame frame = Frame::kText;  // of kStdin
  std::string
      end;  // of kText and kEof: what is written after the code; when it is not said, a newline for kText
};

// Of a directory. Errors: kNotFound without language.json; kInvalidInput for one that is malformed, or names what is
// not known here; kDenied when it, or the directory, may be written to by everybody.
Result<Package> read_package(const std::string& directory);
std::string to_json(const Package& package);

// Where packages are looked for, first to last: $MEMBRANE_LANGUAGES, the user's own, those beside the program.
std::vector<std::string> package_directories();
// By its name. Errors: kNotFound, with how to get it.
Result<Package> find_package(std::string_view name);
std::vector<Package> installed_packages();

}  // namespace membrane::lang
