// Lets User-Mode-Linux 6.1 run where the processor has more registers than it knows of (AMX).
//
// It keeps the extended registers of a guest's process in 2,696 bytes, all up to AVX-512 and protection keys. The host gives
// it so many of them, but takes them back only whole, so setting them fails, and with it the guest's first process. Loaded
// before linux.uml (LD_PRELOAD), this completes what is set with what the host has behind it.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

typedef long (*Ptrace)(enum __ptrace_request, pid_t, void *, void *);

// Not on the stack: those of User-Mode-Linux are small. It calls from one thread.
static char whole[64 << 10];

long ptrace(enum __ptrace_request request, ...)
{
	static Ptrace real;
	if (!real)
		real = (Ptrace)dlsym(RTLD_NEXT, "ptrace");
	va_list list;
	va_start(list, request);
	pid_t process = va_arg(list, pid_t);
	void *address = va_arg(list, void *);
	void *data = va_arg(list, void *);
	va_end(list);
	if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE) {
		struct iovec *given = data, all = { whole, sizeof whole };
		if (real(PTRACE_GETREGSET, process, address, &all) == 0 && given->iov_len < all.iov_len) {
			memcpy(whole, given->iov_base, given->iov_len);
			return real(request, process, address, &all);
		}
	}
	return real(request, process, address, data);
}
