// A language that is ready to run: its module compiled, its interpreter initialised and warm, stored as an image
// from which each session starts.
//
//   package ─▶ compile ─▶ instantiate ─▶ warm ─▶ image in a file ─▶ Template ─▶ Session, as often as wanted
//                                              └─▶ modules imported ─▶ another image, another Template
//
// The first time takes seconds; afterwards every process finds and maps the file, in milliseconds.
//
// Ownership: sessions keep their Template alive. Threads: any, once it is open.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/code/tier.h"
#include "engine/freeze/instance_image.h"
#include "engine/freeze/snapshot.h"
#include "lang/package.h"
#include "sandbox/interpreter.h"
#include "wasi/image.h"
#include "wasi/system.h"

namespace membrane::sandbox {

class Body;
struct Waiting;

struct TemplateOptions {
  std::string cache_directory;  // of the warm images; owned by the user
  bool only_finds = false;      // a missing or damaged warm image is not built: kNotFound
  engine::Tier tier = engine::Tier::kAuto;
  std::function<void(std::string_view step)> on_progress;  // "compiling python (99 MiB)"; may be null
  // Problems that a person should see even without progress messages, such as a damaged image; may be null.
  std::function<void(std::string_view problem)> on_problem = {};
  // Called with a sentence before something that takes seconds, for callers without progress messages; may be null.
  std::function<void(std::string_view what)> on_wait = {};
};

// Identifies a template for another process of this build: the package, the list of modules of its warm image, and a
// layer of packages over it.
struct TemplateSpec {
  std::string package_directory;
  std::vector<std::string> modules;
  std::string cache_directory;
  engine::Tier tier = engine::Tier::kAuto;
  std::string layer_path, layer_key;  // "" for none
  std::string imports;                // the directory of its files

  friend bool operator==(const TemplateSpec&, const TemplateSpec&) = default;
};

class Template {
 public:
  // Finds the warm image, or builds it; a damaged one is rebuilt once. `modules` is a list from package.warm, to be
  // imported in it; empty for the plain image. Errors: those of read_package(); kInvalidArgument for a directory
  // that others own or can write to; kInvalidInput for a file that is not the one that the package names;
  // kUnsupported for a module that does not meet its driver's requirements; kUnavailable when the system refuses.
  static Result<std::shared_ptr<const Template>> open(lang::Package package, const TemplateOptions& options,
                                                      std::vector<std::string> modules = {});

  // The same language with more files, read-only, which all its sessions see; programs import from the directory
  // `imports`. `layers_are` identifies everything that the files depend on; two templates with the same value have
  // the same files. The layer's file is for spec(). Errors: those of wasi::Image::make(); kUnsupported for a
  // language whose warm image holds its files.
  static Result<std::shared_ptr<const Template>> over(std::shared_ptr<const Template> below,
                                                      const std::vector<wasi::Layer>& layers,
                                                      std::string imports, std::string layers_are = {},
                                                      std::string layer_path = {});

  // The file of the warm image, whether it exists or not. Errors: kNotFound when a file of the package is missing.
  static Result<std::string> image_file(const lang::Package& package, const std::string& cache_directory,
                                        const std::vector<std::string>& modules = {});
  // Removes the warm images of a language, including those of other builds of this program. Returns how many there
  // were.
  static size_t forget_images(std::string_view name, const std::string& cache_directory);

  [[nodiscard]] const lang::Package& package() const { return package_; }
  [[nodiscard]] const TemplateSpec& spec() const { return spec_; }
  [[nodiscard]] const engine::InstanceImage& image() const { return *image_; }
  // Those of the package, and those created during warming.
  [[nodiscard]] const std::shared_ptr<const wasi::Image>& files() const { return files_; }
  // Identifies the template in the bytes of a session (Session::keep()): the same in every process that builds the
  // template from the same files. The contents of its files are not included (wasi::Image::digest()). Errors: as
  // InstanceImage::identity().
  [[nodiscard]] Result<engine::ImageIdentity> identity() const;
  [[nodiscard]] const Interpreter& interpreter() const { return *interpreter_; }
  // For a template made by over(): the additional directory that programs import from. Else "".
  [[nodiscard]] const std::string& imports() const { return imports_; }
  // The `layers_are` of over(); "" for a template not made by it.
  [[nodiscard]] const std::string& layers() const { return spec_.layer_key; }
  // Modules imported in its warm image; empty for the plain one.
  [[nodiscard]] const std::vector<std::string>& modules() const { return modules_; }
  // The state of its waiting program, if it reads its turns as input; for a program that is started for each turn,
  // the state at its first read, if it can start there; else null.
  [[nodiscard]] const std::shared_ptr<const Waiting>& waiting() const { return waiting_; }
  // Known places in its program's code, shared by everything that starts from its image.
  [[nodiscard]] const std::shared_ptr<engine::KnownPlaces>& known_places() const { return known_places_; }
  // The System that a session starts with. `policy` is borrowed; `key` is for its seeded stream, and replaces the
  // policy's seed. Errors: those of wasi::System.
  [[nodiscard]] Result<std::unique_ptr<wasi::System>> new_system(
      const policy::Policy& policy, wasi::World world, std::optional<RandomStream::Key> key = {}) const;

 private:
  Template(lang::Package package, std::vector<std::string> modules);
  Template(const Template&) = default;
  void announce(const TemplateOptions& options) const;
  Status warm(const TemplateOptions& options);
  Status warm_from_plain(const TemplateOptions& options);
  Result<std::shared_ptr<engine::CompiledModule>> compile(const TemplateOptions& options) const;
  Status load(const std::string& path, engine::Tier tier);
  void hold_image(std::shared_ptr<const engine::InstanceImage> image);
  Status capture(engine::Instance& instance);
  Status keep_start(Body& body, bool is_waiting);
  Status keep_files(const wasi::System& system);
  static void rehearse(const std::shared_ptr<const Template>& made);
  [[nodiscard]] std::vector<uint8_t> kept() const;
  [[nodiscard]] std::vector<uint8_t> kept_bytes_of_files() const;
  Status take_kept(std::span<const uint8_t> bytes, const std::shared_ptr<const FileMapping>& files);
  Status make_files();

  lang::Package package_;
  std::vector<std::string> modules_;
  std::vector<wasi::Layer> made_files_;  // during warming
  std::shared_ptr<const wasi::Image> files_;
  std::string files_digest_;  // digest of files_, if the image comes from a file that has it; else ""
  std::string imports_;
  TemplateSpec spec_;
  std::shared_ptr<Interpreter> interpreter_;  // shared with templates made over it
  std::shared_ptr<const engine::InstanceImage> image_;
  std::shared_ptr<engine::KnownPlaces> known_places_;
  std::shared_ptr<const Waiting> waiting_;
  std::vector<uint8_t> system_;  // frozen: files and clock of the waiting program
};

}  // namespace membrane::sandbox
