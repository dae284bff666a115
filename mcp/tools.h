// The offered tools, as data: names, descriptions, parameters, results.
//
// For .cc files of this floor. Threads: values; call_tool() from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mcp/arguments.h"
#include "mcp/backend.h"
#include "mcp/content.h"
#include "mcp/revision.h"

namespace membrane::mcp {

struct ToolCall {
  Backend& backend;
  const Caller& caller;
  const Arguments& arguments;
};

struct Tool {
  std::string name;
  std::string title;
  std::string description;
  std::vector<Parameter> parameters = {};
  OrderedJson output_schema;
  // Hints that a client may show its user: changes nothing; deletes something; may reach beyond the sandbox.
  bool only_reads = false, destroys = false, is_open_world = false;
  ToolAnswer (*call)(const ToolCall& call) = nullptr;
};

// Always in the same order. The descriptions contain the grants and the limits.
std::vector<Tool> tools_for(const Offer& offer);
const Tool* find_tool(const std::vector<Tool>& tools, std::string_view name);
// The form of tools/list.
OrderedJson description_of(const Tool& tool, Revision revision);
// `arguments` must be an object. Invalid arguments give a failed answer.
ToolAnswer call_tool(const Tool& tool, Json arguments, Backend& backend, const Caller& caller);

// For a client's system prompt: how the tools work together.
std::string instructions();

}  // namespace membrane::mcp
