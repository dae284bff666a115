// membrane image: the file systems of Linux sandboxes.

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "computers/build_run.h"
#include "computers/image_build.h"
#include "computers/layer_cache.h"
#include "computers/settings.h"
#include "linux/image/blob.h"
#include "linux/image/store.h"
#include "policy/policy.h"

namespace membrane::cli {
namespace {

struct Options {
  std::string source = ".", name, output;
  std::string dockerfile, target, platform;  // of build
  std::vector<std::string> arguments, allow, secrets;
  std::vector<std::string> names;  // of rm
  std::string policy;              // a file
  bool json = false, has_no_cache = false, is_quiet = false;
  std::map<std::string, std::string> limits;  // in the form of policies
};

std::atomic<bool> interrupted = false;

// In UTC.
std::string moment_of(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts = {};
  std::string text(sizeof "2000-01-01T00:00:00Z", '\0');
  gmtime_r(&time, &parts);
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
  return text;
}

Result<int> list(const Options& options) {
  constexpr size_t kSizeWidth = 8, kShownDigest = 12;
  MEMBRANE_ASSIGN(const std::vector<linux::StoredImage> images, linux::list_images());
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const auto& image : images)
      all.push_back({{"name", image.name},
                     {"path", image.path},
                     {"size_bytes", image.size_bytes},
                     {"digest", "sha256:" + image.digest},
                     {"made_at", moment_of(image.made_s)}});
    print_json(nlohmann::ordered_json{{"images", std::move(all)}});
    return kExitOk;
  }
  if (images.empty())
    print(stderr,
          "there are no images; `membrane image import FILE.tar --tag NAME` makes one from a file system\n");
  size_t widest = 0;
  for (const auto& image : images) widest = std::max(widest, image.name.size());
  for (const auto& image : images) {
    std::string size = size_text(image.size_bytes);
    size.insert(0, size.size() < kSizeWidth ? kSizeWidth - size.size() : 0, ' ');
    print(image.name + std::string(widest - image.name.size(), ' ') + "  " + size + "  " +
          moment_of(image.made_s) + "  sha256:" + image.digest.substr(0, kShownDigest) + "\n");
  }
  return kExitOk;
}

Result<int> import(const Options& options) {
  MEMBRANE_ASSIGN(const linux::StoredImage image, linux::import_image(options.source, options.name));
  print(image.name + "  " + size_text(image.size_bytes) + "\n");
  return kExitOk;
}

// Removes those that it can, and complains of the others.
Result<int> remove(const Options& options) {
  std::optional<Error> failed;
  size_t removed = 0;
  for (const std::string& name : options.names) {
    if (const Status done = linux::remove_image(name); done) {
      print(name + "\n");
      ++removed;
    } else {
      if (failed) complain(*failed);
      failed = done.error();
    }
  }
  if (removed > 0)
    print(stderr, "removed; sandboxes that began with " + std::string(removed == 1 ? "it" : "them") +
                      " can still be resumed, until `membrane image prune`\n");
  if (failed) return std::unexpected(*failed);
  return kExitOk;
}

Result<std::string> text_of_file(const std::string& path) {
  constexpr uint64_t kMostBytes = 1u << 20;
  MEMBRANE_ASSIGN(const linux::Blob blob, linux::open_blob(path));
  return linux::text_of(blob, kMostBytes);
}

// Grants and limits: the policy's file, with the flags on top.
Status add_policy(const Options& options, computers::ImageBuild& build) {
  policy::Policy policy;
  policy.limits = build.limits;
  if (!options.policy.empty()) {
    MEMBRANE_ASSIGN(policy, policy::load_policy(options.policy, build.limits));
  }
  for (const std::string& grant : options.allow) MEMBRANE_TRY(policy::allow(policy, grant));
  for (const auto& [name, value] : options.limits)
    if (!value.empty()) MEMBRANE_TRY(policy::set_limit(policy.limits, name, value, "--" + std::string(name)));
  MEMBRANE_TRY(computers::check_grants(policy));
  MEMBRANE_TRY(computers::check_limits(policy.limits));
  if (!policy.fs.empty())
    return fail(ErrorCode::kUnsupported, "a build cannot be granted directories",
                "COPY copies files of the build directory.");
  if (!build.platform.empty() && !policy.platform.empty() && build.platform != policy.platform)
    return fail(ErrorCode::kInvalidArgument,
                "the policy demands the platform " + policy.platform + ", and --platform " + build.platform,
                "Leave --platform out.");
  if (build.platform.empty()) build.platform = policy.platform;
  build.limits = policy.limits;
  build.grants = std::move(policy.http);
  return {};
}

