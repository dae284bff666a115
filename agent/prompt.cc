#include "agent/prompt.h"

#include <algorithm>
#include <iterator>

#include "host/registry.h"

namespace membrane::agent {

namespace {

constexpr std::string_view kSubmission =
    R"(2. Give the answer: call the tool submit, or write a line that begins with ANSWER: and the answer behind it.
   A program may also submit it itself, with )";

constexpr std::string_view kAfterwards =
    R"(You then get an observation: the outcome, what the program printed, what failed and how to mend it. Never invent an
observation, and never answer from memory what a program can find out. On an error, mend what it names and go on.
)";

constexpr std::string_view kWatComments =
    R"(   In WAT its first lines may be `;; entry: NAME`, `;; arguments: 2 40`, `;; input: TEXT`.
)";

constexpr std::string_view kCatalogUse = R"(
# Ready programs
Prefer one of these where it fits: call the tool run_catalog, or write
```run
NAME ARGUMENTS
INPUT
```
)";

constexpr std::string_view kDialect = R"(
# WAT
Plain WAT is accepted (WebAssembly 3.0). Nothing is kept between programs in WAT but what they store through a
capability; send the whole program each time. Use i32 unless you need more. These forms make it short:
- `(module …)`, the memory, exports, and the import of any `$capability.function` that is called may be left out.
- `(string "text\n")`: the address of a string; `(concat A B …)`: of the strings joined; `(char "a")`: 97.
- `(call $http.get! URL)`: a failure stops the program and is reported; only the value is left, so calls nest.
  Without `!`, a function that can fail leaves its value, then its errno: `(set $body $errno (call $http.get URL))`.
- In folded instructions `$x` reads a local, `42` is a number of the type that is taken there, and `"text"` is
  `(string "text")`: `(i32.add $x 1)`, `(f64.mul $y 2)`, `(call $io.println "text")`.
- `(set $x VALUE)` declares a local at its first use, of the type that VALUE has: an i32, or what `1.5`, `(i64.add …)`
  or a call gives; `(inc $x)`, `(dec $x)`.
- `(while CONDITION BODY…)`; `(for $i FROM TO BODY…)` counts up to, not including, TO; `(break)`, `(continue)`.
Parameters are declared as in plain WAT; so are locals that must be set before their type shows. Memory below 1024 is free for your own use.
Example: the sum of the bytes of a file.
```wat
(func (export "main")
  (set $text (call $fs.read! (string "/data/a.txt")))
  (for $i 0 (i32.load $text)
    (set $sum (i32.add $sum (i32.load8_u (i32.add (i32.add $text 4) $i)))))
  (call $io.print (string "sum: "))
  (call $io.print_i32 $sum))
```
)";

// What languages have in themselves, so that nobody needs the capability for it.
constexpr std::string_view kOfEveryLanguage[] = {"io", "json", "str", "time", "random", "log"};

constexpr std::string_view kFailures =
    R"(A host function that fails raises an error instead of giving an errno. A denial (PermissionError) names the grant, which
only the person can give: go another way, or say so in the answer.
)";

// How a language is used here. Every sentence is paid at every step.
struct Use {
  std::string_view language;
  std::string_view example;  // of a program
  std::string_view submit;
  std::string_view rules;
  std::string_view has = {};  // capabilities that it has in itself, beyond those of every language
};
constexpr Use kUses[] = {
    {kWat, "(func (export \"main\") …)", "`$agent.submit`", ""},
    {"python", "print(2 + 40)", "`from membrane import agent; agent.submit(text)`",
     R"(One session for all steps: names, imports and files in /tmp stay, so send only what is new. A step that runs out of
fuel, time or memory is undone. The value of the last expression is shown, as is what is printed; print little.
The standard library is there, without processes, sockets and pip; threads overlap what they wait for. Host functions: `from membrane import NAME`.
)",
     "http fs"},
    {"js", "console.log(2 + 40)", "`membrane.agent.submit(text)`",
     R"(One session for all steps: top-level names stay, so send only what is new. A step that runs out of fuel, time or memory
is undone. The value of the last expression is shown, as is what is printed; print little. `await` stands at the top.
There are no packages and no node: modules. Host functions: `membrane.NAME`, plain calls.
)",
     "http"},
};
constexpr Use kAnyUse{
    "", "…", "the host function agent.submit",
    "One session for all steps: state stays, so send only what is new. Print what you need.\n"};

const Use& use_of(const Language& language) {
  for (const Use& use : kUses)
    if (use.language == language.name) return use;
  return kAnyUse;
}

bool has_wat(std::span<const Language> languages) { return find_language(languages, kWat) != nullptr; }

std::string ended(std::string text) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

std::string joined(const std::vector<std::string>& words, std::string_view last) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i != 0) out += i + 1 == words.size() ? std::string(last) : ", ";
    out += words[i];
  }
  return out;
}

