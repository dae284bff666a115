#include "agent/actions/prompt.h"

#include <algorithm>
#include <iterator>

#include "agent/actions/computer_actions.h"
#include "base/text.h"
#include "host/calls/registry.h"
#include "lang/language_names.h"
#include "policy/quantity.h"

namespace membrane::agent {

namespace {

constexpr std::string_view kSubmission =
    R"(2. Give the answer: call the tool submit, or write a line that begins with ANSWER: and the answer.
   A program may also submit it itself, with )";

constexpr std::string_view kAsking =
    R"(3. Ask what host functions do, also those after "more" below: call the tool capabilities, or write
```run
capabilities str
```
)";

constexpr std::string_view kAfterwards =
    R"(Then you get an observation: the outcome, what was printed, what failed and how to fix it. Never invent one, and never
answer from memory what a program can find out.
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
Plain WAT is accepted (WebAssembly 3.0). Nothing is kept between programs: send the whole program each time.
These forms make it short:
- `(module …)`, memory, exports and the import of a `$group.function` that is called may be left out.
- In folded instructions `$x` reads a local, `42` has the type that is taken there, and `"text"` is the address of a
  string: `(i32.add $x 1)`, `(call $io.println "text")`, `(set $s "text")`.
- `(concat A B …)` joins strings; numbers first become text: `(call $str.from_i32 $n)`. `(char "a")` is 97.
  Text that grows in a loop: `(set $b (call $builder.new))`, `(call $builder.add $b "x")`, then `(call $builder.text $b)`.
- `(call $http.get! URL)`: a failure stops the program and is reported; only the value is left, so calls nest.
  Without `!`, what can fail leaves its value, then its errno: `(set $body $errno (call $http.get URL))`.
- `(set $x VALUE)` declares a local at its first use, of the type of VALUE: an i32, or what `0.0`, `(i64.const 0)` or a
  call gives; `(inc $x)`, `(dec $x)`, `(inc $x 5)`.
- `(while CONDITION BODY…)`; `(for $i FROM TO BODY…)` up to, not including, TO, evaluated once; `(break)`, `(continue)`.
- `(each $x LIST BODY…)`, with an index `(each $x $i LIST BODY…)`: for each string of a list. A list is
  `(lines TEXT)`, `(words TEXT)`, `(split TEXT ",")`, `(items JSON)` for a JSON array, or what gives `->list` below.
- `(alloc N)`: the address of N bytes that are 0, for arrays: `(i32.store (i32.add $a (i32.mul $i 4)) $v)`.
A string in memory is a u32 length and then the bytes: `(i32.load $s)`, first byte at `$s + 4`. Compare strings with
`$str.eq`. Parameters are declared as in plain WAT; so are locals that must be set before their type shows.
Example: how often words come in a file, the three most frequent first.
```wat
(func (export "main")
  (set $counts (call $map.new))
  (each $line (lines (call $fs.read! "/data/a.txt"))
    (each $word (words (call $str.lower $line))
      (call $map.add $counts $word 1)))
  (each $word (call $map.top $counts 3)
    (call $io.println (concat $word ": " (call $str.from_i32 (call $map.get $counts $word))))))
```
)";

constexpr std::string_view kErrnos =
    "errno: 0 OK, 1 EACCES (denied), 2 ENOENT, 4 EINVAL, 5 EBUDGET, 6 ETIMEDOUT, 15 ECONNECT.\n";

constexpr std::string_view kSignatures =
    R"(`find(text needle from#)->#` of `str` is `(call $str.find $s "x" 0)`. What has no type is a string, `#` is an i32, `!` can
fail, `a/b(…)` are alike. Only those of http, kv, fs, ai, sql, time.now_ms and agent.ask count as host calls.
)";

// What languages have themselves, so that nobody needs the capability for it.
constexpr std::string_view kOfEveryLanguage[] = {"io",      "json", "str",    "list", "map",
                                                 "builder", "time", "random", "log"};

constexpr std::string_view kFailures =
    R"(A host function that fails raises an error instead of giving an errno. A denial (PermissionError) names the grant, which
only the person can give: go another way, or say so in the answer.
)";

