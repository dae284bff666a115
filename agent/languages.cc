#include "agent/languages.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "lang/language_names.h"

namespace membrane::agent {

namespace {

// Modules that a person looks for, under the name of the package and the one that programs import.
struct Import {
  std::string_view package;
  std::string_view name;
};
constexpr Import kImports[] = {
    {"numpy", "numpy"},
    {"pandas", "pandas"},
    {"scipy", "scipy"},
    {"matplotlib", "matplotlib"},
    {"seaborn", "seaborn"},
    {"scikit-learn", "sklearn"},
    {"statsmodels", "statsmodels"},
    {"sympy", "sympy"},
    {"networkx", "networkx"},
    {"pillow", "PIL"},
    {"lxml", "lxml"},
    {"beautifulsoup4", "bs4"},
    {"openpyxl", "openpyxl"},
    {"xlsxwriter", "xlsxwriter"},
    {"pypdf", "pypdf"},
    {"reportlab", "reportlab"},
    {"pyyaml", "yaml"},
    {"jinja2", "jinja2"},
    {"python-dateutil", "dateutil"},
    {"regex", "regex"},
};

constexpr std::streamsize kMaxManifestBytes = 64 << 10;

// Lines "package NAME VERSION".
std::vector<std::string> modules_of(const lang::Package& package) {
  std::ifstream in(std::filesystem::path(package.directory) / "MANIFEST", std::ios::binary);
  std::string text(kMaxManifestBytes, '\0');
  in.read(text.data(), kMaxManifestBytes);
  text.resize(static_cast<size_t>(in.gcount()));
  std::vector<std::string> there, modules;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, name;
    if (words >> kind >> name && kind == "package") there.push_back(lower_case(name));
  }
  for (const Import& import : kImports)
    if (std::ranges::find(there, import.package) != there.end()) modules.emplace_back(import.name);
  return modules;
}

Language known(std::string_view name) {
  for (const lang::KnownLanguage& each : lang::known_languages()) {
    if (each.name != name) continue;
    Language language{std::string(name), std::string(each.title), {}};
    for (const std::string_view tag : each.tags)
      if (!tag.empty()) language.tags.emplace_back(tag);
    return language;
  }
  return {std::string(name), std::string(name), {lower_case(name)}};
}

// A name is part of a path, and may come from a transcript.
Status check_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (!name.empty() && std::ranges::all_of(name, fits)) return {};
  return fail(ErrorCode::kInvalidArgument,
              "\"" + std::string(name.substr(0, 64)) + "\" is no name of a language",
              "Write it as python, js or wat; several with commas.");
}

}  // namespace

Language wat() { return known(kWat); }

Language shell() { return {std::string(kShell), "the shell", {"bash"}}; }

Language language_of_package(const lang::Package& package) {
  Language language = known(package.name);
  language.version = package.version;
  if (package.driver == lang::Driver::kPython) language.modules = modules_of(package);
  for (const std::string& extension : package.extensions) {
    const std::string tag = lower_case(extension.starts_with('.') ? extension.substr(1) : extension);
    if (tag == "ts")
      language.tags.insert(language.tags.end(), lang::typescript_tags().begin(),
                           lang::typescript_tags().end());
    else if (!lang::is_typescript(tag) && std::ranges::find(language.tags, tag) == language.tags.end())
      language.tags.push_back(tag);
  }
  return language;
}

const Language* find_language(std::span<const Language> languages, std::string_view tag) {
  const std::string wanted = lower_case(tag);
  for (const Language& language : languages)
    if (language.name == wanted || std::ranges::find(language.tags, wanted) != language.tags.end())
      return &language;
  return nullptr;
}

std::string list_of(std::span<const Language> languages) {
  std::string out;
  for (size_t i = 0; i < languages.size(); ++i) {
    if (i != 0) out += i + 1 == languages.size() ? " or " : ", ";
    out += languages[i].title + " (```" + languages[i].tags.front() + ")";
  }
  return out;
}

Result<std::vector<Language>> choose_languages(std::span<const std::string> names) {
  std::vector<Language> chosen;
  for (const std::string& word : names) {
    const std::string name = lang::language_named(word);
    MEMBRANE_TRY(check_name(name));
    if (std::ranges::any_of(chosen, [&](const Language& language) { return language.name == name; }))
      continue;
    if (name == kWat) {
      chosen.push_back(wat());
      continue;
    }
    if (name == kShell)
      return fail(ErrorCode::kInvalidArgument, "shell is no language that programs are in",
                  "Write --kind linux: the model acts by commands then.");
    MEMBRANE_ASSIGN(const lang::Package package, lang::find_package(name));
    chosen.push_back(language_of_package(package));
  }
  if (!chosen.empty()) return chosen;
  for (const char* const name : {"python", "js"})
    if (const auto package = lang::find_package(name)) return std::vector{language_of_package(*package)};
  return std::vector{wat()};
}

}  // namespace membrane::agent
