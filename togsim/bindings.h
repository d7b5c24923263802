// Registers the classes and functions of the timing simulator in the extension module.
#pragma once

#include <nanobind/nanobind.h>

void bind_togsim(nanobind::module_& module);

// Parts of it.
void bind_lane_core(nanobind::module_& module);  // lane_core_bindings.cc
void bind_machine(nanobind::module_& module);    // machine_bindings.cc
