// NVRTC has assert() built in. So has cuda_on_host.h: it ends the launch, not the process.