// How a language is used here. Every sentence costs tokens at every step.
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

const Use& use_of(const ActionLanguage& language) {
  for (const Use& use : kUses)
    if (use.language == language.name) return use;
  return kAnyUse;
}

bool has_wat(std::span<const ActionLanguage> languages) { return find_language(languages, kWat) != nullptr; }

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

std::string role(std::span<const ActionLanguage> languages) {
  std::vector<std::string> titles;
  for (const ActionLanguage& language : languages)
    titles.push_back(language.name == kWat ? "WebAssembly text (WAT)" : language.title);
  return "You solve the user's task by writing small programs in " + joined(titles, " or ") +
         ". Each runs in a sandbox that\nreaches the world only as far as the policy below allows.\n";
}

std::string loop_rules(std::span<const ActionLanguage> languages) {
  std::string out =
      "\n# The loop\nThink briefly, then do one thing a reply:\n"
      "1. Run a program: call the tool run_program, or write one fenced block";
  if (languages.size() > 1) out += ", whose tag is the language";
  out += "\n";
  std::vector<std::string> submits;
  for (const ActionLanguage& language : languages) {
    const Use& use = use_of(language);
    out += "```" + language.tags.front() + "\n" + std::string(use.example) + "\n```\n";
    submits.emplace_back(use.submit);
    if (languages.size() > 1) submits.back() += " (" + language.title + ")";
  }
  if (has_wat(languages)) out += kWatComments;
  out += kSubmission;
  out += joined(submits, " or ") + ".\n";
  if (has_wat(languages)) out += kAsking;
  return out + std::string(kAfterwards);
}

bool is_granted(const PromptParts& parts, std::string_view module) {
  return std::ranges::find(parts.ungranted, module) == parts.ungranted.end();
}

