// Lets User-Mode-Linux 6.1 run on processors with larger register state than it knows (AMX).
//
// It stores a process's extended registers in 2,696 bytes: everything up to AVX-512 and protection keys. PTRACE_GETREGSET
// truncates the state to this size, but PTRACE_SETREGSET requires the full size, so it fails, and with it the guest's first
// process. Preloaded into linux.uml (LD_PRELOAD), this ptrace appends the rest of the host's current state.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

typedef long (*Ptrace)(enum __ptrace_request, pid_t, void *, void *);

// Static, since User-Mode-Linux has small stacks. Only one thread calls ptrace.
static char state[64 << 10];

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
		struct iovec *partial = data, full = { state, sizeof state };
		if (real(PTRACE_GETREGSET, process, address, &full) == 0 && partial->iov_len < full.iov_len) {
			memcpy(state, partial->iov_base, partial->iov_len);
			return real(request, process, address, &full);
		}
	}
	return real(request, process, address, data);
}
