// The bodies compiled for x86-64-v2 (flags in CMakeLists.txt).
#define NPU_LEVEL v2
#include "native/make_bodies.h"