// Each is id=NAME,src=FILE or id=NAME,env=VARIABLE, as in Docker, or id=NAME alone, for a file of that name.
Status add_secrets(const Options& options, computers::ImageBuild& build) {
  constexpr uint64_t kMostBytes = 1u << 20;
  for (const std::string& each : options.secrets) {
    std::string id, file, variable;
    for (const auto& [name, given] : computers::mount_words(each)) {
      const std::string value = given.value_or("");
      if (name == "id") id = value;
      else if (name == "src" || name == "source") file = value;
      else if (name == "env") variable = value;
      else if (name != "type" || (value != "file" && value != "env"))
        return fail(ErrorCode::kInvalidArgument,
                    "--secret has no \"" + name + (given ? "=" + *given : "") + '"',
                    "Write --secret id=NAME,src=FILE.");
    }
    if (id.empty())
      return fail(ErrorCode::kInvalidArgument, "--secret " + each + " names no secret",
                  "Write --secret id=NAME,src=FILE.");
    if (!variable.empty()) {
      const char* const set = std::getenv(variable.c_str());
      if (set == nullptr)
        return fail(ErrorCode::kNotFound, "the secret " + id + ": there is no variable " + variable,
                    "Set it, or name a file with src=FILE.");
      build.secrets[id] = set;
      continue;
    }
    auto value = read_input(file.empty() ? id : file, kMostBytes);
    if (!value) {
      value.error().message = "the secret " + id + ": " + value.error().message;
      return std::unexpected(value.error());
    }
    build.secrets[id] = std::move(*value);
  }
  return {};
}

Result<computers::ImageBuild> build_of(const Options& options) {
  computers::ImageBuild build;
  build.context = options.source;
  build.name = options.name;
  build.target = options.target;
  build.platform = options.platform;
  build.uses_cache = !options.has_no_cache;
  MEMBRANE_TRY(add_policy(options, build));
  MEMBRANE_TRY(add_secrets(options, build));
  const std::string file = options.dockerfile.empty() ? options.source + "/Dockerfile" : options.dockerfile;
  auto text = text_of_file(file);
  if (!text) {
    text.error().hint = "Create it there, or name another one with -f.";
    return std::unexpected(text.error());
  }
  build.dockerfile = std::move(*text);
  for (const std::string& ignored : {file + ".dockerignore", options.source + "/.dockerignore"}) {
    auto found = text_of_file(ignored);
    if (!found && found.error().code == ErrorCode::kNotFound) continue;
    if (!found) return std::unexpected(found.error());
    build.ignored = std::move(*found);
    break;
  }
  for (const std::string& each : options.arguments) {
    const size_t equals = each.find('=');
    if (equals == each.npos || equals == 0)
      return fail(ErrorCode::kInvalidArgument, "--build-arg needs NAME=VALUE, but has \"" + each + '"');
    build.arguments[each.substr(0, equals)] = each.substr(equals + 1);
  }
  return build;
}

bool is_reproducible(const computers::BuiltImage& built) {
  return std::ranges::all_of(built.network, &computers::NetworkStep::is_pinned);
}

// The steps that used the network, so that nobody takes the image for reproducible.
void print_network(const computers::BuiltImage& built) {
  for (const computers::NetworkStep& step : built.network) {
    std::string shown = "network: line " + std::to_string(step.line) + ", " + step.instruction;
    if (step.is_cached && step.hosts.empty()) shown += " (cached)";
    std::string_view separator = ": ";
    for (const computers::ContactedHost& host : step.hosts) {
      shown += std::string(separator) + host.host;
      if (host.refused == host.calls) shown += " (refused)";
      else
        shown += " (" + count_of(host.bytes_in, "byte") + " in, " + std::to_string(host.bytes_out) + " out" +
                 (host.refused > 0 ? ", " + std::to_string(host.refused) + " refused" : "") + ")";
      separator = ", ";
    }
    if (step.unlisted_calls > 0) shown += ", and " + count_of(step.unlisted_calls, "call") + " more";
    print(stderr, shown + "\n");
  }
  if (!is_reproducible(built))
    print(stderr,
          "note: the same build may give another image later, since these steps used the network; they are "
          "cached by the text of the Dockerfile, and --no-cache repeats them\n");
}