std::string role(std::span<const Language> languages) {
  std::vector<std::string> titles;
  for (const Language& language : languages)
    titles.push_back(language.name == kWat ? "WebAssembly text (WAT)" : language.title);
  return "You solve the user's task by writing small programs in " + joined(titles, " or ") +
         ". Each runs in a sandbox that\nreaches the world only as far as the policy below allows.\n";
}

std::string loop_rules(std::span<const Language> languages) {
  std::string out =
      "\n# The loop\nThink briefly, then do one thing a reply:\n"
      "1. Run a program: call the tool run_program, or write one fenced block";
  if (languages.size() > 1) out += ", whose tag is the language";
  out += "\n";
  std::vector<std::string> submits;
  for (const Language& language : languages) {
    const Use& use = use_of(language);
    out += "```" + language.tags.front() + "\n" + std::string(use.example) + "\n```\n";
    submits.emplace_back(use.submit);
    if (languages.size() > 1) submits.back() += " (" + language.title + ")";
  }
  if (has_wat(languages)) out += kWatComments;
  out += kSubmission;
  return out + joined(submits, " or ") + ".\n" + std::string(kAfterwards);
}

bool is_granted(const PromptParts& parts, std::string_view module) {
  return std::ranges::find(parts.ungranted, module) == parts.ungranted.end();
}

std::string section_of(const Language& language, const PromptParts& parts) {
  if (language.name == kWat) return std::string(kDialect);
  std::string out = "\n# " + language.title;
  if (!language.version.empty()) out += " (" + language.version + ")";
  out += "\n" + std::string(use_of(language).rules);
  if (!language.modules.empty()) out += "Also there: " + joined(language.modules, " and ") + ".\n";
  const bool is_python = language.name == "python";
  if (is_python && is_granted(parts, "http"))
    out +=
        "`requests` and `urllib.request` fetch what is granted, in threads at once; `http.get(url)`, the "
        "bytes, costs less.\n";
  if (is_python && is_granted(parts, "fs")) out += "Granted directories stand at their paths, for open().\n";
  if (language.name == "js" && is_granted(parts, "http")) out += "`fetch` fetches what is granted.\n";
  if (std::ranges::any_of(language.tags, is_typescript)) out += "A ```ts block runs without its types.\n";
  return out;
}

// "kv.get(key) -> value": a failure is raised, so there is no errno.
std::string signature_without_errno(const host::FunctionSpec& function) {
  std::string signature = host::signature_of(function);
  for (const std::string_view tail : {", errno", " -> errno"})
    if (signature.ends_with(tail)) return signature.substr(0, signature.size() - tail.size());
  return signature;
}

}  // namespace

std::string functions_prompt(std::span<const Language> languages,
                             std::span<const std::string_view> ungranted) {
  if (has_wat(languages)) return host::capabilities_prompt(ungranted);
  const auto have_itself = [&](std::string_view name) {
    return std::ranges::find(kOfEveryLanguage, name) != std::end(kOfEveryLanguage) ||
           std::ranges::all_of(languages, [&](const Language& language) {
             return use_of(language).has.find(name) != std::string_view::npos;
           });
  };
  std::string out;
  for (const host::Capability& capability : host::capabilities()) {
    if (std::ranges::find(ungranted, capability.name) != ungranted.end() || have_itself(capability.name))
      continue;
    for (const host::FunctionSpec& function : capability.functions)
      if (function.in_prompt)
        out += signature_without_errno(function) + " — " + std::string(function.summary) + "\n";
  }
  return out;
}

std::string build_system_prompt(const PromptParts& parts) {
  std::string out = role(parts.languages) + loop_rules(parts.languages);
  if (parts.max_steps != 0) out += "You have " + std::to_string(parts.max_steps) + " steps. ";
  if (parts.observation_bytes != 0)
    out += "An observation holds at most " + std::to_string(parts.observation_bytes) +
           " bytes, so print only what you need.\n";
  if (parts.catalog != nullptr && !parts.catalog->entries().empty()) {
    out += kCatalogUse;
    out += render_list(*parts.catalog, parts.ungranted);
  }
  for (const Language& language : parts.languages) out += section_of(language, parts);
  if (!has_wat(parts.languages) || parts.languages.size() > 1) out += kFailures;
  if (!parts.capabilities.empty()) out += "\n# Host functions\n" + ended(parts.capabilities);
  out += "\n# The policy\n";
  out += parts.policy_explanation.empty() ? "Nothing outside of the program is granted.\n"
                                          : ended(parts.policy_explanation);
  return out;
}

std::vector<std::string_view> ungranted(const policy::Policy& policy) {
  std::vector<std::string_view> modules;
  if (policy.http.empty()) modules.push_back("http");
  if (policy.fs.empty()) modules.push_back("fs");
  if (!policy.kv) modules.push_back("kv");
  if (policy.sql.empty()) modules.push_back("sql");
  if (!policy.ai) modules.push_back("ai");
  return modules;
}

}  // namespace membrane::agent
