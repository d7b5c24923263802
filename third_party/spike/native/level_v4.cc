// The bodies compiled for x86-64-v4 (flags in CMakeLists.txt).
#define NPU_LEVEL v4
#include "native/make_bodies.h"
