// membrane image: the file systems that Linux sandboxes begin with.

#include "base/json.h"
#include "cli/cli.h"
#include "linux/image/store.h"

namespace membrane::cli {
namespace {

struct Options {
  std::string source, name, output;
  bool json = false;
};

std::string megabytes(uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MB"; }

Result<int> list(const Options& options) {
  MEMBRANE_ASSIGN(const std::vector<linux::StoredImage> images, linux::list_images());
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const auto& image : images)
      all.push_back({{"name", image.name}, {"path", image.path}, {"size_bytes", image.size_bytes}});
    print_json(nlohmann::ordered_json{{"images", std::move(all)}});
    return kExitOk;
  }
  if (images.empty())
    print(stderr,
          "there are no images; `membrane image import FILE.tar --tag NAME` makes one of a file system\n");
  for (const auto& image : images) print(image.name + "  " + megabytes(image.size_bytes) + "\n");
  return kExitOk;
}

Result<int> import(const Options& options) {
  MEMBRANE_ASSIGN(const linux::StoredImage image, linux::import_image(options.source, options.name));
  print(image.name + "  " + megabytes(image.size_bytes) + "\n");
  return kExitOk;
}

Result<int> remove(const Options& options) {
  MEMBRANE_TRY(linux::remove_image(options.name));
  return kExitOk;
}

Result<int> export_to(const Options& options) {
  MEMBRANE_TRY(linux::export_image(options.name, options.output));
  return kExitOk;
}

void on(CLI::App* command, const std::shared_ptr<Options>& options, int& exit_code,
        Result<int> (*act)(const Options&)) {
  command->callback([options, &exit_code, act] {
    const Result<int> code = act(*options);
    exit_code = code ? *code : complain(code.error(), options->json ? Reader::kJson : Reader::kPerson);
  });
}

}  // namespace

void add_image(CLI::App& app, int& exit_code) {
  CLI::App* const image = app.add_subcommand("image", "File systems that Linux sandboxes begin with");
  image->require_subcommand(1);
  const auto options = std::make_shared<Options>();

  CLI::App* const ls = image->add_subcommand("ls", "List the images");
  ls->add_flag("--json", options->json, "Print them as JSON");
  ls->footer("Examples:\n  membrane image ls --json");
  on(ls, options, exit_code, &list);

  CLI::App* const import_command = image->add_subcommand(
      "import",
      "Make an image of a tarball of a file system, a `docker save` archive, an OCI layout or a directory");
  import_command->add_option("source", options->source, "The file or directory")
      ->type_name("FILE")
      ->required();
  import_command->add_option("-t,--tag", options->name, "What it is called")->type_name("NAME")->required();
  import_command->footer(
      "Examples:\n"
      "  membrane image import rootfs.tar --tag mine\n"
      "  membrane image import saved-by-docker.tar --tag theirs");
  on(import_command, options, exit_code, &import);

  CLI::App* const rm = image->add_subcommand("rm", "Remove an image");
  rm->add_option("name", options->name, "The image")->type_name("NAME")->required();
  rm->footer("Examples:\n  membrane image rm mine");
  on(rm, options, exit_code, &remove);

  CLI::App* const export_command = image->add_subcommand("export", "Write the image's files into a tarball");
  export_command->add_option("name", options->name, "The image")->type_name("NAME")->required();
  export_command->add_option("output", options->output, "The file to write")
      ->type_name("FILE.tar")
      ->required();
  export_command->footer("Examples:\n  membrane image export mine files.tar");
  on(export_command, options, exit_code, &export_to);

  image->footer(
      "Examples:\n"
      "  membrane image import rootfs.tar --tag mine\n"
      "  membrane run --kind linux --image mine -- sh -c 'uname -a'\n"
      "`make images` brings a Debian with Python, git, gcc and Node, called debian, from this machine's apt "
      "sources.");
}

}  // namespace membrane::cli