nlohmann::ordered_json json_of_network(const computers::BuiltImage& built) {
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const computers::NetworkStep& step : built.network) {
    nlohmann::ordered_json hosts = nlohmann::ordered_json::array();
    for (const computers::ContactedHost& host : step.hosts)
      hosts.push_back({{"host", host.host},
                       {"calls", host.calls},
                       {"refused", host.refused},
                       {"bytes_in", host.bytes_in},
                       {"bytes_out", host.bytes_out}});
    steps.push_back({{"line", step.line},
                     {"instruction", step.instruction},
                     {"cached", step.is_cached},
                     {"pinned", step.is_pinned},
                     {"hosts", std::move(hosts)},
                     {"unlisted_calls", step.unlisted_calls}});
  }
  return steps;
}

Result<int> build(const Options& options) {
  MEMBRANE_ASSIGN(computers::ImageBuild build, build_of(options));
  std::string last;  // of a quiet build: the step that continues, with the end of what it prints
  if (!options.is_quiet) {
    build.on_step = [](const std::string& step) { print(stderr, step + "\n"); };
    build.on_output = [](std::string_view text) { print(stderr, std::string(text)); };
  } else {
    build.on_step = [&last](const std::string& step) { last = step + "\n"; };
    build.on_output = [&last](std::string_view text) {
      constexpr size_t kMostBytes = 64u << 10;
      last += text;
      if (last.size() > 2 * kMostBytes) last.erase(0, last.size() - kMostBytes);
    };
  }
  build.on_warning = [](const std::string& warning) { print(stderr, "warning: " + warning + "\n"); };
  build.is_cancelled = [] { return interrupted.load(); };
  std::signal(SIGINT, [](int) {
    interrupted = true;
    std::signal(SIGINT, SIG_DFL);  // the next one ends a program that does not poll
  });
  const auto built_or_not = computers::build_image(build);
  if (!built_or_not) {
    print(stderr, last);
    return std::unexpected(built_or_not.error());
  }
  const computers::BuiltImage& built = *built_or_not;
  print_network(built);
  if (options.json)
    print_json(nlohmann::ordered_json{{"name", built.image.name},
                                      {"digest", "sha256:" + built.digest},
                                      {"size_bytes", built.image.size_bytes},
                                      {"carried_out", built.carried_out},
                                      {"cached", built.cached},
                                      {"reproducible", is_reproducible(built)},
                                      {"network", json_of_network(built)}});
  else print(built.image.name + "  " + size_text(built.image.size_bytes) + "  sha256:" + built.digest + "\n");
  return kExitOk;
}

