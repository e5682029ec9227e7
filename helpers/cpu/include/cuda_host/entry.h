// The list of kernels that a compiled file exports, built from the addresses of its kernels.
// Mirrored by Parameter and Kernel in ../../launch.py.
#pragma once

#include <type_traits>
#include <utility>

#define CUDA_HOST_EXPORT extern "C" __attribute__((visibility("default")))

namespace cuda_host {

enum ParameterKind { Pointer, ConstPointer, Integer, Floating, Boolean, Struct };

struct Parameter {
    int kind;
    int size;  // bytes
};

struct Kernel {
    const char* name;
    void (*invoke)(void** arguments);  // each points to the value of one argument
    const Parameter* parameters;
    int parameter_count;
};

template <class T>
constexpr Parameter parameter() {
    constexpr int size = sizeof(T);
    if constexpr (std::is_pointer_v<T>)
        return {std::is_const_v<std::remove_pointer_t<T>> ? ConstPointer : Pointer, size};
    else if constexpr (std::is_same_v<std::remove_cv_t<T>, bool>)
        return {Boolean, size};
    else if constexpr (std::is_floating_point_v<T>)
        return {Floating, size};
    else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
        return {Integer, size};
    else
        return {Struct, size};
}

template <auto kernel, class Function = decltype(kernel)>
struct Instance;

template <auto kernel, class... Types>
struct Instance<kernel, void (*)(Types...)> {
    static constexpr Parameter parameters[sizeof...(Types) + 1] = {parameter<Types>()..., {0, 0}};

    template <int... i>
    static void call(void** arguments, std::integer_sequence<int, i...>) {
        kernel(*static_cast<std::remove_reference_t<Types>*>(arguments[i])...);
    }
    static void invoke(void** arguments) {
        call(arguments, std::make_integer_sequence<int, sizeof...(Types)>());
    }
    static constexpr Kernel describe(const char* name) {
        return {name, invoke, parameters, sizeof...(Types)};
    }
};

}  // namespace cuda_host
