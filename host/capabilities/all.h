// Collected by the registry: the functions of each capability.
#pragma once

#include <span>
#include <string_view>

#include "host/registry.h"

namespace membrane::host {

std::span<const FunctionSpec> io_functions();
std::span<const FunctionSpec> http_functions();
std::span<const FunctionSpec> kv_functions();
std::span<const FunctionSpec> fs_functions();
std::span<const FunctionSpec> ai_functions();
std::span<const FunctionSpec> sql_functions();
std::span<const FunctionSpec> json_functions();
std::span<const FunctionSpec> str_functions();
std::span<const FunctionSpec> list_functions();
std::span<const FunctionSpec> map_functions();
std::span<const FunctionSpec> builder_functions();
std::span<const FunctionSpec> time_functions();
std::span<const FunctionSpec> random_functions();
std::span<const FunctionSpec> log_functions();
std::span<const FunctionSpec> agent_functions();

// The query of sql.schema.
inline constexpr std::string_view kSchemaQuery =
    "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid";

}  // namespace membrane::host