std::string section_of(const ActionLanguage& language, const PromptParts& parts) {
  if (language.name == kWat) return std::string(kDialect);
  std::string out = "\n# " + language.title;
  if (!language.version.empty()) out += " (" + language.version + ")";
  out += "\n" + std::string(use_of(language).rules);
  if (!language.modules.empty()) out += "Also there: " + joined(language.modules, " and ") + ".\n";
  const bool is_python = language.name == "python";
  if (is_python && std::ranges::find(language.modules, "numpy") != language.modules.end())
    out +=
        "int as a dtype of numpy, as in np.arange and an array's astype(int), has 32 bits here and overflows "
        "silently: write \"int64\" for large values.\n";
  if (is_python && is_granted(parts, "http"))
    out +=
        "`requests` and `urllib.request` fetch what is granted, in threads at once; `http.get(url)`, the "
        "bytes, costs less.\n";
  if (is_python && is_granted(parts, "fs")) out += "Granted directories are at their paths, for open().\n";
  if (language.name == "js" && is_granted(parts, "http")) out += "`fetch` fetches what is granted.\n";
  if (std::ranges::any_of(language.tags, lang::is_typescript))
    out += "A ```ts block runs without its types.\n";
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

std::string functions_prompt(std::span<const ActionLanguage> languages,
                             std::span<const std::string_view> ungranted) {
  if (has_wat(languages))
    return std::string(kSignatures) + host::capabilities_signatures(ungranted) + std::string(kErrnos);
  const auto have_itself = [&](std::string_view name) {
    return std::ranges::find(kOfEveryLanguage, name) != std::end(kOfEveryLanguage) ||
           std::ranges::all_of(languages, [&](const ActionLanguage& language) {
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
  if (parts.max_steps != 0) out += "You have " + count_of(parts.max_steps, "step") + ". ";
  if (parts.observation_bytes != 0)
    out += "An observation holds at most " + count_of(parts.observation_bytes, "byte") +
           ", so print only what you need.\n";
  if (parts.catalog != nullptr && !parts.catalog->entries().empty()) {
    out += kCatalogUse;
    out += has_wat(parts.languages) ? render_short_list(*parts.catalog, parts.ungranted)
                                    : render_list(*parts.catalog, parts.ungranted);
  }
  for (const ActionLanguage& language : parts.languages) out += section_of(language, parts);
  if (!has_wat(parts.languages) || parts.languages.size() > 1) out += kFailures;
  if (!parts.capabilities.empty()) out += "\n# Host functions\n" + ended(parts.capabilities);
  out += "\n# The policy\n";
  out += parts.policy_explanation.empty() ? "Nothing outside of the program is granted.\n"
                                          : ended(parts.policy_explanation);
  return out;
}

namespace {

constexpr std::string_view kComputerRole =
    R"(You solve the user's task in a Linux sandbox of your own, by shell commands and edits. Nothing of the user's machine can be harmed from
there, and you are its superuser.

# The loop
Think briefly, then do one thing a reply:
1. Act: call a tool, or write one fenced block. A command:
```bash
git status --short
```
A whole file, the replacement of a text that stands there exactly once, a part of a file, a search by a regular expression:
```write PATH
CONTENT
```
```edit PATH
<<<<<<< OLD
OLD LINES
=======
NEW LINES
>>>>>>> NEW
```
```read PATH FROM LINES
```
```search PATH
PATTERN
```
)";

constexpr std::string_view kComputerEnd =
    R"(Then you get an observation: the output, the exit code if it is not 0, the time. Never invent one. Long output is cut in the middle: print
little, and look at files in parts.
Each command is a bash of its own, without a terminal, and begins in the same directory: `cd` and variables do not stay, files do. A
program that is to go on running is started with `&` and its output in a file. A step that ended badly may have changed files all the same.
)";

}  // namespace

std::string build_computer_prompt(const ComputerPromptParts& parts) {
  const auto has = [&](std::string_view entry) {
    return std::ranges::find(parts.without, entry) == parts.without.end();
  };
  std::string out(kComputerRole);
  if (has(kDiffEntry)) out += "What has changed since the beginning, as a git patch:\n```diff\n```\n";
  if (has(kUndoEntry))
    out += "All files as they were before your last changing steps, here 2 of them:\n```undo 2\n```\n";
  out +=
      "2. Give the answer: call the tool submit, or write a line that begins with ANSWER: and the answer "
      "after it.\n";
  out += kComputerEnd;
  if (parts.max_steps != 0) out += "You have " + count_of(parts.max_steps, "step") + ". ";
  if (parts.observation_bytes != 0)
    out += "An observation holds at most " + count_of(parts.observation_bytes, "byte") + ".\n";
  out += "\n# The sandbox\nCommands begin in " + parts.directory + ".\n";
  if (!parts.copied.empty()) out += "The user's files are copies: " + joined(parts.copied, " and ") + ".\n";
  out += parts.programs.empty() ? "Which programs it has is not known.\n"
                                : "Among its programs: " + joined(parts.programs, " and ") + ".\n";
  return out + "\n# The policy\n" + ended(parts.policy_explanation);
}

std::string explain_computer(const policy::Policy& policy) {
  const policy::Limits& limits = policy.limits;
  std::string out;
  for (const policy::HttpGrant& grant : policy.http) {
    std::vector<std::string> added;
    for (const auto& [name, value] : grant.headers) added.push_back(name);
    out += "http: " + joined(grant.methods, " and ") + " to " + grant.url +
           (added.empty() ? "" : "; " + joined(added, " and ") + " is added outside of the sandbox") + ".\n";
  }
  if (policy.http.empty())
    out += "There is no network except the sandbox's own loopback: nothing can be downloaded or installed.\n";
  for (const policy::FsGrant& grant : policy.fs)
    out += grant.guest + " is a directory of the user's" +
           (grant.mode == policy::FsMode::kWrite ? ": what you change there is changed for the user.\n"
                                                 : ", read-only.\n");
  return out + "A command has " + policy::format_duration(limits.wall_ms) + " and may print " +
         policy::format_size(limits.output_bytes) + "; the sandbox has " +
         policy::format_size(limits.memory_bytes) + " of memory, " + policy::format_size(limits.disk_bytes) +
         " of disk, " + std::to_string(limits.tasks) + " processes and threads, " +
         policy::format_duration(limits.cpu_ms) + " of CPU time.\n";
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