Result<int> prune(const Options& options) {
  MEMBRANE_ASSIGN(const computers::LayerCache cache, computers::LayerCache::open());
  MEMBRANE_ASSIGN(const auto pruned, cache.prune());
  if (options.json) print_json(nlohmann::ordered_json{{"files", pruned.files}, {"bytes", pruned.bytes}});
  else print(count_of(pruned.files, "file") + ", " + size_text(pruned.bytes) + "\n");
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
  CLI::App* const image = app.add_subcommand("image", "Manage the file systems of Linux sandboxes");
  image->require_subcommand(1);
  const auto options = std::make_shared<Options>();

  CLI::App* const ls = image->add_subcommand("ls", "List the images");
  ls->add_flag("--json", options->json, "Print them as JSON");
  ls->footer("Examples:\n  membrane image ls --json");
  on(ls, options, exit_code, &list);

  CLI::App* const import_command = image->add_subcommand(
      "import",
      "Make an image from a tarball of a file system, a `docker save` archive, an OCI layout or a directory");
  import_command->add_option("source", options->source, "The file or directory")
      ->type_name("FILE")
      ->required();
  import_command->add_option("-t,--tag", options->name, "Its name")->type_name("NAME")->required();
  import_command->footer(
      "Examples:\n"
      "  membrane image import rootfs.tar --tag mine\n"
      "  membrane image import saved-by-docker.tar --tag theirs");
  on(import_command, options, exit_code, &import);

  CLI::App* const build_command = image->add_subcommand("build", "Make an image from a Dockerfile");
  build_command
      ->add_option("context", options->source, "The directory from which COPY copies (default: this one)")
      ->type_name("CONTEXT")
      ->default_str(".");
  build_command->add_option("-t,--tag", options->name, "Its name")->type_name("NAME")->required();
  build_command->add_option("-f,--file", options->dockerfile, "The Dockerfile (default: CONTEXT/Dockerfile)")
      ->type_name("FILE");
  add_repeatable(*build_command, "--build-arg", options->arguments, "The value of an ARG; may be repeated")
      ->type_name("NAME=VALUE");
  build_command->add_option("--target", options->target, "The stage to build (default: the last)")
      ->type_name("STAGE");
  build_command
      ->add_option("--platform", options->platform, "trap or kvm (default: the faster one of this machine)")
      ->type_name("PLATFORM");
  build_command
      ->add_option("--policy", options->policy,
                   "Policy file, TOML or JSON: hosts and limits (docs/policy.md)")
      ->type_name("FILE");
  add_repeatable(*build_command, "--allow", options->allow,
                 "Grant RUN and ADD, on top of the policy: http:example.org, http:GET:https://example.org/*; "
                 "may be repeated")
      ->type_name("GRANT");
  add_repeatable(*build_command, "--secret", options->secrets,
                 "A file for RUN --mount=type=secret,id=NAME, which is in no layer; may be repeated")
      ->type_name("id=NAME,src=FILE");
  const auto add_limit = [&](const char* name, const char* type, const char* help) {
    std::string flag = std::string("--") + name;
    std::ranges::replace(flag, '_', '-');
    build_command->add_option(flag, options->limits[name], help)->type_name(type);
  };
  add_limit("memory", "SIZE", "Memory of all processes of a RUN, as 512MiB (default: 2GiB)");
  add_limit("wall", "TIME", "How long a RUN may take, as 10s or 5min (default: 10min)");
  add_limit("disk", "SIZE", "What a stage may add to the image that it begins with (default: 4GiB)");
  add_limit("tasks", "N", "Processes and threads of a RUN at a time (default: 512)");
  add_limit("host_calls", "N", "Requests and connections of a RUN (default: 100000)");
  add_limit("bytes_in", "SIZE", "Bytes from the network to a RUN or an ADD (default: 64GiB)");
  add_limit("bytes_out", "SIZE", "Bytes from a RUN to the network (default: 64GiB)");
  build_command->add_flag("--no-cache", options->has_no_cache, "Carry out every instruction again");
  build_command->add_flag("-q,--quiet", options->is_quiet, "Print neither the steps nor their output");
  build_command->add_flag("--json", options->json, "Print what was built as JSON");
  build_command->footer(
      "Examples:\n"
      "  membrane image build -t mine .\n"
      "  membrane image build -f Dockerfile -t mine --build-arg VERSION=2 src\n"
      "  membrane image build -t mine --allow http:INDEX --allow http:FILES .\n"
      "The same files and the same Dockerfile give the same image, except for steps that use the network: a "
      "RUN "
      "or ADD "
      "reaches the hosts that are granted, none by default.");
  on(build_command, options, exit_code, &build);

  CLI::App* const prune_command = image->add_subcommand(
      "prune", "Remove layers of builds that no image uses, and the remains of removed and replaced images");
  prune_command->add_flag("--json", options->json, "Print what was removed as JSON");
  prune_command->footer(
      "Examples:\n  membrane image prune\n"
      "Sandboxes of a service that use a removed image cannot be resumed later.");
  on(prune_command, options, exit_code, &prune);

  CLI::App* const rm = image->add_subcommand("rm", "Remove images");
  rm->add_option("name", options->names, "The images")->type_name("NAME")->required();
  rm->footer("Examples:\n  membrane image rm mine\n  membrane image rm mine theirs");
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
      "  membrane image build -t mine .\n"
      "  membrane run --kind linux --image mine -- sh -c 'uname -a'\n"
      "In Membrane's source tree, `make images` makes a Debian with Python, git, gcc and Node, called "
      "debian, "
      "from this machine's apt sources.");
}

}  // namespace membrane::cli
