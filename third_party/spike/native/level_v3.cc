// The bodies compiled for x86-64-v3 (flags in CMakeLists.txt).
#define NPU_LEVEL v3
#include "native/make_bodies.h"
