// Registers the classes and functions of the timing simulator in the extension module.
#pragma once

#include <nanobind/nanobind.h>

void bind_togsim(nanobind::module_& module);
