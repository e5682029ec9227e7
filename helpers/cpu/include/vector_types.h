// Everything a kernel needs of this header is in cuda_on_host.h.
