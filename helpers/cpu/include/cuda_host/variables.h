// The __device__ and __constant__ variables of a source. Mirrored by Variable in ../../launch.py.
#pragma once

#include <type_traits>

namespace cuda_host {

// One of them. device_variables.py puts such an object behind each declaration.
struct DeviceVariable {
    const char* name;  // with its namespaces
    void* address;
    unsigned long long size;
    bool is_const;  // in C++: nobody can change it
    const DeviceVariable* next;

    static inline const DeviceVariable* first = nullptr;

    template <class T>
    DeviceVariable(const char* name, T& variable)
        : name(name),
          address(const_cast<void*>(static_cast<const volatile void*>(&variable))),
          size(sizeof variable),
          is_const(std::is_const_v<std::remove_all_extents_t<T>>),
          next(first) {
        first = this;
    }
};

}  // namespace cuda_host
